"""A segment without its damage: the lost stretches hold records that say nothing.

Every other byte keeps its position: a snapshot says at which byte the log goes on, and an item
where its body is.

One rule: bytes to bytes; no I/O but reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from journal.errors import JournalError
from journal.format import (
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    UNNUMBERED,
    Draft,
    Kind,
    SegmentHeader,
    encode,
    usable_bytes,
)
from journal.read import Frames, Hole, scan
from journal.write import BATCH_BYTES, OVERHEAD_BYTES, Segment, whole_sectors

# At most this many records are made up for a missing segment: no segment ever held more.
_RECORDS_MAX: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Nothing:
    """The content of a lost stretch: from then on no lease gets a token below `tokens`."""

    tokens: int
    time_ms: int

    def frames(self, header: SegmentHeader, offset: int, end: int, lsn: int, count: int) -> bytes:
        """Return exactly `count` records from `lsn` on, in exactly these bytes. Raises
        JournalError.
        """
        size = end - offset
        if count and count * HEADER_BYTES > size:
            raise JournalError(f"{count} records are missing where {size} bytes are")
        if size < HEADER_BYTES:
            return bytes(size)
        out: list[bytes] = []
        at, rest = offset, max(count, 1)
        while rest:
            rest -= 1
            body = bytes(end - at - HEADER_BYTES) if not rest else b""
            if count:
                draft = Draft(Kind.TOKENS, 0, self.tokens, 0, self.time_ms, b"", body, 0, 0)
            else:
                draft = Draft(Kind.BATCH, size, 0, 0, self.time_ms, b"", body, 0, 0)
            at += encode(draft, lsn, header.journal, header.segment, at, out)
            lsn += 1
        return b"".join(out)


@dataclass(slots=True)
class Patch:
    """One segment and its repair.

    `lsn_first` is its first record if its beginning is lost (0: not known), `lsn_end` the first
    record after it if it goes on up to there (0: not known), `lsn_behind` the first record of the
    next segment (0: there is none).
    """

    frames: Frames
    header: SegmentHeader
    nothing: Nothing
    lsn_first: int = 0
    lsn_end: int = 0
    lsn_behind: int = 0

    def patched(self, data: bytes) -> bytes:
        """Return the whole segment. Raises JournalError when the missing records have no room."""
        header, frames = self.header, self.frames
        segment = bytearray(data.ljust(header.capacity, b"\0"))
        segment[:FILE_HEADER_BYTES] = header.encode()
        frames.header = header
        usable = usable_bytes(header.capacity)
        sparse = header.role == COMPACTED
        at, lsn = FILE_HEADER_BYTES, 0
        hole: Hole | None = None
        for found in frames.walk(FILE_HEADER_BYTES, min(usable, frames.size)):
            if isinstance(found, Hole):
                hole = found
                continue
            if hole is not None:
                first = lsn or self.lsn_first or found.lsn
                count = 0 if sparse else max(found.lsn - first, 0)
                if not lsn:  # the first lsn is unknown: as many as may have been there
                    count = min(count, (hole.end - hole.offset) // HEADER_BYTES)
                self._fill(segment, hole.offset, hole.end, found.lsn - count, count)
                hole = None
            at, lsn = found.end, found.lsn + (found.kind not in UNNUMBERED)
        if hole is not None:
            segment[at : hole.end] = bytes(hole.end - at)
        first = lsn or self.lsn_first
        if first and self.lsn_end > first and not sparse:
            count = self.lsn_end - first
            self._fill(segment, at, min(at + count * HEADER_BYTES, usable), first, count)
        self._close(segment)
        return bytes(segment)

    def _close(self, segment: bytearray) -> None:
        """Write a footer. A compacted segment gets a new one in any case: it counts the puts."""
        behind = self.lsn_behind
        if self.header.role == COMPACTED:
            footer = self.frames.footer
            behind = footer.lsn if footer is not None else behind
            segment[usable_bytes(self.header.capacity) :] = bytes(FOOTER_SPACE_BYTES)
        if behind:
            _close(segment, self.header, self.nothing.time_ms, behind)

    def _fill(self, segment: bytearray, start: int, end: int, lsn: int, count: int) -> None:
        segment[start:end] = self.nothing.frames(self.header, start, end, lsn, count)


def stand_in(header: SegmentHeader, lsn_first: int, count: int, nothing: Nothing) -> bytes:
    """Return a segment for a missing one, as large as necessary."""
    if count > _RECORDS_MAX:
        raise JournalError(f"{count} records are missing")
    capacity = whole_sectors(OVERHEAD_BYTES + max(count, 1) * HEADER_BYTES)
    header = replace(header, capacity=capacity)
    segment = bytearray(capacity)
    segment[:FILE_HEADER_BYTES] = header.encode()
    at = FILE_HEADER_BYTES + BATCH_BYTES
    end = at + count * HEADER_BYTES
    segment[FILE_HEADER_BYTES:at] = nothing.frames(header, FILE_HEADER_BYTES, at, lsn_first, 0)
    if count:
        segment[at:end] = nothing.frames(header, at, end, lsn_first, count)
    _close(segment, header, nothing.time_ms, lsn_first + count)
    return bytes(segment)


def _close(segment: bytearray, header: SegmentHeader, time_ms: int, lsn_behind: int) -> None:
    """Write a footer, if there is no readable one."""
    sparse = header.role == COMPACTED
    found = scan(bytes(segment), "", header.journal, header.segment, lsn_gaps=sparse)
    if found.footer is not None or not found.lsn_first:
        return
    writer = Segment(header.segment, "", header.capacity, None, lsn_first=found.lsn_first)
    writer.tally.see_all(found.records)
    at = header.capacity - FOOTER_SPACE_BYTES
    out: list[bytes] = []
    encode(writer.footer(lsn_behind, time_ms), lsn_behind, header.journal, header.segment, at, out)
    segment[at:] = b"".join(out).ljust(FOOTER_SPACE_BYTES, b"\0")
