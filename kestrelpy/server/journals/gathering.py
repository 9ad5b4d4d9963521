"""After a slow sync the next batch waits for the clients that were just answered.

    a sync ends ──▶ its clients are answered ──▶ they ask again: as many records ──▶ written
      meanwhile: what others sent    └───────────── SHARE of its time at most ───────┘

Without this, half of the clients wait while the other half is synced, and each waits two syncs.

One rule: a batch is held for a bounded part of the time that its sync will take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kestrelpy.core import JournalLog
from kestrelpy.server import clock

# After a faster sync the batch is not held.
SLOW_SECONDS: Final = 0.001
SHARE: Final = 0.2
SECONDS_MAX: Final = 0.005  # a sync that took longer than five times that has hung, for once


class _Hold:
    """The hold of one batch, until this record comes or this moment of the clock `elapsed`."""

    __slots__ = ("lsn", "seconds", "timer", "until")

    def __init__(self, lsn: int, seconds: float) -> None:
        self.lsn = lsn
        self.seconds = seconds  # from the answers on
        self.until = 0.0  # 0: the clients are not answered yet
        self.timer: asyncio.TimerHandle | None = None


class Gathering:
    """Owned by the turn. `due` is called with a journal whose batch is held no longer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[JournalLog], None]) -> None:
        self._loop = loop
        self._due = due
        self._held: dict[JournalLog, _Hold] = {}
        self._begun: list[JournalLog] = []

    def begin(self, target: JournalLog, answered: int, took_s: float) -> None:
        """Hold the next batch of this journal: its sync made `answered` records durable, and their
        clients are answered in this turn."""
        if took_s < SLOW_SECONDS or answered <= 0:
            return
        self._let_go(target)
        seconds = min(took_s * SHARE, SECONDS_MAX)
        self._held[target] = _Hold(target.lsn_appended + answered, seconds)
        self._begun.append(target)

    def note_answered(self) -> None:
        """Start the time of the holds: their clients have been answered now."""
        if self._begun:
            begun, self._begun = self._begun, []
            now = clock.elapsed()
            for target in begun:
                held = self._held.get(target)
                if held is not None and not held.until:
                    held.until = now + held.seconds
                    held.timer = self._loop.call_later(held.seconds, self._ring, target)

    def holds(self, target: JournalLog) -> bool:
        """True if more records are to come before the next batch is written."""
        held = self._held.get(target)
        if held is None:
            return False
        if target.lsn_appended >= held.lsn or (held.until and clock.elapsed() >= held.until):
            self._let_go(target)
            return False
        return True

    def _let_go(self, target: JournalLog) -> None:
        held = self._held.pop(target, None)
        if held is not None and held.timer is not None:
            held.timer.cancel()

    def _ring(self, target: JournalLog) -> None:
        held = self._held[target]
        left = held.until - clock.elapsed()
        if left > 0:  # uvloop's timers ring up to a millisecond early
            held.timer = self._loop.call_later(left, self._ring, target)
        else:
            del self._held[target]
            self._due(target)
