"""Deferred syncs: no connection waits for them yet, or only those that the previous sync answered.

    written, no connection waits ──▶ LAZY_SECONDS, or the setting `sync` ──▶ synced
                    │ a connection waits that the sync before answered
                    ▼
                  SOON_SECONDS: with the next requests of the connections just answered

One rule: a deferred sync comes by itself, whatever happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from kestrelpy.core import JournalLog

# If no connection waits for a sync (confirms are answered when written), it may come this much
# later, for all records written meanwhile. Pending records without a waiter are written then, at
# the latest.
LAZY_SECONDS: Final = 0.01
SOON_SECONDS: Final = 0.001


class LaterSyncs:
    """Owned by the turn. `due` is called with a journal whose time has come."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, due: Callable[[JournalLog], None]
    ) -> None:
        self._loop = loop
        self._due = due
        self._timers: dict[JournalLog, asyncio.TimerHandle] = {}
        self._new: list[JournalLog] = []  # deferred in this turn

    def put_off(self, target: JournalLog) -> None:
        """Sync it later, unless its sync is deferred already."""
        self._new.append(target)
        if target not in self._timers:
            self._arm(target, max(target.sync_ms, 0) / 1000 or LAZY_SECONDS)

    def take_awaited(self) -> Iterator[JournalLog]:
        """Yield the journals deferred in this turn for whose sync a connection waits."""
        new, self._new = self._new, []
        return (target for target in new if target.awaits_sync)

    def hasten(self, target: JournalLog) -> None:
        """Sync it soon."""
        if target in self._timers:
            self._timers.pop(target).cancel()
        self._arm(target, SOON_SECONDS)

    def _arm(self, target: JournalLog, seconds: float) -> None:
        self._timers[target] = self._loop.call_later(seconds, self._ring, target)

    def _ring(self, target: JournalLog) -> None:
        del self._timers[target]
        self._due(target)
