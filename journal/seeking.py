"""Where in a segment something begins, found by halving: ids and times rise with the log, and every
frame says where it belongs, so the first whole frame behind any byte can be told.

    +--------+---------------------+--------------------------+---------+
    | header | puts before it      | the first that is not .. | ..      |
    +--------+---------------------+--------------------------+---------+
             low ──▶                 ◀── high

One rule: nothing here decides what a record means; whoever asks says what stands before his place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from journal.files import Files, read_around
from journal.record import ALIGN_BYTES, HEADER_BYTES, Kind, Record, decode
from journal.segment import FILE_HEADER_BYTES

PIECE_BYTES: Final = 256 << 10  # so near is near enough: the rest is read one by one
_WINDOW_BYTES: Final = 64 << 10  # looked through for a frame, while halving
_WINDOW_BYTES_MAX: Final = 16 << 20
_IDENTITY: Final = struct.Struct("<II")
_IDENTITY_AT: Final = 8
_PUT: Final = int(Kind.PUT)


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of one segment up to `stop`, and whose it is."""

    path: str
    journal: int
    number: int
    stop: int

    def seek(self, files: Files, is_before: Callable[[Record], bool], near: int = 0) -> int:
        """Where to begin, so that no put is missed that is not before. Blocks; raises OSError.

        At most `near` bytes before it (0: PIECE_BYTES), where frames are no larger.
        """
        low, high = FILE_HEADER_BYTES, self.stop
        while high - low > (near or PIECE_BYTES):
            middle = (low + high) // 2 // ALIGN_BYTES * ALIGN_BYTES
            put = self.put_behind(files, middle, high, near)
            if put is not None and is_before(put):
                low = put.offset
            else:
                high = middle
        return low

    def put_behind(
        self, files: Files, start: int, stop: int, window: int = 0
    ) -> Record | None:
        """The first whole put at or after `start` that is found with bounded effort."""
        size = window or _WINDOW_BYTES
        while size <= _WINDOW_BYTES_MAX:
            data = read_around(files, self.path, start, min(size, stop - start))
            at = 0
            while (at := find_frame(data, at, start, self.journal, self.number)) >= 0:
                record = decode(data, at, self.journal, self.number, start)
                if record is not None and record.kind == _PUT:
                    return record
                at = record.end - start if record is not None else at + ALIGN_BYTES
            if start + size >= stop:
                return None
            size *= 4
        return None


def find_frame(data: bytes, at: int, base: int, journal: int, number: int) -> int:
    """Where the next frame of this segment may begin, -1: nowhere. `data` stands at `base`."""
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
