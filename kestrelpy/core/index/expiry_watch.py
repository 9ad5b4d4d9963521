"""The items in memory that expire, by expiry.

One rule: an item in memory that expires is watched, or leased to a connection.
"""

from __future__ import annotations

from typing import Any

from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Alarm, Entry, Timers
from kestrelpy.core.trash import Trash


class ExpiryWatch:
    """The expiries of one subscription. `watched` has the items by id."""

    __slots__ = ("_alarm", "_clock", "_expiries", "watched")

    def __init__(self, alarm: Alarm[Any], clock: ClockOffset) -> None:
        self._alarm = alarm
        self._clock = clock
        self._expiries: Timers[Item] = Timers()
        self.watched: dict[int, Entry[Item]] = {}

    def add(self, item: Item) -> None:
        """Watch an item that has an expiry."""
        self.watched[item.id] = self._expiries.push(item.expires_ms, item)
        self._alarm.need(item.expires_ms - self._clock.offset_ms)

    def forget(self, id_: int) -> None:
        """Stop watching an item that expires no more or is not in memory any more."""
        entry = self.watched.pop(id_, None) if self.watched else None
        if entry is not None:
            self._expiries.cancel(entry)

    def next_due(self) -> int | None:
        """Return when the next item expires, wall clock in ms; None: no item does."""
        return self._expiries.next_due()

    def pop_due(self, unix_ms: int) -> Item | None:
        """Return the next item past its expiry, leased or not; None: there is none in memory."""
        item = self._expiries.pop_due(unix_ms)
        if item is not None:
            self.watched.pop(item.id, None)
        return item

    def clear(self, trash: Trash) -> None:
        """Forget all items."""
        trash.take(self._expiries.take_all(), self.watched)
        self.watched = {}
