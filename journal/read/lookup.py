"""Look-ups: the puts of items that are known by id, wherever in the log they are.

    ids, rising ──▶ by segment ──▶ near the last one: walk on; else: seek ──▶ their records

The ready list is read in its order (`readahead`); this is for items out of order. A few dozen are
read at once, so that neighbours cost one pass, and items far apart a search each.

One rule: a record is handed out only if it is whole and at its own position; the caller learns
which items were not found, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from journal.files import Files, is_shortage, read_around
from journal.format import ALIGN_BYTES, HEADER_BYTES, Kind, Record, decode, frame_bytes, padded
from journal.read.seek import Extent, find_frame
from journal.read.segment_read import PLACED, SegmentRead
from journal.write import Journal

PIECE_BYTES: Final = 64 << 10  # read at once
PIECE_BYTES_OF_ONE: Final = 256 << 10  # ... where a search has come as near as it comes
# An item further ahead than this is searched by halving instead of walking.
NEAR_ITEMS: Final = 128
NEAR_BYTES: Final = 16 << 10  # so near is near enough
_PUT: Final = int(Kind.PUT)


@dataclass(frozen=True, slots=True)
class ReadOne:
    """One item's put, wherever in its segment it is."""

    path: str
    journal: int
    number: int
    stop: int
    item: int

    @classmethod
    def of(cls, journal: Journal, item: int) -> ReadOne | None:
        """Return how to read the item; None: no segment holds it, or it is not written yet."""
        segment = journal.segment_list.holding(item)
        if segment is None:
            return None
        stop = journal.written_end(segment)
        return cls(segment.path, journal.short_identity, segment.number, stop, item)

    def run(self, files: Files) -> Record | None:
        """Return the record; None: it is not readable. Blocks; raises OSError."""
        order = SegmentRead(self.path, self.journal, self.number, -1, self.stop, 0, self.item)
        start, needed = order.seek(files), 0
        while start < self.stop:
            size = min(max(PIECE_BYTES_OF_ONE, needed), self.stop - start)
            data = read_around(files, self.path, start, size)
            at = find_frame(data, 0, start, self.journal, self.number)
            while at >= 0:
                record = decode(data, at, self.journal, self.number, start)
                if record is not None and record.kind == _PUT and record.item == self.item:
                    return record
                _, length, *_ = PLACED.unpack_from(data, at)
                if record is None and len(data) < at + length <= self.stop - start:
                    break  # its end was not read
                behind = at + ALIGN_BYTES if record is None else record.end - start
                at = find_frame(data, behind, start, self.journal, self.number)
            if len(data) < size:
                return None
            if at >= 0:
                start, needed = start + at, padded(length)
            else:
                start += max(size - HEADER_BYTES, ALIGN_BYTES) // ALIGN_BYTES * ALIGN_BYTES
        return None


@dataclass(slots=True)
class Found:
    """The records that were read, by item. `reasons` has the items that the disk did not give.

    After a `shortage` there may be more: these are to be read again.
    """

    records: dict[int, Record] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    shortage: OSError | None = None


@dataclass(frozen=True, slots=True)
class ReadSome:
    """Items to be read: for each segment that holds some, their ids, rising."""

    parts: tuple[tuple[Extent, tuple[int, ...]], ...]

    @classmethod
    def of(cls, journal: Journal, ids: Sequence[int]) -> ReadSome:
        """Return how to read these items; those that no segment holds (yet) are left out."""
        parts: dict[int, tuple[Extent, list[int]]] = {}
        for id_ in sorted(ids):
            segment = journal.segment_list.holding(id_)
            if segment is None:
                continue
            if segment.number not in parts:
                parts[segment.number] = Extent.of(journal, segment), []
            parts[segment.number][1].append(id_)
        return cls(tuple((extent, tuple(some)) for extent, some in parts.values()))

    def run(self, files: Files) -> Found:
        """Read and check them. Blocks; never raises OSError."""
        found = Found()
        for extent, ids in self.parts:
            walk = _Walk(files, extent)
            for id_ in ids:
                try:
                    record = walk.find(id_)
                except OSError as error:
                    if is_shortage(error):
                        found.shortage = error
                        return found
                    found.reasons[id_] = error.strerror or str(error)
                else:
                    if record is not None:
                        found.records[id_] = record
        return found

    def number(self, id_: int) -> int:
        """Return the segment in which this item is looked for; 0: none."""
        return next((extent.number for extent, ids in self.parts if id_ in ids), 0)


class _Walk:
    """Forward through the puts of one segment: those before byte `_at` are below `_item`."""

    __slots__ = ("_at", "_base", "_data", "_extent", "_files", "_item")

    def __init__(self, files: Files, extent: Extent) -> None:
        self._files = files
        self._extent = extent
        self._base = 0
        self._data = b""
        self._at = 0
        self._item = 0

    def find(self, id_: int) -> Record | None:
        """Return the put of this item, above all ids asked for before; None: it is not here."""
        if not self._at or id_ - self._item > NEAR_ITEMS:
            found = self._extent.seek_item(self._files, id_, NEAR_BYTES)
            self._at = max(found, self._at)
        while (record := self._next()) is not None:
            if record.kind == _PUT:
                if record.item > id_:
                    return None  # it may be the next one that is asked for
                self._item = record.item
                if record.item == id_:
                    self._at = record.end
                    return record
            self._at = record.end
        return None

    def _next(self) -> Record | None:
        """Return the next whole record; None: there is none."""
        extent = self._extent
        while self._at + HEADER_BYTES <= extent.stop:
            data = self._have(HEADER_BYTES)
            at = self._at - self._base
            if len(data) - at < HEADER_BYTES:
                return None  # the file ends here
            length = frame_bytes(data, at, extent.journal, extent.number, self._base)
            if HEADER_BYTES <= length <= extent.stop - self._at:
                data = self._have(length)
                at = self._at - self._base
                record = decode(data, at, extent.journal, extent.number, self._base)
                if record is not None:
                    return record
            found = find_frame(data, at + ALIGN_BYTES, self._base, extent.journal, extent.number)
            if found >= 0:
                self._at = self._base + found
            else:  # one may begin so near the end of what is here that it shows only with more
                passed = (len(data) - at - HEADER_BYTES) // ALIGN_BYTES + 1
                self._at += passed * ALIGN_BYTES
        return None

    def _have(self, size: int) -> bytes:
        """Return the bytes here, at least `size` of them if the segment has them."""
        left = self._base + len(self._data) - self._at
        if self._at < self._base or left < size:
            size = min(max(size, PIECE_BYTES), self._extent.stop - self._at)
            self._base = self._at
            self._data = read_around(self._files, self._extent.path, self._at, size)
        return self._data
