"""Files into a queue, each row once."""

from kestrelpy.spark.jobs.backfill import backfill

__all__ = ["backfill"]
