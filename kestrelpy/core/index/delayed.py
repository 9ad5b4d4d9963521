"""Delayed items: 20 bytes each, in the order of their due times; no bodies, no timers.

    dates       due u64 | id u64 | size u32     on the wall clock, which may be set
    durations   the same                        on the running clock, which never steps back

    put with delay=, at= ─┐                   ┌──▶ due: a place in the ready list (RELEASED)
    nacked with a delay ──┴──▶ in `DueTimes` ─┴──▶ cancelled, flushed, retried by hand

After a restart both go on by their clocks; a duration of a log of version 7 or earlier is a date.
A queue in memory keeps the items themselves. If several subscriptions have an item that was never
available, it has one entry for all of them, in delays that belong to no subscription (`shared`);
each subscription has its id.

An item may leave before it is due and never return; its entry stays for a while and is passed over.

One rule: each of `ids` has one entry, among the dates or the durations, its own or the shared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from journal.format import DelayedEntry
from journal.sets import IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.sorted_table import DueTimes
from kestrelpy.core.item import Item
from kestrelpy.core.trash import Trash

# Due times, the offset from them to the wall clock, 1 if they are durations (0: dates), and the ids
# to include (None: all).
_Part = tuple[DueTimes, int, int, IdSet | None]
_LOOKED_MAX: Final = 10_000  # entries of a part, a few milliseconds
_PASSED_MAX: Final = 256  # entries of items that left, dropped from the front in one call
_COMPACT_ABOVE: Final = 64


class Delay(NamedTuple):
    """A delay of `ms`, or until the wall clock date `ms`."""

    ms: int
    is_date: bool = False

    def due_ms(self, unix_ms: int) -> int:
        """Return the due time, wall clock; `unix_ms` if it is in the past."""
        return max(self.ms if self.is_date else unix_ms + self.ms, unix_ms)

    def due_at(self, clock: ClockOffset, now_ms: int) -> int:
        """Return the due time: of a date by the wall clock, of a duration by the running clock."""
        return self.ms if self.is_date else clock.runs(now_ms + self.ms)

    def at_ms(self, clock: ClockOffset, now_ms: int) -> int:
        """Return the due time by the monotonic clock."""
        return self.ms - clock.offset_ms if self.is_date else now_ms + self.ms

    def runs_ms(self, clock: ClockOffset, now_ms: int) -> int:
        """Return the due time of a duration by the running clock; 0: it is a date."""
        return 0 if self.is_date else clock.runs(now_ms + self.ms)


class Delays:
    """The delayed items of one subscription: their `ids`, and the `bytes` of their bodies.

    `items` are the items of a queue in memory, `unlogged` the items whose delay is in no record.
    `shared` has the entries that other subscriptions share.
    """

    __slots__ = ("_dates", "_durations", "bytes", "ids", "items", "shared", "unlogged")

    def __init__(self) -> None:
        self.shared: Delays | None = None
        self._dates = DueTimes()
        self._durations = DueTimes()
        self.ids = IdSet()
        self.bytes = 0
        self.items: dict[int, Item] = {}
        self.unlogged: set[int] = set()

    @property
    def count(self) -> int:
        """The number of delayed items."""
        return self.ids.count

    @property
    def entry_count(self) -> int:
        """The number of own entries, including those of items that left."""
        return self._dates.count + self._durations.count

    def __contains__(self, id_: int) -> bool:
        return id_ in self.ids

    def add(self, id_: int, size: int, due_ms: int, is_date: bool) -> None:
        """Add an item that is due at `due_ms`: wall clock if `is_date`, else running clock."""
        (self._dates if is_date else self._durations).add(due_ms, id_, size)
        self.ids.add(id_)
        self.bytes += size

    def add_shared(self, id_: int, size: int) -> None:
        """Add an item whose entry is in `shared`."""
        self.ids.add(id_)
        self.bytes += size

    def share(self, new: Callable[[int], bool], shared: Delays) -> None:
        """Move the entries of items for which `new` is true to `shared`."""
        self._dates, shared._dates = _share(self._dates, shared, shared._dates, new)
        self._durations, shared._durations = _share(
            self._durations, shared, shared._durations, new
        )

    def restore(self, entries: Iterable[DelayedEntry]) -> None:
        """After replay, set the delayed items to these."""
        known = sorted(entries)
        for item, _, size, _, _ in known:
            self.ids.add(item)
            self.bytes += size
        self._dates = DueTimes((due, item, size) for item, due, size, _, runs in known if not runs)
        self._durations = DueTimes((runs, item, size) for item, _, size, _, runs in known if runs)

    @property
    def runs_ms(self) -> int:
        """The due time of the last duration, by the running clock; 0: there is none. Looks at all
        entries."""
        return max((runs_ms for runs_ms, _, _ in self._durations), default=0)

    def next_due(self, clock: ClockOffset) -> int | None:
        """Return when the next own entry is due, on the monotonic clock; None: there is none."""
        first = self.first(clock)
        return None if first is None else first[0]

    def first(self, clock: ClockOffset) -> tuple[int, int] | None:
        """Return the due time and the id of the next own entry."""
        date, duration = self._first(self._dates), self._first(self._durations)
        found = None if date is None else (date[0] - clock.offset_ms, date[1])
        if duration is None:
            return found
        other = (duration[0] - clock.running_ms, duration[1])
        return other if found is None else min(found, other)

    def pop_due(self, now_ms: int, clock: ClockOffset) -> tuple[int, int] | None:
        """Remove the first own entry if it is due; return its id and size, else None."""
        times, first, offset_ms = self._dates, self._first(self._dates), clock.offset_ms
        other, running_ms = self._first(self._durations), clock.running_ms
        if other and (
            not first or (other[0] - running_ms, other[1]) < (first[0] - offset_ms, first[1])
        ):
            times, first, offset_ms = self._durations, other, running_ms
        if first is None or first[0] - offset_ms > now_ms:
            return None
        times.pop()
        _, id_, size = first
        if not self.ids.discard(id_):
            return None  # one of many that left: the next call goes on
        self.bytes -= size
        return id_, size

    def remove(self, id_: int, size: int) -> None:
        """Remove an item if it is delayed. Searches the entries."""
        is_there = id_ in self.ids
        self._forget(id_, size)
        if is_there and not self._dates.remove(id_):
            self._durations.remove(id_)

    def leave(self, id_: int, size: int) -> None:
        """Remove an item that never returns. Its entry is passed over later: this searches none."""
        self._forget(id_, size)
        if self.entry_count > _COMPACT_ABOVE and self.entry_count > 2 * self.ids.count:
            self._dates.tidy(self.ids)
            self._durations.tidy(self.ids)

    def _forget(self, id_: int, size: int) -> None:
        if not self.ids.discard(id_):
            return
        self.bytes -= size
        self.items.pop(id_, None)
        self.unlogged.discard(id_)

    def _first(self, times: DueTimes) -> tuple[int, int, int] | None:
        """Return the first entry, after dropping those of items that left; only if there are many
        of these it is one of them."""
        first = times.first()
        for _ in range(_PASSED_MAX):
            if first is None or first[1] in self.ids:
                break
            times.pop()
            first = times.first()
        return first

    def remove_all(self, ids: IdSet, size: int) -> None:
        """Remove all these items; `size` is the sum of their bodies."""
        if self.entry_count:
            for id_ in ids:
                if not self._dates.remove(id_):
                    self._durations.remove(id_)
        self.ids = self.ids.without(ids)
        self.bytes -= size

    def find(self, id_: int, clock: ClockOffset) -> tuple[int, int]:
        """Return when a delayed item is due, wall clock, and its size. Searches the entries."""
        for times, offset, _, _ in self._parts(clock, None, is_copy=False):
            found = times.find(id_)
            if found is not None:
                return found[0] + offset, found[2]
        if self.shared is None:
            raise KeyError(id_)
        return self.shared.find(id_, clock)

    def clear(self, trash: Trash) -> None:
        """Remove all delayed items."""
        self._dates.clear()
        self._durations.clear()
        trash.take(self.items, self.unlogged)
        self.items, self.unlogged = {}, set()
        self.ids, self.bytes = IdSet(), 0

    def entries(self, clock: ClockOffset) -> Iterable[DelayedEntry]:
        """Return all entries as a copy that a thread may iterate over, more than once."""
        if not self.ids.count:
            return ()
        if self.shared is None and self.ids.count == self.entry_count:
            return _Entries(self._parts(clock, None))
        ids = self.ids.copy()
        parts = self._parts(clock, ids)
        if self.shared is not None:
            parts += self.shared._parts(clock, ids)
        return _Entries(parts)

    def soonest(self, most: int, clock: ClockOffset) -> list[tuple[int, int]]:
        """Return when the next items are due, wall clock, each with its id. It looks at 10,000
        entries of a part; of shared ones there may be more."""
        found = list[tuple[int, int]]()
        for delays in (self, self.shared):
            if delays is None:
                continue
            for times, offset, _, _ in delays._parts(clock, None, is_copy=False):
                entries = islice(times, _LOOKED_MAX)
                own = ((due_ms + offset, id_) for due_ms, id_, _ in entries if id_ in self.ids)
                found += islice(own, most)
        return sorted(found)[:most]

    def _parts(
        self, clock: ClockOffset, ids: IdSet | None, is_copy: bool = True
    ) -> list[_Part]:
        dates, durations = self._dates, self._durations
        if is_copy:
            dates, durations = dates.copy(), durations.copy()
        return [(dates, 0, 0, ids), (durations, clock.offset_ms - clock.running_ms, 1, ids)]


def _share(
    own: DueTimes, shared: Delays, times: DueTimes, new: Callable[[int], bool]
) -> tuple[DueTimes, DueTimes]:
    """Return the entries that stay with their subscription, and the shared ones with the rest."""
    moved, stay = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
    for entry in own:
        (moved if new(entry[1]) else stay).append(entry)
    if not moved:
        return own, times
    for _, id_, size in moved:
        shared.add_shared(id_, size)
    return DueTimes(stay), DueTimes([*times, *moved])


class _Entries:
    """The delayed items at one moment; a reader that stops halfway may iterate again."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[DelayedEntry]:
        for times, offset_ms, is_duration, ids in self._parts:
            for due_ms, id_, size in times:
                if ids is None or id_ in ids:
                    # A due time of 0 says in a snapshot that the item is available.
                    unix_ms, runs_ms = max(due_ms + offset_ms, 1), due_ms * is_duration
                    yield DelayedEntry(id_, unix_ms, size, b"", runs_ms)
