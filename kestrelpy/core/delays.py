"""Items that are not due yet: two numbers in one, by the time they are due; no bodies, no timers.

    dates       due u64 | id u64 | size u32     on the wall clock, which may be set
    durations   the same                        on the clock that never steps

    put with delay=, at= ─┐                        ┌──▶ due: a place in the line (RELEASED)
    given back with one ──┴──▶ 56 bytes in a heap ─┴──▶ cancelled, flushed, retried by hand

After a restart all of them follow the wall clock: the log knows dates alone. A queue that lives in
memory keeps the items themselves.

One rule: what leaves before it is due is taken out of `ids` and passed over later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from journal.apart import DelayedEntry
from journal.ids import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.stubs import PLACE_SHIFT, pack, unpack

_SIZE_BITS: Final = 32
_ID_MASK: Final = (1 << 64) - 1
_COMPACT_ABOVE: Final = 64


class Delay(NamedTuple):
    """For `ms` from now, or until the date `ms` of the wall clock."""

    ms: int
    is_date: bool = False

    def due_ms(self, wall_ms: int) -> int:
        """When that is, wall clock; at the latest now."""
        return max(self.ms if self.is_date else wall_ms + self.ms, wall_ms)


class Delays:
    """The delayed items of one reader. `ids` are theirs, `bytes` the sum of their bodies.

    `items` are those of a queue in memory, `unlogged` those whose delay no record tells of.
    """

    __slots__ = ("_dates", "_durations", "_removed", "bytes", "ids", "items", "unlogged")

    def __init__(self) -> None:
        self._dates: list[int] = []
        self._durations: list[int] = []
        self._removed = IdSet()
        self.ids = IdSet()
        self.bytes = 0
        self.items: dict[int, Item] = {}
        self.unlogged: set[int] = set()

    @property
    def count(self) -> int:
        """How many are there."""
        return self.ids.count

    def __contains__(self, id_: int) -> bool:
        return id_ in self.ids

    def add(self, id_: int, size: int, due_ms: int, is_date: bool) -> None:
        """It is due then, by the wall clock if that is a date, else by the other one."""
        if id_ in self._removed:
            self._compact()  # else its earlier time would do
        heappush(self._dates if is_date else self._durations, pack(due_ms, id_, size))
        self.ids.add(id_)
        self.bytes += size

    def restore(self, entries: Iterable[DelayedEntry]) -> None:
        """After replay: these are delayed."""
        for item, due_ms, size, _ in entries:
            self._dates.append(pack(due_ms, item, size))
            self.bytes += size
            self.ids.add(item)
        heapify(self._dates)

    def next_due(self, offset_ms: int) -> int | None:
        """When the next one is due, on the clock that never steps; None: none is there."""
        dates, durations = self._first(self._dates), self._first(self._durations)
        if not dates:
            return durations >> PLACE_SHIFT if durations else None
        due_ms = (dates >> PLACE_SHIFT) - offset_ms
        return min(due_ms, durations >> PLACE_SHIFT) if durations else due_ms

    def pop_due(self, now_ms: int, offset_ms: int) -> tuple[int, int] | None:
        """The one that was due first, with its size; None: none is due."""
        heap = self._dates
        first, other = self._first(self._dates), self._first(self._durations)
        if other and (not first or other < first - (offset_ms << PLACE_SHIFT)):
            heap, first, offset_ms = self._durations, other, 0
        if not first or (first >> PLACE_SHIFT) - offset_ms > now_ms:
            return None
        heappop(heap)
        _, id_, size = unpack(first)
        self.ids.discard(id_)
        self.bytes -= size
        return id_, size

    def remove(self, id_: int, size: int) -> None:
        """It is delayed no more."""
        if not self.ids.discard(id_):
            return
        self.bytes -= size
        self.items.pop(id_, None)
        self.unlogged.discard(id_)
        self._removed.add(id_)
        if self._removed.count > max(_COMPACT_ABOVE, self.count):
            self._compact()

    def find(self, id_: int, offset_ms: int) -> tuple[int, int]:
        """When it is due, wall clock, and its size. Looks through all of them; it is there."""
        for heap, offset in ((self._dates, 0), (self._durations, offset_ms)):
            for packed in heap:
                if packed >> _SIZE_BITS & _ID_MASK == id_:
                    return (packed >> PLACE_SHIFT) + offset, unpack(packed)[2]
        raise KeyError(id_)

    def clear(self) -> None:
        """None is there any more."""
        self._dates.clear()
        self._durations.clear()
        self.items.clear()
        self.unlogged.clear()
        self._removed, self.ids, self.bytes = IdSet(), IdSet(), 0

    def entries(self, offset_ms: int) -> Iterable[DelayedEntry]:
        """All of them, as a copy that a thread may look through."""
        there = self.ids.copy()
        gone = self._removed.copy()
        return _Entries(self._dates[:], self._durations[:], offset_ms, there, gone)

    def _first(self, heap: list[int]) -> int:
        """The next one; 0: there is none."""
        removed = self._removed
        if removed.count:
            while heap and removed.discard(heap[0] >> _SIZE_BITS & _ID_MASK):
                heappop(heap)
        return heap[0] if heap else 0

    def _compact(self) -> None:
        removed = self._removed
        for heap in (self._dates, self._durations):
            heap[:] = [e for e in heap if e >> _SIZE_BITS & _ID_MASK not in removed]
            heapify(heap)
        self._removed = IdSet()


class _Entries:
    """What was delayed at one moment."""

    __slots__ = ("_dates", "_durations", "_gone", "_offset_ms", "_there")

    def __init__(
        self, dates: list[int], durations: list[int], offset_ms: int, there: IdSet, gone: IdSet
    ) -> None:
        self._dates = dates
        self._durations = durations
        self._offset_ms = offset_ms
        self._there = there
        self._gone = gone

    def __iter__(self) -> Iterator[DelayedEntry]:
        for heap, offset_ms in ((self._dates, 0), (self._durations, self._offset_ms)):
            for packed in heap:
                due_ms, id_, size = unpack(packed)
                if id_ in self._there and id_ not in self._gone:
                    yield DelayedEntry(id_, due_ms + offset_ms, size)
