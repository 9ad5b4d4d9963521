"""One heap of due times with lazy cancelling.

One rule: cancelling costs nothing now, and what was cancelled never makes up more than half of
the heap, so memory follows what is alive.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_COMPACT_ABOVE: Final = 64  # below this, cancelled entries are too few to matter


class Entry(Generic[T]):
    """Something due. `thing` is None once it was cancelled or popped."""

    __slots__ = ("due_ms", "number", "thing")

    def __init__(self, due_ms: int, number: int, thing: T) -> None:
        self.due_ms = due_ms
        self.number = number
        self.thing: T | None = thing

    def __lt__(self, other: Entry[T]) -> bool:
        return (self.due_ms, self.number) < (other.due_ms, other.number)


class Timers(Generic[T]):
    """Things by the time they are due; those due together in the order they were pushed."""

    __slots__ = ("_cancelled", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[Entry[T]] = []
        self._number = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def push(self, due_ms: int, thing: T) -> Entry[T]:
        """`thing` is due at `due_ms`; the entry is what `cancel` takes."""
        self._number += 1
        entry = Entry(due_ms, self._number, thing)
        heappush(self._heap, entry)
        return entry

    def cancel(self, entry: Entry[T]) -> None:
        """It will not come due. Cancelling twice, or what has come due, does nothing."""
        if entry.thing is None:
            return
        entry.thing = None
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [e for e in self._heap if e.thing is not None]
            heapify(self._heap)
            self._cancelled = 0

    def take_all(self) -> list[Entry[T]]:
        """All entries, which nothing cancels or pops any more; none is there afterwards."""
        heap, self._heap, self._cancelled = self._heap, [], 0
        return heap

    def first(self) -> Entry[T] | None:
        """What is due first; None: nothing is."""
        heap = self._heap
        while heap and heap[0].thing is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0] if heap else None

    def next_due(self) -> int | None:
        """When the first thing is due; None: nothing is."""
        entry = self.first()
        return None if entry is None else entry.due_ms

    def pop_due(self, now_ms: int) -> T | None:
        """The first thing that is due by now; None: nothing is."""
        due = self.next_due()
        if due is None or due > now_ms:
            return None
        entry = heappop(self._heap)
        thing, entry.thing = entry.thing, None
        return thing


NEVER_MS: Final = (1 << 63) - 1


class Alarm(Generic[T]):
    """The one time at which `thing` next wants to be looked at, among others in `timers`.

    It may ring early (what it was set for was cancelled); it never rings late.
    """

    __slots__ = ("_entry", "_thing", "_timers", "at_ms")

    def __init__(self, timers: Timers[T], thing: T) -> None:
        self._timers = timers
        self._thing = thing
        self._entry: Entry[T] | None = None
        self.at_ms = NEVER_MS

    def need(self, due_ms: int | None) -> None:
        """Ring at `due_ms` at the latest."""
        if due_ms is None or due_ms >= self.at_ms:
            return
        self.silence()
        self.at_ms = due_ms
        self._entry = self._timers.push(due_ms, self._thing)

    def silence(self) -> None:
        """It rang, or its thing is gone."""
        if self._entry is not None:
            self._timers.cancel(self._entry)
            self._entry = None
        self.at_ms = NEVER_MS
