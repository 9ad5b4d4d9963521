"""Segments as their writer knows them: how large the next one is, its preparation, its footer.

Capacities are whole sectors, and a footer lies within one sector: a power loss leaves all of a
footer or none of it. So a footer that does not parse is damage, never the trace of a crash.

A segment is prepared with zeros, or takes the file of a finished segment:

    0               64            128                                       capacity
    +---------------+-------------+------------------------------------------+
    | file header   | 64 zeros    | frames of earlier lives: of lower numbers |
    +---------------+-------------+------------------------------------------+

One rule: a segment has room for the record it was prepared for, whatever else is in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field
from typing import Final

from journal.errors import NewerFormat
from journal.files import Files, Handle, is_shortage
from journal.format import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    Draft,
    Kind,
    RawDraft,
    SegmentHeader,
    Tally,
    encode,
    encode_meta,
    padded,
    usable_bytes,
)
from journal.write.group_commit import GroupCommit

GROWTH: Final = 4  # each segment is this many times the last one, up to the largest
SECTOR_BYTES: Final = 512
BATCH_BYTES: Final = HEADER_BYTES
RECYCLED_BYTES_MIN: Final = 8 << 10  # a smaller file has little room beside what each needs
_BATCH: Final = int(Kind.BATCH)
CHECKPOINT_BYTES_MAX: Final = 1024
# What a segment needs beside its records.
OVERHEAD_BYTES: Final = (
    FILE_HEADER_BYTES + CHECKPOINT_BYTES_MAX + BATCH_BYTES + FOOTER_SPACE_BYTES
)

assert FOOTER_SPACE_BYTES == SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Sizes:
    """Segment sizes and the most bytes one `write` hands to the disk.

    `snapshot_bytes`: a snapshot is due after this many bytes; 0: by the number of sealed segments.
    """

    segment_min: int = 64 << 10
    segment_max: int = 64 << 20
    batch_max: int = 4 << 20
    snapshot_bytes: int = 0

    @property
    def recycled_min(self) -> int:
        """The size of the smallest file of a finished segment that is used again."""
        return min(self.segment_min, RECYCLED_BYTES_MIN)

    def next_capacity(self, last: int, first: RawDraft | None, most: int = 0) -> int:
        """Return the capacity after a segment of `last` bytes, up to `most`; `first` fits in any
        case.
        """
        grown = min(max(last * GROWTH, self.segment_min), most or self.segment_max)
        return whole_sectors(max(grown, least_capacity(first)))


@dataclass(slots=True)
class Segment:
    """A segment as its writer knows it. `live` counts the puts in it that no record has ended.

    `live_bytes` counts a header and the body of each. Their meta and padding are known only once a
    compaction has measured them (see `picker`).
    """

    number: int
    path: str
    capacity: int
    handle: Handle | None
    lsn_first: int = 0
    at: int = FILE_HEADER_BYTES
    live: int = 0
    emptied_lsn: int = 0
    tally: Tally = field(default_factory=Tally)
    item_first: int = 0
    item_last: int = 0
    puts: int = 0
    live_bytes: int = 0
    lsn_last: int = 0  # 0 while it is active
    rank: int = 0  # its place in the log; 0: by its number
    recycled: bool = False  # frames of an earlier life follow its end
    measured: int = 0  # how many puts were alive when a job measured them; 0: none did
    extra_bytes: int = 0  # what these had in meta and padding
    damaged: bool = False  # a rewrite met damage: it stays until nothing in it is alive
    time_last: int = 0  # the latest known time of a record in it, once it is sealed
    is_open: bool = False  # only the next segment says where it ends: the next one goes after it
    unread: bool = False  # the disk did not give it at the start: it stays for the next start

    def stop(self, end: int) -> bytes:
        """Return the zeros that follow a batch, so that no frame of an earlier life does."""
        return bytes(min(HEADER_BYTES, max(usable_bytes(self.capacity) - end, 0)))

    def footer(self, lsn: int, time_ms: int) -> Draft:
        """Return the record that closes this segment before the record `lsn`."""
        tally = self.tally
        return Draft(
            Kind.FOOTER, lsn - self.lsn_first, tally.place_last, self.live, time_ms,
            encode_meta(tally.meta()), b"", 0, 0,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PreallocationJob:
    """A segment to be prepared. `prepare` blocks and belongs on a thread.

    `recycle` is the file of a finished segment, to be taken instead of writing zeros;
    `header.capacity` is its size then. A new file leaves `reserve_bytes` of the disk free. With
    `has_folder` its folder is known to be on disk.
    """

    path: str
    header: SegmentHeader
    recycle: str = ""
    reserve_bytes: int = 0
    has_folder: bool = False

    def prepare(self, files: Files) -> Handle:
        """Return the file with its header and its name; both are on disk then.

        Whatever the outcome, the file to recycle is used up: it has the segment's name, or it is
        removed and zeros were written. Only a shortage leaves it for the next job. Raises OSError,
        ENOSPC when too little room would be left.
        """
        folder = os.path.dirname(self.path)
        if not self.has_folder:
            files.make_folder(folder)
        if self.recycle:
            # After any error with it a new file is written. A fault of the disk itself appears
            # there again.
            try:
                if self._may_recycle(files):
                    return self._take_recycled(files)
            except NewerFormat:
                pass
            except OSError as error:
                if is_shortage(error):
                    raise
            with contextlib.suppress(OSError):
                files.remove(self.recycle)
        capacity = self.header.capacity
        if self.reserve_bytes and files.free(folder) - capacity < self.reserve_bytes:
            raise OSError(
                errno.ENOSPC, f"less than min_disk_free ({self.reserve_bytes} bytes) would be left",
                self.path,
            )  # fmt: skip
        return files.create(self.path, self.header.encode(), capacity)

    def _may_recycle(self, files: Files) -> bool:
        """True if the file is ours alone, of the right size, and of a lower number."""
        front = files.read(self.recycle, 0, FILE_HEADER_BYTES)
        older = SegmentHeader.decode(front, self.recycle)
        return (
            older is not None
            and older.journal == self.header.journal
            and older.segment < self.header.segment
            and files.size(self.recycle) == self.header.capacity
            # A crash may have left it before the check whether a backup shares it.
            and files.links(self.recycle) == 1
        )

    def _take_recycled(self, files: Files) -> Handle:
        """Write the header, sync it, then rename: a name never has an older header."""
        handle = files.open(self.recycle)
        try:
            handle.write(0, self.header.encode() + bytes(HEADER_BYTES))
            handle.sync()
        finally:
            handle.close()
        files.rename(self.recycle, self.path)
        return files.open(self.path)


def batch_of(
    commit: GroupCommit, owner: int, segment: Segment, size: int, count: int, time_ms: int
) -> list[bytes]:
    """Return the record that opens `count` others of `size` bytes, and says which lsn is synced."""
    out = list[bytes]()
    draft = (_BATCH, size, commit.lsn_durable, count, time_ms, b"", b"", 0, 0)
    encode(draft, commit.lsn_written + 1, owner, segment.number, segment.at, out)
    return out


def least_capacity(draft: RawDraft | None) -> int:
    """Return the size of the smallest segment that holds this record."""
    if draft is None:
        return 0
    frame = padded(HEADER_BYTES + len(draft[5]) + len(draft[6]))
    return whole_sectors(OVERHEAD_BYTES + frame)


def whole_sectors(size: int) -> int:
    """Return `size` rounded up to the end of a sector."""
    return (size + SECTOR_BYTES - 1) // SECTOR_BYTES * SECTOR_BYTES
