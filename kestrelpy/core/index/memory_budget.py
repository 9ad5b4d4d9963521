"""The memory budget of ready lists: per queue, and over all queues together.

A queue takes its share in grains as its ready list grows, and returns them as the list shrinks, so
the check at every put is one comparison. A small share is free, so ten thousand queues of a few
items each take no grain.

One rule: the items in memory are copies of items in the log; evicting them loses nothing.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.trash import Trash

GRAIN_BYTES: Final = 256 << 10
FREE_BYTES: Final = 16 << 10
UNLIMITED: Final = (1 << 63) - 1


class MemoryBudget:
    """The bytes that all queues together may hold; `trash` has structures still to be freed."""

    __slots__ = ("limit", "taken", "trash")

    def __init__(self, trash: Trash, limit: int = UNLIMITED) -> None:
        self.trash = trash
        self.limit = limit
        self.taken = 0

    def take(self) -> bool:
        """Take one grain; return False if there is none left."""
        if self.taken + GRAIN_BYTES > self.limit:
            return False
        self.taken += GRAIN_BYTES
        return True


class MemoryShare:
    """The share of one ready list, in `grains`.

    The list may cost `allowed` bytes at present, and never more than `most`.
    """

    __slots__ = ("_memory", "allowed", "grains", "most", "trash")

    def __init__(self, memory: MemoryBudget, most: int) -> None:
        self._memory = memory
        self.trash = memory.trash
        self.grains = 0
        self.most = most
        self.allowed = 0
        self.limit(most)

    def limit(self, most: int) -> None:
        """Set the upper bound `most`."""
        self.most = most
        self.allowed = min(FREE_BYTES + self.grains * GRAIN_BYTES, most)

    def grow(self, cost: int) -> bool:
        """Return True if the list may cost more than `cost`; take the grains that this needs."""
        while self.allowed <= cost:
            if self.allowed >= self.most or not self._memory.take():
                return False
            self.grains += 1
            self.limit(self.most)
        return True

    def shrink(self, cost: int) -> None:
        """Return the grains that a list of this `cost` does not need."""
        needed = (cost - FREE_BYTES) // GRAIN_BYTES + 1 if cost > FREE_BYTES else 0
        if self.grains > needed:
            self._memory.taken -= (self.grains - needed) * GRAIN_BYTES
            self.grains = needed
            self.limit(self.most)

    def release(self) -> None:
        """Return all grains: the list is gone."""
        self._memory.taken -= self.grains * GRAIN_BYTES
        self.grains = 0
