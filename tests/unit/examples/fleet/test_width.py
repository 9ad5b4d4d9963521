"""Queues of the examples are in slices of their own."""

from __future__ import annotations

import argparse

import pytest

from kestrelpy.examples.fleet.width import add_width, queues_of
from kestrelpy.placement import Placement


@pytest.mark.parametrize(("slices", "count"), [(2, 2), (4, 4), (16, 4)])
def test_each_queue_is_in_a_slice_of_its_own(slices: int, count: int) -> None:
    queues = queues_of(slices, 4)
    assert len(queues) == count
    assert len({Placement(slices).slice_of(each.encode()) for each in queues}) == count


def test_one_slice_has_one_queue() -> None:
    assert queues_of(1, 4) == ["lines"]


def test_a_fleet_has_one_slice_and_two_members_unless_more_is_said() -> None:
    parser = argparse.ArgumentParser()
    add_width(parser)
    assert vars(parser.parse_args([])) == {"slices": 1, "members": 2}
    assert vars(parser.parse_args(["--slices", "16", "--members", "4"])) == {
        "slices": 16, "members": 4,
    }  # fmt: skip
    with pytest.raises(SystemExit):
        parser.parse_args(["--members", "1"])
