"""One heap of due times; cancelling is lazy, memory follows what is alive."""

from __future__ import annotations

from random import Random

from kestrelpy.core.timers import NEVER_MS, Alarm, Entry, Timers


def rung(timers: Timers[str], now_ms: int) -> list[str]:
    """Take all due entries."""
    things = []
    while (thing := timers.pop_due(now_ms)) is not None:
        things.append(thing)
    return things


def test_things_come_due_by_time_and_not_before() -> None:
    timers: Timers[str] = Timers()
    for due_ms, thing in ((30, "c"), (10, "a"), (20, "b")):
        timers.push(due_ms, thing)
    assert timers.next_due() == 10
    assert rung(timers, 9) == []
    assert rung(timers, 20) == ["a", "b"]
    assert rung(timers, 30) == ["c"]
    assert timers.next_due() is None


def test_things_due_together_come_first_pushed_first() -> None:
    timers: Timers[str] = Timers()
    for thing in "fore":
        timers.push(5, thing)
    assert rung(timers, 5) == ["f", "o", "r", "e"]


def test_what_was_cancelled_does_not_come_due() -> None:
    timers: Timers[str] = Timers()
    first = timers.push(1, "first")
    timers.push(2, "second")
    timers.cancel(first)
    assert timers.next_due() == 2
    assert len(timers) == 1
    assert rung(timers, 9) == ["second"]


def test_cancelling_twice_or_too_late_does_nothing() -> None:
    timers: Timers[str] = Timers()
    over, twice = timers.push(1, "over"), timers.push(2, "twice")
    timers.push(3, "stays")
    assert timers.pop_due(1) == "over"
    timers.cancel(over)
    timers.cancel(twice)
    timers.cancel(twice)
    assert len(timers) == 1
    assert rung(timers, 9) == ["stays"]


def test_cancelled_entries_never_make_up_more_than_half() -> None:
    timers: Timers[int] = Timers()
    timers.push(0, -1)  # the first stays, so nothing is dropped at the front
    for number in range(100_000):
        timers.cancel(timers.push(1000 + number, number))
        assert len(timers._heap) <= 200
    assert len(timers) == 1


def test_any_mixture_comes_due_in_sequence() -> None:
    for seed in range(30):
        random = Random(seed)
        timers: Timers[int] = Timers()
        alive: dict[int, tuple[int, Entry[int]]] = {}
        for number in range(400):
            if alive and random.random() < 0.5:
                timers.cancel(alive.pop(random.choice(list(alive)))[1])
            due_ms = random.randrange(50)
            alive[number] = (due_ms, timers.push(due_ms, number))
            first = min(due for due, _ in alive.values())
            assert timers.next_due() == first, f"seed {seed}"
            assert len(timers) == len(alive), f"seed {seed}"
        expected = sorted(alive, key=lambda number: (alive[number][0], number))
        got = [timers.pop_due(50) for _ in alive]
        assert got == expected, f"seed {seed}"


def test_an_alarm_rings_at_the_earliest_time_it_was_needed() -> None:
    timers: Timers[str] = Timers()
    alarm = Alarm(timers, "queue")
    alarm.need(50)
    alarm.need(20)
    alarm.need(70)
    alarm.need(None)
    assert timers.next_due() == alarm.at_ms == 20
    assert rung(timers, 100) == ["queue"]


def test_a_silenced_alarm_does_not_ring_and_can_be_set_again() -> None:
    timers: Timers[str] = Timers()
    alarm = Alarm(timers, "queue")
    alarm.need(50)
    alarm.silence()
    assert alarm.at_ms == NEVER_MS
    assert timers.next_due() is None
    alarm.need(60)
    assert timers.next_due() == 60


def test_an_alarm_is_one_entry_however_often_it_is_needed() -> None:
    timers: Timers[str] = Timers()
    alarm = Alarm(timers, "queue")
    for due_ms in range(10_000, 0, -1):
        alarm.need(due_ms)
    assert len(timers) == 1
    assert len(timers._heap) <= 200
