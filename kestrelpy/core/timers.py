"""One heap of due times with lazy cancelling.

One rule: cancelling only marks an entry, and cancelled entries never make up more than half of the
heap, so memory follows the number of live entries.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_COMPACT_ABOVE: Final = 64  # below this, cancelled entries are too few to matter


class Entry(Generic[T]):
    """One due time. `thing` is None once the entry was cancelled or popped."""

    __slots__ = ("due_ms", "number", "thing")

    def __init__(self, due_ms: int, number: int, thing: T) -> None:
        self.due_ms = due_ms
        self.number = number
        self.thing: T | None = thing

    def __lt__(self, other: Entry[T]) -> bool:
        return (self.due_ms, self.number) < (other.due_ms, other.number)


class Timers(Generic[T]):
    """Things by due time; things due at the same time in the order they were pushed."""

    __slots__ = ("_cancelled", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[Entry[T]] = []
        self._number = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def push(self, due_ms: int, thing: T) -> Entry[T]:
        """Make `thing` due at `due_ms`; return the entry that `cancel` takes."""
        self._number += 1
        entry = Entry(due_ms, self._number, thing)
        heappush(self._heap, entry)
        return entry

    def cancel(self, entry: Entry[T]) -> None:
        """Cancel `entry`. Has no effect on an entry that was cancelled or has come due."""
        if entry.thing is None:
            return
        entry.thing = None
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [e for e in self._heap if e.thing is not None]
            heapify(self._heap)
            self._cancelled = 0

    def take_all(self) -> list[Entry[T]]:
        """Remove and return all entries; the caller must not cancel them any more."""
        heap, self._heap, self._cancelled = self._heap, [], 0
        return heap

    def first(self) -> Entry[T] | None:
        """Return the entry that is due first; None: there is none."""
        heap = self._heap
        while heap and heap[0].thing is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0] if heap else None

    def next_due(self) -> int | None:
        """Return when the first thing is due; None: there is none."""
        entry = self.first()
        return None if entry is None else entry.due_ms

    def pop_due(self, now_ms: int) -> T | None:
        """Remove and return the first thing that is due by `now_ms`; None: there is none."""
        due = self.next_due()
        if due is None or due > now_ms:
            return None
        entry = heappop(self._heap)
        thing, entry.thing = entry.thing, None
        return thing


NEVER_MS: Final = (1 << 63) - 1


class Alarm(Generic[T]):
    """The one time in `timers` at which `thing` next has work to do.

    The alarm may ring early (its reason was cancelled); it never rings late.
    """

    __slots__ = ("_entry", "_thing", "_timers", "at_ms")

    def __init__(self, timers: Timers[T], thing: T) -> None:
        self._timers = timers
        self._thing: T | None = thing
        self._entry: Entry[T] | None = None
        self.at_ms = NEVER_MS

    def need(self, due_ms: int | None) -> None:
        """Ring at `due_ms` at the latest."""
        if due_ms is None or due_ms >= self.at_ms or self._thing is None:
            return
        self.silence()
        self.at_ms = due_ms
        self._entry = self._timers.push(due_ms, self._thing)

    def silence(self) -> None:
        """Clear the alarm: it rang, or its thing is gone."""
        if self._entry is not None:
            self._timers.cancel(self._entry)
            self._entry = None
        self.at_ms = NEVER_MS

    def end(self) -> None:
        """Never ring again: the thing is gone, and the alarm has no reference to it any more."""
        self.silence()
        self._thing = None


class PartAlarm(Alarm[T]):
    """The alarm of one part, in timers that the whole has for its parts: the alarm of the whole
    rings no later, and the whole then finds the parts that are due without a look at the others.
    """

    __slots__ = ("_whole",)

    def __init__(self, timers: Timers[T], part: T, whole: Alarm[Any]) -> None:
        super().__init__(timers, part)
        self._whole = whole

    def need(self, due_ms: int | None) -> None:
        """Ring at `due_ms` at the latest, and let the whole ring then."""
        super().need(due_ms)
        self._whole.need(due_ms)
