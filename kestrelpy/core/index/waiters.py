"""Consumers waiting, served strictly in the order they came; and observers, who are given nothing.

    ready      anna, ben         dead      -          consumers: one item, one of them
    observers  (marker 7) carla, (marker 9) dora      all that wait for less than what arrived

One rule: nobody is served before an earlier waiter for the same items (ready or dead ones) of the
same reader; who gave up or hung up is passed over. An observer stands in no line: it is told that
something is behind its marker, and neither delays a consumer nor is delayed by one.
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

# Those who are gone are cleared out of a line when there are more of them than that.
_GONE_MAX: Final = 64
NOWHERE: Final = (1 << 63) - 1


class Want(Enum):
    """What a waiter will do with the item."""

    OPEN = "open"
    TAKE = "take"
    PEEK = "peek"
    OBSERVE = "observe"


class Waiter:
    """One waiting request. `done` once it was answered, gave up or hung up.

    `lease` or `item` is the answer, `owner` the reader it came from; neither: there was none in
    time, or it was `refused` for this reason. With `lease_ms` it is lent by token. `done_lsn` is
    the record that ended the delivery of a plain get. `conversation` is the shell's own, the core
    hands it back. An observer waits for a marker above `after`, and is told its `owner` alone.
    """

    __slots__ = (
        "after", "conversation", "dead", "done", "done_lsn", "holder", "item", "lease", "lease_ms",
        "line", "name", "owner", "refused", "timer", "want",
    )  # fmt: skip

    def __init__(
        self, want: Want, name: bytes, holder: Holder, dead: bool, conversation: object,
        after: int = 0, lease_ms: int = 0,
    ) -> None:  # fmt: skip
        self.after = after
        self.lease_ms = lease_ms
        self.refused = ""
        self.want = want
        self.name = name
        self.holder = holder
        self.dead = dead
        self.conversation = conversation
        self.done = False
        self.lease: Lease | None = None
        self.item: Item | None = None
        self.done_lsn = 0
        self.owner: object | None = None
        self.line: Waiters | None = None
        self.timer: Entry[Any] | None = None


class Waiters:
    """Those who wait for one reader: a line for what is ready, one for the dead, and observers."""

    __slots__ = ("_came", "_lines", "_observers", "count")

    def __init__(self) -> None:
        self._lines: tuple[deque[Waiter], deque[Waiter]] = (deque(), deque())
        self._observers: list[tuple[int, int, Waiter]] = []  # a heap by marker, then by coming
        self._came = count()
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, waiter: Waiter) -> None:
        """To the end of its line."""
        if waiter.want is Want.OBSERVE:
            heappush(self._observers, (waiter.after, next(self._came), waiter))
        else:
            self._lines[waiter.dead].append(waiter)
        self.count += 1

    def first(self, dead: bool = False) -> Waiter | None:
        """Whose turn it is; None: nobody waits for such items."""
        line = self._lines[dead]
        while line and line[0].done:
            line.popleft()
        return line[0] if line else None

    @property
    def first_after(self) -> int:
        """The lowest marker behind which an observer waits; beyond all markers: none waits."""
        observers = self._observers
        while observers and observers[0][2].done:
            heappop(observers)
        return observers[0][0] if observers else NOWHERE

    @property
    def observers_at_most(self) -> int:
        """How many observers wait, those included who are gone and not cleared out yet."""
        return len(self._observers)

    def take_observers(self, latest: int, most: int) -> list[Waiter]:
        """Those who wait for something that is not above the marker `latest`: they wait no more.

        At most `most` of them, those of the lowest markers first.
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
        """Answered, timed out or gone: it waits no more."""
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

    def take_all(self) -> list[Waiter]:
        """Everybody, each line in order; all are empty afterwards."""
        everybody = [w for line in self._lines for w in line if not w.done]
        everybody += [w for _, _, w in sorted(self._observers) if not w.done]
        self._forget_all()
        self.count = 0
        return everybody

    def _forget_all(self) -> None:
        """Nobody waits any more; those who are gone are not kept."""
        for line in self._lines:
            line.clear()
        self._observers.clear()
