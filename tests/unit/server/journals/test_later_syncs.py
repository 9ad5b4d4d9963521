"""Deferred syncs come by themselves, and soon if a connection waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from kestrelpy.core.log.log import JournalLog
from kestrelpy.server.journals.later_syncs import LAZY_SECONDS, SOON_SECONDS, LaterSyncs


class Timer:
    """A timer that rings when the test says so."""

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self.seconds = seconds
        self.ring = ring
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The methods of a loop that are used here; its timers ring when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, ring: Callable[..., None], *args: object) -> Timer:
        self.timers.append(Timer(seconds, lambda: ring(*args)))
        return self.timers[-1]

    @property
    def armed(self) -> list[float]:
        """Return after how many seconds each timer rings that was not cancelled."""
        return [timer.seconds for timer in self.timers if not timer.is_cancelled]


class Target:
    """The part of a journal's log that is used here: `sync_ms` as in `JournalLog`."""

    def __init__(self, sync_ms: int, *waiting: object) -> None:
        self.sync_ms = sync_ms
        self.waiting_stored = {*waiting}


def put_off(loop: Loop, target: Target) -> tuple[LaterSyncs, JournalLog, list[JournalLog]]:
    """Defer the sync of this one; return the journals that have become due."""
    due: list[JournalLog] = []
    later = LaterSyncs(cast(asyncio.AbstractEventLoop, loop), due.append)
    log = cast(JournalLog, target)
    later.put_off(log)
    return later, log, due


def test_an_awaited_journal_is_synced_soon_and_once() -> None:
    loop = Loop()
    later, log, due = put_off(loop, Target(0, "a connection"))
    assert loop.armed == [LAZY_SECONDS]

    assert [*later.take_awaited()] == [log]
    later.hasten(log)

    assert loop.armed == [SOON_SECONDS]
    assert SOON_SECONDS < LAZY_SECONDS
    loop.timers[-1].ring()
    assert due == [log]
    assert not later._timers


@pytest.mark.parametrize(
    ("target", "seconds"),
    [(Target(0), LAZY_SECONDS), (Target(400, "a connection"), 0.4)],
    ids=["nobody waits", "its sets wait for no sync"],
)
def test_other_syncs_come_when_their_time_is_over(target: Target, seconds: float) -> None:
    loop = Loop()
    later, log, due = put_off(loop, target)

    assert [*later.take_awaited()] == []

    later.put_off(log)  # the first time holds
    assert loop.armed == [seconds]
    loop.timers[0].ring()
    assert due == [log]
