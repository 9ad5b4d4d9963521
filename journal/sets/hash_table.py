"""Remembered entries by hash: ids that were stored, and versions written under keys. No I/O.

    an entry   hash 16 | time_ms u64 | item u64 | of a key: version u64; of an id: fingerprint u64

    by the upper bits of the hash, into buckets of about 32 entries, one after the other
    [ bucket ][ bucket ][ bucket ][ bucket ]      one more bucket is split for every 32 entries
      |   |     |   |       |         |           that come, and two are joined again for
    [  ][  ]  [  ][  ]  . . (the next row)        those that go: never all of them at once

A bucket is one run of bytes, so an entry costs little more than its own bytes. A search looks for
the last byte of the hash: one slice of the bucket has the last bytes of all its hashes, and few are
the same. Buckets are in the order of hashes, so sorted entries fill them run by run.

One rule: a hash may have several entries; the last one counts.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 16
ID: Final = struct.Struct("<16sQQQ")
BARE_ID: Final = struct.Struct("<16sQQ")  # an id as earlier versions wrote it: no fingerprint
KEY: Final = struct.Struct("<16sQQQ")
_TIME: Final = struct.Struct("<Q")
_prefix: Final = struct.Struct(">I").unpack_from
# Entries for each bucket. A longer bucket takes longer to load from memory and to search; a shorter
# one costs too much memory of its own for the entries that it has.
_MEAN: Final = 32
_SPARSE: Final = 8  # with fewer entries for each bucket, buckets are joined
_PREFIX_BITS: Final = 32
_BUCKETS_BITS_MAX: Final = 28
_GONE: Final = bytearray()


def keyed(secret: bytes, what: bytes = b"") -> blake2b:
    """Return the prefix for `hash_of`: only the owner of the secret can make two texts collide.

    Hashes with another `what`, up to 16 bytes, never collide.
    """
    return blake2b(key=secret, digest_size=HASH_BYTES, person=what)


def hash_of(base: blake2b, text: bytes) -> bytes:
    """Return the hash of an id or a key."""
    made = base.copy()
    made.update(text)
    return made.digest()


def with_fingerprints(entries: bytes) -> bytes:
    """Return the ids of an earlier version as entries with the fingerprint 0, unknown."""
    return b"".join(ID.pack(*entry, 0) for entry in BARE_ID.iter_unpack(entries))


class Table:
    """Entries of one width, by their hashes. `count` are there, each with its time."""

    __slots__ = (
        "_entry", "_hash_tops", "_next", "_room", "_row", "_shift", "_swept", "_whole", "count",
        "width",
    )  # fmt: skip

    def __init__(self, entry: struct.Struct, expected: int = 0) -> None:
        """`expected` is how many will be loaded, so that nothing has to be split for them."""
        self._entry = entry
        self.width = entry.size
        self._whole = struct.Struct(f"{entry.size}s")
        self._hash_tops = slice(HASH_BYTES - 1, None, entry.size)  # the last bytes of hashes
        bits = 0
        while expected > _MEAN << bits and bits < _BUCKETS_BITS_MAX:
            bits += 1
        self._shift = _PREFIX_BITS - bits
        self._row = [bytearray() for _ in range(1 << bits)]
        self._room = _MEAN << bits  # enough buckets for this many entries
        self._next: list[bytearray] = []  # the next row: two buckets for each one that was split
        self._swept = 0  # the bucket of this row that is swept next
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def bucket(self, hash_: bytes) -> bytearray:
        """Return the bucket of this hash; valid until the next change."""
        prefix: int = _prefix(hash_)[0]
        shift = self._shift
        at = prefix >> shift
        if at << 1 < len(self._next):
            return self._next[prefix >> shift - 1]
        return self._row[at]

    def seek(self, hash_: bytes) -> tuple[bytearray, int]:
        """Return the bucket of this hash, and the position of its last entry; below 0: there is
        none.
        """
        prefix: int = _prefix(hash_)[0]
        at = prefix >> self._shift
        split = self._next
        bucket = self._row[at] if at << 1 >= len(split) else split[prefix >> self._shift - 1]
        marks, mark, width = bucket[self._hash_tops], hash_[-1], self.width
        found = marks.rfind(mark)
        while found >= 0 and not bucket.startswith(hash_, found * width):
            found = marks.rfind(mark, 0, found)
        return bucket, found * width

    def find(self, hash_: bytes) -> tuple[bytearray, int] | None:
        """Return the last entry of this hash; None: there is none."""
        bucket, found = self.seek(hash_)
        return (bucket, found) if found >= 0 else None

    def add(self, entry: bytes) -> None:
        """Add an entry, whether there is one of this hash or not."""
        self.add_to(self.bucket(entry), entry)

    def add_to(self, bucket: bytearray, entry: bytes) -> None:
        """Add an entry to a known bucket."""
        bucket += entry
        self.count = count = self.count + 1
        if count > self._room:
            self._split()

    def put(self, entry: bytes) -> None:
        """Replace the entry of its hash, or add it."""
        bucket, at = self.seek(entry[:HASH_BYTES])
        if at < 0:
            self.add_to(bucket, entry)
        else:
            bucket[at : at + self.width] = entry

    def load(self, entries: bytes) -> None:
        """Add many entries, sorted by hash; quick unless they are few for the number of buckets."""
        shift, width, row = self._shift, self.width, self._row
        words = memoryview(entries).cast("I")[:: width // 4]
        prefixes = array("I", words.tolist())
        assert prefixes.itemsize == 4
        prefixes.byteswap()
        start, last = 0, len(prefixes)
        buckets = range(prefixes[0] >> shift, (prefixes[-1] >> shift) + 1) if last else range(0)
        if self._next or last < len(buckets):
            for at in range(0, len(entries), width):
                self.add(entries[at : at + width])
            return
        for at in buckets:
            stop = bisect_left(prefixes, at + 1 << shift, start) if at + 1 < len(row) else last
            if stop > start:
                row[at] += entries[start * width : stop * width]
                start = stop
        self.count += last

    def sweep(self, before_ms: int, buckets: int) -> int:
        """Drop the entries of some buckets whose time is before `before_ms`; return how many.

        Each call goes on with the buckets after those of the last call.
        """
        dropped = 0
        for _ in range(buckets):
            if self._swept >= len(self._row):
                self._swept = 0
            at = self._swept
            if at << 1 < len(self._next):
                dropped += self._drop(self._next, at << 1, before_ms)
                dropped += self._drop(self._next, (at << 1) + 1, before_ms)
            else:
                dropped += self._drop(self._row, at, before_ms)
            self._swept = at + 1
            if self.count * _MEAN < _SPARSE * self._room:
                self._join()
        if not self.count and (self._next or len(self._row) > 1):
            self._row, self._next, self._shift = [bytearray()], [], _PREFIX_BITS
            self._room = _MEAN
        return dropped

    @property
    def buckets(self) -> int:
        """How many buckets there are to sweep."""
        return len(self._row)

    def __iter__(self) -> Iterator[bytes]:
        """Every entry, in no order; for tests and tools."""
        width = self.width
        for bucket in (*self._next, *self._row[len(self._next) >> 1 :]):
            for at in range(0, len(bucket), width):
                yield bytes(bucket[at : at + width])

    def _drop(self, row: list[bytearray], index: int, before_ms: int) -> int:
        bucket, width = row[index], self.width
        times = [entry[1] for entry in self._entry.iter_unpack(bucket)]
        if not times or min(times) >= before_ms:
            return 0
        kept = bytearray().join(
            bucket[at * width : (at + 1) * width]
            for at, time_ms in enumerate(times)
            if time_ms >= before_ms
        )
        dropped = (len(bucket) - len(kept)) // width
        row[index] = kept
        self.count -= dropped
        return dropped

    def _split(self) -> None:
        """Make one bucket of this row two of the next."""
        if self._shift <= _PREFIX_BITS - _BUCKETS_BITS_MAX:
            return
        at = len(self._next) >> 1
        bucket, self._row[at] = self._row[at], _GONE
        bit = _PREFIX_BITS - self._shift
        byte, mask = bit >> 3, 0x80 >> (bit & 7)
        low, high = list[bytes](), list[bytes]()
        for (entry,) in self._whole.iter_unpack(bucket):
            (high if entry[byte] & mask else low).append(entry)
        self._next += (bytearray().join(low), bytearray().join(high))
        self._room += _MEAN
        if at + 1 == len(self._row):
            self._row, self._next = self._next, []
            self._shift -= 1

    def _join(self) -> None:
        """Make two buckets of the next row one of this, or of the one before it."""
        if not self._next:
            if len(self._row) == 1:
                return
            self._next, self._row = self._row, [_GONE] * (len(self._row) >> 1)
            self._shift += 1
            self._swept >>= 1
        high, low = self._next.pop(), self._next.pop()
        self._row[len(self._next) >> 1] = low + high
        self._room -= _MEAN


def time_of(bucket: bytearray, at: int) -> int:
    """Return the time of the entry at this position."""
    time_ms: int = _TIME.unpack_from(bucket, at + HASH_BYTES)[0]
    return time_ms
