"""One piece of a segment to Arrow batches, in bulk, every checksum verified.

    4 MiB of the file     walk lengths, one crc32 each        numpy: identity, place, lsns
    |f|f|f|f|f|f|f|..  -> [at, at, at, ...]                -> columns, a batch
                 ^ the last frame goes on behind: read again from its beginning

As long as frame follows frame nothing else is looked at. Where one does not, `journal.read.scan` is
asked, record by record, from there on: what is the end, what is a gap, is its judgement, and
whether a gap is the torn end of the log or damage follows from what is known to be synced, as in
`journal.recovery.recovery`.

One rule: a row is made from bytes whose checksum, journal, segment and place were all right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from journal.errors import Damage, JournalError, NewerFormat
from journal.files import Disk, Files
from journal.format.kinds import UNNUMBERED, Kind
from journal.format.record import HEADER_BYTES, Record, padded
from journal.format.segment import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    SegmentHeader,
)
from journal.read.scan import FEWER_THAN_COUNTED, Scan, read_footer, scan
from kestrelpy.spark.files.columns import Rows
from kestrelpy.spark.files.frame_headers import Bools, Heads, heads_of
from kestrelpy.spark.files.gaps import Judge
from kestrelpy.spark.files.split import NO_LIMITS, Limits, Piece, PieceGone
from kestrelpy.spark.schema import Selection

CHUNK_BYTES: Final = 4 << 20  # of a segment at once; a batch is at most that, or one record
BATCH_BYTES_LEAST: Final = 1 << 20  # smaller ones are put together
_BATCH_ROWS_MOST: Final = 1 << 17
_COPIED_BYTES: Final = 512  # frames up to this size are cheaper to copy than to view
_offset: Final = attrgetter("offset")
_UNNUMBERED: Final = tuple(sorted(UNNUMBERED))
_ZEROS: Final = np.uint64(0xFFFF_0000_0000_FF00)  # of a header's last word, zero and zero2

Damaged = Callable[[Damage], None]


def read(
    piece: Piece,
    chosen: Selection,
    damaged: Damaged,
    limits: Limits = NO_LIMITS,
    files: Files | None = None,
) -> Iterator[pa.RecordBatch]:
    """The piece's rows, by lsn, as batches of 1 to 4 MiB (one larger record: as large as it is).

    `damaged` is told of every damage as it is met, and may raise; without that, reading goes on
    behind it. Raises PieceGone where the file has gone or has become another.
    """
    rows = Rows(piece, chosen, limits)
    small: list[pa.RecordBatch] = []
    size = count = 0
    for heads in verified(piece, damaged, files if files is not None else Disk()):
        batch = rows.batch(heads)
        if batch is None:
            continue
        small.append(batch)
        size += batch.nbytes
        count += batch.num_rows
        if size >= BATCH_BYTES_LEAST or count >= _BATCH_ROWS_MOST:
            yield _together(small)
            small, size, count = [], 0, 0
    if small:
        yield _together(small)


def verified(piece: Piece, damaged: Damaged, files: Files) -> Iterator[Heads]:
    """The numbered records of a piece that count, in order, each checked."""
    walk = _Walk(piece, damaged, files)
    for path in (piece.path, *piece.copies):
        try:
            yield from walk.through(path)
        except FileNotFoundError:
            continue  # a copy may still be there
        except OSError as error:
            raise JournalError(f"{path}: reading failed: {error.strerror or error}") from error
        if not walk.is_gone:
            return
    why = "its file is used for another segment" if walk.is_gone else "it was removed"
    raise PieceGone(piece.path, walk.expected or piece.lsn_first, piece.lsn_last, why)


@dataclass(slots=True)
class _Walk:
    """How far a piece was read; the next copy is read from there."""

    piece: Piece
    damaged: Damaged
    files: Files
    at: int = 0
    expected: int = 0  # the next record's lsn, 0: any
    puts: int = 0
    item: int = 0  # the last one put
    is_gone: bool = False

    def __post_init__(self) -> None:
        self.at = self.piece.start
        if self.at > FILE_HEADER_BYTES:
            self.expected = self.piece.lsn_first

    def through(self, path: str) -> Iterator[Heads]:
        """From where it is to the piece's end; `is_gone` is set where this is another file."""
        piece = self.piece
        self.is_gone = not self._is_ours(self.files.read(path, 0, FILE_HEADER_BYTES), path)
        if self.is_gone:
            return
        end, footer = piece.stop, None
        if not end:
            footer = self._footer(path)
            end = footer.offset if footer is not None else piece.size
        size = CHUNK_BYTES
        while self.at < end:
            data = self.files.read(path, self.at, min(size, end - self.at))
            at, heads, stopped = self._take(data)
            if heads is not None:
                yield heads
            if self._is_beyond_limit:
                return
            if stopped or at == 0:
                left = padded(int.from_bytes(data[at + 4 : at + 8], "little"))
                if stopped or not size < left <= end - self.at:
                    break  # not whole, though all of it was asked for
                size = left  # one record larger than a piece
            else:
                size = CHUNK_BYTES
        if self.at < end or not self._is_complete(footer):
            yield from self._slowly(path)

    def _is_complete(self, footer: Record | None) -> bool:
        """Is everything there that there should be?"""
        piece = self.piece
        if self.at != (piece.stop or (footer.offset if footer is not None else 0)):
            return False
        if footer is None or not piece.is_whole:
            return self.expected > piece.lsn_last
        if piece.is_survivors:
            return self.puts == footer.item
        return self.expected == footer.lsn

    @property
    def _is_beyond_limit(self) -> bool:
        limit = self.piece.lsn_limit
        return bool(limit) and self.expected >= limit

    def _is_ours(self, front: bytes, path: str) -> bool:
        piece = self.piece
        try:
            header = SegmentHeader.decode(front, path)
        except NewerFormat:
            return False
        if header is None:  # damaged since: its frames say whose they are
            return True
        same = header.identity == piece.identity or piece.is_headless
        return same and (header.journal, header.segment) == (piece.journal, piece.segment)

    def _footer(self, path: str) -> Record | None:
        at = self.piece.size - FOOTER_SPACE_BYTES
        data = self.files.read(path, at, FOOTER_SPACE_BYTES) if at >= FILE_HEADER_BYTES else b""
        if len(data) < FOOTER_SPACE_BYTES:
            return None
        footer: Record | None = read_footer(data, at, self.piece.journal, self.piece.segment)
        return footer

    # -- in bulk ------------------------------------------------------------------------------

    def _take(self, data: bytes) -> tuple[int, Heads | None, bool]:
        """Records at the front of `data`: where they end, and did something wrong follow?"""
        offsets, at = whole_frames(data)
        if not offsets:
            return 0, None, False
        heads = Heads(data, self.at, np.array(offsets, np.int64))
        piece = self.piece
        right = right_frames(heads, piece.journal, piece.segment, self.expected, piece.is_survivors)
        good = len(right) if right.all() else int(right.argmin())
        if good < len(right):
            at = offsets[good]
            heads = heads.pick(slice(0, good))
        stopped = good < len(right)
        if not good:
            return at, None, stopped
        self.at += at
        self.expected = int(heads.lsn[-1]) + int(heads.kind[-1] not in _UNNUMBERED)
        kept = self._counted(heads)
        self._see(kept)
        return at, kept, stopped

    def _counted(self, heads: Heads) -> Heads:
        """Only what is numbered, and not said again by a newer segment."""
        which = np.ones(len(heads), np.bool_)
        for kind in _UNNUMBERED:
            which &= heads.kind != kind
        if self.piece.lsn_limit:
            which &= heads.lsn < self.piece.lsn_limit
        return heads if which.all() else heads.pick(which)

    def _see(self, heads: Heads) -> None:
        puts = heads.item[heads.kind == Kind.PUT]
        if len(puts):
            self.puts += len(puts)
            self.item = int(puts[-1])

    # -- record by record ---------------------------------------------------------------------

    def _slowly(self, path: str) -> Iterator[Heads]:
        """From here on as the journal's own reader sees it."""
        piece = self.piece
        data = self.files.read(path)
        self.is_gone = not self._is_ours(data[:FILE_HEADER_BYTES], path)
        if self.is_gone:
            return
        found = scan(
            data, path, piece.journal, piece.segment, self.at, self.expected, piece.size,
            piece.is_survivors,
        )  # fmt: skip
        if piece.is_survivors:
            _forget_counted(found, self.puts)
        stop = piece.stop or max(piece.size, len(data))
        records = [r for r in found.records if r.offset < stop]
        if piece.lsn_limit:
            records = [r for r in records if r.lsn < piece.lsn_limit]
        judge = Judge(piece, self.expected, self.item)
        gaps = judge.gaps(found, len(data), records)
        data = data.ljust(padded(len(data)), b"\0")
        done = 0
        for gap in gaps:
            behind = bisect_left(records, gap.offset, done, key=_offset)
            yield from _in_parts(data, records[done:behind])
            judge.see(records[done:behind])
            done = behind
            following = next((r.item for r in records[behind:] if r.kind == Kind.PUT), 0)
            is_end, damage = judge.verdict(path, gap, following)
            if damage is not None and damage.kind != "torn":
                self.damaged(damage)
            if is_end:
                return
        yield from _in_parts(data, records[done:])


def whole_frames(data: bytes) -> tuple[list[int], int]:
    """Where frames with a right checksum begin, one behind the other, and where they end."""
    offsets: list[int] = []
    note, check = offsets.append, crc32
    view = memoryview(data)
    words = view[: len(data) & ~3].cast("I")
    last = len(data) - HEADER_BYTES
    at = word = 0
    first = words[1] if last >= 0 else 0
    source = data if first <= _COPIED_BYTES else view
    while at <= last:
        length = words[word + 1]
        if length < HEADER_BYTES or check(source[at + 4 : at + length]) != words[word]:
            break
        note(at)
        at = (at + length + 7) & -8
        word = at >> 2
    if at > len(data) and offsets:  # the last one is cut, if only within what pads it
        at = offsets.pop()
    return offsets, at


def right_frames(heads: Heads, journal: int, segment: int, expected: int, holes: bool) -> Bools:
    """Which frames are whole and belong where they stand, behind those before them.

    `expected` is the first one's lsn, 0: any; `holes`: lsns rise, but not by one.
    """
    words = heads.words
    right: Bools = words[1] == np.uint64(journal | segment << 32)
    right &= words[2].astype(np.uint32) == heads.offsets
    right &= (words[7] & _ZEROS) == 0
    right &= heads.lengths >= HEADER_BYTES + heads.meta_bytes
    lsn = heads.lsn
    should = np.empty(len(lsn), np.int64)
    should[0] = expected or lsn[0]
    should[1:] = lsn[:-1] + ~np.isin(heads.kind[:-1], _UNNUMBERED)
    right &= (lsn >= should) if holes else (lsn == should)
    return right


def _in_parts(data: bytes, records: list[Record]) -> Iterator[Heads]:
    """Records of a whole file in batches of a bounded size."""
    at = 0
    while at < len(records):
        room = records[at].offset + CHUNK_BYTES
        stop = max(bisect_left(records, room, at, key=lambda r: r.end), at + 1)
        yield heads_of(data, records[at:stop])
        at = stop


def _forget_counted(found: Scan, before: int) -> None:
    """A footer of survivors counts what stands before the place where the scan began, too."""
    footer = found.footer
    if footer is not None and found.gaps and len(found.records) + before >= footer.item:
        found.gaps = [gap for gap in found.gaps if gap.reason != FEWER_THAN_COUNTED]


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
