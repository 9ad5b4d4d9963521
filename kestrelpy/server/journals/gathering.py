"""After a slow sync the next batch waits for the clients that were just answered.

    a sync ends ──▶ its clients are answered, and ask again ──▶ as many records ──▶ written
          └── meanwhile: what others sent during the sync    SHARE of its time ──┘

Without this, half of the clients wait while the other half is synced, and each waits two syncs.

One rule: a batch is held for a bounded part of the time that its sync will take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kestrelpy.core import JournalLog

# A faster sync is not worth waiting for anybody.
SLOW_SECONDS: Final = 0.001
SHARE: Final = 0.2
SECONDS_MAX: Final = 0.005  # a sync that took longer than five times that has hung, for once


class Gathering:
    """Owned by the turn. `due` is called with a journal whose batch is held no longer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[JournalLog], None]) -> None:
        self._loop = loop
        self._due = due
        self._held: dict[JournalLog, tuple[int, asyncio.TimerHandle]] = {}  # up to which lsn

    def begin(self, target: JournalLog, answered: int, took_s: float) -> None:
        """Hold the next batch of this journal: its sync made so many records durable."""
        if took_s < SLOW_SECONDS or answered <= 0:
            return
        self._let_go(target)
        seconds = min(took_s * SHARE, SECONDS_MAX)
        timer = self._loop.call_later(seconds, self._ring, target)
        self._held[target] = target.lsn_appended + answered, timer

    def holds(self, target: JournalLog) -> bool:
        """True if more records are to come before the next batch is written."""
        held = self._held.get(target)
        if held is None:
            return False
        if target.lsn_appended >= held[0]:
            self._let_go(target)
            return False
        return True

    def _let_go(self, target: JournalLog) -> None:
        held = self._held.pop(target, None)
        if held is not None:
            held[1].cancel()

    def _ring(self, target: JournalLog) -> None:
        del self._held[target]
        self._due(target)
