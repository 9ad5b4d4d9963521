"""Streams of queues: how far a query has read, what it reads next, and what it confirms."""

from kestrelpy.spark.streaming.admission import Limits, admitted
from kestrelpy.spark.streaming.journals import Journals
from kestrelpy.spark.streaming.live_queues import LiveQueues, read
from kestrelpy.spark.streaming.position import Place, Planned, Position, parse_position

__all__ = [
    "Journals", "Limits", "LiveQueues", "Place", "Planned", "Position", "admitted",
    "parse_position", "read",
]  # fmt: skip
