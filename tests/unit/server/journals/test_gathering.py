"""After a slow sync a batch waits for as many records as became durable, and not for long."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kestrelpy.core import JournalLog
from kestrelpy.server.journals.gathering import SECONDS_MAX, SHARE, SLOW_SECONDS, Gathering
from tests.support.timers import TimerLoop

SLOW = 2 * SLOW_SECONDS


class Log:
    """The part of a journal's log that is used here."""

    def __init__(self) -> None:
        self.lsn_appended = 100


class Bench:
    """A gathering, with one log, its timers, and what became due."""

    def __init__(self) -> None:
        loop = TimerLoop()
        self.timers = loop.timers
        self.due: list[JournalLog] = []
        self.gathering = Gathering(cast(asyncio.AbstractEventLoop, loop), self.due.append)
        self.log = Log()
        self.target = cast(JournalLog, self.log)

    def holds(self) -> bool:
        return self.gathering.holds(self.target)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_as_many_records_as_were_made_durable_end_it(bench: Bench) -> None:
    bench.gathering.begin(bench.target, 3, SLOW)
    assert bench.holds()
    bench.log.lsn_appended += 2
    assert bench.holds()
    bench.log.lsn_appended += 1
    assert not bench.holds()
    assert bench.timers[0].is_cancelled
    assert not bench.gathering._held


def test_a_part_of_the_time_of_that_sync_ends_it(bench: Bench) -> None:
    bench.gathering.begin(bench.target, 3, SLOW)
    assert bench.timers[0].seconds == pytest.approx(SLOW * SHARE)
    bench.timers[0].ring()
    assert bench.due == [bench.target]
    assert not bench.holds()


def test_a_sync_that_hung_is_no_measure(bench: Bench) -> None:
    bench.gathering.begin(bench.target, 3, 3600.0)
    assert bench.timers[0].seconds == SECONDS_MAX


@pytest.mark.parametrize(("answered", "took_s"), [(3, SLOW_SECONDS / 2), (0, SLOW), (-1, SLOW)])
def test_after_a_fast_sync_or_one_that_made_nothing_durable_there_is_none(
    bench: Bench, answered: int, took_s: float
) -> None:
    bench.gathering.begin(bench.target, answered, took_s)
    assert not bench.holds()
    assert bench.timers == []


def test_the_next_sync_begins_another_one(bench: Bench) -> None:
    bench.gathering.begin(bench.target, 3, SLOW)
    bench.log.lsn_appended += 2
    bench.gathering.begin(bench.target, 2, SLOW)
    assert [timer.is_cancelled for timer in bench.timers] == [True, False]
    bench.log.lsn_appended += 1
    assert bench.holds()
    bench.log.lsn_appended += 1
    assert not bench.holds()
