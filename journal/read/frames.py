"""A segment's records read piece by piece: a file of any size costs a few MiB of memory.

    Record   a whole frame at its own position
    Hole     bytes that are no whole frame, though one follows or they are not only zeros

One rule: this file says which bytes are where. `recovery` judges whether a hole is damage. In a
segment with a footer every hole is damage, because such a segment is no longer written to.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from journal.files import Files
from journal.format import (
    ALIGN_BYTES,
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    Kind,
    Record,
    SegmentHeader,
    padded,
    segment_number,
)
from journal.read.cursor import PIECE_BYTES, Cursor


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes `offset` to `end` that are no whole record."""

    offset: int
    end: int


class Frames:
    """One segment's frames. `header` is None when it is not readable (then so is the rest)."""

    __slots__ = ("_cursor", "_files", "header", "path", "size")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.size = files.size(path)
        self.header = SegmentHeader.decode(files.read(path, 0, FILE_HEADER_BYTES), path)
        self._cursor = self.cursor(FILE_HEADER_BYTES)

    def cursor(self, at: int) -> Cursor:
        """Return a cursor over this file from byte `at` on."""
        journal, number = (self.header.journal, self.header.segment) if self.header else (0, 0)
        return Cursor(partial(self._files.read, self.path), journal, number, at, self.size)

    @property
    def footer(self) -> Record | None:
        """Return the footer as it is on disk now; None: the segment is still written to."""
        at = self.size - FOOTER_SPACE_BYTES
        if at < FILE_HEADER_BYTES or at % ALIGN_BYTES:
            return None
        record = self.record(at)
        return record if record is not None and record.kind == Kind.FOOTER else None

    def record(self, offset: int) -> Record | None:
        """Return the record at `offset`; None: the bytes there are not one that belongs there."""
        return self.cursor(offset).take() if self.header is not None else None

    def front_of(self, record: Record) -> bytes:
        """Return the header's bytes of the record that was walked last."""
        at = record.offset - self._cursor.base
        return self._cursor.data[at : at + HEADER_BYTES]

    def walk(self, start: int = FILE_HEADER_BYTES, stop: int = 0) -> Iterator[Record | Hole]:
        """Yield everything from `start` to the footer's place, or `stop`, in order."""
        stop = stop or self.size - FOOTER_SPACE_BYTES
        cursor = self._cursor = self.cursor(start)
        while cursor.at + HEADER_BYTES <= stop:
            if self.header is None:
                yield Hole(start, stop)
                return
            at = cursor.at
            record = cursor.take()
            if record is None:
                cursor.data = b""  # the writer may have written there since it was read
                record = cursor.take()
            if record is None:
                record = cursor.next()
                if record is None or record.offset >= stop:
                    end = self._written_end(at, stop)
                    if end > at:
                        yield Hole(at, end)
                    return
                yield Hole(at, record.offset)
            yield record

    def _written_end(self, start: int, stop: int) -> int:
        """Return the next frame's place after the last byte that is not zero; `start`: none is.

        It is `stop` if a frame follows there.
        """
        end, behind = start, stop + HEADER_BYTES
        for at in range(start, behind, PIECE_BYTES):
            piece = self._files.read(self.path, at, min(PIECE_BYTES, behind - at)).rstrip(b"\0")
            end = padded(min(at + len(piece), stop)) if piece else end
        return end


def ordered_segments(files: Files, folder: str) -> list[tuple[Frames, int]]:
    """Return the segments with records and their first lsn, in the order of the log.

    Foreign segments are left out, and those that a compacted segment stands for.
    """
    found: list[tuple[SegmentHeader, Frames, int]] = []
    for name in files.names(folder):
        number = segment_number(name)
        if number is None:
            continue
        with suppress(FileNotFoundError):  # removed by a daemon meanwhile
            frames = Frames(files, os.path.join(folder, name))
            opening = frames.record(FILE_HEADER_BYTES)
            header = frames.header
            if header is not None and opening is not None and header.segment == number:
                found.append((header, frames, opening.lsn))
    votes = Counter(header.journal for header, _, _ in reversed(found))
    owner = votes.most_common(1)[0][0] if votes else 0
    found = [each for each in found if each[0].journal == owner]
    compacted = [header for header, _, _ in found if header.role == COMPACTED]
    found.sort(key=lambda each: (each[0].rank, each[0].segment))
    return [
        (frames, lsn)
        for header, frames, lsn in found
        if not any(_stands_for(one, header) for one in compacted)
    ]


def _stands_for(compacted: SegmentHeader, other: SegmentHeader) -> bool:
    last = other.last or other.segment
    inside = compacted.first <= other.rank and last <= compacted.last
    return inside and other.segment < compacted.segment
