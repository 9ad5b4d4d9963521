"""How much of a ready line may be in memory: per queue, and over all queues together.

A queue takes its share in grains as its line grows, and gives them back as it shrinks, so that the
check of every put is one comparison. A small share is free, so that ten thousand queues of a few
items need not ask.

One rule: what is in memory is a copy of what the log holds; letting go of it loses nothing.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.trash import Trash

GRAIN_BYTES: Final = 256 << 10
FREE_BYTES: Final = 16 << 10
UNLIMITED: Final = (1 << 63) - 1


class Memory:
    """What all queues together may keep in memory, in bytes; `trash` has what is still to be freed.
    """

    __slots__ = ("limit", "taken", "trash")

    def __init__(self, trash: Trash, limit: int = UNLIMITED) -> None:
        self.trash = trash
        self.limit = limit
        self.taken = 0

    def take(self) -> bool:
        """One grain more, if there is one."""
        if self.taken + GRAIN_BYTES > self.limit:
            return False
        self.taken += GRAIN_BYTES
        return True


class MemoryShare:
    """One line's share, so many `grains`.

    `allowed` bytes it may cost at present, never more than `most`.
    """

    __slots__ = ("_memory", "allowed", "grains", "most", "trash")

    def __init__(self, memory: Memory, most: int) -> None:
        self._memory = memory
        self.trash = memory.trash
        self.grains = 0
        self.most = most
        self.allowed = 0
        self.limit(most)

    def limit(self, most: int) -> None:
        """Another upper bound from now on."""
        self.most = most
        self.allowed = min(FREE_BYTES + self.grains * GRAIN_BYTES, most)

    def grow(self, cost: int) -> bool:
        """May the line cost more than `cost`? Takes what that needs."""
        while self.allowed <= cost:
            if self.allowed >= self.most or not self._memory.take():
                return False
            self.grains += 1
            self.limit(self.most)
        return True

    def shrink(self, cost: int) -> None:
        """Give back what a line that costs so much does not need."""
        needed = (cost - FREE_BYTES) // GRAIN_BYTES + 1 if cost > FREE_BYTES else 0
        if self.grains > needed:
            self._memory.taken -= (self.grains - needed) * GRAIN_BYTES
            self.grains = needed
            self.limit(self.most)

    def release(self) -> None:
        """The line is gone."""
        self._memory.taken -= self.grains * GRAIN_BYTES
        self.grains = 0
