"""Deferred syncs come by themselves, and soon if a connection waits for one."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kestrelpy.core.log.log import JournalLog
from kestrelpy.server.journals.later_syncs import LAZY_SECONDS, SOON_SECONDS, LaterSyncs
from tests.support.timers import TimerLoop


class Target:
    """The part of a journal's log that is used here, as in `JournalLog`."""

    def __init__(self, sync_ms: int, *waiting: object) -> None:
        self.sync_ms = sync_ms
        self.awaits_sync = sync_ms == 0 and bool(waiting)


def put_off(loop: TimerLoop, target: Target) -> tuple[LaterSyncs, JournalLog, list[JournalLog]]:
    """Defer the sync of this one; return the journals that have become due."""
    due: list[JournalLog] = []
    later = LaterSyncs(cast(asyncio.AbstractEventLoop, loop), due.append)
    log = cast(JournalLog, target)
    later.put_off(log)
    return later, log, due


def test_an_awaited_journal_is_synced_soon_and_once() -> None:
    loop = TimerLoop()
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
    ids=["no client waits", "its sets wait for no sync"],
)
def test_other_syncs_come_when_their_time_is_over(target: Target, seconds: float) -> None:
    loop = TimerLoop()
    later, log, due = put_off(loop, target)

    assert [*later.take_awaited()] == []

    later.put_off(log)  # the first time holds
    assert loop.armed == [seconds]
    loop.timers[0].ring()
    assert due == [log]
