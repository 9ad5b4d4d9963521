"""One split of a segment to Arrow batches, in bulk, every checksum verified.

    4 MiB of the file     walk lengths, one crc32 each        numpy: identity, place, lsns
    |f|f|f|f|f|f|f|..  -> [at, at, at, ...]                -> columns, a batch
                 ^ the last frame goes on after the chunk: read again from its beginning

The bulk path goes on while frame follows frame. From the first other byte on, `journal.read.scan`
reads record by record: it finds the end and the gaps. Whether a gap is the torn end of the log or
damage follows from the last known sync, as in `journal.recovery.recovery`.

One rule: a row comes only from bytes with the right checksum, journal, segment and place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from journal.errors import ITEM_MAX, Damage, DamageKind, JournalError, NewerFormat
from journal.files import Disk, Files
from journal.format import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    UNNUMBERED,
    Kind,
    Record,
    SegmentHeader,
    padded,
)
from journal.read import FEWER_THAN_COUNTED, FOOTER_LOST, Gap, Scan, read_footer, scan
from journal.recovery import MISSING_BEHIND, SHORTER
from kestrelpy.spark.files.columns import Rows
from kestrelpy.spark.files.frame_headers import Bools, FrameHeaders, headers_of
from kestrelpy.spark.files.split import NO_LIMITS, RowLimits, Split, SplitGone
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
    split: Split,
    chosen: Selection,
    damaged: Damaged,
    limits: RowLimits = NO_LIMITS,
    files: Files | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the split's rows, by lsn, in batches of 1 to 4 MiB (a larger record is one batch).

    `damaged` is called with every damage and may raise; if it returns, reading goes on after the
    damage. Raises PieceGone if the file has gone or is another one now.
    """
    rows = Rows(split, chosen, limits)
    small: list[pa.RecordBatch] = []
    size = count = 0
    for headers in verified(split, damaged, files if files is not None else Disk()):
        batch = rows.batch(headers)
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


def verified(split: Split, damaged: Damaged, files: Files) -> Iterator[FrameHeaders]:
    """Return the split's own numbered records, in order, each verified."""
    walk = _Walk(split, damaged, files)
    for path in (split.path, *split.copies):
        try:
            yield from walk.through(path)
        except FileNotFoundError:
            continue  # a copy may still be there
        except OSError as error:
            raise JournalError(f"{path}: reading failed: {error.strerror or error}") from error
        if not walk.is_gone:
            return
    why = "its file is used for another segment" if walk.is_gone else "it was removed"
    raise SplitGone(split.path, walk.expected or split.lsn_first, split.lsn_last, why)


@dataclass(slots=True)
class _Walk:
    """How far a split has been read; the next copy is read from there."""

    split: Split
    damaged: Damaged
    files: Files
    at: int = 0
    expected: int = 0  # the next record's lsn, 0: any
    puts: int = 0
    item: int = 0  # the last one put
    is_gone: bool = False

    def __post_init__(self) -> None:
        self.at = self.split.start
        if self.at > FILE_HEADER_BYTES:
            self.expected = self.split.lsn_first

    def through(self, path: str) -> Iterator[FrameHeaders]:
        """Read on to the split's end; set `is_gone` if this is another file."""
        split = self.split
        self.is_gone = not self._is_ours(self.files.read(path, 0, FILE_HEADER_BYTES), path)
        if self.is_gone:
            return
        end, footer = split.stop, None
        if not end:
            footer = self._footer(path)
            end = footer.offset if footer is not None else split.size
        size = CHUNK_BYTES
        while self.at < end:
            data = self.files.read(path, self.at, min(size, end - self.at))
            at, headers, stopped = self._take(data)
            if headers is not None:
                yield headers
            if self._is_beyond_limit:
                return
            if stopped or at == 0:
                left = padded(int.from_bytes(data[at + 4 : at + 8], "little"))
                if stopped or not size < left <= end - self.at:
                    break  # not whole, though the file has no more bytes
                size = left  # one record larger than a chunk
            else:
                size = CHUNK_BYTES
        if self.at < end or not self._is_complete(footer):
            yield from self._slowly(path)

    def _is_complete(self, footer: Record | None) -> bool:
        """True if no record is missing."""
        split = self.split
        if self.at != (split.stop or (footer.offset if footer is not None else 0)):
            return False
        if footer is None or not split.is_whole:
            return self.expected > split.lsn_last
        if split.is_compacted:
            return self.puts == footer.item
        return self.expected == footer.lsn

    @property
    def _is_beyond_limit(self) -> bool:
        limit = self.split.lsn_limit
        return bool(limit) and self.expected >= limit

    def _is_ours(self, front: bytes, path: str) -> bool:
        split = self.split
        try:
            header = SegmentHeader.decode(front, path)
        except NewerFormat:
            return False
        if header is None:  # damaged since: each frame names its journal
            return True
        if split.is_headless:  # the plan named the header; each frame names its journal
            return True
        same = header.identity == split.identity
        return same and (header.journal, header.segment) == (split.journal, split.segment)

    def _footer(self, path: str) -> Record | None:
        at = self.split.size - FOOTER_SPACE_BYTES
        data = self.files.read(path, at, FOOTER_SPACE_BYTES) if at >= FILE_HEADER_BYTES else b""
        if len(data) < FOOTER_SPACE_BYTES:
            return None
        footer: Record | None = read_footer(data, at, self.split.journal, self.split.segment)
        return footer

    # -- in bulk ------------------------------------------------------------------------------

    def _take(self, data: bytes) -> tuple[int, FrameHeaders | None, bool]:
        """Take the records at the front of `data`.

        Return where they end, the records, and True if a wrong frame follows.
        """
        offsets, at = whole_frames(data)
        if not offsets:
            return 0, None, False
        headers = FrameHeaders(data, self.at, np.array(offsets, np.int64))
        split = self.split
        right = right_frames(
            headers, split.journal, split.segment, self.expected, split.is_compacted
        )
        good = len(right) if right.all() else int(right.argmin())
        if good < len(right):
            at = offsets[good]
            headers = headers.pick(slice(0, good))
        stopped = good < len(right)
        if not good:
            return at, None, stopped
        self.at += at
        self.expected = int(headers.lsn[-1]) + int(headers.kind[-1] not in _UNNUMBERED)
        counted = self._counted(headers)
        self._see(counted)
        return at, counted, stopped

    def _counted(self, headers: FrameHeaders) -> FrameHeaders:
        """Return the numbered records that no newer segment supersedes."""
        which = np.ones(len(headers), np.bool_)
        for kind in _UNNUMBERED:
            which &= headers.kind != kind
        if self.split.lsn_limit:
            which &= headers.lsn < self.split.lsn_limit
        return headers if which.all() else headers.pick(which)

    def _see(self, headers: FrameHeaders) -> None:
        puts = headers.item[headers.kind == Kind.PUT]
        if len(puts):
            self.puts += len(puts)
            self.item = int(puts[-1])

    # -- record by record ---------------------------------------------------------------------

    def _slowly(self, path: str) -> Iterator[FrameHeaders]:
        """Read on with the journal's own reader, record by record."""
        split = self.split
        data = self.files.read(path)
        self.is_gone = not self._is_ours(data[:FILE_HEADER_BYTES], path)
        if self.is_gone:
            return
        found = scan(
            data, path, split.journal, split.segment, self.at, self.expected, split.size,
            split.is_compacted,
        )  # fmt: skip
        if split.is_compacted:
            _forget_counted(found, self.puts)
        stop = split.stop or max(split.size, len(data))
        records = [r for r in found.records if r.offset < stop]
        if split.lsn_limit:
            records = [r for r in records if r.lsn < split.lsn_limit]
        gap_check = GapCheck(split, self.expected, self.item)
        gaps = gap_check.gaps(found, len(data), records)
        data = data.ljust(padded(len(data)), b"\0")
        done = 0
        for gap in gaps:
            after = bisect_left(records, gap.offset, done, key=_offset)
            yield from _in_parts(data, records[done:after])
            gap_check.see(records[done:after])
            done = after
            following = next((r.item for r in records[after:] if r.kind == Kind.PUT), 0)
            is_end, damage = gap_check.verdict(path, gap, following)
            if damage is not None and damage.kind != "torn":
                self.damaged(damage)
            if is_end:
                return
        yield from _in_parts(data, records[done:])


def whole_frames(data: bytes) -> tuple[list[int], int]:
    """Return where frames with a right checksum begin, one after the other, and where they end."""
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
    if at > len(data) and offsets:  # the last one is cut, perhaps only within its padding
        at = offsets.pop()
    return offsets, at


def right_frames(
    headers: FrameHeaders, journal: int, segment: int, expected: int, with_gaps: bool
) -> Bools:
    """Return which frames are whole and belong where they stand, after the frames before them.

    `expected` is the lsn of the first, 0: any. `with_gaps`: lsns rise, but not always by one.
    """
    words = headers.words
    right: Bools = words[1] == np.uint64(journal | segment << 32)
    right &= words[2].astype(np.uint32) == headers.offsets
    right &= (words[7] & _ZEROS) == 0
    right &= headers.lengths >= HEADER_BYTES + headers.meta_bytes
    lsn = headers.lsn
    should = np.empty(len(lsn), np.int64)
    should[0] = expected or lsn[0]
    should[1:] = lsn[:-1] + ~np.isin(headers.kind[:-1], _UNNUMBERED)
    right &= (lsn >= should) if with_gaps else (lsn == should)
    return right


def _in_parts(data: bytes, records: list[Record]) -> Iterator[FrameHeaders]:
    """Return records of a whole file in batches of a bounded size."""
    at = 0
    while at < len(records):
        room = records[at].offset + CHUNK_BYTES
        stop = max(bisect_left(records, room, at, key=lambda r: r.end), at + 1)
        yield headers_of(data, records[at:stop])
        at = stop


def _forget_counted(found: Scan, before: int) -> None:
    """Drop the gap of a compacted segment whose footer also counts records before the scan."""
    footer = found.footer
    if footer is not None and found.gaps and len(found.records) + before >= footer.item:
        found.gaps = [gap for gap in found.gaps if gap.reason != FEWER_THAN_COUNTED]


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@dataclass(slots=True)
class GapCheck:
    """Checks the gaps of one split, bytes that are no record; it sees the records in order.

        ... r5 r6 | gap | r9 ...     synced up to 12: records 7 and 8 are lost, and named
        ... r5 r6 | gap | r9 ...     synced up to 6:  torn, the log ends after 6

    `expected` is the next lsn, 0: any. The rules are those of `journal.recovery.recovery`, for a
    segment that is read alone: only bytes after the last known sync may be called torn.
    """

    split: Split
    expected: int = 0
    item: int = 0  # the last one put

    def see(self, records: Sequence[Record]) -> None:
        """Note the records before the next gap."""
        if records:
            self.expected = max(self.expected, records[-1].lsn + 1)
            puts = (r.item for r in reversed(records) if r.kind == Kind.PUT)
            self.item = max(self.item, next(puts, 0))

    def gaps(self, found: Scan, file_bytes: int, records: Sequence[Record]) -> list[Gap]:
        """Return the scan's gaps within the split, and a gap at its end that no scan sees.

        `records` are the split's own records.
        """
        split = self.split
        stop = split.stop or max(split.size, file_bytes)
        gaps = [gap for gap in found.gaps if gap.offset < stop]
        if file_bytes < min(split.size, stop):
            start, lsn = file_bytes, found.lsn_next
            went_on = start - found.read_to < HEADER_BYTES  # else zeros: the log ended before
            if gaps and gaps[-1].offset >= found.read_to:
                start, went_on = gaps.pop().offset, True
            after = 0 if went_on else lsn or self.expected or 1
            gaps.append(Gap(start, split.size, SHORTER, lsn, after))
        elif not gaps and not split.is_compacted:
            lsn = max(self.expected, records[-1].lsn + 1 if records else 0) or split.lsn_first
            if lsn <= split.lsn_last:
                gaps.append(Gap(found.end, found.end, MISSING_BEHIND, lsn, split.lsn_last + 1))
        return gaps

    def verdict(self, path: str, gap: Gap, following: int) -> tuple[bool, Damage | None]:
        """Return True if the log ends before this gap, and the damage if the gap is one.

        `following` is the first item put after the gap; 0: none is known.
        """
        split = self.split
        first, last = gap.lost(self.expected or split.lsn_before, split.lsn_limit)
        is_lost = last >= first
        is_superseded = bool(split.lsn_limit) and first >= split.lsn_limit
        if is_superseded and gap.reason not in (FOOTER_LOST, SHORTER):
            return False, None
        is_behind = first > split.lsn_synced
        if is_lost and is_behind and gap.reason != SHORTER:
            return True, None
        kind: DamageKind = "corrupt"
        if gap.reason in (SHORTER, MISSING_BEHIND):
            kind = "truncated"
        elif is_behind and gap.reason != FOOTER_LOST:
            kind = "torn"
        id_first, id_last = 1, 0
        if is_lost:
            id_first = (self.item or max(split.item_first - 1, 0)) + 1
            id_last = following - 1 if following else min(id_first + last - first, ITEM_MAX)
            id_last = max(id_last, id_first - 1)
        damage = Damage(
            kind, path, gap.offset, gap.end, gap.reason, first, last, id_first, id_last
        )
        if is_lost and not is_behind:
            self.expected = last + 1
        return is_lost and is_behind, damage
