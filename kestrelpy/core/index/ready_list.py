"""Who is next: items by place, as far as memory goes; behind them what only the log holds.

    returned   [3 5 31]       a small heap of what came back or was released, by place
    stubs      (7) (40)       a heap too: place, id and size of what stands apart, no body
    line       8 9 10 11 ...  a deque of what arrived, places growing
    - - - - - - - - - - - - - frontier: a number
    beyond     12 ... 9999    in the log only: how many, and how large

An item of the plain line is known by one number: id, marker and place are the same. Others stand
out of order (`out_of_order` has their ids): reading on from the frontier skips them. Without
a body such an item is a stub; its put is read by its id when it is its turn.

One rule: the next item is the one with the lowest place, wherever it stands; so what came back
stands before everything younger, in its original order, and nothing in memory stands behind the
frontier. A stub that is next holds up everybody behind it until it has been read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from operator import attrgetter
from typing import Final

from journal.sets.id_set import IdSet
from kestrelpy.core.index.disk_refs import DiskRefs, pack
from kestrelpy.core.item import Item
from kestrelpy.core.trash import Trash

# What an item costs beside its body: itself, its numbers, its place in the line. Measured.
ITEM_COST: Final = 320
NO_FRONTIER: Final = (1 << 63) - 1
# What was removed is passed over later; it is never more than that and than what is in memory.
_COMPACT_ABOVE: Final = 64
_COMPACT_ABOVE_BYTES: Final = 64 << 10
_id: Final = attrgetter("id")
_marker: Final = attrgetter("marker")


class Ready:
    """A line of items. Removing from its middle is lazy: the id is noted and passed over later.

    `resident` items with `resident_bytes` of bodies are in memory, `beyond` with `beyond_bytes`
    beyond the frontier, `disk_refs` out of order. In no line, but ready, are `blocked` items
    with `blocked_bytes`: they wait for their key, and take `blocked_cost` of memory (`Keyed`).
    """

    __slots__ = (
        "_back",
        "_line",
        "_out_of_order",
        "_removed",
        "_removed_bytes",
        "_returned",
        "beyond",
        "beyond_bytes",
        "blocked",
        "blocked_bytes",
        "blocked_cost",
        "disk_refs",
        "frontier",
        "resident",
        "resident_bytes",
    )  # fmt: skip

    def __init__(self, out_of_order: IdSet | None = None) -> None:
        """`out_of_order` are the ids of what stands apart, as the reader knows them."""
        self._out_of_order = out_of_order if out_of_order is not None else IdSet()
        self._line: deque[Item] = deque()
        self._returned: list[tuple[int, Item]] = []
        self._back: dict[int, Item] = {}  # those by their ids
        self._removed: set[int] = set()
        self._removed_bytes = 0
        self.disk_refs = DiskRefs()
        self.resident = 0
        self.resident_bytes = 0
        self.frontier = NO_FRONTIER
        self.beyond = 0
        self.beyond_bytes = 0
        self.blocked = 0
        self.blocked_bytes = 0
        self.blocked_cost = 0

    @property
    def count(self) -> int:
        """How many items are ready."""
        return self.resident + self.beyond + self.disk_refs.count + self.blocked

    @property
    def bytes(self) -> int:
        """And how many bytes their bodies have."""
        return self.resident_bytes + self.beyond_bytes + self.disk_refs.bytes + self.blocked_bytes

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

    def out_of_order(self) -> Iterator[tuple[int, int, int]]:
        """Place, id and size of what is in memory and stands at another number than its id."""
        removed = self._removed
        for place, item in self._returned:
            if place != item.id and item.id not in removed:
                yield place, item.id, item.size

    def put_back(self, place: int, item: Item) -> None:
        """An item that was popped, or one whose place is not its id: that stands apart."""
        if item.id in self._removed:
            self._compact()  # it was removed and is back before it was passed over
        if place >= self.frontier:
            self._leave(place, item)
            return
        heappush(self._returned, (place, item))
        self._back[item.id] = item
        self.resident += 1
        self.resident_bytes += item.size

    def pop(self) -> tuple[int, Item] | None:
        """The next item with its place; None: there is none in memory, or a stub comes first."""
        if not self.resident:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._line, self._returned
        if returned and (not line or returned[0][0] < line[0].marker):
            if self.disk_refs.count and self.disk_refs.first_place() < returned[0][0]:
                return None
            first = heappop(returned)
            del self._back[first[1].id]
        else:
            if self.disk_refs.count and self.disk_refs.first_place() < line[0].marker:
                return None
            item = line.popleft()
            first = (item.marker, item)
        self.resident -= 1
        self.resident_bytes -= first[1].size
        if self._removed and not self.resident:
            self._pass_over()  # all that is left was removed
        return first

    def first(self) -> Item | None:
        """What `pop` would return."""
        if not self.resident:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._line, self._returned
        if returned and (not line or returned[0][0] < line[0].marker):
            place, item = returned[0]
        else:
            place, item = line[0].marker, line[0]
        return None if self.disk_refs.count and self.disk_refs.first_place() < place else item

    @property
    def is_held_up(self) -> bool:
        """Does a stub come before everything in memory, and before what the log holds?"""
        if not self.disk_refs.count or self.disk_refs.first_place() >= self.frontier:
            return False
        return self.first() is None

    def first_place(self) -> int:
        """The lowest place in the line, wherever it stands; beyond all places if there is none."""
        place = min(self.disk_refs.first_place(), self.frontier)
        if self.resident:
            if self._removed:
                self._pass_over()
            if self._returned:
                place = min(place, self._returned[0][0])
            if self._line:
                place = min(place, self._line[0].marker)
        return place

    def remove(self, item: Item) -> None:
        """Take out an item that is in memory, wherever it stands."""
        self.resident -= 1
        self.resident_bytes -= item.size
        removed = self._removed
        if self._line and self._line[0] is item:
            self._line.popleft()
        else:
            self._back.pop(item.id, None)
            removed.add(item.id)
            self._removed_bytes += item.size
        if removed and not self.resident:
            self._pass_over()
        elif (len(removed) > _COMPACT_ABOVE and len(removed) > self.resident) or (
            self._removed_bytes > _COMPACT_ABOVE_BYTES and self._removed_bytes > self.cost
        ):
            self._compact()

    def clear(self, trash: Trash) -> None:
        """Nothing is ready any more."""
        trash.take(self._line, self._returned, self._back, self._removed)
        self._line, self._returned, self._back, self._removed = deque(), [], {}, set()
        self._removed_bytes = 0
        self.disk_refs.clear()
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

    def push_range(self, first: int, count: int, body_bytes: int) -> None:
        """So many arrivals from this id on, without a hole, that only the log holds."""
        self.frontier = min(self.frontier, first)
        self.beyond += count
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

    def _leave(self, place: int, item: Item) -> None:
        """Only the log holds the body of this one from now on."""
        if item.id in self._out_of_order:
            self.disk_refs.push(pack(place, item.id, item.size))
        else:
            self.push_beyond(item.id, item.size)

    def at(self, id_: int) -> Item | None:
        """This item, if it is in memory."""
        line = self._line
        if line and line[0].id <= id_ <= line[-1].id:
            # Ids rise without repeating, mostly by one: the index is all but known.
            low = max(len(line) - 1 - (line[-1].id - id_), 0)
            high = min(len(line), id_ - line[0].id + 1)
            found = line[bisect_left(line, id_, low, high - 1, key=_id)]
            if found.id == id_:
                return found
        return self._back.get(id_)

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
        is_lined_up = not self._returned or (
            bool(self._line) and max(self._returned)[0] < self._line[0].marker
        )
        while self.resident > 1 and self.cost > cost:
            if not (self._line and is_lined_up):
                self._line_up()
                is_lined_up = True
            place, item = self._take_youngest()
            self.resident -= 1
            self.resident_bytes -= item.size
            self._leave(place, item)
            gone.append(item)
        return gone

    def _take_youngest(self) -> tuple[int, Item]:
        """Out of a line that is lined up, or has nothing younger in `_returned`."""
        line, back = self._line, self._returned
        if back and (not line or back[-1][0] > line[-1].marker):
            place, item = back.pop()
            del self._back[item.id]
            return place, item
        item = line.pop()
        return item.marker, item

    def _line_up(self) -> None:
        """What came back is a part of the line again; what stands apart is left, by its place."""
        out_of_order, back = self._out_of_order, sorted(self._returned)
        plain = [item for _, item in back if item.id not in out_of_order]
        self._line = deque(sorted([*self._line, *plain], key=_marker))
        self._returned = [each for each in back if each[1].id in out_of_order]
        self._back = {item.id: item for _, item in self._returned}

    def _compact(self) -> None:
        removed = self._removed
        self._line = deque(i for i in self._line if i.id not in removed)
        self._returned = [e for e in self._returned if e[1].id not in removed]
        self._back = {item.id: item for _, item in self._returned}
        heapify(self._returned)
        removed.clear()
        self._removed_bytes = 0

    def _pass_over(self) -> None:
        """Drop what was removed from both fronts."""
        line, returned, removed = self._line, self._returned, self._removed
        while line and line[0].id in removed:
            self._passed(line.popleft())
        while returned and returned[0][1].id in removed:
            self._passed(heappop(returned)[1])

    def _passed(self, item: Item) -> None:
        self._removed.discard(item.id)
        self._removed_bytes -= item.size
