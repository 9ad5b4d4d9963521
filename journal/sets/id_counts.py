"""A small number for some ids, in little more than a byte each.

One rule: memory follows how many pages have a number above 0, never how many ids there are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Protocol

PAGE_IDS: Final = 4096
_COUNTS: Final = struct.Struct(f"<Q{PAGE_IDS}s")
_RANGE: Final = struct.Struct("<QQ")
_MANY: Final = 255  # numbers from here on are in a dict of their own
_MASK: Final = bytes.maketrans(b"01", b"\x00\xff")


class IdPages(Protocol):
    """A set of ids in pages, as `IdSet` is."""

    def word(self, page: int, /) -> int:
        """Return the bits of a page."""

    def __contains__(self, id_: int, /) -> bool: ...


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
        """Return its number."""
        page = self._pages.get(id_ // PAGE_IDS)
        if page is None:
            return 0
        count = page[id_ % PAGE_IDS]
        return count if count < _MANY else self._large[id_]

    def set(self, id_: int, count: int) -> None:
        """Set its number from now on; 0 takes it out."""
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
        """Yield ids and their numbers, rising."""
        for number in sorted(self._pages):
            for at, count in enumerate(bytes(self._pages[number])):
                if count:
                    id_ = number * PAGE_IDS + at
                    yield id_, count if count < _MANY else self._large[id_]

    def retain_only(self, ids: IdPages, up_to: int) -> None:
        """Set all other ids up to `up_to` to 0; those above it are among `ids`."""
        for number in [number for number in self._pages if number <= up_to // PAGE_IDS]:
            page = self._pages[number]
            bits = f"{ids.word(number):0{PAGE_IDS}b}"[::-1].encode()
            stay = int.from_bytes(page, "little") & int.from_bytes(bits.translate(_MASK), "little")
            kept = bytearray(stay.to_bytes(PAGE_IDS, "little"))
            if used := PAGE_IDS - kept.count(0):
                self._pages[number], self._used[number] = kept, used
            else:
                del self._pages[number], self._used[number]
        self._large = {id_: count for id_, count in self._large.items() if id_ in ids}

    def copy(self) -> IdCounts:
        """Return a copy that changes on its own."""
        other = IdCounts()
        if self._pages:
            other._pages = {number: page[:] for number, page in self._pages.items()}
            other._used, other._large = self._used.copy(), self._large.copy()
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
