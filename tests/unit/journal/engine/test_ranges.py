"""Stretches of a file join where they touch, and say what is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.engine.ranges import Ranges

BYTES = 40
stretches = st.tuples(st.integers(0, BYTES), st.integers(0, BYTES))


def test_stretches_that_touch_are_one() -> None:
    ranges = Ranges()
    for start, end in ((0, 4), (8, 9), (4, 8)):
        ranges.add(start, end)

    assert (ranges._starts, ranges._ends, ranges.bytes) == ([0], [9], 9)


def test_what_is_missing_lies_between_the_stretches() -> None:
    ranges = Ranges()
    ranges.add(2, 4)
    ranges.add(6, 8)

    assert ranges.missing(0, 10) == [(0, 2), (4, 6), (8, 10)]
    assert ranges.missing(3, 7) == [(4, 6)]
    assert ranges.missing(6, 8) == []
    ranges.clear()
    assert ranges.missing(3, 7) == [(3, 7)]


@given(st.lists(stretches, max_size=12), stretches)
def test_it_knows_the_bytes_that_a_set_knows(
    added: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    ranges, known = Ranges(), set[int]()
    for start, end in added:
        ranges.add(start, end)
        known |= set(range(start, end))

    missing = ranges.missing(*asked)

    assert ranges.bytes == len(known)
    assert {at for start, end in missing for at in range(start, end)} == {
        at for at in range(*asked) if at not in known
    }
    assert all(start < end for start, end in missing)
    gaps = zip(ranges._ends, ranges._starts[1:], strict=False)
    assert all(end < start for end, start in gaps)


def test_what_was_cleared_is_as_new() -> None:
    ranges = Ranges()
    for start in (0, 8, 30):
        ranges.add(start, start + 4)

    ranges.clear()

    assert (ranges.bytes, ranges.missing(0, 40)) == (0, [(0, 40)])
    ranges.add(10, 12)
    ranges.add(12, 14)
    assert (ranges.bytes, ranges.missing(0, 40)) == (4, [(0, 10), (14, 40)])
