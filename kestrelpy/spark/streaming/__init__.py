"""Streams of queues: the position of a query, its next batch, and the items that it confirms."""

from kestrelpy.spark.streaming.journals import Journals
from kestrelpy.spark.streaming.live_queues import LiveQueues, read
from kestrelpy.spark.streaming.position import (
    BatchLimits,
    Planned,
    Position,
    ReadPosition,
    admitted,
    parse_position,
)

__all__ = [
    "BatchLimits",
    "Journals",
    "LiveQueues",
    "Planned",
    "Position",
    "ReadPosition",
    "admitted",
    "parse_position",
    "read",
]  # fmt: skip
