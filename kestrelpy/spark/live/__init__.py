"""Reads queues from running servers."""

from kestrelpy.spark.live import partitions
from kestrelpy.spark.live.owners import forget
from kestrelpy.spark.live.partitions import Slice, batch_of, patience_of, queue_markers, retried
from kestrelpy.spark.live.wire import LiveConnection, Lost, Patience, ServerUnreachable, Values, why

__all__ = [
    "LiveConnection",
    "Lost",
    "Patience",
    "ServerUnreachable",
    "Slice",
    "Values",
    "batch_of",
    "forget",
    "partitions",
    "patience_of",
    "queue_markers",
    "retried",
    "why",
]  # fmt: skip
