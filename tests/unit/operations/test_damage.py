"""Damage is counted, and its newest is kept; what a crash tore is none."""

from __future__ import annotations

from journal.errors import Damage, DamageKind
from kestrelpy.core.clock import ClockOffset
from kestrelpy.operations.damage import NEWEST_MAX, DamageFound


def damage(kind: DamageKind, at: int = 0) -> Damage:
    return Damage(kind, "/srv/q/1.seg", at, at + 8, "not a whole record", 1, 1)


def test_damage_is_listed_with_its_sentence_and_the_time_of_day() -> None:
    found = DamageFound(ClockOffset(1000))
    found.note([damage("corrupt", 64), damage("torn")], 5)
    assert (found.count, found.first_ms) == (1, 5)
    first, second = found.newest
    assert (first.at_ms, first.kind, first.bytes) == (1005, "corrupt", 8)
    assert first.what.startswith("/srv/q/1.seg: corrupt at byte 64 to 72")
    assert second.kind == "torn"
    found.note([damage("corrupt", 64)], 9)
    assert (found.count, len(found.newest)) == (1, 2), "a read meets what the start has found"


def test_lost_items_are_listed_and_are_no_damage_of_their_own() -> None:
    found = DamageFound(ClockOffset(0))
    missed = Damage("corrupt", "queue jobs", 0, 0, "3 items cannot be read", 1, 1, 4, 6)
    found.note([damage("corrupt", 64), missed], 5)
    assert (found.count, len(found.newest)) == (1, 2)


def test_all_of_it_is_counted_and_the_newest_is_listed() -> None:
    found = DamageFound(ClockOffset(0))
    for number in range(NEWEST_MAX + 3):
        found.note([damage("corrupt", number * 8)], number)
    assert (found.count, len(found.newest), found.first_ms) == (NEWEST_MAX + 3, NEWEST_MAX, 0)
    assert found.newest[0].at_ms == 3
