"""Writes rows to running servers, each of them once."""

from kestrelpy.spark.write.fleet import Fleet, Run, begun, find_fleet
from kestrelpy.spark.write.lane import Lane
from kestrelpy.spark.write.requests import (
    Chooser,
    Compared,
    RowError,
    RowForm,
    request_of,
    requests_of,
    row_form,
)
from kestrelpy.spark.write.write_options import WriteOptions, parse_write_options

__all__ = [
    "Chooser", "Compared", "Fleet", "Lane", "RowError", "RowForm", "Run", "WriteOptions", "begun",
    "find_fleet", "parse_write_options", "request_of", "requests_of", "row_form",
]  # fmt: skip
