"""Children that hold items which nobody comes for: they keep them on disk, and are named for it.

One rule: a child that somebody asks, once a day, is slow at most; after a start a day begins anew.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.broker import Broker
from kestrelpy.core.queue.child_queue import Branch
from kestrelpy.core.queue.queue import Queue

ABANDONED_MS: Final = 24 * 60 * 60 * 1000


def is_abandoned(queue: Queue, now_ms: int) -> bool:
    """Is this a child that has items, and that nobody asked for any for a day?"""
    if not isinstance(queue, Branch) or now_ms - queue.child.asked_ms < ABANDONED_MS:
        return False
    reader = queue.reader
    return bool(reader.ready.count or reader.delays.count) and not reader.leases


def abandoned(broker: Broker, now_ms: int) -> list[Branch]:
    """All such children."""
    return [
        queue
        for queue in broker.queues.values()
        if isinstance(queue, Branch) and is_abandoned(queue, now_ms)
    ]


def why_abandoned(queue: Branch, now_ms: int) -> str:
    """What is told of it."""
    hours = (now_ms - queue.child.asked_ms) // 3_600_000
    return (
        f"nobody asked for {hours} hours, and {queue.reader.ready.count} items wait: read them, "
        f"or delete {queue.name.decode('ascii')}"
    )
