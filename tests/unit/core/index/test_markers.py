"""A marker is given once: to what was delayed, when it is released first."""

from __future__ import annotations

from random import Random

import pytest

from journal.sets.id_set import IdSet
from kestrelpy.core.index.markers import _COMPACT_AT_ONCE, MarkerIndex


def markers_of(*pairs: tuple[int, int]) -> MarkerIndex:
    """Markers, each with the item it was given to."""
    made = MarkerIndex()
    for marker, id_ in pairs:
        made.hide(id_)
        made.give(marker, id_)
    return made


def test_what_was_available_at_once_has_its_id_for_a_marker() -> None:
    marks = markers_of((11, 2))
    assert marks.of(5, 99) == 5
    assert marks.id_of(5) == 0
    assert marks.first_from(1) == 11


def test_a_delayed_item_has_none_until_it_is_released() -> None:
    marks = MarkerIndex()
    marks.hide(3)
    assert (marks.of(3, 0), marks.first_from(1), marks.marker_of(3)) == (0, 0, 0)
    marks.give(7, 3)
    assert (marks.of(3, 7), marks.first_from(1), marks.marker_of(3)) == (7, 7, 7)
    assert (marks.id_of(7), marks.latest) == (3, 7)


def test_released_again_it_keeps_the_first_one() -> None:
    marks = markers_of((7, 3))
    marks.remember(3, 7)
    marks.give(20, 3)
    assert marks.of(3, 20) == 7
    assert marks.between(1, 99) == [(7, 3)]


def test_what_is_gone_is_passed_over() -> None:
    marks = markers_of((7, 3), (9, 2), (30, 5))
    marks.forget(2)
    assert [marks.first_from(n) for n in (1, 8, 31)] == [7, 30, 0]
    assert (marks.id_of(9), marks.between(8, 30)) == (0, [(30, 5)])
    marks.retain_only(IdSet.of([5]))
    assert list(marks) == [(30, 5)]


@pytest.mark.parametrize(
    ("first", "last", "live", "left"),
    [
        (1, 4, [], [5]),
        (1, 4, [3], [3, 5]),
        (2, 4, [], [1, 5]),
        (2, 5, [2, 4], [1, 2, 4]),
        (1, 9, [9], []),
    ],
)
def test_of_a_range_that_is_lost_the_live_items_still_have_their_markers(
    first: int, last: int, live: list[int], left: list[int]
) -> None:
    marks = markers_of(*((10 + id_, id_) for id_ in range(1, 6)))
    marks.lose(first, last, IdSet.of(live))
    assert list(marks) == [(10 + id_, id_) for id_ in left]
    assert [id_ for id_ in range(1, 6) if id_ in marks.hidden] == left
    assert [marks.of(id_, 10 + id_) for id_ in left] == [10 + id_ for id_ in left]


def test_forgetting_does_not_fill_the_memory() -> None:
    marks = markers_of(*((n + 5000, n) for n in range(1, 5001)))
    for id_ in range(2, 5001):
        marks.forget(id_)
    assert len(list(marks)) <= 1025
    assert marks.first_from(1) == 5001


def test_no_single_item_that_is_forgotten_has_all_of_them_looked_through() -> None:
    marks = markers_of(*((n + 9000, n) for n in range(1, 9001)))
    count = 9000
    for id_ in sorted(range(1, 9001), key=lambda n: n * 7 % 9001):
        marks.forget(id_)
        assert count - len(marks._ids) <= _COMPACT_AT_ONCE
        count = len(marks._ids)
    assert count <= _COMPACT_AT_ONCE


def test_any_mixture_is_found_by_marker_and_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrelpy.core.index.markers._COMPACT_ABOVE", 4)
    monkeypatch.setattr("kestrelpy.core.index.markers._COMPACT_AT_ONCE", 3)
    for seed in range(30):
        random, marks, model = Random(seed), MarkerIndex(), dict[int, int]()
        for number in range(1, 201):
            choice = random.randrange(3)
            if choice == 0:
                marks.hide(number)
                model[number] = 0
            elif choice == 1 and (waiting := [i for i, m in model.items() if not m]):
                id_ = random.choice(waiting)
                marks.give(number, id_)
                model[id_] = number
            elif model and random.random() < 0.3:
                id_ = random.choice(sorted(model))
                marks.forget(id_)
                del model[id_]
            given = sorted((m, i) for i, m in model.items() if m)
            assert marks.between(1, number) == given, f"seed {seed}"
            at = random.randrange(number + 1)
            behind = [m for m, _ in given if m >= at]
            assert marks.first_from(at) == (behind[0] if behind else 0), f"seed {seed}"


def test_when_the_last_of_them_is_gone_nothing_is_left() -> None:
    marks = markers_of((7, 3), (9, 2), (30, 5))
    for id_ in (2, 5, 3):
        marks.forget(id_)
    assert list(marks) == []
    marks.hide(40)
    marks.give(41, 40)
    assert marks.first_from(1) == 41
