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

from journal.files import Files, is_shortage
from journal.format import FILE_HEADER_BYTES, Kind, Record
from journal.read.cursor import Cursor
from journal.read.seek import Extent
from journal.write import Journal

PIECE_BYTES: Final = 64 << 10  # read at once
PIECE_BYTES_OF_ONE: Final = 256 << 10  # ... where a search has come as near as it comes
# An item further ahead than this is searched by halving, not by walking.
NEAR_ITEMS: Final = 128
NEAR_BYTES: Final = 16 << 10  # so near is near enough
_PUT: Final = int(Kind.PUT)


@dataclass(frozen=True, slots=True)
class ReadOne:
    """One item's put, wherever in its segment it is."""

    extent: Extent
    item: int

    @classmethod
    def of(cls, journal: Journal, item: int) -> ReadOne | None:
        """Return how to read the item; None: no segment holds it, or it is not written yet."""
        segment = journal.segment_list.segment_of(item)
        return cls(Extent.of(journal, segment), item) if segment is not None else None

    def run(self, files: Files) -> Record | None:
        """Return the record; None: it is not readable. Blocks; raises OSError."""
        start = self.extent.seek_item(files, self.item)
        return _put_of(self.extent.cursor(files, start, PIECE_BYTES_OF_ONE), self.item)


@dataclass(slots=True)
class FoundRecords:
    """The records that were read, by item. `reasons` has the items that the disk did not give.

    After a `shortage` read the items that are missing again: the disk may give them.
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
            segment = journal.segment_list.segment_of(id_)
            if segment is None:
                continue
            if segment.number not in parts:
                parts[segment.number] = Extent.of(journal, segment), []
            parts[segment.number][1].append(id_)
        return cls(tuple((extent, tuple(some)) for extent, some in parts.values()))

    def run(self, files: Files) -> FoundRecords:
        """Read and check them. Blocks; never raises OSError."""
        found = FoundRecords()
        for extent, ids in self.parts:
            cursor, before = extent.cursor(files, FILE_HEADER_BYTES, PIECE_BYTES), -NEAR_ITEMS
            for id_ in ids:
                try:
                    if id_ - before > NEAR_ITEMS:
                        start = extent.seek_item(files, id_, NEAR_BYTES)
                        cursor.at = max(cursor.at, start)
                    before = id_
                    record = _put_of(cursor, id_)
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


def _put_of(cursor: Cursor, item: int) -> Record | None:
    """Return the put of this item; None: it is not here. All puts before the position are of lower
    items."""
    while (record := cursor.next()) is not None:
        if record.kind == _PUT and record.item >= item:
            if record.item == item:
                return record
            cursor.at = record.offset  # it may be the put of the next wanted item
            return None
    return None
