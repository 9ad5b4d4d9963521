"""The retention of done items: by time, by size, for good."""

from __future__ import annotations

import pytest

from journal.write.retention import Retention
from journal.write.segment_file import Segment

HOUR_MS = 3_600_000
KIB = 1024


def segment(number: int, time_last: int, live: int = 0, live_bytes: int = 0) -> Segment:
    return Segment(
        number, str(number), KIB, None, puts=9, live=live, live_bytes=live_bytes,
        time_last=time_last,
    )  # fmt: skip


def log(*times: int) -> list[Segment]:
    return [segment(at + 1, time) for at, time in enumerate(times)] + [segment(99, 0)]


def test_without_it_every_sealed_segment_is_over() -> None:
    retention = Retention()
    assert not retention.is_on
    assert retention.over(log(1, 2, 3), 5) == 3
    assert retention.over([], 5) == 0


def test_forever_is_never_over() -> None:
    retention = Retention()
    retention.change(None, 0)
    assert retention.is_on
    assert retention.over(log(1, 2, 3), 1 << 60) == 0
    assert not retention.is_news(log(1, 2, 3), 1 << 60)


@pytest.mark.parametrize(("now", "over"), [(109, 0), (110, 1), (119, 1), (120, 2), (999, 3)])
def test_by_time_one_goes_when_its_newest_is_old_enough(now: int, over: int) -> None:
    retention = Retention()
    retention.change(100, 0)
    assert retention.over(log(10, 20, 30), now) == over


def test_nothing_is_over_before_what_is_older() -> None:
    retention = Retention()
    retention.change(100, 0)
    assert retention.over(log(10, 500, 30), 140) == 1
    assert retention.over(log(10, 0, 30), 140) == 1, "of a time that is not known one waits"


@pytest.mark.parametrize(
    ("size", "over"), [(1, 4), (KIB - 1, 4), (KIB, 3), (2 * KIB, 2), (9 * KIB, 0)]
)
def test_by_size_the_oldest_are_over(size: int, over: int) -> None:
    retention = Retention()
    retention.change(0, size)
    assert retention.over(log(1, 2, 3, 4), 0) == over


def test_by_size_what_is_alive_does_not_count() -> None:
    retention = Retention()
    retention.change(0, KIB)
    some = [segment(1, 0), segment(2, 0, 9, KIB), segment(3, 0, 9, KIB), segment(99, 0)]
    assert retention.over(some, 0) == 0
    some[2].live = some[2].live_bytes = 0
    assert retention.over(some, 0) == 1, "one is kept, the one that is alive counts nothing"
    some[1].live = some[1].live_bytes = 0
    assert retention.over(some, 0) == 2


def test_a_log_retained_up_to_a_size_has_smaller_segments() -> None:
    retention = Retention()
    assert retention.largest(64 * KIB, KIB) == 64 * KIB
    retention.change(0, 80 * KIB)
    assert retention.largest(64 * KIB, KIB) == 10 * KIB
    assert retention.largest(64 * KIB, 32 * KIB) == 32 * KIB
    assert retention.largest(4 * KIB, KIB) == 4 * KIB


def test_an_active_segment_turns_when_something_done_in_it_is_old_enough() -> None:
    active = segment(1, 0)
    active.tally.see_time(1000)
    retention = Retention()
    assert not retention.wants_turn(active, HOUR_MS)
    retention.change(500, 0)
    assert not retention.wants_turn(None, 1500)
    assert not retention.wants_turn(active, 1499)
    assert retention.wants_turn(active, 1500)
    active.live = 9
    assert not retention.wants_turn(active, 1500), "nothing in it is done"


def test_one_that_cannot_go_yet_is_reported_once() -> None:
    retention = Retention()
    retention.change(100, 0)
    some = log(10)
    assert not retention.is_news(some, 100)
    some[0].live = 1
    assert retention.is_news(some, 110), "it may be rewritten"
    assert not retention.is_news(some, 120)
    some[0].live = 0
    assert retention.is_news(some, 130)
    assert retention.is_news(some, 140), "until it is gone"


def test_the_segment_that_waits_for_a_later_number_is_no_news() -> None:
    """A rewrite before the active segment may have the highest number; it stays for now."""
    retention = Retention()
    retention.change(100, 0)
    some = log(10)
    some[0].number, some[-1].number = 20, 19
    assert retention.is_news(some, 120), "its time is over, once"
    assert not retention.is_news(some, 130)
    some[-1].number = 21
    assert retention.is_news(some, 140)
