"""Reads queues from running servers."""

from kestrelpy.spark.live import partitions
from kestrelpy.spark.live.batches import batch_of
from kestrelpy.spark.live.partitions import Slice, patience_of, queue_markers, retried
from kestrelpy.spark.live.wire import Lost, Unreachable, Wire

__all__ = [
    "Lost", "Slice", "Unreachable", "Wire", "batch_of", "partitions", "patience_of",
    "queue_markers", "retried",
]  # fmt: skip
