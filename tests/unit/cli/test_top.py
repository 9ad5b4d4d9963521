"""Rates, and the order of the rows."""

from __future__ import annotations

import pytest

from kestrelpy.cli.status.top import SORTS, _table, in_order, rows_of
from kestrelpy.cli.wire import Facts


def facts(total: int, items: int, **more: int) -> Facts:
    return {"total_items": total, "items": items, "state": "ok", **more}


def test_rates_are_what_came_and_what_went_in_a_second() -> None:
    before = [("q", facts(100, 40, leased=5, delayed=3, dead=2))]
    now = [("q", facts(160, 50, leased=5, delayed=3, dead=2)), ("new", facts(7, 7))]

    q, new = rows_of(now, before, 2.0)

    assert (q.in_per_s, q.out_per_s) == (30.0, 25.0)
    assert (new.in_per_s, new.out_per_s) == (None, None)


def test_a_first_print_has_no_rates() -> None:
    [row] = rows_of([("q", facts(1, 1))], [], 0)

    assert (row.in_per_s, row.out_per_s) == (None, None)


def test_a_queue_that_was_made_again_has_no_negative_rate() -> None:
    [row] = rows_of([("q", facts(1, 1))], [("q", facts(900, 90))], 1.0)

    assert row.in_per_s == 0
    assert row.out_per_s is not None and row.out_per_s >= 0


@pytest.mark.parametrize("sort", SORTS)
def test_the_largest_comes_first_and_equals_by_name(sort: str) -> None:
    many = facts(9, 9, bytes=9, delayed=9, leased=9, dead=9, waiters=9, age=9, logsize=9)
    now = [("b", facts(0, 0)), ("a", facts(0, 0)), ("z", many)]
    earlier = [(name, facts(0, 0, delayed=100)) for name in ("a", "b", "z")]

    names = [row.name for row in in_order(rows_of(now, earlier, 1.0), sort)]

    assert names == (["a", "b", "z"] if sort in ("name", "out") else ["z", "a", "b"])


def test_each_column_has_a_key_of_its_own() -> None:
    assert len(set(SORTS.values())) == len(SORTS)
    assert "q" not in SORTS.values()


def test_a_row_says_where_its_queue_is() -> None:
    at: Facts = {"slice": 3, "member": "host-b"}
    one, sliced, alone = rows_of(
        [("q", {**facts(1, 1), **at}), ("s", {**facts(1, 1), "slice": "all"}), ("t", facts(1, 1))],
        [], 0,
    )  # fmt: skip
    assert (one.slice, one.member) == (3, "host-b")
    assert (sliced.slice, sliced.member) == ("all", None)
    assert (alone.slice, alone.member) == (None, None)
    shown = [*map(str, _table([one, sliced], 5).columns[-1].cells)]
    assert shown == ["slice 3, host-b", "all slices", ""]
    assert str(_table([alone], 5).columns[-1].header) == "state", "no column without slices"
