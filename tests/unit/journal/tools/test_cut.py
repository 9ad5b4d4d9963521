"""Copies end where every item that moved was put, and not earlier than they have to.

Promise: backup.
"""

from __future__ import annotations

from journal.tools.cut import BatchFacts, Journal, Move, Tail, ends

A: Journal = (b"a", 1)
B: Journal = (b"b", 1)
C: Journal = (b"c", 1)


def put(item: int) -> BatchFacts:
    return BatchFacts("s", first_put=item, last_put=item)


def moved(*moves: tuple[Journal | None, int]) -> BatchFacts:
    return BatchFacts("s", moves=[Move(*each) for each in moves])


def staying(*tails: Tail, later: tuple[Journal, ...] = ()) -> list[int] | None:
    """Return how many batches of each tail stay."""
    found = ends({str(at): tail for at, tail in enumerate(tails)}, later)
    return found and [*found.values()]


def test_a_move_with_its_put_stays() -> None:
    assert staying(Tail(A, 9, batches=[moved((B, 4))]), Tail(B, 4, batches=[put(4)])) == [1, 1]


def test_a_move_to_an_item_from_before_stays() -> None:
    assert staying(Tail(A, 9, batches=[moved((B, 4))]), Tail(B, 5)) == [1, 0]


def test_a_copy_ends_before_a_move_without_its_put() -> None:
    assert staying(Tail(A, 9, batches=[put(9), moved((B, 4)), put(10)]), Tail(B, 4)) == [1, 0]


def test_what_is_taken_away_may_be_the_put_of_another_move() -> None:
    b = Tail(B, 4, batches=[moved((C, 7)), put(4)])
    assert staying(Tail(A, 9, batches=[put(9), moved((B, 4))]), b, Tail(C, 7)) == [1, 0, 0]
    b = Tail(B, 4, batches=[put(4), moved((C, 7))])
    assert staying(Tail(A, 9, batches=[put(9), moved((B, 4))]), b, Tail(C, 7)) == [2, 1, 0]


def test_two_that_move_to_each_other_end_together() -> None:
    a = Tail(A, 9, batches=[put(9), moved((B, 5)), put(10)])
    b = Tail(B, 4, batches=[put(4), moved((A, 10)), put(5)])
    assert staying(a, b) == [3, 3]
    b.batches.pop()
    assert staying(a, b) == [1, 1]


def test_one_log_has_both_sides_of_a_move_to_a_child() -> None:
    assert staying(Tail(A, 0, batches=[moved((A, 4))])) == [1]


def test_a_target_without_a_journal_is_no_reason() -> None:
    assert staying(Tail(A, 9, batches=[moved((B, 4))])) == [1]


def test_a_target_that_was_made_later_has_no_put() -> None:
    assert staying(Tail(A, 9, batches=[put(9), moved((B, 4))]), later=(B,)) == [1]


def test_without_the_name_of_the_target_nothing_is_known() -> None:
    assert staying(Tail(A, 9, batches=[moved((None, 0))]), Tail(B, 5)) is None


def test_a_copy_that_had_no_end_before_cannot_end_earlier() -> None:
    assert staying(Tail(A, 9, batches=[moved((B, 4))], is_new=True), Tail(B, 4)) is None
