"""Millions of due times in order: 20 bytes each, in chunks that never change.

    chunks   [ due u64 | id u64 | size u32, ... ]  [ ... ]  [ ... ]     big-endian: sorted as bytes
    lasts                                      ^         ^         ^    the last entry of each
             ^ at: the entries before it have been popped

A new entry replaces the one chunk that it belongs to; a full chunk becomes two. So each step costs
a chunk or two at most, a copy shares all chunks, and the garbage collector has no objects to visit.

One rule: all entries are in order, and different.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from journal.sets import IdSet

ENTRY: Final = struct.Struct(">QQI")  # due, id, size
CHUNK_ENTRIES: Final = 256
_ENTRY_BYTES: Final = ENTRY.size
_CHUNK_BYTES: Final = CHUNK_ENTRIES * _ENTRY_BYTES
_MERGED_BYTES: Final = _CHUNK_BYTES // 2  # two neighbours up to this size together become one
_ID: Final = struct.Struct(">Q")
_ID_AT: Final = 8

Due = tuple[int, int, int]  # due time, id, size


class DueTimes:
    """A sorted list of `count` due times. Adding one and popping the first take little time."""

    __slots__ = ("_at", "_chunks", "_lasts", "_tidied", "count")

    def __init__(self, entries: Iterable[Due] = ()) -> None:
        self._chunks: list[bytes] = []
        self._lasts: list[bytes] = []
        self._at = 0
        self._tidied = 0  # this round has tidied the chunks before this one
        self.count = 0
        if entries != ():  # most queues never have any
            packed = sorted(ENTRY.pack(*entry) for entry in entries)
            for start in range(0, len(packed), CHUNK_ENTRIES):
                chunk = b"".join(packed[start : start + CHUNK_ENTRIES])
                self._chunks.append(chunk)
                self._lasts.append(chunk[-_ENTRY_BYTES:])
            self.count = len(packed)

    def add(self, due: int, id_: int, size: int) -> None:
        """Add an entry."""
        entry = ENTRY.pack(due, id_, size)
        self.count += 1
        lasts, chunks = self._lasts, self._chunks
        number = bisect_left(lasts, entry)
        if number == len(lasts):
            if number and len(chunks[-1]) < _CHUNK_BYTES:
                chunks[-1] += entry
                lasts[-1] = entry
            else:
                chunks.append(entry)
                lasts.append(entry)
            return
        self._trim(number)
        chunk = chunks[number]
        at = place_in(chunk, entry)
        if len(chunk) < _CHUNK_BYTES:
            chunks[number] = b"".join((chunk[:at], entry, chunk[at:]))
            return
        whole = b"".join((chunk[:at], entry, chunk[at:]))
        middle = CHUNK_ENTRIES // 2 * _ENTRY_BYTES
        chunks[number : number + 1] = [whole[:middle], whole[middle:]]
        lasts.insert(number, whole[middle - _ENTRY_BYTES : middle])

    def add_once(self, due: int, id_: int, size: int) -> None:
        """Add an entry unless it is there."""
        entry = ENTRY.pack(due, id_, size)
        number = bisect_left(self._lasts, entry)
        if number < len(self._lasts):
            self._trim(number)
            at = place_in(self._chunks[number], entry)
            if self._chunks[number][at : at + _ENTRY_BYTES] == entry:
                return
        self.add(due, id_, size)

    def add_behind(self, entries: bytes) -> None:
        """Append packed entries that all sort after the present ones."""
        for start in range(0, len(entries), _CHUNK_BYTES):
            chunk = entries[start : start + _CHUNK_BYTES]
            self.count += len(chunk) // _ENTRY_BYTES
            if self._chunks and len(self._chunks[-1]) + len(chunk) <= _CHUNK_BYTES:
                self._chunks[-1] += chunk
                self._lasts[-1] = chunk[-_ENTRY_BYTES:]
            else:
                self._chunks.append(chunk)
                self._lasts.append(chunk[-_ENTRY_BYTES:])

    def first(self) -> Due | None:
        """Return the first entry; None: there is none."""
        return ENTRY.unpack_from(self._chunks[0], self._at) if self._chunks else None

    def pop(self) -> Due:
        """Remove and return the first entry. The caller knows that there is one."""
        chunk = self._chunks[0]
        due, id_, size = ENTRY.unpack_from(chunk, self._at)
        self.count -= 1
        self._at += _ENTRY_BYTES
        if self._at == len(chunk):
            del self._chunks[0], self._lasts[0]
            self._at = 0
        return due, id_, size

    def find(self, id_: int) -> Due | None:
        """Return the entry of this id. Searches all entries: a few milliseconds for a million."""
        found = self._find(id_)
        return None if found is None else ENTRY.unpack_from(self._chunks[found[0]], found[1])

    def remove(self, id_: int) -> bool:
        """Remove the entry of this id; return False if there is none. Searches all entries."""
        found = self._find(id_)
        if found is None:
            return False
        number, at = found
        chunk = self._chunks[number]
        start = 0 if number else self._at
        self._replace(number, b"".join((chunk[start:at], chunk[at + _ENTRY_BYTES :])))
        return True

    def take(self, due: int) -> int:
        """Remove the first entry of this due time; return its size, 0 if there is none."""
        number = bisect_left(self._lasts, ENTRY.pack(due, 0, 0))
        if number == len(self._lasts):
            return 0
        self._trim(number)
        chunk = self._chunks[number]
        at = place_in(chunk, ENTRY.pack(due, 0, 0))
        found, _, size = ENTRY.unpack_from(chunk, at)
        if found != due:
            return 0
        self._replace(number, b"".join((chunk[:at], chunk[at + _ENTRY_BYTES :])))
        return int(size)

    def of(self, due: int) -> list[Due]:
        """Return all entries of this due time."""
        found, entry = list[Due](), ENTRY.pack(due, 0, 0)
        number = bisect_left(self._lasts, entry)
        if number == len(self._lasts):
            return found
        self._trim(number)
        at = place_in(self._chunks[number], entry)
        while number < len(self._chunks):
            for each in ENTRY.iter_unpack(self._chunks[number][at:]):
                if each[0] != due:
                    return found
                found.append(each)
            number, at = number + 1, 0
        return found

    def discard(self, due: int, id_: int, size: int) -> None:
        """Remove an entry if it is there."""
        entry = ENTRY.pack(due, id_, size)
        if self._chunks and self._chunks[0].startswith(entry, self._at):
            self.pop()
            return
        number = bisect_left(self._lasts, entry)
        if number == len(self._lasts):
            return
        self._trim(number)
        chunk = self._chunks[number]
        at = place_in(chunk, entry)
        if chunk.startswith(entry, at):
            self._replace(number, b"".join((chunk[:at], chunk[at + _ENTRY_BYTES :])))

    def tidy(self, ids: IdSet) -> None:
        """Remove all entries but those of `ids` from the next chunk."""
        number = self._tidied if self._tidied < len(self._chunks) else 0
        if number < len(self._chunks):
            chunk = self._chunks[number][0 if number else self._at :]
            there = [ENTRY.pack(*each) for each in ENTRY.iter_unpack(chunk) if each[1] in ids]
            self._tidied = number + bool(there)
            self._replace(number, b"".join(there))

    def _replace(self, number: int, chunk: bytes) -> None:
        """Replace a chunk with the part of it that is left."""
        chunks, lasts = self._chunks, self._lasts
        gone = len(chunks[number]) - len(chunk)
        if number == 0:
            gone -= self._at
            self._at = 0
        self.count -= gone // _ENTRY_BYTES
        if number + 1 < len(chunks) and len(chunk) + len(chunks[number + 1]) <= _MERGED_BYTES:
            chunk += chunks.pop(number + 1)
            lasts.pop(number)
        if chunk:
            chunks[number], lasts[number] = chunk, chunk[-_ENTRY_BYTES:]
        else:
            del chunks[number], lasts[number]

    def clear(self) -> None:
        """Remove all entries."""
        self._chunks, self._lasts, self._at, self.count = [], [], 0, 0

    def copy(self) -> DueTimes:
        """Return an independent copy. This is fast: the copy shares the chunks."""
        other = DueTimes()
        other._chunks, other._lasts = self._chunks[:], self._lasts[:]
        other._at, other.count = self._at, self.count
        return other

    def __iter__(self) -> Iterator[Due]:
        """Yield all entries in order."""
        at = self._at
        for chunk in self._chunks:
            yield from ENTRY.iter_unpack(chunk[at:])
            at = 0

    def _find(self, id_: int) -> tuple[int, int] | None:
        """Return the number of the chunk with this id's entry, and the offset in it."""
        wanted, start = _ID.pack(id_), self._at
        for number, chunk in enumerate(self._chunks):
            at = chunk.find(wanted, start)
            while at >= 0:
                if at % _ENTRY_BYTES == _ID_AT:
                    return number, at - _ID_AT
                at = chunk.find(wanted, at + 1)
            start = 0
        return None

    def _trim(self, number: int) -> None:
        """Cut the popped entries off this chunk, if it is the first."""
        if number == 0 and self._at:
            self._chunks[0] = self._chunks[0][self._at :]
            self._at = 0


def place_in(chunk: bytes, entry: bytes) -> int:
    """Return the offset in a chunk of sorted entries at which this one belongs."""
    low, high = 0, len(chunk) // _ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        at = middle * _ENTRY_BYTES
        if chunk[at : at + _ENTRY_BYTES] < entry:
            low = middle + 1
        else:
            high = middle
    return low * _ENTRY_BYTES
