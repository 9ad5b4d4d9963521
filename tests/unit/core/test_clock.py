"""Dates follow the wall clock both ways; durations run on the clock that never steps."""

from __future__ import annotations

from kestrelpy.core.clock import ClockOffset
from tests.support.core_harness import WALL_MS, make_queue


def test_the_clock_offset_is_one_and_shared_by_all_queues() -> None:
    q = make_queue()
    q.broker.clock.offset_ms = 5
    assert q.queue.clock is q.reader.clock is q.broker.clock
    assert ClockOffset().offset_ms == 0


def test_a_step_forwards_brings_an_expiry_nearer() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 60_000)
    q.step_clock(59_999)
    assert q.ready == [b"1"]
    assert q.broker.next_due() == 1
    q.pass_time(1)
    assert (q.ready, q.reader.counters.expired) == ([], 1)


def test_a_step_forwards_past_an_expiry_ends_the_item_at_once() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 60_000)
    q.step_clock(86_400_000)
    assert q.ready == []


def test_a_step_backwards_puts_an_expiry_off() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 60_000)
    q.step_clock(-3_600_000)
    q.pass_time(3_659_999)
    assert q.ready == [b"1"]
    q.pass_time(1)
    assert q.ready == []


def test_many_steps_leave_one_alarm() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 1_000_000)
    for _ in range(1000):
        q.step_clock(-100)
        q.step_clock(50)
    assert len(q.broker._timers) == 1


def test_a_wait_is_not_disturbed_by_a_step() -> None:
    q = make_queue()
    q.wait("anna", 1000)
    q.step_clock(5000)
    assert q.answers() == []
    q.step_clock(-50_000)
    q.pass_time(1000)
    assert q.answers() == [("anna", None)]
