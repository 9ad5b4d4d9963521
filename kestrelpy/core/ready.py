"""Who is next: items by place, as far as memory goes; behind them what only the log holds.

    returned   [3 5]          a small heap of what came back, by place
    line       8 9 10 11 ...  a deque of what arrived, places growing
    - - - - - - - - - - - - - frontier: an item's id
    beyond     12 ... 9999    in the log only: how many, and how large

One rule: the next item is the one with the lowest place, wherever it stands; so what came back
stands before everything younger, in its original order, and nothing in memory stands behind the
frontier.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from operator import attrgetter
from typing import Final

from kestrelpy.core.item import Item

# What an item costs beside its body: itself, its numbers, its place in the line. Measured.
ITEM_COST: Final = 320
NO_FRONTIER: Final = (1 << 63) - 1
_COMPACT_ABOVE: Final = 64
_marker: Final = attrgetter("marker")


class Ready:
    """A line of items. Removing from its middle is lazy: the id is noted and passed over later.

    `resident` items with `resident_bytes` of bodies are in memory, `beyond` with `beyond_bytes`
    behind the frontier.
    """

    __slots__ = (
        "_line", "_removed", "_returned", "beyond", "beyond_bytes", "frontier", "resident",
        "resident_bytes",
    )  # fmt: skip

    def __init__(self) -> None:
        self._line: deque[Item] = deque()
        self._returned: list[tuple[int, Item]] = []
        self._removed: set[int] = set()
        self.resident = 0
        self.resident_bytes = 0
        self.frontier = NO_FRONTIER
        self.beyond = 0
        self.beyond_bytes = 0

    @property
    def count(self) -> int:
        """How many items are ready."""
        return self.resident + self.beyond

    @property
    def bytes(self) -> int:
        """And how many bytes their bodies have."""
        return self.resident_bytes + self.beyond_bytes

    @property
    def cost(self) -> int:
        """How much memory the line takes, in bytes."""
        return self.resident_bytes + self.resident * ITEM_COST

    # -- in memory --------------------------------------------------------------------------

    def push(self, item: Item) -> None:
        """An arrival: its place is its marker, higher than any before."""
        self._line.append(item)
        self.resident += 1
        self.resident_bytes += item.size

    def give_back(self, place: int, item: Item) -> None:
        """An item that was popped, or one whose place is not its marker."""
        if item.id in self._removed:
            self._compact()  # it was removed and is back before it was passed over
        if item.id >= self.frontier:
            self.push_beyond(item.id, item.size)
            return
        heappush(self._returned, (place, item))
        self.resident += 1
        self.resident_bytes += item.size

    def pop(self) -> tuple[int, Item] | None:
        """The next item with its place; None: there is none in memory."""
        if not self.resident:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._line, self._returned
        if returned and (not line or returned[0][0] < line[0].marker):
            first = heappop(returned)
        else:
            item = line.popleft()
            first = (item.marker, item)
        self.resident -= 1
        self.resident_bytes -= first[1].size
        return first

    def first(self) -> Item | None:
        """What `pop` would return."""
        if not self.resident:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._line, self._returned
        if returned and (not line or returned[0][0] < line[0].marker):
            return returned[0][1]
        return line[0]

    def remove(self, item: Item) -> None:
        """Take out an item that is in memory, wherever it stands."""
        self.resident -= 1
        self.resident_bytes -= item.size
        if self._line and self._line[0] is item:
            self._line.popleft()
            return
        removed = self._removed
        removed.add(item.id)
        if len(removed) > _COMPACT_ABOVE and len(removed) > self.resident:
            self._compact()

    def clear(self) -> None:
        """Nothing is ready any more."""
        self._line.clear()
        self._returned.clear()
        self._removed.clear()
        self.resident = self.resident_bytes = 0
        self.beyond = self.beyond_bytes = 0
        self.frontier = NO_FRONTIER

    def __iter__(self) -> Iterator[Item]:
        """What is in memory, in no particular order."""
        removed = self._removed
        for _, item in self._returned:
            if item.id not in removed:
                yield item
        for item in self._line:
            if item.id not in removed:
                yield item

    # -- behind the frontier ----------------------------------------------------------------

    def push_beyond(self, id_: int, body_bytes: int) -> None:
        """This item is ready and only the log holds it."""
        self.frontier = min(self.frontier, id_)
        self.beyond += 1
        self.beyond_bytes += body_bytes

    def drop_beyond(self, body_bytes: int, count: int = 1) -> None:
        """Of those behind the frontier so many are not ready any more, or in memory from now on."""
        self.beyond -= count
        self.beyond_bytes -= body_bytes
        if not self.beyond or self.beyond_bytes < 0:
            self.beyond_bytes = 0  # what was damaged had sizes that nobody knows

    def advance(self, frontier: int) -> None:
        """Everything ready below this id is in memory."""
        self.frontier = frontier if self.beyond else NO_FRONTIER

    def at(self, marker: int) -> Item | None:
        """The item with this marker, if it is in memory."""
        line, back = self._line, self._returned
        if line and line[0].marker <= marker <= line[-1].marker:
            # Markers rise without repeating, mostly by one: the index is all but known.
            low = max(len(line) - 1 - (line[-1].marker - marker), 0)
            high = min(len(line), marker - line[0].marker + 1)
            found = line[bisect_left(line, marker, low, high - 1, key=_marker)]
            if found.marker == marker:
                return found
        return next((item for _, item in back if item.marker == marker), None) if back else None

    def behind(self, marker: int) -> Iterator[Item]:
        """Items in memory from this marker on, in order, and perhaps some that were removed."""
        line = self._line
        at = bisect_left(line, marker, key=_marker)
        back = [item for _, item in self._returned if item.marker >= marker]
        if at * 2 > len(line):
            arrived = [*islice(reversed(line), len(line) - at)]
            arrived.reverse()
            return merge(arrived, sorted(back, key=_marker), key=_marker)
        return merge(islice(line, at, None), sorted(back, key=_marker), key=_marker)

    def evict(self, cost: int) -> list[Item]:
        """Leave the youngest to the log until the line costs no more than this; who they were.

        The first item stays in any case.
        """
        if self._removed:
            self._compact()
        gone: list[Item] = []
        if self._returned and self._line and max(self._returned)[0] > self._line[0].marker:
            self._line_up()
        while self.resident > 1 and self.cost > cost:
            if not self._line and not self._line_up():
                break
            item = self._line.pop()
            self.resident -= 1
            self.resident_bytes -= item.size
            self.push_beyond(item.id, item.size)
            gone.append(item)
        return gone

    def evict_from(self, id_: int) -> list[Item]:
        """Leave an item before the frontier, not in the line, and all behind it to the log.

        Returns those that were in memory.
        """
        if self._removed:
            self._compact()
        gone = [i for i in self._line if i.id > id_] + [i for _, i in self._returned if i.id > id_]
        self._line = deque(i for i in self._line if i.id < id_)
        self._returned = [each for each in self._returned if each[1].id < id_]
        heapify(self._returned)
        self.resident -= len(gone)
        self.resident_bytes -= sum(item.size for item in gone)
        self.frontier = id_
        for item in gone:
            self.push_beyond(item.id, item.size)
        return gone

    def _line_up(self) -> bool:
        """What came back is a part of the line again, as far as it is at its marker; is any?"""
        back = self._returned
        self._line = deque(
            sorted([*self._line, *(i for p, i in back if p == i.marker)], key=_marker)
        )
        self._returned = [each for each in back if each[0] != each[1].marker]
        heapify(self._returned)
        return bool(self._line)

    def _compact(self) -> None:
        removed = self._removed
        self._line = deque(i for i in self._line if i.id not in removed)
        self._returned = [e for e in self._returned if e[1].id not in removed]
        heapify(self._returned)
        removed.clear()

    def _pass_over(self) -> None:
        """Drop what was removed from both fronts."""
        line, returned, removed = self._line, self._returned, self._removed
        while line and line[0].id in removed:
            removed.discard(line.popleft().id)
        while returned and returned[0][1].id in removed:
            removed.discard(heappop(returned)[1].id)
