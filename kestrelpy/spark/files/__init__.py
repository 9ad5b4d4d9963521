"""Reads journals from files."""

from kestrelpy.spark.files import partitions
from kestrelpy.spark.files.frame_headers import Bools, Ints
from kestrelpy.spark.files.partitions import ReadPart
from kestrelpy.spark.files.places import opened
from kestrelpy.spark.files.plan import History, PlannedJournal
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.readers import ReaderName, ReaderNumbers, children, passed_on
from kestrelpy.spark.files.split import PackedItems, Range, RowLimits, Split

__all__ = [
    "Bools",
    "History",
    "Ints",
    "PackedItems",
    "PlannedJournal",
    "Range",
    "ReadPart",
    "ReaderName",
    "ReaderNumbers",
    "RowLimits",
    "Split",
    "children",
    "opened",
    "partitions",
    "passed_on",
    "plan_events",
]  # fmt: skip
