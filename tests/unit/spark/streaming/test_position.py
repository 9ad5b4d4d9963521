"""The offset of a stream, as it stands in a checkpoint."""

from __future__ import annotations

import json

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.streaming.position import Planned, Position, ReadPosition, parse_position

POSITION = Position(
    {"s2": {"b": ReadPosition(1, 7), "a": ReadPosition(2, 9)}, "s1": {"c": ReadPosition(3, 0)}},
    ((Planned("s2", "a", 2, 4, 9, 100), Planned("s2", "b", 1, 0, 7, 50)),),
    lost=3,
)


def test_an_offset_is_versioned_json_with_sorted_keys() -> None:
    assert json.dumps(POSITION.as_json()) == (
        '{"lost": 3, "places": {"s1": {"c": [3, 0]}, "s2": {"a": [2, 9], "b": [1, 7]}}, "slices": '
        '[[["s2", "a", 2, 4, 9, 100], ["s2", "b", 1, 0, 7, 50]]], "version": 1}'
    )


def test_an_offset_comes_back_as_it_was() -> None:
    assert parse_position(json.loads(json.dumps(POSITION.as_json()))) == POSITION
    assert POSITION.of("s2", "a") == ReadPosition(2, 9)
    assert POSITION.of("s2", "x") is POSITION.of("x", "a") is None


def test_an_offset_of_a_later_version_or_of_something_else_is_refused() -> None:
    with pytest.raises(
        KestrelError, match="is of version 2, and this version of kestrelpy knows 1"
    ):
        parse_position({"version": 2, "who": "knows"})
    for other in ({}, {"version": 1}, {"jobs": {"0": 7}}, {**POSITION.as_json(), "places": [1]}):
        with pytest.raises(KestrelError, match="not one of a stream of queues"):
            parse_position(other)
