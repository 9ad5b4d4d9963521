"""One queue of Kestrel's, read twice: once for what is left, once for the bodies of that.

    replay   every record's header, in order ──▶ positions, 8 bytes of memory for each item left
    items    the records at these positions  ──▶ one item at a time

So neither the length of the journal nor the bodies count in memory.

One rule: the files are read through `read`, in pieces, and never written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from kestrelpy.kestrel.records import (
    ADDX,
    ADDX_BYTES,
    ADDX_HEADER,
    HEADER_BYTES_MAX,
    KestrelItem,
    item_at,
    record_bytes,
)
from kestrelpy.kestrel.replay import FileDamage, KestrelReplay

PIECE_BYTES: Final = 1 << 20
_new: Final = tuple.__new__  # half the cost of calling a named tuple

# Up to a number of bytes of a file, from an offset on; fewer at its end.
Read = Callable[[str, int, int], bytes]


class FilePiece(NamedTuple):
    """A file of a journal, and its length when it was looked at."""

    name: str
    size: int


class JournalSource:
    """The journal of one queue: `damages` and `replay` are known once `run` has returned."""

    def __init__(
        self, pieces: Sequence[FilePiece], read: Read, piece_bytes: int = PIECE_BYTES
    ) -> None:
        """`read` raises OSError; where it raises DamagedMedium the file is damaged from there."""
        self.pieces = pieces
        self.replay = KestrelReplay()
        self.damages: list[tuple[str, FileDamage]] = []
        self._read = read
        self._piece_bytes = piece_bytes
        self._begins: list[int] = []
        at = 0
        for piece in pieces:
            self._begins.append(at)
            at += piece.size
        self.bytes = at

    def run(self, progress: Callable[[int], None] = lambda done: None) -> None:
        """Replay every file; `progress` gets the bytes done. Raise OSError."""
        for number, piece in enumerate(self.pieces):
            damage = self._replay_file(piece, self._begins[number], progress)
            if damage is not None:
                self.damages.append((piece.name, damage))
                if number + 1 < len(self.pieces):
                    self.replay.pass_damage()

    def items(self) -> Iterator[KestrelItem]:
        """Yield the items that are left, the head first. Raise OSError."""
        data, begin, limit = b"", 0, 0
        fields, make = ADDX_HEADER.unpack_from, _new
        for position in chain(self.replay.positions(), self.replay.rest()):
            at = position - begin
            if at >= 0 and at + ADDX_BYTES <= limit:
                opcode, size, added_ms, expires_ms = fields(data, at)
                behind = at + 5 + size
                if opcode == ADDX and behind <= limit:
                    yield make(KestrelItem, (added_ms, expires_ms, data[at + ADDX_BYTES : behind]))
                    continue
            begin = position
            data = self._read_record(position)
            limit = len(data)
            yield item_at(data, 0)

    def _read_record(self, position: int) -> bytes:
        """Return a piece that begins at this position and has a whole record."""
        number = bisect_right(self._begins, position) - 1
        name, offset = self.pieces[number].name, position - self._begins[number]
        data = self._read(name, offset, self._piece_bytes)
        if len(data) >= HEADER_BYTES_MAX or len(data) == self.pieces[number].size - offset:
            length = record_bytes(data, 0)
            if length > len(data):
                data = self._read(name, offset, length)
            if length <= len(data):
                return data
        raise OSError(0, "it changed while it was read", name)

    def _replay_file(
        self, piece: FilePiece, before: int, progress: Callable[[int], None]
    ) -> FileDamage | None:
        offset = 0
        while offset < piece.size:
            try:
                data = self._read(piece.name, offset, self._piece_bytes)
            except DamagedMedium as error:
                return FileDamage(offset, f"it cannot be read: {error}")
            data = data[: piece.size - offset]
            if not data:
                raise OSError(0, "it changed while it was read", piece.name)
            at = self.replay.feed(data, 0, offset, piece.size, before)
            if isinstance(at, FileDamage):
                return at
            if at == 0:
                raise OSError(0, "it changed while it was read", piece.name)
            offset += at
            progress(before + offset)
        return None


class DamagedMedium(Exception):
    """The disk has lost the bytes that were to be read."""

