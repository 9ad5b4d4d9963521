"""Shares of a turn: how much each connection executes before the others have their turn.

    bytes come ──▶ executed at once, for SHARE_SECONDS ──▶ answered with this turn
                     │ more than that came
                     ▼
                   heavy queue ──▶ LINE_SECONDS of each turn, for all connections in it, round-robin

A connection that used up its share is heavy for a while: its bytes go straight to the heavy queue,
and its socket is not read until they are executed. Long replies are in that queue as well. When
many connections have bytes at once, a turn executes some for DIRECT_SECONDS; the others come first
in the next turns, in the order of their arrival.

One rule: a small request waits for a bounded part of a turn, whatever other connections ask for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

# One connection executes for this long at once: some hundred small requests.
SHARE_SECONDS: Final = 0.0005
# A turn executes for this long at once, for all connections together.
DIRECT_SECONDS: Final = 0.003
# A turn gives this much to the heavy queue. A small request waits for that long, and a turn itself
# takes a tenth of a millisecond: less would cost the heavy connections more than it saves the
# others.
LINE_SECONDS: Final = 0.00025
# A turn gives only this much while a small request waits for a sync.
LINE_SECONDS_HURRIED: Final = 0.0001
# For this long after it used up its share, or was in the heavy queue, a connection counts as heavy.
HEAVY_MS: Final = 100


class Sharer(Protocol):
    """A connection, as the shares see it."""

    heavy_until_ms: int
    is_lined_up: bool

    @property
    def is_long(self) -> bool:
        """True in the middle of a long reply."""


class Shares:
    """The order in which connections go on. `elapsed` gives seconds on a clock that never steps."""

    __slots__ = ("_direct_until", "_elapsed", "_heavy", "_light")

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._direct_until = 0.0
        self._light: deque[Sharer] = deque()
        self._heavy: deque[Sharer] = deque()

    def __bool__(self) -> bool:
        return bool(self._light or self._heavy)

    def renew(self) -> None:
        """Begin another part of a turn, in which connections execute at once."""
        self._direct_until = 0.0

    def until(self) -> float:
        """Return until when a light connection that is not lined up may go on at once; 0: it has to
        line up."""
        now = self._elapsed()
        if not self._direct_until:
            self._direct_until = now + DIRECT_SECONDS
        elif now >= self._direct_until:
            return 0.0
        return now + SHARE_SECONDS

    def note_overrun(self, sharer: Sharer, now_ms: int) -> None:
        """Note that this connection has used up its share."""
        sharer.heavy_until_ms = now_ms + HEAVY_MS

    def line_up(self, sharer: Sharer, now_ms: int) -> None:
        """Put this connection at the end of its queue, unless it is in one."""
        if sharer.is_lined_up:
            return
        sharer.is_lined_up = True
        is_heavy = now_ms < sharer.heavy_until_ms or sharer.is_long
        (self._heavy if is_heavy else self._light).append(sharer)

    def take(self, now_ms: int, is_hurried: bool = False) -> Iterator[tuple[Sharer, float]]:
        """Yield the connections whose turn it is, each with the moment until which it may go on.

        One of each queue has its turn in any case, and each of them at most once.
        """
        began = self._elapsed()
        yield from self._take(self._light, began + DIRECT_SECONDS, SHARE_SECONDS)
        line_s = LINE_SECONDS_HURRIED if is_hurried else LINE_SECONDS
        for sharer, until in self._take(self._heavy, self._elapsed() + line_s, line_s):
            sharer.heavy_until_ms = now_ms + HEAVY_MS
            yield sharer, until

    def _take(
        self, line: deque[Sharer], until: float, share_s: float
    ) -> Iterator[tuple[Sharer, float]]:
        for _ in range(len(line)):
            sharer = line.popleft()
            sharer.is_lined_up = False
            yield sharer, min(self._elapsed() + share_s, until)
            if self._elapsed() >= until:
                return
