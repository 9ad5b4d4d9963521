"""Reads queues from running servers."""

from kestrelpy.spark.live import partitions
from kestrelpy.spark.live.batches import batch_of
from kestrelpy.spark.live.partitions import Slice

__all__ = ["Slice", "batch_of", "partitions"]
