"""When a queue with a `max_queue_age` looks whether its children are used, some at a time.

    the last round ended ──▶ a quarter of the age later, a minute at most ──▶ round: LOOKED_MAX
                                                             children in each tick ──▶ the last one

One rule: a tick looks at a bounded number of children, however many there are.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.fanout import Child
from kestrelpy.core.queue.state import QueueState
from kestrelpy.core.timers import NEVER_MS

# Children that one tick looks at: each takes a microsecond.
LOOKED_MAX: Final = 500
AGE_CHECK_MS_MAX: Final = 60_000


class AgeRound:
    """The rounds of one queue. `due_ms` is when the next one begins; NEVER_MS: it is to be planned.
    """

    __slots__ = ("_left", "_looks", "_queue", "due_ms")

    def __init__(self, queue: QueueState) -> None:
        self._queue = queue
        self._left: list[Child] = []
        self._looks = 0  # of this tick
        self.due_ms = NEVER_MS

    def begin(self, now_ms: int) -> None:
        """Begin a tick's looks, and a round if one is due."""
        self._looks = LOOKED_MAX
        if not self._left and self.due_ms <= now_ms:
            self.due_ms = NEVER_MS
            self._left = [*reversed(self._queue.children.values())]

    def end(self) -> None:
        """Give up the round: the queue has no `max_queue_age` any more."""
        if self._left:
            self._left = []
        self.due_ms = NEVER_MS

    def take(self) -> Child | None:
        """Return the next child of the round; None: there is none for this tick."""
        if not self._left or not self._looks:
            return None
        self._looks -= 1
        return self._left.pop()

    def next_due(self, now_ms: int, age_ms: int) -> int:
        """Return when there is something to look at."""
        if self._left:
            return now_ms
        self.due_ms = min(self.due_ms, now_ms + max(1, min(age_ms // 4, AGE_CHECK_MS_MAX)))
        return self.due_ms
