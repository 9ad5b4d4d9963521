"""Kinds stay what they are, and one table says what each does."""

from __future__ import annotations

from journal.format.kinds import ENDS, IN_LOG, PLACING, TABLE, UNNUMBERED, Effect, Kind, kinds_with


def test_numbers_of_kinds_and_tags_stay_what_they_are() -> None:
    # The golden journals hold the rest; these two are used by every reader of the log.
    assert frozenset({Kind.BATCH, Kind.CHECKPOINT, Kind.FOOTER}) == UNNUMBERED
    assert frozenset({Kind.PUT, Kind.RELEASED, Kind.REDRIVEN}) == PLACING


def test_every_kind_has_a_row() -> None:
    assert list(TABLE) == list(Kind)


def test_an_item_ends_by_these_kinds() -> None:
    assert frozenset(
        {Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED}
    ) == ENDS
    assert kinds_with(Effect.DIE, Effect.REDRIVE) == {Kind.DEAD, Kind.REDRIVEN}


def test_a_log_has_neither_reserved_kinds_nor_those_of_a_snapshot() -> None:
    assert frozenset(Kind) - IN_LOG - UNNUMBERED == {
        Kind.CARRIED, Kind.DONE_MANY, Kind.KEYS, Kind.LIVE, Kind.ATTEMPTS,
        Kind.SEGMENTS, Kind.DELAYED, Kind.PLACED, Kind.OPEN,
    }  # fmt: skip
