"""The first lease token of a new queue, chosen so that no token is issued twice under one name.

    on disk     from 1; after the tokens of every deleted queue, which the data directory remembers
    in memory   from the wall clock's milliseconds: nothing remembers the tokens over a restart

A queue that is in several servers has tokens in each that no other one issues: `lowest_of` is the
lowest of this one.

One rule: a queue's own log says which of its tokens may have been issued; this module covers the
queues that have no log any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kestrelpy.core.queue import Queue

# Tokens for each millisecond in which a queue in memory may be created: more than a server can
# issue in one, and below 2^53 until the year 2109.
TOKENS_PER_MS: Final = 1 << 11


class TokenFloor:
    """The floors of new queues. Deleted queues may have issued any token below `on_disk`."""

    __slots__ = ("_in_memory", "lowest_of", "on_disk")

    def __init__(self) -> None:
        self.lowest_of: Callable[[bytes], int] = _one
        self.on_disk = 1
        self._in_memory = 1

    def begin(self, queue: Queue, now_ms: int) -> None:
        """Set the first token of a new queue, which has its log already."""
        if queue.log.read_ahead is None:
            made_ms = now_ms + queue.clock.offset_ms
            queue.reader._apply_tokens(max(made_ms * TOKENS_PER_MS, self._in_memory))
        else:
            queue.reader._apply_tokens(max(self.on_disk, self.lowest_of(queue.name)))

    def adopt(self, queue: Queue) -> None:
        """Raise the tokens of a queue that a restart found: it may have issued none yet."""
        lowest = self.lowest_of(queue.name)
        if queue.log.read_ahead is not None and queue.reader.tokens_below < lowest:
            queue.reader._apply_tokens(lowest)

    def passed(self, queue: Queue) -> None:
        """Raise the floor above the tokens of a queue that is being deleted."""
        below = queue.reader.tokens_below
        if queue.log.read_ahead is None:
            self._in_memory = max(self._in_memory, below)
        else:
            self.on_disk = max(self.on_disk, below)


def _one(name: bytes) -> int:
    return 1
