"""Disk references: ready items out of order whose bodies only the log has, one number each.

    place u64 | id u64 | size u32      20 bytes in order of places (`DueTimes`, of places here)
    in order ──▶ fetching: their puts are being read ──▶ in memory, at their place

A put may also be read for what it says of an item that is no disk reference, or not next: `unsure`.

One rule: a disk reference counts as ready until it is taken, fetched or removed. An entry that
leaves from the middle is taken out of `ids` at once and passed over later. It never returns,
because a place is given once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from journal.sets import IdSet
from kestrelpy.core.index.markers import Release
from kestrelpy.core.index.sorted_table import DueTimes

_ID_BITS: Final = 64
_SIZE_BITS: Final = 32
PLACE_SHIFT: Final = _ID_BITS + _SIZE_BITS
_ID_MASK: Final = (1 << _ID_BITS) - 1
_SIZE_MASK: Final = (1 << _SIZE_BITS) - 1
_NOWHERE: Final = (1 << 63) - 1
_COMPACT_ABOVE: Final = 64


def pack(place: int, id_: int, size: int) -> int:
    """Return one int that sorts by the first number, which may be a place or a time."""
    return place << PLACE_SHIFT | id_ << _SIZE_BITS | size


def unpack(packed: int) -> tuple[int, int, int]:
    """Return place, id and size."""
    return packed >> PLACE_SHIFT, packed >> _SIZE_BITS & _ID_MASK, packed & _SIZE_MASK


class DiskRefs:
    """Disk references in order. `ids` are the present items, `bytes` the sum of their sizes.

    `unsure` are items whose expiry, or key, only the log knows; their puts are read soon.
    """

    __slots__ = ("_fetching", "_is_looking", "_waiting", "bytes", "ids", "unsure")

    def __init__(self) -> None:
        self._waiting = DueTimes()
        self._fetching: dict[int, int] = {}  # by id, in the order of their places
        self._is_looking = False  # True while puts of `unsure` are being read
        self.ids = IdSet()
        self.unsure = IdSet()
        self.bytes = 0

    @property
    def count(self) -> int:
        """The number of disk references."""
        return self.ids.count

    @property
    def is_fetching(self) -> bool:
        """True if some are being read."""
        return bool(self._fetching) or self._is_looking

    def push(self, packed: int) -> None:
        """Add a disk reference."""
        place, id_, size = unpack(packed)
        self._waiting.add(place, id_, size)
        self.ids.add(id_)
        self.bytes += size

    def push_last(self, entries: bytes, released: Iterable[Release]) -> None:
        """Add these after all others; `entries` are the same items in the form of `DueTimes`."""
        self._waiting.add_behind(entries)
        for _, id_, size, _ in released:
            self.ids.add(id_)
            self.bytes += size

    def begin(self, packed: list[int]) -> None:
        """After replay, set the disk references to these."""
        self._waiting = DueTimes(map(unpack, packed))
        for each in packed:
            self.ids.add(each >> _SIZE_BITS & _ID_MASK)
            self.bytes += each & _SIZE_MASK

    def first_place(self) -> int:
        """Return the place of the next one; a number beyond all places if there is none."""
        place = next(iter(self._fetching.values()), _NOWHERE << PLACE_SHIFT) >> PLACE_SHIFT
        return min(place, self.first_in_line())

    def pop(self) -> tuple[int, int, int]:
        """Remove the next one; return place, id and size. The caller knows that there is one."""
        place = self.first_place()
        packed = next(iter(self._fetching.values()), 0)
        if packed and packed >> PLACE_SHIFT == place:
            del self._fetching[packed >> _SIZE_BITS & _ID_MASK]
        else:
            packed = pack(*self._waiting.pop())
        self._forget(packed)
        return unpack(packed)

    def size_of(self, id_: int) -> int:
        """Return the size of a present item. Searches the entries."""
        packed = self._fetching.get(id_)
        if packed is not None:
            return packed & _SIZE_MASK
        found = self._waiting.find(id_)
        return found[2] if found is not None else 0

    def remove(self, id_: int, size: int) -> bool:
        """Remove an item; return False if it was not present."""
        if not self.ids.discard(id_):
            return False
        self._fetching.pop(id_, None)
        self.bytes -= size
        if not self.ids.count:
            self._waiting.clear()
        elif self._waiting.count > _COMPACT_ABOVE and self._waiting.count > 2 * self.count:
            self._waiting.tidy(self.ids)
        return True

    def _forget(self, packed: int) -> None:
        self.ids.discard(packed >> _SIZE_BITS & _ID_MASK)
        self.bytes -= packed & _SIZE_MASK

    def clear(self) -> None:
        """Remove all disk references."""
        self._waiting.clear()
        self._fetching.clear()
        self.ids, self.unsure = IdSet(), IdSet()
        self.bytes = 0

    def copy(self) -> DiskRefs:
        """Return an independent copy."""
        other = DiskRefs()
        other._waiting, other._fetching = self._waiting.copy(), dict(self._fetching)
        other.ids, other.bytes = self.ids.copy(), self.bytes
        return other

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield place, id and size of each, in no particular order."""
        for each in chain(map(unpack, self._fetching.values()), self._waiting):
            if each[1] in self.ids:
                yield each

    # -- fetching ---------------------------------------------------------------------------

    def begin_fetch(self, below: int, most: int, bytes_most: int) -> list[int]:
        """Begin to read the next ones with a place below `below`; return their ids.

        At most `most` of them, with at most `bytes_most` of bodies, but the first in any case.
        """
        assert not self._fetching, "one after the other"
        left = bytes_most
        while len(self._fetching) < most and self.first_in_line() < below:
            first = self._waiting.first()
            if first is None or (self._fetching and first[2] > left):
                break
            left -= first[2]
            self._fetching[first[1]] = pack(*self._waiting.pop())
        return list(self._fetching)

    def begin_look(self, most: int) -> list[int]:
        """Begin to read the puts of up to `most` of `unsure`; return their ids."""
        found, id_ = list[int](), self.unsure.first_from(1)
        while id_ and len(found) < most:
            if id_ not in self._fetching:
                found.append(id_)
            id_ = self.unsure.first_from(id_ + 1)
        self._is_looking = bool(found)
        return found

    def end_look(self) -> None:
        """End the look: the puts that were read are known, the others are read again."""
        self._is_looking = False

    def first_in_line(self) -> int:
        """Return the place of the next one that is not being read."""
        waiting, ids = self._waiting, self.ids
        while (first := waiting.first()) is not None and first[1] not in ids:
            waiting.pop()
        return _NOWHERE if first is None else first[0]

    def fetched(self, id_: int) -> int:
        """Remove an item that was read, or cannot be; return its place, 0: it was not fetching."""
        packed = self._fetching.pop(id_, 0)
        if packed:
            self._forget(packed)
        return packed >> PLACE_SHIFT

    def put_back(self) -> None:
        """End the fetch: the items that were being read, and were not, wait again."""
        self._is_looking = False
        for packed in self._fetching.values():
            self._waiting.add(*unpack(packed))
        self._fetching.clear()
