"""Ready items that stand apart and whose bodies only the log has: a number each, by place.

    place u64 | id u64 | size u32      one int: 48 bytes, and 8 in the heap
    heap ──▶ fetching: their puts are being read ──▶ in memory, at their place

One rule: a stub counts as ready until it is taken, fetched or removed. What leaves from the middle
is taken out of `ids` and passed over later; it never comes back (a place is given once).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from journal.ids import IdSet

_ID_BITS: Final = 64
_SIZE_BITS: Final = 32
PLACE_SHIFT: Final = _ID_BITS + _SIZE_BITS
_ID_MASK: Final = (1 << _ID_BITS) - 1
_SIZE_MASK: Final = (1 << _SIZE_BITS) - 1
_NOWHERE: Final = (1 << 63) - 1
_COMPACT_ABOVE: Final = 64


def pack(place: int, id_: int, size: int) -> int:
    """One int that sorts by the first number, be it a place or a time."""
    return place << PLACE_SHIFT | id_ << _SIZE_BITS | size


def unpack(packed: int) -> tuple[int, int, int]:
    """Place, id and size."""
    return packed >> PLACE_SHIFT, packed >> _SIZE_BITS & _ID_MASK, packed & _SIZE_MASK


class Stubs:
    """A heap of them. `ids` are those that are there, `bytes` the sum of their sizes."""

    __slots__ = ("_fetching", "_heap", "bytes", "ids")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._fetching: dict[int, int] = {}  # by id, in the order of their places
        self.ids = IdSet()
        self.bytes = 0

    @property
    def count(self) -> int:
        """How many are there."""
        return self.ids.count

    @property
    def is_fetching(self) -> bool:
        """Are some being read?"""
        return bool(self._fetching)

    def push(self, packed: int) -> None:
        """One more."""
        heappush(self._heap, packed)
        self.ids.add(packed >> _SIZE_BITS & _ID_MASK)
        self.bytes += packed & _SIZE_MASK

    def extend(self, packed: list[int]) -> None:
        """Many at once."""
        self._heap += packed
        heapify(self._heap)
        for each in packed:
            self.ids.add(each >> _SIZE_BITS & _ID_MASK)
            self.bytes += each & _SIZE_MASK

    def first_place(self) -> int:
        """Of the next one; beyond all places if there is none."""
        place = next(iter(self._fetching.values()), _NOWHERE << PLACE_SHIFT) >> PLACE_SHIFT
        heap, ids = self._heap, self.ids
        while heap and heap[0] >> _SIZE_BITS & _ID_MASK not in ids:
            heappop(heap)
        return min(place, heap[0] >> PLACE_SHIFT) if heap else place

    def pop(self) -> tuple[int, int, int]:
        """The next one: place, id and size. There is one."""
        place = self.first_place()
        packed = next(iter(self._fetching.values()), 0)
        if packed and packed >> PLACE_SHIFT == place:
            del self._fetching[packed >> _SIZE_BITS & _ID_MASK]
        else:
            packed = heappop(self._heap)
        self._forget(packed)
        return unpack(packed)

    def remove(self, id_: int, size: int) -> bool:
        """This one is not there any more; was it?"""
        if not self.ids.discard(id_):
            return False
        self._fetching.pop(id_, None)
        self.bytes -= size
        if len(self._heap) > _COMPACT_ABOVE and len(self._heap) > 2 * self.count:
            self._heap = [e for e in self._heap if e >> _SIZE_BITS & _ID_MASK in self.ids]
            heapify(self._heap)
        return True

    def _forget(self, packed: int) -> None:
        self.ids.discard(packed >> _SIZE_BITS & _ID_MASK)
        self.bytes -= packed & _SIZE_MASK

    def clear(self) -> None:
        """There are none any more."""
        self._heap.clear()
        self._fetching.clear()
        self.ids = IdSet()
        self.bytes = 0

    def copy(self) -> Stubs:
        """One that changes on its own."""
        other = Stubs()
        other._heap, other._fetching = self._heap[:], dict(self._fetching)
        other.ids, other.bytes = self.ids.copy(), self.bytes
        return other

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Place, id and size of each, in no particular order."""
        for packed in (*self._fetching.values(), *self._heap):
            if packed >> _SIZE_BITS & _ID_MASK in self.ids:
                yield unpack(packed)

    # -- fetching ---------------------------------------------------------------------------

    def begin_fetch(self, below: int, most: int, bytes_most: int) -> list[int]:
        """The next ones whose place is below `below` are to be read: their ids.

        At most `most` of them with `bytes_most` of bodies, but one in any case.
        """
        assert not self._fetching, "one after the other"
        left = bytes_most
        while len(self._fetching) < most and self.first_in_heap() < below:
            size = self._heap[0] & _SIZE_MASK
            if self._fetching and size > left:
                break
            left -= size
            packed = heappop(self._heap)
            self._fetching[packed >> _SIZE_BITS & _ID_MASK] = packed
        return list(self._fetching)

    def first_in_heap(self) -> int:
        """The place of the next one that is not being read."""
        heap, ids = self._heap, self.ids
        while heap and heap[0] >> _SIZE_BITS & _ID_MASK not in ids:
            heappop(heap)
        return heap[0] >> PLACE_SHIFT if heap else _NOWHERE

    def fetched(self, id_: int) -> int:
        """It was read, or never will be: it is no stub any more. Its place; 0: it was none."""
        packed = self._fetching.pop(id_, 0)
        if packed:
            self._forget(packed)
        return packed >> PLACE_SHIFT

    def put_back(self) -> None:
        """What is being read is not, after all."""
        for packed in self._fetching.values():
            heappush(self._heap, packed)
        self._fetching.clear()
