"""Waiting consumers, served strictly in the order of arrival; and observers, which get no items.

    ready      anna, ben         dead      -          consumers: one item serves one of them
    observers  (marker 7) carla, (marker 9) dora      one arrival serves all with a lower marker

One rule: no waiter is served before an earlier one for the same items (ready or dead) of the same
subscription; waiters that gave up or hung up are passed over. Observers wait in no line: an
observer learns that there is an item after its marker. It neither delays a consumer nor is delayed
by one.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kestrelpy.core.index.leases import Holder, Lease
    from kestrelpy.core.item import Item
    from kestrelpy.core.timers import Entry

# A line is cleared of finished waiters only when it is longer than this.
_GONE_MAX: Final = 64
NOWHERE: Final = (1 << 63) - 1


class Want(Enum):
    """The request of a waiter."""

    OPEN = "open"
    TAKE = "take"
    PEEK = "peek"
    OBSERVE = "observe"


class Waiter:
    """One waiting request. `done` once it was answered, gave up or hung up.

    `lease` or `item` is the answer, and `owner` the subscription that it came from. With neither,
    no item came in time, or the request was `refused` for this reason. With `lease_ms` the item is
    leased by token, and lives for `grace_ms` after that. `done_lsn` is the record that ended the
    delivery of a plain get.
    `caller` belongs to the shell; the core hands it back. An observer waits for a marker
    above `after`; its answer is `owner` alone.
    """

    __slots__ = (
        "after", "caller", "dead", "done", "done_lsn", "grace_ms", "holder", "item", "lease",
        "lease_ms", "line", "name", "owner", "refused", "timer", "want",
    )  # fmt: skip

    def __init__(
        self, want: Want, name: bytes, holder: Holder, dead: bool, caller: object,
        after: int = 0, lease_ms: int = 0, grace_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.after = after
        self.lease_ms = lease_ms
        self.grace_ms = grace_ms
        self.refused = ""
        self.want = want
        self.name = name
        self.holder = holder
        self.dead = dead
        self.caller = caller
        self.done = False
        self.lease: Lease | None = None
        self.item: Item | None = None
        self.done_lsn = 0
        self.owner: object | None = None
        self.line: Waiters | None = None
        self.timer: Entry[Any] | None = None


class Waiters:
    """The waiters of one subscription: a line for ready items, one for dead letters, observers."""

    __slots__ = ("_came", "_lines", "_observers", "count")

    def __init__(self) -> None:
        self._lines: tuple[deque[Waiter], deque[Waiter]] = (deque(), deque())
        self._observers: list[tuple[int, int, Waiter]] = []  # a heap by marker, then arrival
        self._came = count()
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, waiter: Waiter) -> None:
        """Add a waiter at the end of its line, or to the observers."""
        if waiter.want is Want.OBSERVE:
            heappush(self._observers, (waiter.after, next(self._came), waiter))
        else:
            self._lines[waiter.dead].append(waiter)
        self.count += 1

    def first(self, dead: bool = False) -> Waiter | None:
        """Return the next waiter to serve; None: there is none for such items."""
        line = self._lines[dead]
        while line and line[0].done:
            line.popleft()
        return line[0] if line else None

    def wants_token(self, dead: bool = False) -> bool:
        """True if the next waiter to serve wants a lease by token."""
        first = self.first(dead) if self.count else None
        return first is not None and first.lease_ms > 0

    @property
    def first_after(self) -> int:
        """The lowest `after` of the observers; a number beyond all markers if there are none."""
        observers = self._observers
        while observers and observers[0][2].done:
            heappop(observers)
        return observers[0][0] if observers else NOWHERE

    @property
    def observers_at_most(self) -> int:
        """The number of observers, including finished ones that are not cleared out yet."""
        return len(self._observers)

    def take_observers(self, latest: int, most: int) -> list[Waiter]:
        """Finish and return the observers whose `after` is below the marker `latest`.

        At most `most` of them, those with the lowest markers first.
        """
        taken, observers = list[Waiter](), self._observers
        while observers and observers[0][0] < latest and len(taken) < most:
            waiter = heappop(observers)[2]
            if not waiter.done:
                waiter.done = True
                self.count -= 1
                taken.append(waiter)
        if not self.count:
            self._forget_all()
        return taken

    def finish(self, waiter: Waiter) -> None:
        """Finish a waiter: it was answered, timed out or hung up."""
        if waiter.done:
            return
        waiter.done = True
        self.count -= 1
        if not self.count:
            self._forget_all()
            return
        if waiter.want is Want.OBSERVE:
            if len(self._observers) > _GONE_MAX and self.count * 2 < len(self._observers):
                self._observers = [each for each in self._observers if not each[2].done]
                heapify(self._observers)
            return
        line = self._lines[waiter.dead]
        if line and line[0] is waiter:
            line.popleft()
        elif len(line) > _GONE_MAX and self.count * 2 < len(line):
            waiting = [w for w in line if not w.done]
            line.clear()
            line.extend(waiting)

    def consumers(self) -> list[Waiter]:
        """Return the waiters that want an item, each line in order."""
        return [w for line in self._lines for w in line if not w.done]

    def take_all(self) -> list[Waiter]:
        """Remove and return all waiters, each line in order."""
        waiters = self.consumers()
        waiters += [w for _, _, w in sorted(self._observers) if not w.done]
        self._forget_all()
        self.count = 0
        return waiters

    def _forget_all(self) -> None:
        """Empty all lines, including finished waiters: no waiter is left."""
        for line in self._lines:
            line.clear()
        self._observers.clear()
