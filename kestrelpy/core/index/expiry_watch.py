"""The items that expire, by expiry: those in memory, and others that have an entry in memory.

    in the ready list, or blocked with its body ──▶ `ExpiryWatch`
    delayed, blocked without its body, a disk reference ──▶ `LoggedExpiries`, 20 bytes each

An item that is in its place beyond the frontier has no entry anywhere: it expires when it is read.

One rule: an item in memory that expires is watched, or leased to a connection.
"""

from __future__ import annotations

from typing import Any, Final

from journal.sets import IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.sorted_table import DueTimes
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Alarm, Entry, Timers
from kestrelpy.core.trash import Trash

_COMPACT_ABOVE: Final = 64


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


class LoggedExpiries:
    """The expiries of items that the ready list does not have in memory. `ids` has the items.

    The entry of an item that leaves stays for a while; the caller passes over it. There are no more
    such entries than others, but for a few.
    """

    __slots__ = ("_alarm", "_clock", "_expiries", "ids")

    def __init__(self, alarm: Alarm[Any], clock: ClockOffset) -> None:
        self._alarm = alarm
        self._clock = clock
        self._expiries = DueTimes()
        self.ids = IdSet()

    @property
    def entry_count(self) -> int:
        """The number of entries, including those of items that left."""
        return self._expiries.count

    def add(self, id_: int, expires_ms: int, size: int) -> None:
        """Note when an item expires; 0: never."""
        if expires_ms <= 0:
            return
        self.ids.add(id_)
        self._expiries.add_once(expires_ms, id_, size)
        self._alarm.need(expires_ms - self._clock.offset_ms)

    def forget(self, id_: int) -> None:
        """Forget an item that is gone, or dead."""
        if not self.ids.discard(id_):
            return
        count = self._expiries.count
        if not self.ids.count:
            self._expiries.clear()
        elif count > _COMPACT_ABOVE and count > 2 * self.ids.count:
            self._expiries.tidy(self.ids)

    def next_due(self) -> int | None:
        """Return when the next entry is due, wall clock in ms; None: there is none."""
        first = self._expiries.first()
        return None if first is None else first[0]

    def pop_due(self, unix_ms: int) -> tuple[int, int] | None:
        """Remove the first entry if it is due; return the id, 0 if the item left, and the size."""
        first = self._expiries.first()
        if first is None or first[0] > unix_ms:
            return None
        _, id_, size = self._expiries.pop()
        return (id_ if self.ids.discard(id_) else 0), size

    def clear(self) -> None:
        """Forget all items."""
        self._expiries.clear()
        self.ids = IdSet()
