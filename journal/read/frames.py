"""A segment's records read piece by piece: a file of any size costs a few MiB of memory.

    Record   a whole frame at its own position
    Hole     bytes that are no whole frame, though one follows or they are not only zeros

One rule: this file says which bytes are where. `recovery` judges whether a hole is damage; in a
segment with a footer, which is not written any more, every hole is.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from journal.files import Files
from journal.format import (
    ALIGN_BYTES,
    COMPACTED,
    CRC_BYTES,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    Kind,
    Record,
    SegmentHeader,
    padded,
    segment_number,
)

PIECE_BYTES: Final = 1 << 20
_FRAME: Final = struct.Struct("<IIIIIIQQQQBBHHH")
_IDENTITY: Final = struct.Struct("<II")  # journal and segment ...
_IDENTITY_AT: Final = 8  # ... where a frame carries them

assert _FRAME.size == HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes `offset` to `end` that are no whole record."""

    offset: int
    end: int


class Frames:
    """One segment's frames. `header` is None when it is not readable (then so is the rest)."""

    __slots__ = ("_at", "_files", "_piece", "header", "path", "size")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.size = files.size(path)
        self.header = SegmentHeader.decode(files.read(path, 0, FILE_HEADER_BYTES), path)
        self._piece = b""
        self._at = 0

    @property
    def footer(self) -> Record | None:
        """Return the footer as it is on disk now; None: the segment is still written to."""
        at = self.size - FOOTER_SPACE_BYTES
        if at < FILE_HEADER_BYTES or at % ALIGN_BYTES:
            return None
        self._piece = b""
        record = self.record(at)
        return record if record is not None and record.kind == Kind.FOOTER else None

    def record(self, offset: int) -> Record | None:
        """Return the record at `offset`; None: the bytes there are not one that belongs there."""
        header = self.header
        piece, at = self._load(offset, HEADER_BYTES)
        if header is None or len(piece) - at < HEADER_BYTES:
            return None
        _, length, owner, segment, position, *_ = _FRAME.unpack_from(piece, at)
        if (owner, segment, position) != (header.journal, header.segment, offset):
            return None
        if not HEADER_BYTES <= length <= self.size - offset:
            return None
        piece, at = self._load(offset, length)
        return _whole_record(piece, at, offset)

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the file as they were when they were walked, if that was just now."""
        piece, at = self._load(offset, size)
        return piece[at : at + size]

    def walk(self, start: int = FILE_HEADER_BYTES, stop: int = 0) -> Iterator[Record | Hole]:
        """Yield everything from `start` to the footer's place, or `stop`, in order."""
        stop = stop or self.size - FOOTER_SPACE_BYTES
        at = start
        while at + HEADER_BYTES <= stop:
            record = self.record(at)
            if record is None:
                self._piece = b""  # somebody may have written there since it was read
                record = self.record(at)
            if record is None:
                hole = self._hole(at, stop)
                if hole is None:
                    return
                yield hole
                at = hole.end
            else:
                yield record
                at = record.end

    def _hole(self, start: int, stop: int) -> Hole | None:
        """Return the hole from the bytes at `start`, which are no record, to the next one; None:
        only zeros.
        """
        if self.header is None:
            return Hole(start, stop)
        needle = _IDENTITY.pack(self.header.journal, self.header.segment)
        last = start  # after the last byte that is not zero
        at = start + ALIGN_BYTES
        piece, base = self._load(start, PIECE_BYTES)
        base = start - base
        while True:
            found = piece.find(needle, max(at + _IDENTITY_AT - base, 0))
            if found >= 0 and base + found - _IDENTITY_AT < stop:
                offset = base + found - _IDENTITY_AT
                if offset % ALIGN_BYTES == 0 and self.record(offset) is not None:
                    return Hole(start, offset)
                at = offset + 1
                continue
            seen = len(piece.rstrip(b"\0"))
            last = max(last, min(base + seen, stop)) if seen else last
            following = base + len(piece) - _IDENTITY.size - _IDENTITY_AT
            if base + len(piece) >= min(stop + HEADER_BYTES, self.size):
                return Hole(start, padded(last)) if last > start else None
            base = at = max(following, at)
            piece = self._files.read(self.path, base, PIECE_BYTES)

    def _load(self, offset: int, size: int) -> tuple[bytes, int]:
        """Return a piece of the file with these bytes, if the file has them, and its position."""
        at = offset - self._at
        if not 0 <= at <= len(self._piece) - size:
            self._piece = self._files.read(self.path, offset, max(size, PIECE_BYTES))
            self._at, at = offset, 0
        return self._piece, at


def chain(files: Files, folder: str) -> list[tuple[Frames, int]]:
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


def _whole_record(piece: bytes, at: int, offset: int) -> Record | None:
    """Do as `record.decode`, for a piece that is not the whole file."""
    (
        crc, length, _, segment, _, small, lsn, time_ms, item, number,
        kind, zero, meta_bytes, reader, zero2,
    ) = _FRAME.unpack_from(piece, at)  # fmt: skip
    end = at + length
    body_at = at + HEADER_BYTES + meta_bytes
    if end > len(piece) or body_at > end or zero or zero2:
        return None
    if crc32(memoryview(piece)[at + CRC_BYTES : end]) != crc:
        return None
    return Record(
        kind, item, number, small, time_ms, piece[at + HEADER_BYTES : body_at],
        piece[body_at:end], reader, lsn, segment, offset, offset + padded(length),
    )  # fmt: skip
