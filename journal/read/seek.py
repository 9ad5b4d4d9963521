"""Positions in a segment, found by halving: numbers and times rise with the log, and every frame
says where it belongs, so the first whole frame after any byte can be found.

    +--------+---------------------+--------------------------+---------+
    | header | numbers before it   | the first that is not .. | ..      |
    +--------+---------------------+--------------------------+---------+
             low ──▶                 ◀── high

A number is given to an item when it is put, or to an item that is released. Most of a log may be
other records, such as confirms: these are passed over without being decoded.

One rule: this file does not decide what a record means; the caller says which records are before
its position.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from journal.files import Files, read_around
from journal.format import (
    ALIGN_BYTES,
    FILE_HEADER_BYTES,
    HEADER_BYTES,
    PLACING,
    Kind,
    Record,
    decode,
    frame_bytes,
    number_given,
)
from journal.write import Journal, Segment

PIECE_BYTES: Final = 256 << 10  # so near is near enough: the rest is read one by one
_WINDOW_BYTES: Final = 64 << 10  # looked through for a frame, while halving
_WINDOW_BYTES_MAX: Final = 256 << 10  # where it is not in the first window: no more at once
_IDENTITY: Final = struct.Struct("<II")
_IDENTITY_AT: Final = 8
_KIND_AT: Final = 56
_PUT: Final = frozenset({Kind.PUT})


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of one segment up to `stop`, and its journal and number."""

    path: str
    journal: int
    number: int
    stop: int

    @classmethod
    def of(cls, journal: Journal, segment: Segment) -> Extent:
        """Return the written part of this segment."""
        stop = journal.written_end(segment)
        return cls(segment.path, journal.short_identity, segment.number, stop)

    def seek_item(self, files: Files, item: int, near: int = 0) -> int:
        """Return where to begin, so that no put of this item or a later one is missed; as `seek`.
        """
        return self.seek(files, lambda each: number_given(each) < item, near)

    def seek(self, files: Files, is_before: Callable[[Record], bool], near: int = 0) -> int:
        """Return where to begin, so that no put is missed that is not before. Blocks; raises
        OSError.

        `is_before` is asked of records that give a number. At most `near` bytes before the position
        (0: PIECE_BYTES), where frames are no larger.
        """
        low, high = FILE_HEADER_BYTES, self.stop
        while high - low > (near or PIECE_BYTES):
            middle = (low + high) // 2 // ALIGN_BYTES * ALIGN_BYTES
            found = self._first_of(PLACING, files, middle, high, near or _WINDOW_BYTES)
            if found is not None and is_before(found):
                low = found.offset
            else:
                high = middle
        return low

    def put_behind(self, files: Files, start: int, stop: int) -> Record | None:
        """Return the first whole put at or after `start`; None: none begins before `stop`."""
        return self._first_of(_PUT, files, start, stop, _WINDOW_BYTES)

    def _first_of(
        self, kinds: frozenset[Kind], files: Files, start: int, stop: int, window: int
    ) -> Record | None:
        """Return the first whole record of one of these kinds from `start` on."""
        wanted = _frames_of(kinds, self.journal, self.number)
        at = start
        while at + HEADER_BYTES <= stop:
            data = read_around(files, self.path, at, min(window, self.stop - at))
            match = wanted.search(data)
            while match is not None and at + match.start() - _IDENTITY_AT < stop:
                record = self.record_at(files, data, at, at + match.start() - _IDENTITY_AT)
                if record is not None:
                    return record
                match = wanted.search(data, match.start() + 1)
            if len(data) < HEADER_BYTES:
                return None  # the file ends here
            # One may begin so near the end of what is here that it shows only with more.
            at += (len(data) - HEADER_BYTES) // ALIGN_BYTES * ALIGN_BYTES + ALIGN_BYTES
            window = max(window, min(window * 4, _WINDOW_BYTES_MAX))
        return None

    def record_at(self, files: Files, data: bytes, base: int, offset: int) -> Record | None:
        """Return the record that begins there, if it is whole and at its position. `data` is at
        `base`.
        """
        if offset % ALIGN_BYTES or offset < base:
            return None
        length = frame_bytes(data, offset - base, self.journal, self.number, base)
        if not HEADER_BYTES <= length <= self.stop - offset:
            return None
        if offset - base + length > len(data):
            data, base = read_around(files, self.path, offset, length), offset
        return decode(data, offset - base, self.journal, self.number, base)


def _frames_of(kinds: frozenset[Kind], journal: int, number: int) -> re.Pattern[bytes]:
    """Return a pattern of frames of these kinds, from their identity on."""
    between = _KIND_AT - _IDENTITY_AT - _IDENTITY.size
    identity = re.escape(_IDENTITY.pack(journal, number))
    some = re.escape(bytes(sorted(kinds)))
    return re.compile(b"%b[\\s\\S]{%d}[%b]" % (identity, between, some))


def find_frame(data: bytes, at: int, base: int, journal: int, number: int) -> int:
    """Return where the next frame of this segment may begin, -1: nowhere. `data` is at `base`."""
    needle = _IDENTITY.pack(journal, number)
    found = data.find(needle, at + _IDENTITY_AT)
    while found >= 0:
        start = found - _IDENTITY_AT
        if (base + start) % ALIGN_BYTES == 0 and start + HEADER_BYTES <= len(data):
            (position,) = struct.unpack_from("<I", data, found + 8)
            if position == base + start:
                return start
        found = data.find(needle, found + 1)
    return -1
