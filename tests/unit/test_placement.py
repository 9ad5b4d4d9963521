"""Queues of one group are in one slice, in every process alike."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.placement import Placement

NAME = st.text("abz09._-{}*[]?", min_size=1, max_size=20).map(str.encode)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        (b"orders", b"orders"),
        (b"orders+audit", b"orders"),
        (b"orders{7}", b"7"),
        (b"{7}refunds+audit", b"7"),
        (b"orders{}", b"orders{}"),
        (b"orders{7", b"orders{7"),
        (b"orders}7{", b"orders}7{"),
        (b"a{1}b{2}", b"1"),
        (b"shop.in", b"shop.*"),
        (b"shop.in{7}", b"7"),
        (b"shop.in+audit", b"shop.*"),
        (b"workshop.in", b"workshop.in"),
        (b"x[1]", b"x[1]"),
    ],
)
def test_the_group_of_a_name(name: bytes, group: bytes) -> None:
    assert Placement(4, ["shop.*", "shop.in", "x[1]", "?"]).group_of(name) == group


def test_a_slice_is_the_same_in_every_process_and_version() -> None:
    placement = Placement(16)
    assert [placement.slice_of(each) for each in (b"orders", b"jobs", b"a", b"b")] == [14, 4, 16, 6]


@given(NAME, st.integers(1, 64))
def test_every_name_has_a_slice_and_its_children_are_there(name: bytes, slices: int) -> None:
    placement = Placement(slices, ["z*"])
    assert 1 <= placement.slice_of(name) <= slices
    assert placement.slice_of(name + b"+x") == placement.slice_of(name)
    assert Placement(slices, ["z*"]).slice_of(name) == placement.slice_of(name)


def test_names_are_spread_evenly() -> None:
    placement = Placement(16)
    counts = Counter(placement.slice_of(b"queue-%d" % number) for number in range(16_000))
    assert len(counts) == 16
    assert max(counts.values()) < 1.2 * 1000


def test_what_is_remembered_is_bounded() -> None:
    placement = Placement(4)
    for number in range(10_000):
        placement.slice_of(b"%d" % number)
    assert len(placement._known) <= 4096
