"""The items in memory that expire, by expiry."""

from __future__ import annotations

from typing import Any

from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.expiry_watch import ExpiryWatch
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Alarm, Timers
from kestrelpy.core.trash import SMALL, Trash

OFFSET_MS = 1_000_000


def watch() -> tuple[ExpiryWatch, Alarm[Any]]:
    alarm: Alarm[Any] = Alarm(Timers(), object())
    return ExpiryWatch(alarm, ClockOffset(OFFSET_MS)), alarm


def expiring(id_: int, at_ms: int) -> Item:
    return Item(id_, id_, b"body", 0, 0, OFFSET_MS + at_ms)


def popped(found: ExpiryWatch, at_ms: int) -> list[int]:
    ids = []
    while (item := found.pop_due(OFFSET_MS + at_ms)) is not None:
        ids.append(item.id)
    return ids


def test_items_come_by_their_expiries_and_none_before_it() -> None:
    found, _ = watch()
    for id_, at_ms in ((1, 30), (2, 10), (3, 20)):
        found.add(expiring(id_, at_ms))

    assert found.next_due() == OFFSET_MS + 10
    assert popped(found, 9) == []
    assert popped(found, 20) == [2, 3]
    assert set(found.watched) == {1}
    assert popped(found, 30) == [1]
    assert found.next_due() is None


def test_the_alarm_rings_on_the_steady_clock() -> None:
    found, alarm = watch()

    found.add(expiring(1, 30))
    found.add(expiring(2, 50))

    assert alarm.at_ms == 30


def test_a_forgotten_item_does_not_come() -> None:
    found, _ = watch()
    found.add(expiring(1, 10))
    found.add(expiring(2, 20))

    found.forget(1)
    found.forget(1)
    found.forget(99)

    assert found.next_due() == OFFSET_MS + 20
    assert popped(found, 99) == [2]
    assert found.watched == {}


def test_after_a_flush_nothing_is_watched_and_much_is_freed_later() -> None:
    found, _ = watch()
    trash = Trash(Timers())
    for id_ in range(1, SMALL + 2):
        found.add(expiring(id_, 10))

    found.clear(trash)

    assert found.watched == {}
    assert popped(found, 99) == []
    assert len(trash) == 2 * (SMALL + 1), "the entries and the table"
    found.add(expiring(5, 10))
    assert popped(found, 10) == [5]
