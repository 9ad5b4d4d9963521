"""Admission: the part of the available items that goes into one batch."""

from __future__ import annotations

from kestrelpy.spark.streaming.position import BatchLimits, Planned, admitted


def queues(*counts: int) -> list[Planned]:
    return [Planned("s", f"q{at}", 1, 10, 10 + n, 100 * n) for at, n in enumerate(counts)]


def counts(batch: list[Planned]) -> list[int]:
    return [each.upto - each.after for each in batch]


def test_without_a_limit_or_below_it_everything_is_admitted() -> None:
    there = queues(900, 90, 10)
    assert admitted(there, BatchLimits()) == there
    assert admitted(there, BatchLimits(1000, 100_000)) == there


def test_a_limit_is_shared_in_proportion_and_leaves_no_queue_out() -> None:
    assert counts(admitted(queues(900, 90, 10), BatchLimits(100))) == [90, 9, 1]
    assert counts(admitted(queues(10_000, 3), BatchLimits(10))) == [9, 1]


def test_the_smaller_of_two_limits_counts() -> None:
    assert counts(admitted(queues(1000), BatchLimits(500, 10_000))) == [100]
    assert counts(admitted(queues(1000), BatchLimits(50, 10_000))) == [50]


def test_the_front_of_a_range_is_admitted_with_its_share_of_bytes() -> None:
    assert admitted(queues(100), BatchLimits(10)) == [Planned("s", "q0", 1, 10, 20, 1000)]
