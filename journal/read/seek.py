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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from journal.files import Files, read_around
from journal.format import ALIGN_BYTES, FILE_HEADER_BYTES, PLACING, Kind, Record, number_given
from journal.read.cursor import KIND_AT, Cursor, header_with
from journal.write import Journal, Segment

PIECE_BYTES: Final = 256 << 10  # halving ends this near: then records are read one by one
_WINDOW_BYTES: Final = 64 << 10  # each step of halving looks for a frame in this many bytes
_WINDOW_BYTES_MAX: Final = 256 << 10  # ... and in as many at once, after a window without one
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
        """Return where to begin, so that no put is missed for which `is_before` is False. Blocks;
        raises OSError.

        Only records that give a number are asked. The result is at most `near` bytes before the
        first such put (0: PIECE_BYTES), if no frame is larger.
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

    def put_after(self, files: Files, start: int, stop: int) -> Record | None:
        """Return the first whole put at or after `start`; None: none begins before `stop`."""
        return self._first_of(_PUT, files, start, stop, _WINDOW_BYTES)

    def _first_of(
        self, kinds: frozenset[Kind], files: Files, start: int, stop: int, window: int
    ) -> Record | None:
        """Return the first whole record of one of these kinds from `start` on."""
        cursor = self.cursor(files, start, window)
        wanted = header_with(self.journal, self.number, (KIND_AT, [bytes([k]) for k in kinds]))
        record = next(cursor.search(wanted, stop, _WINDOW_BYTES_MAX), None)
        return record if record is not None and record.offset < stop else None

    def cursor(self, files: Files, at: int, piece_bytes: int) -> Cursor:
        """Return a cursor from byte `at` on; the bytes of a block that the disk lost are zeros."""
        read = partial(read_around, files, self.path)
        return Cursor(read, self.journal, self.number, at, self.stop, piece_bytes)
