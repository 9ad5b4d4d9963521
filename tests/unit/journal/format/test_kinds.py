"""Kinds and tags stay what they are."""

from __future__ import annotations

from journal.format.kinds import PLACING, UNNUMBERED, Kind


def test_numbers_of_kinds_and_tags_stay_what_they_are() -> None:
    # The golden journals hold the rest; these two are used by every reader of the log.
    assert frozenset({Kind.BATCH, Kind.CHECKPOINT, Kind.FOOTER}) == UNNUMBERED
    assert frozenset({Kind.PUT, Kind.RELEASED, Kind.REDRIVEN}) == PLACING
