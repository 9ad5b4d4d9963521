"""Markers: where a read begins and ends, and how it is split."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kestrelpy.spark.offsets import (
    MarkerRange,
    Offset,
    format_offsets,
    packed,
    parse_ending,
    parse_starting,
    range_of,
)


def test_a_queue_without_markers_is_read_whole() -> None:
    starting = parse_starting('{"a:1": {"jobs": 7}, "b:1": "latest"}')
    ending = parse_ending('{"a:1": {"jobs": 9}}')

    assert starting.of(("a:1", "id-a"), "jobs") == 7
    assert starting.of(("a:1", "id-a"), "mail") == "earliest"
    assert starting.of(("b:1", "id-b"), "mail") == "latest"
    assert ending.of(("a:1", "id-a"), "jobs") == 9
    assert ending.of(("c:1", "id-c"), "jobs") == "latest"


def test_a_server_goes_by_its_address_or_by_its_id() -> None:
    starting = parse_starting('{"0af1": {"jobs": 7}}')

    assert starting.of(("a:1", "0af1"), "jobs") == 7


def test_the_end_of_one_read_is_the_beginning_of_the_next() -> None:
    text = format_offsets({"a:1": {"jobs": 5}})

    first = range_of("earliest", parse_ending(text).of(("a:1",), "jobs"), 1, 9)
    second = range_of(parse_starting(text).of(("a:1",), "jobs"), "latest", 1, 9)

    assert (first, second) == (MarkerRange(0, 5), MarkerRange(5, 9))


@pytest.mark.parametrize(
    ("starting", "ending", "earliest", "latest", "meant"),
    [
        ("earliest", "latest", 3, 9, MarkerRange(2, 9)),
        ("latest", "latest", 3, 9, MarkerRange(9, 9)),
        ("earliest", "earliest", 3, 9, MarkerRange(2, 2)),
        (0, "latest", 3, 9, MarkerRange(2, 9)),  # older than what is kept: the oldest kept item
        (5, 7, 3, 9, MarkerRange(5, 7)),
        (5, 70, 3, 9, MarkerRange(5, 9)),
        (50, 70, 3, 9, MarkerRange(50, 50)),
        (7, 5, 3, 9, MarkerRange(7, 7)),
        ("earliest", "latest", 10, 9, MarkerRange(9, 9)),  # all of it is gone
        ("earliest", "latest", 1, 0, MarkerRange(0, 0)),  # nothing ever was
    ],
)
def test_starts_and_ends_become_a_range_of_the_markers_that_are_there(
    starting: Offset, ending: Offset, earliest: int, latest: int, meant: MarkerRange
) -> None:
    found = range_of(starting, ending, earliest, latest)

    assert found == meant
    assert bool(found) == (meant.upto > meant.after)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 100])
def test_the_parts_of_a_range_follow_each_other(parts: int) -> None:
    found = MarkerRange(10, 40).split(parts)

    markers = [marker for each in found for marker in range(each.after + 1, each.upto + 1)]
    assert markers == list(range(11, 41))
    assert len(found) == min(parts, 30)
    assert max(each.upto - each.after for each in found) <= -(-30 // len(found))


@dataclass(frozen=True)
class Thing:
    name: str
    size: int


def halves(whole: Thing, parts: int) -> list[Thing]:
    return [Thing(f"{whole.name}{i}", whole.size // parts) for i in range(parts)]


def shape(partitions: list[list[Thing]]) -> str:
    return " | ".join(" ".join(each.name for each in partition) for partition in partitions)


def test_small_things_share_a_partition_one_after_another() -> None:
    pieces = [Thing(name, 30) for name in "abcdefg"]

    assert shape(packed(pieces, 100, 1, halves)) == "a b c | d e f | g"


def test_a_thing_larger_than_a_partition_is_cut() -> None:
    assert shape(packed([Thing("a", 20), Thing("b", 250)], 100, 1, halves)) == "a | b0 | b1 | b2"


def test_more_partitions_are_made_where_more_are_asked_for() -> None:
    pieces = [Thing("a", 50), Thing("b", 50)]

    assert shape(packed(pieces, 1000, 1, halves)) == "a b"
    assert shape(packed(pieces, 1000, 4, halves)) == "a0 | a1 | b0 | b1"


def test_nothing_makes_no_partition() -> None:
    assert packed([], 100, 4, halves) == []
    assert shape(packed([Thing("a", 0)], 100, 4, halves)) == "a"
