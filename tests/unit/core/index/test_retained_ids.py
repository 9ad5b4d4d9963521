"""The retained ids: every item with a put in the log, brought up in one piece at each look."""

from __future__ import annotations

from journal.sets.id_set import IdSet
from kestrelpy.core.index.retained_ids import RetainedIds


def test_the_set_is_brought_up_in_one_step_and_leaves_out_skipped_ids() -> None:
    ids = IdSet()
    retained = RetainedIds(ids, 4)  # ids up to 4 are not retained
    assert list(retained.up_to(7)) == [5, 6, 7]
    retained.skip(10)
    assert list(retained.up_to(11)) == [5, 6, 7, 8, 9, 11]
    needed = IdSet()
    needed.add(6)
    retained.lose(5, 8, needed)
    assert list(retained.up_to(11)) == [6, 9, 11]


def test_a_look_without_new_numbers_changes_nothing() -> None:
    retained = RetainedIds(IdSet(), 4)
    assert retained.up_to(6) is retained.up_to(6)
    assert list(retained.up_to(5)) == [5, 6]


def test_skipped_ids_next_to_each_other_are_all_left_out() -> None:
    retained = RetainedIds(IdSet(), 0)
    retained.skip(1)
    retained.skip(2)
    retained.skip(4)
    assert list(retained.up_to(5)) == [3, 5]


def test_an_item_that_is_needed_and_was_given_to_a_child_alone_is_not_retained() -> None:
    retained = RetainedIds(IdSet(), 0)
    retained.skip(2)
    needed = IdSet()
    needed.add_range(1, 3)

    retained.lose(1, 3, needed)

    assert list(retained.up_to(3)) == [1, 3]


def test_ids_that_were_not_looked_at_yet_can_be_lost() -> None:
    retained = RetainedIds(IdSet(), 0)

    retained.lose(1, 3, IdSet())

    assert list(retained.up_to(4)) == [4]
