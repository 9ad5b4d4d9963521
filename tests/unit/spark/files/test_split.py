"""Splits: the items that a task reads, those that it leaves to others, and the unwanted rows."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import ITEM_MAX
from journal.format.segment import FILE_HEADER_BYTES
from kestrelpy.spark.files.split import (
    NO_LIMITS,
    PackedItems,
    Range,
    RowLimits,
    Split,
    SplitGone,
    without,
)

SPLIT = Split("a.segment", b"i" * 16, 1, 1, 4096, 5, 20)


def ranges() -> st.SearchStrategy[list[Range]]:
    pair = st.tuples(st.integers(1, 30), st.integers(1, 30))
    return st.lists(pair.map(lambda two: (min(two), max(two))), max_size=4)


def disjoint() -> st.SearchStrategy[list[Range]]:
    """Ranges without a number in common."""
    ends = st.sets(st.integers(1, 30), max_size=10).map(sorted)
    return ends.map(lambda some: list(zip(some[::2], some[1::2], strict=False)))


def numbers(some: list[Range]) -> set[int]:
    return {n for first, last in some for n in range(first, last + 1)}


@given(disjoint(), ranges())
def test_ranges_without_others_have_the_numbers_that_no_other_has(
    some: list[Range], others: list[Range]
) -> None:
    found = without(some, *others)

    assert numbers(found) == numbers(some) - numbers(others)
    assert all(first <= last for first, last in found)
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("stop", "start", "size", "is_whole"),
    [(0, FILE_HEADER_BYTES, 4096 - FILE_HEADER_BYTES, True),
     (1024, FILE_HEADER_BYTES, 1024 - FILE_HEADER_BYTES, False), (0, 1024, 3072, False)],
)  # fmt: skip
def test_a_split_is_all_of_its_segment_or_a_stretch(
    stop: int, start: int, size: int, is_whole: bool
) -> None:
    split = Split("a", b"", 1, 1, 4096, 1, 2, start=start, stop=stop)
    assert (split.bytes, split.is_whole) == (size, is_whole)


@pytest.mark.parametrize(
    ("first", "last", "skip"),
    [
        (1, ITEM_MAX, ()),
        (7, ITEM_MAX, ((1, 6),)),
        (1, 9, ((10, ITEM_MAX),)),
        (7, 9, ((1, 6), (10, ITEM_MAX))),
    ],
)
def test_a_part_of_a_split_skips_what_lies_outside(
    first: int, last: int, skip: tuple[Range, ...]
) -> None:
    assert SPLIT.only(first, last).skip == skip
    assert SPLIT.only(first, last).only(8, 8).skip[: len(skip)] == skip


def test_a_split_that_has_gone_says_what_was_not_read_also_after_its_way_to_the_driver() -> None:
    gone = SplitGone("a.segment", 5, 20, "it was removed")

    again = pickle.loads(pickle.dumps(gone))

    assert str(again) == str(gone)
    assert str(gone).startswith("a.segment: it was removed; records 5 to 20 were not read from it.")
    assert (again.path, again.lsn_first, again.lsn_last) == ("a.segment", 5, 20)


@pytest.mark.parametrize(
    ("limits", "excluded"),
    [
        (NO_LIMITS, False),
        (RowLimits(from_ms=200), False),
        (RowLimits(from_ms=201), True),
        (RowLimits(before_ms=101), False),
        (RowLimits(before_ms=100), True),
        (RowLimits(marker_after=9), False),
        (RowLimits(marker_after=10), True),
        (RowLimits(marker_upto=3), False),
        (RowLimits(marker_upto=2), True),
    ],
)
def test_a_split_of_items_is_left_out_where_no_row_of_it_can_be_wanted(
    limits: RowLimits, excluded: bool
) -> None:
    split = Split("a", b"", 1, 1, 4096, 5, 20, item_first=3, item_last=10, time_first=100,
                  time_last=200, live_items=PackedItems(b"", b""))  # fmt: skip
    assert limits.excludes(split) == excluded


@pytest.mark.parametrize(
    "limits", [RowLimits(from_ms=999), RowLimits(before_ms=1), RowLimits(marker_upto=1)]
)
def test_where_the_plan_does_not_know_everything_is_read(limits: RowLimits) -> None:
    assert not limits.excludes(SPLIT)
    assert not RowLimits(marker_after=99).excludes(
        Split("a", b"", 1, 1, 4096, 5, 20, item_first=3, item_last=10)
    ), "a record of another item may have the marker"
