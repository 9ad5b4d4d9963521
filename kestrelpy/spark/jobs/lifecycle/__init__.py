"""One row for each item, from its put to its end."""

from kestrelpy.spark.jobs.lifecycle import lifecycle

__all__ = ["lifecycle"]
