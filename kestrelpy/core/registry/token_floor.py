"""Where the lease tokens of a new queue begin, so that none is ever issued twice under one name.

    on disk     behind those of every deleted queue, as the data directory remembers them; from 1
    in memory   nothing remembers them over a restart: the wall clock's milliseconds say where

One rule: a queue's own log says which of its tokens may have been issued; this is for those whose
log is gone.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.queue.queue import Queue

# Tokens for each millisecond in which a queue in memory may be made: more than can be issued in
# one, and below 2^53 until the year 2109.
TOKENS_PER_MS: Final = 1 << 11


class TokenFloor:
    """Tokens below `on_disk` may have been issued by queues that were deleted."""

    __slots__ = ("_in_memory", "on_disk")

    def __init__(self) -> None:
        self.on_disk = 1
        self._in_memory = 1

    def begin(self, queue: Queue, now_ms: int) -> None:
        """This queue is new and has its log."""
        if queue.log.backlog is None:
            made_ms = now_ms + queue.clock.offset_ms
            queue.reader._apply_tokens(max(made_ms * TOKENS_PER_MS, self._in_memory))
        else:
            queue.reader._apply_tokens(self.on_disk)

    def passed(self, queue: Queue) -> None:
        """This one is being deleted."""
        below = queue.reader.tokens_below
        if queue.log.backlog is None:
            self._in_memory = max(self._in_memory, below)
        else:
            self.on_disk = max(self.on_disk, below)
