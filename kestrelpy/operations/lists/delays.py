"""The delayed items of a queue that are due next, for the axis of what is coming.

One rule: it shows only items that are stored.
"""

from __future__ import annotations

from typing import NamedTuple

from kestrelpy.core import AnyQueue


class DelayedFacts(NamedTuple):
    """A delayed item, and when it is available, on the wall clock."""

    id: int
    due_ms: int


def list_delayed(queue: AnyQueue, most: int) -> list[DelayedFacts]:
    """Return at most `most` delayed items, the one that is due first goes first."""
    stored = queue.log.item_stored
    return [
        DelayedFacts(id_, due_ms)
        for due_ms, id_ in queue.reader.delays.soonest(most, queue.clock)
        if id_ <= stored
    ]
