"""The records about one item, stretch by stretch, from a log that is being written.

    ItemHistory.of ──▶ run (blocks: on a thread) ──▶ records, and where to go on ──▶ ItemHistory.of

The search in a stretch looks for the bytes of the item's number, so it does not decode the records
of other items, which are nearly all of a log.

One rule: a record is handed out only if it is whole and at its own position; a stretch ends after
STRETCH_BYTES, whatever was found.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from journal.files import Files
from journal.format import FILE_HEADER_BYTES, HEADER_BYTES, OF_MANY, Kind, Record
from journal.read.cursor import ITEM_AT, KIND_AT, PIECE_BYTES, header_with
from journal.read.seek import Extent
from journal.write import Journal, Segment

STRETCH_BYTES: Final = 8 << 20
RECORDS_MAX: Final = 500  # of one stretch
_ITEM: Final = struct.Struct("<Q")
_ENTRY: Final = struct.Struct("<QQII")  # of DONE_MANY


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """The records of a stretch, in order. `end` is where it ended in its segment."""

    records: list[Record]
    end: int
    bytes_looked: int


@dataclass(frozen=True, slots=True)
class ItemHistory:
    """One stretch. `start` -1: where the put of the item may be. From the lsn `limit` on (0: there
    is none) newer segments repeat the records.

    `is_after_gap`: records between the previous stretch and this one are gone, or this stretch has
    only puts left. `bytes_behind` are in the segments after this one.
    """

    extent: Extent
    start: int
    item: int
    limit: int
    is_after_gap: bool
    bytes_behind: int

    @classmethod
    def of(cls, journal: Journal, item: int, place: tuple[int, int] | None) -> ItemHistory | None:
        """Return the stretch at this place (segment and offset), or the one with the item's put;
        None: there is no such place, or no put."""
        segments = journal.segments
        at = next((i for i, each in enumerate(segments) if _is_at(each, item, place)), -1)
        if at < 0:
            return None
        segment = segments[at]
        extent = Extent.of(journal, segment)
        before = segments[at - 1] if at and place is not None else None
        start = place[1] if place is not None else -1
        is_begun = start > FILE_HEADER_BYTES
        is_after_gap = _is_compacted(segment) or (
            before is not None and not is_begun and before.lsn_last + 1 < segment.lsn_first
        )
        behind = segments[at + 1 :]
        return cls(
            extent, start, item, behind[0].lsn_first if behind else 0, is_after_gap,
            sum(journal.written_end(each) for each in behind),
        )  # fmt: skip

    def run(self, files: Files) -> HistoryPart:
        """Read and check the records. Blocks; raises OSError."""
        extent, records, many = self.extent, list[Record](), set[tuple[int, int]]()
        wanted = header_with(
            extent.journal, extent.number,
            (ITEM_AT, [_ITEM.pack(self.item)]), (KIND_AT, [bytes([kind]) for kind in OF_MANY]),
        )  # fmt: skip
        start = self.start if self.start >= 0 else extent.seek_item(files, self.item)
        cursor = extent.cursor(files, start, PIECE_BYTES)
        for record in cursor.search(wanted, start + STRETCH_BYTES, PIECE_BYTES):
            if self._is_wanted(record, many):
                records.append(record)
                if len(records) == RECORDS_MAX:
                    break
        end = min(cursor.at, extent.stop)
        return HistoryPart(records, end, max(end - start, 0))

    def _is_wanted(self, record: Record, many: set[tuple[int, int]]) -> bool:
        """True if the record may be about the item; `many` are the kinds of those found.

        Of each kind about many items the first one in a stretch is enough.
        """
        if self.limit and record.lsn >= self.limit:
            return False
        if record.kind == Kind.DONE_MANY:
            return any(entry[0] == self.item for entry in _ENTRY.iter_unpack(record.body))
        if record.kind not in (Kind.FLUSHED, Kind.UPTO):
            return record.item == self.item
        upto = record.item if record.kind == Kind.FLUSHED else record.number
        if upto < self.item or (record.kind, record.reader) in many:
            return False
        many.add((record.kind, record.reader))
        return True

    def next_place(self, journal: Journal, part: HistoryPart) -> tuple[int, int] | None:
        """Return where the next stretch begins; None: the log ends here."""
        if part.end + HEADER_BYTES <= self.extent.stop:
            return self.extent.number, part.end
        segments = journal.segments
        for at, segment in enumerate(segments[:-1]):
            if segment.number == self.extent.number:
                return segments[at + 1].number, FILE_HEADER_BYTES
        return None


def _is_at(segment: Segment, item: int, place: tuple[int, int] | None) -> bool:
    if place is not None:
        return segment.number == place[0]
    return 0 < segment.item_first <= item <= segment.item_last


def _is_compacted(segment: Segment) -> bool:
    """True if it has only the puts of live items."""
    return segment.rank not in (0, segment.number)
