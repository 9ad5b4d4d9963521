"""Damage is a sentence: what, where, and what it may have cost."""

from __future__ import annotations

import pytest

from journal.errors import Damage, DamageKind


def damage(kind: DamageKind, lsns: tuple[int, int], ids: tuple[int, int] = (1, 0)) -> str:
    return Damage(kind, "jobs.1/1.segment", 64, 128, "not a whole record", *lsns, *ids).sentence()


def test_every_sentence_names_file_and_bytes() -> None:
    kinds: list[DamageKind] = ["torn", "corrupt", "truncated", "foreign"]
    for kind in kinds:
        assert damage(kind, (3, 4)).startswith(f"jobs.1/1.segment: {kind} at byte 64 to 128 (not a")


@pytest.mark.parametrize(
    ("lsns", "ids", "cost"),
    [
        ((3, 4), (7, 8), "may have held items 7 to 8"),
        ((3, 4), (8, 7), "held no new item; a confirm lost there lets its item come back"),
        ((4, 3), (8, 7), "no record is missing"),
    ],
)
def test_a_sentence_says_what_may_be_lost(
    lsns: tuple[int, int], ids: tuple[int, int], cost: str
) -> None:
    assert damage("corrupt", lsns, ids).endswith(cost)


def test_damage_of_no_known_byte_names_none() -> None:
    lost = Damage("corrupt", "queue q", 0, 0, "30 items cannot be read", 1, 1, 151, 180)
    assert lost.sentence() == (
        "queue q: corrupt (30 items cannot be read): may have held items 151 to 180"
    )


def test_torn_says_that_it_was_cut_and_saved() -> None:
    assert "behind the last known sync; cut and kept aside" in damage("torn", (3, 4))
