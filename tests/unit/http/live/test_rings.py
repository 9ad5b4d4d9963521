"""Rings: means of samples, gaps, what falls out at the end."""

from __future__ import annotations

from math import nan

from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.http.live.rings import RANGES, Ring, RingRange, Rings


def test_a_point_is_the_mean_of_the_samples_in_its_time() -> None:
    ring = Ring(("stored", "dead"), RingRange(1000, 5))
    for at_ms, stored in ((1000, 2), (1400, 4), (2100, 9)):
        ring.add(at_ms, (stored, 0))
    points = ring.points()
    assert (points.step_ms, points.since_ms) == (1000, 1000)
    assert points.values == {"stored": [3, 9], "dead": [0, 0]}
    assert ring.last() == {"stored": 9, "dead": 0}


def test_a_time_without_samples_has_no_value_and_a_long_one_leaves_nothing_else() -> None:
    ring = Ring(("stored",), RingRange(1000, 3))
    ring.add(0, (1,))
    ring.add(2000, (2,))
    assert ring.points().values == {"stored": [1, None, 2]}
    ring.add(1_000_000, (3,))
    assert ring.points().values == {"stored": [None, None, 3]}
    assert ring.points().since_ms == 998_000


def test_a_sample_without_a_value_does_not_spoil_the_mean() -> None:
    ring = Ring(("free", "dead"), RingRange(10_000, 3))
    for at_ms, free in ((0, nan), (1000, 4), (2000, nan), (3000, 6), (10_000, nan)):
        ring.add(at_ms, (free, 1))
    assert ring.points().values == {"free": [5, None], "dead": [1, 1]}


def test_an_empty_ring_has_no_points() -> None:
    ring = Ring(("stored",), RingRange(1000, 3))
    assert (ring.points().values, ring.last()) == ({"stored": []}, {})


@given(st.lists(st.integers(1, 9), max_size=60), st.integers(1, 7))
def test_a_ring_has_the_newest_points_in_sequence(steps: list[int], size: int) -> None:
    ring, model, now = Ring(("n",), RingRange(10, size), "f"), dict[int, list[int]](), 0
    for number, step in enumerate(steps, 1):
        now += step * 4
        ring.add(now, (number,))
        model.setdefault(now // 10, []).append(number)
    points = ring.points()
    if model:
        last = max(model)
        first = max(min(model), last - size + 1)
        assert points.since_ms == first * 10
        shown = [model.get(each) for each in range(first, last + 1)]
        assert [
            None if each is None else round(sum(each) / len(each), 1) for each in shown
        ] == [each if each is None else round(each, 1) for each in points.values["n"]]


def test_all_ranges_get_each_sample() -> None:
    rings = Rings(("n",), tuple(RANGES))
    for second in range(120):
        rings.add(second * 1000, (second,))
    assert len(rings.of("5m").points().values["n"]) == 120
    assert rings.of("1h").points().values["n"][0] == 4.5
    assert rings.of("24h").points().values["n"] == [29.5, 89.5]
