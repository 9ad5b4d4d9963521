"""A queue: its puts, its delayed items, its retention and its children."""

from kestrelpy.core.queue.ack_up_to import AckUpTo, refuse_beyond
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.queue.browse import Browse
from kestrelpy.core.queue.child_queue import AnyQueue, ChildQueue
from kestrelpy.core.queue.child_start import ChildStart
from kestrelpy.core.queue.queue import (
    ANY_VERSION,
    DUPLICATE,
    EXISTS,
    NOT_FOUND,
    NOT_STORED,
    REUSED,
    Queue,
)
from kestrelpy.core.queue.retention import found

__all__ = [
    "ANY_VERSION",
    "DUPLICATE",
    "EXISTS",
    "NOT_FOUND",
    "NOT_STORED",
    "REUSED",
    "AckUpTo",
    "Admin",
    "AnyQueue",
    "Browse",
    "ChildQueue",
    "ChildStart",
    "Queue",
    "found",
    "refuse_beyond",
]  # fmt: skip
