"""The ready list: items by place, in memory up to a frontier, and in the log alone beyond it.

    returned   [3 5 31]       nacked and released items, by place
    disk_refs  (7) (40)       place, id and size of out-of-order items, no body; in order of places
    swept      8 9            arrivals, places growing: the front of the line, without most of the
                              removed items; empty unless a sweep of the line is under way
    line       10 11 12 ...   arrivals, places growing
    - - - - - - - - - - - - - frontier: a number
    beyond     12 ... 9999    in the log only: their number and their size

An item of the line has one number: id, marker and place are the same. Other items are out of order
(`out_of_order` has their ids), and reading on from the frontier skips them. Without a body such an
item is a disk reference; its put is read by its id when its turn comes.

One rule: the next item is the one with the lowest place, in whichever structure. So a nacked item
stands before all younger ones, in its original order, and no item in memory stands after the
frontier. A disk reference that is next holds up all items after it until it has been read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import Final

from journal.sets import IdSet
from kestrelpy.core.index.disk_refs import DiskRefs, pack
from kestrelpy.core.item import Item
from kestrelpy.core.trash import Trash

# The cost of an item besides its body: the object, its numbers, its place in the line. Measured.
ITEM_COST: Final = 320
NO_FRONTIER: Final = (1 << 63) - 1
# Items removed from the line are passed over later. When they outweigh the items in memory by more
# than this, each further removal sweeps a piece of the line.
_SWEEP_ABOVE: Final = 64
_SWEEP_ABOVE_BYTES: Final = 64 << 10
_SWEPT_MAX: Final = 64
_CHUNK_ITEMS: Final = 256
_id: Final = attrgetter("id")


class ByPlace:
    """Items in order of their places, in sorted chunks, with cheap access to both ends.

    An item goes into the one chunk that it belongs to; a full chunk becomes two. So each step moves
    a chunk's references at most, however many items there are, and nothing is sorted as a whole.
    `_lasts` has the last place of each chunk; all places are different.
    """

    __slots__ = ("_chunks", "_lasts", "count")

    def __init__(self) -> None:
        self._chunks: list[list[tuple[int, Item]]] = []
        self._lasts: list[int] = []
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, place: int, item: Item) -> tuple[int, Item]:
        """Add an item; return its entry."""
        entry = (place, item)
        self.count += 1
        chunks, lasts = self._chunks, self._lasts
        number = bisect_left(lasts, place)
        if number == len(lasts):
            if not number or len(chunks[-1]) >= _CHUNK_ITEMS:
                chunks.append([entry])
                lasts.append(place)
            else:
                chunks[-1].append(entry)
                lasts[-1] = place
            return entry
        chunk = chunks[number]
        chunk.insert(_index(chunk, place), entry)
        if len(chunk) > _CHUNK_ITEMS:
            half = len(chunk) // 2
            chunks[number : number + 1] = [chunk[:half], chunk[half:]]
            lasts.insert(number, chunk[half - 1][0])
        return entry

    def remove(self, place: int) -> None:
        """Remove the item at this place. The caller knows that there is one."""
        number = bisect_left(self._lasts, place)
        chunk = self._chunks[number]
        del chunk[_index(chunk, place)]
        self.count -= 1
        if chunk:
            self._lasts[number] = chunk[-1][0]
        else:
            del self._chunks[number], self._lasts[number]

    def first_place(self) -> int:
        """Return the lowest place. The caller knows that there is an item."""
        return self._chunks[0][0][0]

    def last_place(self) -> int:
        """Return the highest place. The caller knows that there is an item."""
        return self._lasts[-1]

    def first(self) -> tuple[int, Item]:
        """Return the first item with its place. The caller knows that there is one."""
        return self._chunks[0][0]

    def pop_first(self) -> tuple[int, Item]:
        """Remove and return the first item with its place. The caller knows that there is one."""
        chunk = self._chunks[0]
        found = chunk.pop(0)
        self.count -= 1
        if not chunk:
            del self._chunks[0], self._lasts[0]
        return found

    def pop_last(self) -> tuple[int, Item]:
        """Remove and return the last item with its place. The caller knows that there is one."""
        chunk = self._chunks[-1]
        found = chunk.pop()
        self.count -= 1
        if chunk:
            self._lasts[-1] = chunk[-1][0]
        else:
            del self._chunks[-1], self._lasts[-1]
        return found

    def clear(self, trash: Trash) -> None:
        """Remove all items."""
        trash.take_all(self._chunks, self.count)
        self._chunks, self._lasts, self.count = [], [], 0

    def all(self) -> list[tuple[int, Item]]:
        """Return the items with their places, in order, as a new list."""
        return [*chain.from_iterable(self._chunks)]

    def __copy__(self) -> ByPlace:
        """Return an independent copy."""
        other = ByPlace()
        other._chunks = [chunk.copy() for chunk in self._chunks]
        other._lasts, other.count = self._lasts.copy(), self.count
        return other

    def __iter__(self) -> Iterator[tuple[int, Item]]:
        """Yield each item with its place, in order."""
        for chunk in self._chunks:
            yield from chunk


def _index(chunk: list[tuple[int, Item]], place: int) -> int:
    """Return the index of this place in the chunk, or that at which it belongs."""
    low, high = 0, len(chunk)
    while low < high:
        middle = (low + high) // 2
        if chunk[middle][0] < place:
            low = middle + 1
        else:
            high = middle
    return low


class Ready:
    """A list of ready items. Removal from the middle of the line is lazy: it notes the id, to pass
    over later.

    `resident` items with `resident_bytes` of bodies are in memory, `beyond` with `beyond_bytes`
    beyond the frontier, and `disk_refs` out of order. `blocked` items with `blocked_bytes` are
    ready but not in the list: they wait for their key, and take `blocked_cost` of memory (see
    `KeyGate`).
    """

    __slots__ = (
        "_back", "_line", "_out_of_order", "_removed", "_removed_bytes", "_returned", "_swept",
        "beyond", "beyond_bytes", "blocked", "blocked_bytes", "blocked_cost", "disk_refs",
        "frontier", "resident", "resident_bytes",
    )  # fmt: skip

    def __init__(self, out_of_order: IdSet | None = None) -> None:
        """`out_of_order` are the ids of the out-of-order items, shared with the subscription."""
        self._out_of_order = out_of_order if out_of_order is not None else IdSet()
        self._swept: deque[Item] = deque()
        self._line: deque[Item] = deque()
        self._returned = ByPlace()
        self._back: dict[int, tuple[int, Item]] = {}  # the same entries by id
        self._removed: set[int] = set()  # of the line
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
        """The number of ready items."""
        return self.resident + self.beyond + self.disk_refs.count + self.blocked

    @property
    def bytes(self) -> int:
        """The size of their bodies."""
        return self.resident_bytes + self.beyond_bytes + self.disk_refs.bytes + self.blocked_bytes

    @property
    def cost(self) -> int:
        """The memory that the list takes, in bytes."""
        return self.resident_bytes + self.resident * ITEM_COST

    # -- in memory --------------------------------------------------------------------------

    def push(self, item: Item) -> None:
        """Add an arrival: its place is its marker, higher than any before."""
        self._line.append(item)
        self.resident += 1
        self.resident_bytes += item.size

    def push_run(self, items: list[Item], body_bytes: int) -> None:
        """`push` each of these, of `body_bytes` together."""
        self._line += items
        self.resident += len(items)
        self.resident_bytes += body_bytes

    @property
    def returned(self) -> int:
        """The number of items in memory whose place may be another number than their id."""
        return self._returned.count

    def all_returned(self) -> list[tuple[int, Item]]:
        """Return these items with their places, as a new list."""
        return self._returned.all()

    def put_back(self, place: int, item: Item) -> None:
        """Return a popped item to the list, or add one that is out of order."""
        if self._removed and item.id in self._removed:
            self._drop(item.id)  # it returns before it was passed over
        if place >= self.frontier:
            self._leave(place, item)
            return
        self._back[item.id] = self._returned.add(place, item)
        self.resident += 1
        self.resident_bytes += item.size

    def pop(self) -> tuple[int, Item] | None:
        """Remove and return the next item with its place.

        None: there is none in memory, or a disk reference comes first.
        """
        if not self.resident:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._swept or self._line, self._returned
        if returned.count and (not line or returned.first_place() < line[0].marker):
            if self.disk_refs.ids.count and self.disk_refs.first_place() < returned.first_place():
                return None
            first = returned.pop_first()
            del self._back[first[1].id]
        else:
            if self.disk_refs.ids.count and self.disk_refs.first_place() < line[0].marker:
                return None
            item = line.popleft()
            first = (item.marker, item)
        self.resident -= 1
        self.resident_bytes -= first[1].size
        if self._removed and not self.resident:
            self._pass_over()  # only removed items are left
        return first

    def first(self) -> Item | None:
        """Return the item that `pop` would return."""
        if not self.resident:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._swept or self._line, self._returned
        if returned.count and (not line or returned.first_place() < line[0].marker):
            place, item = returned.first()
        else:
            place, item = line[0].marker, line[0]
        return None if self.disk_refs.count and self.disk_refs.first_place() < place else item

    @property
    def is_held_up(self) -> bool:
        """True if a disk reference comes before all items in memory and before the frontier."""
        if not self.disk_refs.count or self.disk_refs.first_place() >= self.frontier:
            return False
        return self.first() is None

    def first_place(self) -> int:
        """Return the lowest place in the list; a number beyond all places if it is empty."""
        place = min(self.disk_refs.first_place(), self.frontier)
        if self.resident:
            if self._removed:
                self._pass_over()
            if self._returned.count:
                place = min(place, self._returned.first_place())
            if line := self._swept or self._line:
                place = min(place, line[0].marker)
        return place

    def remove(self, item: Item) -> None:
        """Remove an item that is in memory, at any place."""
        self.resident -= 1
        self.resident_bytes -= item.size
        line, removed = self._swept or self._line, self._removed
        if (entry := self._back.pop(item.id, None)) is not None:
            self._returned.remove(entry[0])
        elif line and line[0] is item:
            line.popleft()
        else:
            removed.add(item.id)
            self._removed_bytes += item.size
        if removed and not self.resident:
            self._pass_over()
        elif self._swept or (len(removed) > _SWEEP_ABOVE and len(removed) > self.resident) or (
            self._removed_bytes > _SWEEP_ABOVE_BYTES and self._removed_bytes > self.cost
        ):
            self._sweep()

    def clear(self, trash: Trash) -> None:
        """Remove all items."""
        trash.take(self._swept, self._line, self._back, self._removed)
        self._returned.clear(trash)
        self._swept, self._line, self._back, self._removed = deque(), deque(), {}, set()
        self._removed_bytes = 0
        self.disk_refs.clear()
        self.resident = self.resident_bytes = 0
        self.beyond = self.beyond_bytes = 0
        self.frontier = NO_FRONTIER

    def __iter__(self) -> Iterator[Item]:
        """Yield the items in memory, in no particular order."""
        removed = self._removed
        for _, item in self._returned:
            yield item
        for item in chain(self._swept, self._line):
            if item.id not in removed:
                yield item

    # -- beyond the frontier ----------------------------------------------------------------

    def push_beyond(self, id_: int, body_bytes: int) -> None:
        """Count a ready item that only the log has."""
        self.frontier = min(self.frontier, id_)
        self.beyond += 1
        self.beyond_bytes += body_bytes

    def push_range(self, first: int, count: int, body_bytes: int) -> None:
        """Count `count` arrivals from id `first` on, without a gap, that only the log has."""
        self.frontier = min(self.frontier, first)
        self.beyond += count
        self.beyond_bytes += body_bytes

    def drop_beyond(self, body_bytes: int, count: int = 1) -> None:
        """Count out items beyond the frontier that are in memory now, or not ready any more."""
        self.beyond -= count
        self.beyond_bytes -= body_bytes
        if not self.beyond or self.beyond_bytes < 0:
            self.beyond_bytes = 0  # the sizes of damaged items are unknown

    def advance(self, frontier: int) -> None:
        """Move the frontier: all ready items below this id are in memory."""
        self.frontier = frontier if self.beyond else NO_FRONTIER

    def _leave(self, place: int, item: Item) -> None:
        """Leave an item to the log: it has the only copy of the body from now on."""
        if item.id in self._out_of_order:
            self.disk_refs.push(pack(place, item.id, item.size))
        else:
            self.push_beyond(item.id, item.size)

    def at(self, id_: int) -> Item | None:
        """Return the item with this id, if it is in memory."""
        if (entry := self._back.get(id_)) is not None:
            return entry[1]
        if self._removed and id_ in self._removed:
            return None
        for line in (self._swept, self._line):
            if (index := _index_of(line, id_)) >= 0:
                return line[index]
        return None

    def evict(self, cost: int, most: int = NO_FRONTIER) -> list[Item]:
        """Leave the youngest items to the log until the list costs at most `cost`, `most` items at
        most; return them.

        The first item stays in any case. Each item takes one step, whatever the list holds.
        """
        gone: list[Item] = []
        while self.resident > 1 and self.cost > cost and len(gone) < most:
            place, item = self._take_youngest()
            if self._removed and item.id in self._removed:
                self._passed(item)
                continue
            self.resident -= 1
            self.resident_bytes -= item.size
            self._leave(place, item)
            gone.append(item)
        return gone

    def _take_youngest(self) -> tuple[int, Item]:
        """Remove and return the youngest item, which may have been removed before."""
        line, back = self._line or self._swept, self._returned
        if back.count and (not line or back.last_place() > line[-1].marker):
            place, item = back.pop_last()
            self._back.pop(item.id, None)
            return place, item
        item = line.pop()
        return item.marker, item

    def _sweep(self) -> None:
        """Drop removed items from the next piece of the line; at its end the line is swept."""
        line, swept, removed = self._line, self._swept, self._removed
        for _ in range(min(_SWEPT_MAX, len(line))):
            item = line.popleft()
            if item.id in removed:
                self._passed(item)
            else:
                swept.append(item)
        if not line:
            self._line, self._swept = swept, line

    def _pass_over(self) -> None:
        """Drop removed items from the front of the line."""
        removed = self._removed
        while (line := self._swept or self._line) and line[0].id in removed:
            self._passed(line.popleft())

    def _drop(self, id_: int) -> None:
        """Drop a removed item from the line, wherever it stands there."""
        for line in (self._swept, self._line):
            if (index := _index_of(line, id_)) >= 0:
                self._passed(line[index])
                del line[index]
                return

    def _passed(self, item: Item) -> None:
        self._removed.discard(item.id)
        self._removed_bytes -= item.size


def _index_of(line: deque[Item], id_: int) -> int:
    """Return the index of an item in the line; -1: it is not there."""
    if not line or not line[0].id <= id_ <= line[-1].id:
        return -1
    # Ids rise without repeating, mostly by one, so few indexes are possible.
    low = max(len(line) - 1 - (line[-1].id - id_), 0)
    high = min(len(line), id_ - line[0].id + 1)
    found = bisect_left(line, id_, low, high - 1, key=_id)
    return found if line[found].id == id_ else -1
