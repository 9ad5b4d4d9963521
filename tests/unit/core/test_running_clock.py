"""The running clock: the wall clock, but it never steps back, over all lives.

Promise: duration.
"""

from __future__ import annotations

from random import Random

import pytest

from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.delayed import Delay
from tests.support.core_harness import WALL_MS, CoreHarness, make_queue

HOUR_MS, YEAR_MS = 3_600_000, 31_536_000_000
LENGTH_MS = HOUR_MS


@pytest.mark.parametrize(
    ("heard_ms", "running_ms"),
    [(0, WALL_MS), (WALL_MS - 1, WALL_MS), (WALL_MS, WALL_MS), (WALL_MS + 7, WALL_MS + 7)],
)
def test_a_life_continues_at_the_last_known_time_or_at_the_time_of_day(
    heard_ms: int, running_ms: int
) -> None:
    clock = ClockOffset(WALL_MS - 500)
    clock.begin(heard_ms, 500)
    assert 500 + clock.running_ms == running_ms
    clock.offset_ms += YEAR_MS
    assert 500 + clock.running_ms == running_ms, "it does not follow a clock that is set"
    clock.hear(running_ms - 1, 500)
    assert 500 + clock.running_ms == running_ms
    clock.hear(running_ms + 1, 500)
    assert 500 + clock.running_ms == running_ms + 1


def test_the_last_end_of_a_duration_is_known() -> None:
    clock = ClockOffset(1000)
    assert clock.runs(20) == 1020
    assert clock.runs(10) == 1010
    assert clock.last_ms == 1020


def test_a_restart_knows_how_long_durations_run() -> None:
    q = make_queue()
    q.queue.put(b"1", 0, 0, 0, delay=Delay(5000))
    q.queue.put(b"2", 0, 0, 0, delay=Delay(WALL_MS + 9000, True))
    q.put(b"3")
    q.open(lease_ms=7000)
    assert q.broker.clock.last_ms == WALL_MS + 7000
    assert q.restarted().broker.clock.last_ms == WALL_MS + 7000


class _History:
    """The promise as a model: over a restart, the rest of a duration is its rest at the last beat,
    less the time by which the wall clock has moved on since; a date waits for the wall clock."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.q: CoreHarness = make_queue(max_attempts=None)
        self.running_ms = WALL_MS
        self.beat_ms = 0
        self.ends: dict[int, int] = {}  # by item: of a duration, by the running clock
        self.dates: dict[int, int] = {}
        self.heard_ms = 0

    def pass_time(self, ms: int) -> None:
        self.running_ms += ms
        self.q.pass_time(ms)

    def put(self) -> None:
        ms, q = self.random.randrange(1, LENGTH_MS), self.q
        is_date = self.random.random() < 0.4
        id_ = q.queue.next_number
        if is_date:
            self.dates[id_] = q.unix_ms + ms
        else:
            self.ends[id_] = self.running_ms + ms
            self.heard_ms = self.running_ms
        delay = Delay(self.dates[id_], True) if is_date else Delay(ms)
        q.queue.put(b"%d" % id_, 0, 0, q.now_ms, delay=delay)

    def give_back(self) -> None:
        if not self.q.ready:
            return
        lease, ms = self.q.open(), self.random.randrange(1, LENGTH_MS)
        id_ = lease.item.id
        self.dates.pop(id_, None)
        self.ends[id_], self.heard_ms = self.running_ms + ms, self.running_ms
        self.q.reader.nack(lease, self.q.now_ms, b"abort", Delay(ms))

    def restart(self, step_ms: int) -> None:
        beat_ms = self.random.choice([0, self.beat_ms, self.running_ms])
        wall_ms = self.q.unix_ms + step_ms
        self.running_ms = max(beat_ms, self.heard_ms, wall_ms)
        self.q = self.q.restarted(unix_ms=wall_ms, beat_ms=beat_ms)

    def check(self, seed: int) -> None:
        """Check that a due item is released for good, even if its time is in the future by now."""
        unix_ms = self.q.unix_ms
        self.ends = {i: end_ms for i, end_ms in self.ends.items() if end_ms > self.running_ms}
        self.dates = {i: due_ms for i, due_ms in self.dates.items() if due_ms > unix_ms}
        assert set(self.q.reader.delays.ids) == self.ends.keys() | self.dates.keys(), f"seed {seed}"


@pytest.mark.parametrize("seed", range(60))
def test_any_history_of_clocks_and_restarts_leaves_what_was_left(seed: int) -> None:
    random = Random(seed)
    history = _History(random)
    for _ in range(60):
        act = random.randrange(7)
        if act <= 1:
            history.put()
        elif act == 2:
            history.give_back()
        elif act == 3:
            history.pass_time(random.choice([1, 1000, HOUR_MS // 3]))
        elif act == 4:
            history.beat_ms = history.running_ms
        elif act == 5:
            history.q.step_clock(random.choice([-YEAR_MS, -HOUR_MS, -1, 1, HOUR_MS, YEAR_MS]))
        else:
            history.restart(random.choice([0, 0, -YEAR_MS, -HOUR_MS, 1000, HOUR_MS, YEAR_MS]))
            history.q.pass_time(0)
        history.check(seed)
    longest_ms = max((end - history.running_ms for end in history.ends.values()), default=0)
    history.pass_time(max(longest_ms, 0))
    history.check(seed)
    assert not history.ends
    assert longest_ms <= LENGTH_MS, "nothing is hidden for longer than was asked for"
