"""A position among the frames of one file, and the piece of the file around it.

    +--------+-------+-------+-- - - - - - - --+-------+-------+- - -+
    | header | frame | frame |  no frame ....  | frame | frame |     |
    +--------+-------+-------+-- - - - - - - --+-------+-------+- - -+
                     at ─take─▶ (in vain) ─skip─▶ at ─take─▶       stop

A file of any size costs the memory of one piece, or of one frame that is larger.

One rule: the length of a frame says where the next one begins. The cursor searches for a frame only
after bytes that are no record.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from journal.format import ALIGN_BYTES, HEADER_BYTES, Record, decode, frame_bytes

PIECE_BYTES: Final = 1 << 20  # read at once
IDENTITY: Final = struct.Struct("<II")  # journal and segment ...
IDENTITY_AT: Final = 8  # ... where a frame has them
ITEM_AT: Final = 40
KIND_AT: Final = 56
_POSITION: Final = struct.Struct("<I")  # follows them


class Cursor:
    """Goes over the frames of segment `number` of a journal, from byte `at` on.

    `read` takes an offset and a size; fewer bytes mean that the file ends there. Without `read` all
    bytes come by `feed`. No frame goes beyond byte `stop`. If `take` returned None, `lacking` bytes
    of a frame are missing; 0: the bytes here are no record.
    """

    __slots__ = (
        "at", "base", "data", "journal", "lacking", "number", "piece_bytes", "read", "stop",
    )  # fmt: skip

    def __init__(
        self, read: Callable[[int, int], bytes] | None, journal: int, number: int, at: int,
        stop: int, piece_bytes: int = PIECE_BYTES,
    ) -> None:  # fmt: skip
        self.read = read
        self.journal = journal
        self.number = number
        self.at = at
        self.stop = stop
        self.piece_bytes = piece_bytes
        self.data, self.base = b"", at
        self.lacking = 0

    @classmethod
    def over(cls, data: bytes, journal: int, number: int, at: int) -> Cursor:
        """Return a cursor over a whole file in memory."""
        made = cls(None, journal, number, at, len(data))
        made.data, made.base = data, 0
        return made

    @property
    def left(self) -> int:
        """How many bytes from the position on are here. The padding of a frame may be missing."""
        return self.base + len(self.data) - self.at

    def take(self) -> Record | None:
        """Return the whole record at the position, and pass it; None: none begins here."""
        while True:
            at = self.at - self.base
            record = decode(self.data, at, self.journal, self.number, self.base)
            if record is not None:
                self.at = record.end
                return record
            if not self.load():
                return None

    def skip(self) -> None:
        """Skip bytes that are no record, up to the first place where one may begin; bytes that are
        not here yet may hold an earlier one."""
        at = self.at - self.base
        self.at = self.base + next_frame(self.data, at, self.base, self.journal, self.number)

    def next(self) -> Record | None:
        """Return the next whole record, and pass it; None: there are no more."""
        while (record := self.take()) is None:
            if self.left < HEADER_BYTES:
                return None
            self.skip()
        return record

    def search(self, pattern: re.Pattern[bytes], stop: int, piece_most: int) -> Iterator[Record]:
        """Yield whole records with a header that matches from its identity on, without decoding
        others; none begins after byte `stop` and the piece around it.

        Pieces grow up to `piece_most`.
        """
        while self.at + HEADER_BYTES <= stop:
            base = self.at
            data = self._piece(self.piece_bytes)
            if len(data) < HEADER_BYTES:
                self.at = self.stop  # the file ends here
                return
            after = _whole_headers(data)
            for match in pattern.finditer(data):
                start = match.start() - IDENTITY_AT
                if 0 <= start < after and (base + start) % ALIGN_BYTES == 0:
                    self.data, self.base, self.at = data, base, base + start
                    record = self.take()
                    if record is not None:
                        yield record
            self.at = max(base + after, self.at)
            self.piece_bytes = max(self.piece_bytes, min(self.piece_bytes * 4, piece_most))

    def feed(self, data: bytes) -> None:
        """Add the bytes that follow; those before the position are dropped."""
        taken = min(self.at - self.base, len(self.data))
        self.data = self.data[taken:] + data
        self.base += taken
        self.lacking = 0

    def load(self) -> bool:
        """Read the bytes of the frame at the position, unless they are here; True: now they are."""
        here, size = self.left, HEADER_BYTES
        if here >= HEADER_BYTES:
            size = frame_bytes(
                self.data, self.at - self.base, self.journal, self.number, self.base
            )
            if size > self.stop - self.at:
                size = 0
        is_read = here < size <= self.stop - self.at and self.read is not None
        if is_read:
            here = len(self._piece(max(size, self.piece_bytes)))
        self.lacking = max(size - here, 0)
        return is_read and not self.lacking

    def _piece(self, size: int) -> bytes:
        """Read some bytes from the position on."""
        assert self.read is not None, "a cursor over bytes has them"
        self.data = self.read(self.at, min(size, self.stop - self.at))
        self.base = self.at
        return self.data


def next_frame(data: bytes, at: int, base: int, journal: int, number: int) -> int:
    """Return the first place after `at` where a frame may begin. The bytes at `at` begin none, and
    `data` is at `base`.
    """
    at += ALIGN_BYTES
    needle = IDENTITY.pack(journal, number)
    found = data.find(needle, at + IDENTITY_AT)
    while found >= 0:
        start = found - IDENTITY_AT
        if (base + start) % ALIGN_BYTES == 0 and start + HEADER_BYTES <= len(data):
            (position,) = _POSITION.unpack_from(data, found + IDENTITY.size)
            if position == base + start:
                return start
        found = data.find(needle, found + 1)
    # A frame may begin near the end of `data`: then it is found only with more bytes.
    return max(at, _whole_headers(data))


def header_with(
    journal: int, number: int, *fields: tuple[int, Iterable[bytes]]
) -> re.Pattern[bytes]:
    """Return a pattern of headers, from their identity on, that have at one of these bytes one of
    these values.
    """
    behind = IDENTITY_AT + IDENTITY.size
    some = (
        b"[\\s\\S]{%d}(?:%b)" % (at - behind, b"|".join(map(re.escape, values)))
        for at, values in fields
    )
    identity = re.escape(IDENTITY.pack(journal, number))
    return re.compile(b"%b(?=%b)" % (identity, b"|".join(some)))


def _whole_headers(data: bytes) -> int:
    """Return the first place in `data` where a frame's header would not be here as a whole."""
    return (len(data) - HEADER_BYTES) // ALIGN_BYTES * ALIGN_BYTES + ALIGN_BYTES
