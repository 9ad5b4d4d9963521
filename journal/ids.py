"""Sets of item ids, and a small number for some of them, in little more than a bit or a byte each.

Ids are given one after the other and mostly end in that order, so a set of them is one long run at
its upper end and, below it, pages of bits:

    pages below (4096 ids each)                     run
    [ 1 0 0 1 1 1 0 ... ] [ all ] [ 0 0 0 1 ... ]   1048577 ................... 2000000

One rule: memory follows how many pages are neither empty nor full, never how many ids there are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

PAGE_IDS: Final = 4096
_PAGE_BYTES: Final = PAGE_IDS // 8
_ALL: Final = b"\xff" * _PAGE_BYTES
_WHOLE: Final = (1 << PAGE_IDS) - 1
_RANGE: Final = struct.Struct("<QQ")
_BITS: Final = struct.Struct(f"<Q{_PAGE_BYTES}s")
_COUNTS: Final = struct.Struct(f"<Q{PAGE_IDS}s")
_NEAR_PAGES: Final = 64  # looked for one by one
_MANY: Final = 255  # a count from here on stands in a dict of its own


class IdSet:
    """A set of ids, all at least 1. Adding the next id and ending the oldest cost next to nothing.

    Ids in `_first`..`_last` are all there (none is when `_first` is above `_last`); those below
    `_first` stand in pages. A page that is full has a count and no bits.
    """

    __slots__ = ("_bits", "_counts", "_first", "_last", "count")

    def __init__(self) -> None:
        self._bits: dict[int, bytearray] = {}
        self._counts: dict[int, int] = {}
        self._first = 1
        self._last = 0
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __contains__(self, id_: int) -> bool:
        if id_ >= self._first:
            return id_ <= self._last
        page = id_ // PAGE_IDS
        bits = self._bits.get(page)
        if bits is None:
            return page in self._counts
        return bool(bits[id_ % PAGE_IDS >> 3] >> (id_ & 7) & 1)

    def add(self, id_: int) -> None:
        """It is in the set from now on."""
        if id_ == self._last + 1:
            self._last = id_
            self.count += 1
        elif id_ > self._last:
            self._spill(self._last)
            self._first = self._last = id_
            self.count += 1
        elif id_ < self._first and id_ not in self:
            self._set(id_)
            self.count += 1

    def add_range(self, first: int, last: int) -> None:
        """All from `first` to `last`, above every id that is in the set."""
        if last < first:
            return
        assert first > self._last, "a range is added at the upper end"
        if first > self._last + 1:
            self._spill(self._last)
            self._first = first
        self._last = last
        self.count += last - first + 1

    def discard(self, id_: int) -> bool:
        """It is not in the set any more; was it?"""
        if id_ >= self._first:
            if id_ > self._last:
                return False
            if id_ == self._first:
                self._first = id_ + 1
                self.count -= 1
                return True
            self._spill(min(id_ | (PAGE_IDS - 1), self._last))
        page = id_ // PAGE_IDS
        count = self._counts.get(page)
        if count is None:
            return False
        bits = self._bits.get(page)
        if bits is None:
            bits = self._bits[page] = bytearray(_ALL)
        at, bit = id_ % PAGE_IDS >> 3, 1 << (id_ & 7)
        if not bits[at] & bit:
            return False
        self.count -= 1
        if count == 1:
            del self._counts[page], self._bits[page]
        else:
            bits[at] ^= bit
            self._counts[page] = count - 1
        return True

    @property
    def last(self) -> int:
        """The highest id that was ever added, be it gone."""
        return self._last

    def first_from(self, id_: int) -> int:
        """The lowest id in the set that is not below `id_`; 0: there is none."""
        page = id_ // PAGE_IDS
        while id_ < self._first and page >= 0:
            if page in self._counts:
                for found in self._in_page(page):
                    if found >= id_:
                        return found
            page = self._page_behind(page)
        if self._last >= self._first:
            return max(self._first, id_) if id_ <= self._last else 0
        return 0

    def between(self, first: int, last: int) -> IdSet:
        """A set of its own with those from `first` to `last`."""
        part = IdSet()
        low, high = max(first, self._first), min(last, self._last)
        end = min(self._first, last + 1)  # pages hold what is below
        part._first, part._last = (low, high) if low <= high else (end, end - 1)
        for page in self._pages_in(first, last):
            if page * PAGE_IDS < first or page * PAGE_IDS + PAGE_IDS - 1 > last:
                for id_ in self._in_page(page):
                    if first <= id_ <= last:
                        part._set(id_)
            else:
                part._counts[page] = self._counts[page]
                if page in self._bits:
                    part._bits[page] = bytearray(self._bits[page])
        part.count = sum(part._counts.values()) + max(high - low + 1, 0)
        return part

    def without(self, other: IdSet) -> IdSet:
        """A set of its own with those that are not in the other one."""
        made = IdSet()
        for page in sorted(self._counts):
            made._take_page(page, self._word(page) & ~other._word(page))
        first, last = self._first, self._last
        while first <= last:
            page = first // PAGE_IDS
            end = min(page * PAGE_IDS + PAGE_IDS - 1, last)
            run = ((1 << end - first + 1) - 1) << first % PAGE_IDS
            made._take_page(page, run & ~other._word(page))
            first = end + 1
        made._first, made._last = last + 1, last
        return made

    def first_without(self, id_: int, other: IdSet) -> int:
        """The lowest id from `id_` on that is here and not in the other one; 0: there is none."""
        while found := self.first_from(id_):
            page = found // PAGE_IDS
            word = self._word(page) & ~other._word(page)
            word &= ~((1 << found % PAGE_IDS) - 1)
            if word:
                return page * PAGE_IDS + (word & -word).bit_length() - 1
            id_ = (page + 1) * PAGE_IDS
        return 0

    def _word(self, page: int) -> int:
        """The ids of one page, a bit each."""
        bits = self._bits.get(page)
        word = 0
        if bits is not None:
            word = int.from_bytes(bits, "little")
        elif page in self._counts:
            word = _WHOLE
        low = page * PAGE_IDS
        first, last = max(self._first, low), min(self._last, low + PAGE_IDS - 1)
        if first <= last:
            word |= ((1 << last - first + 1) - 1) << first - low
        return word

    def _take_page(self, page: int, word: int) -> None:
        """These bits too."""
        word |= self._word(page)
        self.count -= self._counts.pop(page, 0)
        self._bits.pop(page, None)
        if not word:
            return
        count = self._counts[page] = word.bit_count()
        self.count += count
        if count < PAGE_IDS:
            self._bits[page] = bytearray(word.to_bytes(_PAGE_BYTES, "little"))

    def count_between(self, first: int, last: int) -> int:
        """How many there are from `first` to `last`."""
        found = max(0, min(last, self._last) - max(first, self._first) + 1)
        for page in self._pages_in(first, last):
            if first <= page * PAGE_IDS and page * PAGE_IDS + PAGE_IDS - 1 <= last:
                found += self._counts[page]
            else:
                found += sum(first <= id_ <= last for id_ in self._in_page(page))
        return found

    def keep_only(self, ids: Iterable[int], up_to: int) -> None:
        """Of those up to `up_to`, only these (which are in the set) stay; those above do too."""
        above = self.between(up_to + 1, max(self._last, up_to + 1))
        last = self._last
        self._bits, self._counts = {}, {}
        self._first, self._last, self.count = 1, 0, 0
        for id_ in sorted(ids):
            self.add(id_)
        if above.count:
            for id_ in above:
                self.add(id_)
        elif last > self._last:  # the next id goes on behind the last that was given
            self._spill(self._last)
            self._first, self._last = last + 1, last

    def copy(self) -> IdSet:
        """One that changes on its own."""
        other = IdSet()
        other._bits = {page: bytearray(bits) for page, bits in self._bits.items()}
        other._counts = dict(self._counts)
        other._first, other._last, other.count = self._first, self._last, self.count
        return other

    def __iter__(self) -> Iterator[int]:
        """Every id, rising."""
        for page in sorted(self._counts):
            yield from self._in_page(page)
        yield from range(self._first, self._last + 1)

    def encode(self) -> tuple[bytes, bytes]:
        """Ranges that are whole (first and last, u64 each), and pages of bits (u64, 512 bytes).

        The last range is the run at the upper end; where it is empty, its last is below its first.
        """
        ranges: list[tuple[int, int]] = []
        for page in sorted(set(self._counts) - set(self._bits)):
            first = page * PAGE_IDS
            if ranges and ranges[-1][1] == first - 1:
                first = ranges.pop()[0]
            ranges.append((first, page * PAGE_IDS + PAGE_IDS - 1))
        ranges.append((self._first, self._last))
        pages = (_BITS.pack(page, bytes(self._bits[page])) for page in sorted(self._bits))
        return b"".join(_RANGE.pack(*each) for each in ranges), b"".join(pages)

    @classmethod
    def decode(cls, ranges: bytes, pages: bytes) -> IdSet:
        """The inverse of `encode`; raises ValueError for what it never gave."""
        made = cls()
        whole = [_RANGE.unpack_from(ranges, at) for at in range(0, len(ranges), _RANGE.size)]
        if not whole:
            raise ValueError("a set of ids ends in its run")
        for first, last in whole[:-1]:
            if first % PAGE_IDS or (last + 1) % PAGE_IDS:
                raise ValueError(f"ids {first} to {last} are not whole pages")
            for page in range(first // PAGE_IDS, (last + 1) // PAGE_IDS):
                made._counts[page] = PAGE_IDS
        made._first, made._last = whole[-1]
        for page, bits in _BITS.iter_unpack(pages):
            made._bits[page] = bytearray(bits)
            made._counts[page] = int.from_bytes(bits, "little").bit_count()
        made.count = sum(made._counts.values()) + max(made._last - made._first + 1, 0)
        return made

    def _in_page(self, page: int) -> Iterator[int]:
        low = page * PAGE_IDS
        bits = self._bits.get(page)
        if bits is None:
            yield from range(low, low + PAGE_IDS)
            return
        for at, byte in enumerate(bits):
            if byte:
                first = low + at * 8
                for bit in range(8):
                    if byte >> bit & 1:
                        yield first + bit

    def _pages_in(self, first: int, last: int) -> Iterator[int]:
        """Pages with ids that may be from `first` to `last`, in any order."""
        low, high = first // PAGE_IDS, last // PAGE_IDS
        if high - low < len(self._counts):
            yield from (page for page in range(low, high + 1) if page in self._counts)
        else:
            yield from (page for page in self._counts if low <= page <= high)

    def _page_behind(self, page: int) -> int:
        """The next page with ids; -1: there is none."""
        for near in range(page + 1, page + _NEAR_PAGES):
            if near in self._counts:
                return near
        return min((p for p in self._counts if p > page), default=-1)

    def _set(self, id_: int) -> None:
        page = id_ // PAGE_IDS
        bits = self._bits.get(page)
        if bits is None:
            bits = self._bits[page] = bytearray(_PAGE_BYTES)
        bits[id_ % PAGE_IDS >> 3] |= 1 << (id_ & 7)
        count = self._counts[page] = self._counts.get(page, 0) + 1
        if count == PAGE_IDS:
            del self._bits[page]

    def _spill(self, last: int) -> None:
        """Move the run's ids up to `last` into pages; the run begins behind it."""
        at = self._first
        while at <= last:
            if at % PAGE_IDS == 0 and at + PAGE_IDS - 1 <= last:
                self._counts[at // PAGE_IDS] = PAGE_IDS
                at += PAGE_IDS
            else:
                self._set(at)
                at += 1
        self._first = max(self._first, last + 1)


class IdCounts:
    """A small number for some ids, 0 for all others: how often an item came back."""

    __slots__ = ("_large", "_pages", "_used")

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._used: dict[int, int] = {}
        self._large: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._pages)

    def __len__(self) -> int:
        return sum(self._used.values())

    def get(self, id_: int) -> int:
        """Its number."""
        page = self._pages.get(id_ // PAGE_IDS)
        if page is None:
            return 0
        count = page[id_ % PAGE_IDS]
        return count if count < _MANY else self._large[id_]

    def set(self, id_: int, count: int) -> None:
        """Its number from now on; 0 takes it out."""
        number, at = id_ // PAGE_IDS, id_ % PAGE_IDS
        page = self._pages.get(number)
        if page is None:
            if not count:
                return
            page = self._pages[number] = bytearray(PAGE_IDS)
            self._used[number] = 0
        before = page[at]
        if before == _MANY:
            del self._large[id_]
        page[at] = min(count, _MANY)
        if count >= _MANY:
            self._large[id_] = count
        used = self._used[number] + bool(count) - bool(before)
        if used:
            self._used[number] = used
        else:
            del self._pages[number], self._used[number]

    def items(self) -> Iterator[tuple[int, int]]:
        """Ids and their numbers, rising."""
        for number in sorted(self._pages):
            for at, count in enumerate(self._pages[number]):
                if count:
                    id_ = number * PAGE_IDS + at
                    yield id_, count if count < _MANY else self._large[id_]

    def copy(self) -> IdCounts:
        """One that changes on its own."""
        other = IdCounts()
        other._pages = {number: bytearray(page) for number, page in self._pages.items()}
        other._used, other._large = dict(self._used), dict(self._large)
        return other

    def encode(self) -> tuple[bytes, bytes]:
        """Pages (u64, then a byte for each of 4096 ids), and numbers from 255 on (two u64)."""
        pages = (_COUNTS.pack(n, bytes(page)) for n, page in sorted(self._pages.items()))
        return b"".join(pages), b"".join(_RANGE.pack(*e) for e in sorted(self._large.items()))

    @classmethod
    def decode(cls, pages: bytes, large: bytes) -> IdCounts:
        """The inverse of `encode`."""
        made = cls()
        for number, page in _COUNTS.iter_unpack(pages):
            made._pages[number] = bytearray(page)
            made._used[number] = PAGE_IDS - page.count(0)
        made._large = dict(_RANGE.iter_unpack(large))
        return made
