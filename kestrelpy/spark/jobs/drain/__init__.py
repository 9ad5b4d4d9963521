"""Queues of many servers to Parquet by date, each item once."""

from kestrelpy.spark.jobs.drain import drain

__all__ = ["drain"]
