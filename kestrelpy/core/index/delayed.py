"""Items that are not due yet: 20 bytes each, in the order they are due; no bodies, no timers.

    dates       due u64 | id u64 | size u32     on the wall clock, which may be set
    durations   the same                        on the clock that never steps

    put with delay=, at= ─┐                   ┌──▶ due: a place in the line (RELEASED)
    given back with one ──┴──▶ in `DueTimes` ─┴──▶ cancelled, flushed, retried by hand

After a restart all of them follow the wall clock: the log knows dates alone. A queue that lives in
memory keeps the items themselves. Where several readers have an item that was never available, it
has one entry for all of them, in delays of no reader (`shared`); each has its id.

One rule: each of `ids` has one entry, among the dates or the durations, its own or the shared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from journal.format.out_of_order import DelayedEntry
from journal.sets.id_set import IdSet
from kestrelpy.core.index.sorted_table import DueTimes
from kestrelpy.core.item import Item
from kestrelpy.core.trash import Trash

# Times, what leads from them to the wall clock, and of which ids (None: of all).
_Part = tuple[DueTimes, int, IdSet | None]


class Delay(NamedTuple):
    """For `ms` from now, or until the date `ms` of the wall clock."""

    ms: int
    is_date: bool = False

    def due_ms(self, unix_ms: int) -> int:
        """When that is, wall clock; at the latest now."""
        return max(self.ms if self.is_date else unix_ms + self.ms, unix_ms)


class Delays:
    """The delayed items of one reader. `ids` are theirs, `bytes` the sum of their bodies.

    `items` are those of a queue in memory, `unlogged` those whose delay no record tells of,
    `shared` has the entries that others have, too.
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
        """How many are there."""
        return self.ids.count

    @property
    def entry_count(self) -> int:
        """How many entries it has of its own."""
        return self._dates.count + self._durations.count

    def __contains__(self, id_: int) -> bool:
        return id_ in self.ids

    def add(self, id_: int, size: int, due_ms: int, is_date: bool) -> None:
        """It is due then, by the wall clock if that is a date, else by the other one."""
        (self._dates if is_date else self._durations).add(due_ms, id_, size)
        self.ids.add(id_)
        self.bytes += size

    def add_shared(self, id_: int, size: int) -> None:
        """One whose entry is among the shared ones."""
        self.ids.add(id_)
        self.bytes += size

    def share(self, new: Callable[[int], bool], shared: Delays) -> None:
        """The entries of these are among the shared ones from now on."""
        self._dates, shared._dates = _share(self._dates, shared, shared._dates, new)
        self._durations, shared._durations = _share(
            self._durations, shared, shared._durations, new
        )

    def restore(self, entries: Iterable[DelayedEntry]) -> None:
        """After replay: these are delayed, and no others are."""
        known = sorted(entries)
        for item, _, size, _ in known:
            self.ids.add(item)
            self.bytes += size
        self._dates = DueTimes((due_ms, item, size) for item, due_ms, size, _ in known)

    def next_due(self, offset_ms: int) -> int | None:
        """When the next one is due, on the clock that never steps; None: it has no entry."""
        first = self.first(offset_ms)
        return None if first is None else first[0]

    def first(self, offset_ms: int) -> tuple[int, int] | None:
        """The next of its own entries: when it is due, and of which item that is."""
        date, duration = self._dates.first(), self._durations.first()
        if date is None:
            return None if duration is None else duration[:2]
        found = (date[0] - offset_ms, date[1])
        return found if duration is None else min(found, duration[:2])

    def pop_due(self, now_ms: int, offset_ms: int) -> tuple[int, int] | None:
        """The one that was due first, with its size; None: none is due."""
        times, first, other = self._dates, self._dates.first(), self._durations.first()
        if other and (not first or other[:2] < (first[0] - offset_ms, first[1])):
            times, first, offset_ms = self._durations, other, 0
        if first is None or first[0] - offset_ms > now_ms:
            return None
        times.pop()
        _, id_, size = first
        self.ids.discard(id_)
        self.bytes -= size
        return id_, size

    def remove(self, id_: int, size: int) -> None:
        """It is delayed no more. Looks for it, if it is."""
        if not self.ids.discard(id_):
            return
        self.bytes -= size
        self.items.pop(id_, None)
        self.unlogged.discard(id_)
        if not self._dates.remove(id_):
            self._durations.remove(id_)

    def remove_all(self, ids: IdSet, size: int) -> None:
        """All of these are delayed no more."""
        if self.entry_count:
            for id_ in ids:
                if not self._dates.remove(id_):
                    self._durations.remove(id_)
        self.ids = self.ids.without(ids)
        self.bytes -= size

    def find(self, id_: int, offset_ms: int) -> tuple[int, int]:
        """When it is due, wall clock, and its size. Looks for it; it is there."""
        for times, offset in ((self._dates, 0), (self._durations, offset_ms)):
            found = times.find(id_)
            if found is not None:
                return found[0] + offset, found[2]
        if self.shared is None:
            raise KeyError(id_)
        return self.shared.find(id_, offset_ms)

    def clear(self, trash: Trash) -> None:
        """None is there any more."""
        self._dates.clear()
        self._durations.clear()
        trash.take(self.items, self.unlogged)
        self.items, self.unlogged = {}, set()
        self.ids, self.bytes = IdSet(), 0

    def entries(self, offset_ms: int) -> Iterable[DelayedEntry]:
        """All of them, as a copy that a thread may look through, more than once."""
        if not self.ids.count:
            return ()
        parts, shared = self._parts(offset_ms, None), self.shared
        if shared is not None and self.ids.count != self.entry_count:
            parts += shared._parts(offset_ms, self.ids.copy())
        return _Entries(parts)

    def _parts(self, offset_ms: int, ids: IdSet | None) -> list[_Part]:
        return [(self._dates.copy(), 0, ids), (self._durations.copy(), offset_ms, ids)]


def _share(
    own: DueTimes, shared: Delays, times: DueTimes, new: Callable[[int], bool]
) -> tuple[DueTimes, DueTimes]:
    """What is left to its own reader, and the shared ones with the others."""
    moved, stay = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
    for entry in own:
        (moved if new(entry[1]) else stay).append(entry)
    if not moved:
        return own, times
    for _, id_, size in moved:
        shared.add_shared(id_, size)
    return DueTimes(stay), DueTimes([*times, *moved])


class _Entries:
    """What was delayed at one moment. Who is stopped halfway may look through it again."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[DelayedEntry]:
        for times, offset_ms, ids in self._parts:
            for due_ms, id_, size in times:
                if ids is None or id_ in ids:
                    yield DelayedEntry(id_, due_ms + offset_ms, size)
