"""After a slow sync a batch waits for as many records as became durable, and not for long."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kestrelpy.core import JournalLog
from kestrelpy.server import clock
from kestrelpy.server.journals.gathering import SECONDS_MAX, SHARE, SLOW_SECONDS, Gathering
from tests.support.timers import TimerLoop

SLOW = 2 * SLOW_SECONDS


class Log:
    """The part of a journal's log that is used here."""

    def __init__(self) -> None:
        self.lsn_appended = 100


class Bench:
    """A gathering, with one log, its timers, a clock, and what became due."""

    def __init__(self) -> None:
        loop = TimerLoop()
        self.timers = loop.timers
        self.due: list[JournalLog] = []
        self.gathering = Gathering(cast(asyncio.AbstractEventLoop, loop), self.due.append)
        self.log = Log()
        self.target = cast(JournalLog, self.log)
        self.now = 1000.0

    def synced(self, answered: int, took_s: float) -> None:
        """End a sync, and answer its clients."""
        self.gathering.begin(self.target, answered, took_s)
        self.gathering.note_answered()

    def holds(self) -> bool:
        return self.gathering.holds(self.target)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(clock, "elapsed", lambda: made.now)
    return made


def test_as_many_records_as_were_made_durable_end_it(bench: Bench) -> None:
    bench.synced(3, SLOW)
    assert bench.holds()
    bench.log.lsn_appended += 2
    assert bench.holds()
    bench.log.lsn_appended += 1
    assert not bench.holds()
    assert bench.timers[0].is_cancelled
    assert not bench.gathering._held


def test_a_part_of_the_time_of_that_sync_ends_it(bench: Bench) -> None:
    bench.synced(3, SLOW)
    assert bench.timers[0].seconds == pytest.approx(SLOW * SHARE)
    bench.now += SLOW * SHARE
    bench.timers[0].ring()
    assert bench.due == [bench.target]
    assert not bench.holds()


def test_its_time_begins_when_the_clients_are_answered(bench: Bench) -> None:
    bench.gathering.begin(bench.target, 3, SLOW)
    bench.now += 10 * SLOW  # many replies
    assert bench.holds()
    assert bench.timers == []

    bench.gathering.note_answered()
    bench.now += SLOW * SHARE * 0.9
    bench.gathering.note_answered()  # by other turns
    assert bench.holds()
    assert bench.timers[0].seconds == pytest.approx(SLOW * SHARE)
    assert len(bench.timers) == 1


def test_a_turn_that_comes_after_its_time_need_not_wait_for_the_timer(bench: Bench) -> None:
    bench.synced(3, SLOW)
    bench.now += SLOW * SHARE
    assert not bench.holds()
    assert bench.timers[0].is_cancelled


def test_a_timer_that_rings_early_is_set_again(bench: Bench) -> None:
    bench.synced(3, SLOW)
    bench.now += SLOW * SHARE / 4
    bench.timers[0].ring()
    assert bench.holds()
    assert bench.due == []
    assert bench.timers[1].seconds == pytest.approx(SLOW * SHARE * 3 / 4)
    bench.log.lsn_appended += 3
    assert not bench.holds()
    assert bench.timers[1].is_cancelled


def test_a_sync_that_hung_is_no_measure(bench: Bench) -> None:
    bench.synced(3, 3600.0)
    assert bench.timers[0].seconds == SECONDS_MAX


@pytest.mark.parametrize(("answered", "took_s"), [(3, SLOW_SECONDS / 2), (0, SLOW), (-1, SLOW)])
def test_after_a_fast_sync_or_one_that_made_nothing_durable_there_is_none(
    bench: Bench, answered: int, took_s: float
) -> None:
    bench.synced(answered, took_s)
    assert not bench.holds()
    assert bench.timers == []


def test_the_next_sync_begins_another_one(bench: Bench) -> None:
    bench.synced(3, SLOW)
    bench.log.lsn_appended += 2
    bench.synced(2, SLOW)
    assert [timer.is_cancelled for timer in bench.timers] == [True, False]
    bench.log.lsn_appended += 1
    assert bench.holds()
    bench.log.lsn_appended += 1
    assert not bench.holds()


def test_two_syncs_of_one_turn_have_one_timer(bench: Bench) -> None:
    bench.gathering.begin(bench.target, 3, SLOW)
    bench.synced(2, SLOW)
    assert len(bench.timers) == 1


def test_records_that_come_before_the_answers_end_it(bench: Bench) -> None:
    bench.gathering.begin(bench.target, 3, SLOW)
    bench.log.lsn_appended += 3
    assert not bench.holds()
    bench.gathering.note_answered()
    assert bench.timers == []
