"""Segments as their writer knows them: how large the next one is, who prepares it, what seals it.

Capacities are whole sectors, and a footer lies within one: a power loss leaves all of a footer or
nothing of it. So a footer that does not parse is damage, never the trace of a crash.

One rule: a segment has room for the record it was ordered for, whatever else stands in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

from journal.files import Files, Handle
from journal.record import HEADER_BYTES, Draft, Kind, RawDraft, encode_meta, padded
from journal.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, SegmentHeader, Tally

GROWTH: Final = 4  # each segment is this many times the last one, up to the largest
SECTOR_BYTES: Final = 512
BATCH_BYTES: Final = HEADER_BYTES
CHECKPOINT_BYTES_MAX: Final = 1024
# What a segment needs beside its records.
OVERHEAD_BYTES: Final = (
    FILE_HEADER_BYTES + CHECKPOINT_BYTES_MAX + BATCH_BYTES + FOOTER_SPACE_BYTES
)

assert FOOTER_SPACE_BYTES == SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Sizes:
    """Segment sizes and the most bytes one `write` hands to the disk."""

    segment_min: int = 64 << 10
    segment_max: int = 64 << 20
    batch_max: int = 4 << 20

    def next_capacity(self, last: int, first: RawDraft | None) -> int:
        """Of the segment after one of `last` bytes; it holds `first` in any case."""
        grown = min(max(last * GROWTH, self.segment_min), self.segment_max)
        needed = least_capacity(first) if first is not None else 0
        return whole_sectors(max(grown, needed))


@dataclass(slots=True)
class Segment:
    """A segment as its writer knows it. `live` counts the puts in it that no record has ended."""

    number: int
    path: str
    capacity: int
    handle: Handle | None
    lsn_first: int = 0
    at: int = FILE_HEADER_BYTES
    live: int = 0
    emptied_lsn: int = 0
    tally: Tally = field(default_factory=Tally)

    def footer(self, lsn: int, time_ms: int) -> Draft:
        """What closes this segment in front of the record `lsn`."""
        tally = self.tally
        return Draft(
            Kind.FOOTER, lsn - self.lsn_first, tally.place_last, self.live, time_ms,
            encode_meta(tally.meta()), b"", 0, 0,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SpareOrder:
    """A segment to be prepared; `prepare` blocks and belongs on a thread."""

    path: str
    header: SegmentHeader

    def prepare(self, files: Files) -> Handle:
        """Write the zeros, the header and the name; on disk on return."""
        files.make_folder(os.path.dirname(self.path))
        return files.create(self.path, self.header.encode(), self.header.capacity)


def least_capacity(draft: RawDraft) -> int:
    """The smallest segment that holds this record."""
    frame = padded(HEADER_BYTES + len(draft[5]) + len(draft[6]))
    return whole_sectors(OVERHEAD_BYTES + frame)


def whole_sectors(size: int) -> int:
    """`size` rounded up to where a sector ends."""
    return (size + SECTOR_BYTES - 1) // SECTOR_BYTES * SECTOR_BYTES
