"""A segment's bytes to its end, past any that do not parse.

    frames ...  | not a frame | frames ...  | 64 zeros | zeros, or an earlier life's bytes | footer
                    Gap                      the end

A fresh segment has zeros after its end. A recycled one has older frames there, which name an older
number and so never parse; each write to it ends with 64 zeros in place of a header.

One rule: scanning never raises and never guesses. Bytes that do not parse are a `Gap`; `recovery`,
which knows the last known sync, decides whether it is torn or corrupt.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final
from zlib import crc32

from journal.errors import ITEM_MAX
from journal.format import (
    ALIGN_BYTES,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    UNNUMBERED,
    Kind,
    Record,
    Tally,
    decode,
    frame_bytes,
    is_older_frame,
    padded,
)
from journal.read.cursor import Cursor

_IDENTITY_SEARCH_BYTES: Final = 1 << 20  # how far to look for a frame when the header is lost
_PLACED: Final = struct.Struct("<IIIII")  # of a frame: checksum, length, journal, segment, offset
_ZEROS: Final = bytes(1 << 16)
_lsn: Final = attrgetter("lsn")
_OPENING_FRAMES: Final = 2  # the checkpoint and the first batch of any segment
_IDENTITY_AT: Final = 8  # where a frame says whose it is
# Why bytes are a gap; `recovery` tells some of them apart.
NOT_WHOLE: Final = "not a whole record"
ZEROS: Final = "zeros among records"
FEWER_THAN_COUNTED: Final = "the segment's footer counts more records"
FOOTER_LOST: Final = "the segment's footer is not readable"


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no record. `lsn_next` is the record found after them, 0: none was."""

    offset: int
    end: int
    reason: str
    lsn_expected: int
    lsn_next: int

    def following(self, limit: int) -> int:
        """Return the first lsn that is certainly after the gap; 0: there is none. Newer segments
        have the records from `limit` on (0: none).
        """
        return self.lsn_next if not limit or 0 < self.lsn_next < limit else limit

    def room(self) -> int:
        """Return how many records a whole segment that is a gap may have held: at least one."""
        size = self.end - self.offset - FOOTER_SPACE_BYTES
        return max(size // HEADER_BYTES - _OPENING_FRAMES, 1)

    def lost(self, expected: int, limit: int) -> tuple[int, int]:
        """Return first and last lsn of the records that may have been here; a last below its first:
        none. `expected` is the next one's before the gap, 0: unknown.
        """
        room = (self.end - self.offset) // HEADER_BYTES  # for this many records at most
        if self.offset == FILE_HEADER_BYTES:
            room = max(room - _OPENING_FRAMES, 0)
        elif self.end == FILE_HEADER_BYTES:  # not even a header: its length is unknown
            room = ITEM_MAX
        first, following = expected or self.lsn_expected, self.following(limit)
        if following:
            return first or max(following - room, 1), following - 1
        first = first or 1
        return first, min(first + max(room, 1) - 1, ITEM_MAX)


@dataclass(slots=True)
class Scan:
    """The content of one segment. `records` has the numbered records in order."""

    path: str
    number: int
    records: list[Record] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    checkpoint: Record | None = None
    footer: Record | None = None
    lsn_first: int = 0  # 0: no record was found
    lsn_next: int = 0
    lsn_synced: int = 0  # the highest "synced up to" a batch states
    end: int = FILE_HEADER_BYTES  # where the next batch is written
    read_to: int = FILE_HEADER_BYTES  # where the last whole record ends
    batches: int = 0
    start: int = FILE_HEADER_BYTES  # where reading began
    dirty: bool = False  # bytes that are not zeros follow the end
    unreadable: bool = False  # the disk did not give its bytes

    def tally_below(self, limit: int, before: Tally | None) -> Tally:
        """Return the tally of the records here below the lsn `limit` (0: all), from the footer or
        by counting.

        `before`: the tally of the records before the start of the scan. Records that newer segments
        repeat are counted there and not here, even if the footer here counts them or a power cut
        has removed them here.
        """
        records, footer = self.records, self.footer
        if limit and records and records[-1].lsn >= limit:
            records = records[: bisect_left(records, limit, key=_lsn)]
        elif footer is not None and not 0 < limit < footer.lsn:
            return Tally.from_footer(footer)
        tally = Tally()
        if self.start > FILE_HEADER_BYTES and before is not None:
            tally = replace(before, counts=list(before.counts))
        tally.see_all(records)
        return tally

    @classmethod
    def of_unreadable(cls, path: str, number: int, capacity: int, reason: str) -> Scan:
        """Of a file that the disk did not give: one gap."""
        end = max(capacity, FILE_HEADER_BYTES)
        gap = Gap(FILE_HEADER_BYTES, end, reason, 0, 0)
        return cls(path, number, gaps=[gap], read_to=end, unreadable=True)


def scan(
    data: bytes,
    path: str,
    journal: int,
    number: int,
    start: int = FILE_HEADER_BYTES,
    lsn_next: int = 0,
    capacity: int = 0,
    lsn_gaps: bool = False,
) -> Scan:
    """Read a segment's bytes to its end, past any that do not parse.

    Begin at `start`, where the record `lsn_next` is expected (0: any). `capacity` is the size that
    the file should have, where it is shorter. `lsn_gaps`: lsns rise, but not by one (a compacted
    segment).
    """
    result = Scan(path, number, end=start, read_to=start, start=start, lsn_next=lsn_next)
    footer = result.footer = _read_footer(data, journal, number)
    room_end = footer.offset if footer is not None else len(data)
    zone = max(capacity, len(data)) - FOOTER_SPACE_BYTES
    at = start
    while True:
        record = decode(data, at, journal, number) if at < room_end else None
        expected = result.lsn_next
        if record is None or (
            expected and record.lsn != expected and not (lsn_gaps and record.lsn > expected)
        ):
            record = _skip_gap(data, at, room_end, zone, journal, result, lsn_gaps)
            if record is None:
                break
        at = record.end
        if record.kind in UNNUMBERED:
            _take_unnumbered(record, result)
        else:
            if not result.lsn_first:
                result.lsn_first = record.lsn
            result.records.append(record)
            result.lsn_next = record.lsn + 1
            result.end = at
    result.read_to = at
    if footer is not None and result.lsn_next < footer.lsn:
        if not lsn_gaps or (not result.gaps and len(result.records) < _counted(footer)):
            result.gaps.append(
                Gap(at, footer.offset, FEWER_THAN_COUNTED, result.lsn_next, footer.lsn)
            )
        result.lsn_next = footer.lsn
    return result


def read_footer(data: bytes, at: int, journal: int, number: int) -> Record | None:
    """Return the footer in a segment's last bytes, which begin at `at`; None: there is none."""
    frame = _moved_to_front(data, at)
    record = decode(frame, 0, journal, number) if frame else None
    if record is None or record.kind != Kind.FOOTER:
        return None
    return record._replace(offset=at, end=at + record.end)


def no_footer(data: bytes, at: int, journal: int, number: int) -> bool:
    """True if no footer was written in this life of the file."""
    frame = _moved_to_front(data, at)
    return not any(data) or (bool(frame) and is_older_frame(frame, 0, journal, number))


def _moved_to_front(data: bytes, at: int) -> bytes:
    """Return the frame that `data`, read from `at`, begins with, as if it were at 0; empty: none.
    """
    crc, length, *_, position = _PLACED.unpack_from(data.ljust(_PLACED.size, b"\0"))
    if position != at or not HEADER_BYTES <= length <= len(data) or crc32(data[4:length]) != crc:
        return b""
    frame = data[4 : _PLACED.size - 4] + bytes(4) + data[_PLACED.size : length]
    return struct.pack("<I", crc32(frame)) + frame


def _counted(footer: Record) -> int:
    """Return how many records a footer counts."""
    return sum(Tally.from_footer(footer).counts)


def find_identity(data: bytes, number: int) -> int:
    """Return the journal of a segment with a damaged header, by its first whole frame; 0: unknown.
    """
    last = min(len(data), _IDENTITY_SEARCH_BYTES)
    for offset in range(FILE_HEADER_BYTES, last, ALIGN_BYTES):
        if decode(data, offset, 0, number) is not None:
            owner: int = struct.unpack_from("<I", data, offset + 8)[0]
            return owner
    return 0


def _take_unnumbered(record: Record, result: Scan) -> None:
    """Account for a record between the numbered ones: its lsn is the next one's."""
    result.lsn_first = result.lsn_first or record.lsn
    result.lsn_next = record.lsn
    if record.kind == Kind.BATCH:
        result.batches += 1
        result.lsn_synced = max(result.lsn_synced, record.number)
        # An empty batch at the end only says "all of this is synced": it is written over.
        if record.small:
            result.end = record.end
    elif record.kind == Kind.CHECKPOINT:
        result.checkpoint = record
        result.end = record.end


def _skip_gap(
    data: bytes, at: int, room_end: int, zone: int, journal: int, result: Scan, lsn_gaps: bool
) -> Record | None:
    """Note a gap at bytes that are no record; return the next whole record, None: the end."""
    expected = result.lsn_next
    if _only_zeros(data, at, room_end):
        return None  # the usual end
    following = _find_following(data, at, room_end, journal, result, lsn_gaps)
    if following is None:
        _note_end(data, at, room_end, zone, journal, result)
        return None
    reason = NOT_WHOLE if data[at : following.offset].strip(b"\0") else ZEROS
    result.gaps.append(Gap(at, following.offset, reason, expected, following.lsn))
    result.lsn_next = 0  # unknown: the next record has it
    return following


def _note_end(
    data: bytes, at: int, room_end: int, zone: int, journal: int, result: Scan
) -> None:
    """Note the end of the log here, or a damaged rest. No whole record of this life follows."""
    number, footer, expected = result.number, result.footer, result.lsn_next
    result.dirty = footer is None
    if (
        not any(data[at : min(at + HEADER_BYTES, room_end)])  # zeros end each write to old bytes
        or 0 <= zone - at < HEADER_BYTES  # there was no room for the zeros, nor for a record
        or is_older_frame(data, at, journal, number)
    ):
        if footer is None and at < zone and not no_footer(data[zone:], zone, journal, number):
            result.gaps.append(Gap(zone, len(data), FOOTER_LOST, expected, expected))
        return
    stop = _older_frame_at(data, at, room_end, journal, number)
    end = at + len(data[at:stop].rstrip(b"\0"))
    if 0 < frame_bytes(data, at, journal, number, 0) <= len(data) - at:
        end = max(end, at + HEADER_BYTES)  # the damaged record ends in zeros
    result.gaps.append(Gap(at, end, NOT_WHOLE, expected, footer.lsn if footer is not None else 0))
    if footer is not None:
        result.lsn_next = footer.lsn


def _older_frame_at(data: bytes, at: int, stop: int, journal: int, number: int) -> int:
    """Return where the first whole frame of an earlier life begins; `stop`: there is none. The
    present log ends before it.
    """
    needle = struct.pack("<I", journal)
    found = data.find(needle, at + _IDENTITY_AT, stop)
    while found >= 0:
        offset = found - _IDENTITY_AT
        if offset % ALIGN_BYTES == 0 and is_older_frame(data, offset, journal, number):
            return offset
        found = data.find(needle, found + 1, stop)
    return stop


def _only_zeros(data: bytes, at: int, stop: int) -> bool:
    """True if there are only zeros. Comparing is many times faster than searching."""
    if any(data[at : min(at + HEADER_BYTES, stop)]):
        return False
    return all(
        data.startswith(_ZEROS[: stop - each], each) for each in range(at, stop, len(_ZEROS))
    )


def _find_following(
    data: bytes, at: int, room_end: int, journal: int, result: Scan, lsn_gaps: bool
) -> Record | None:
    """Return the first whole record after the bytes at `at` with which the log may go on.

    A body may hold anything, even a frame that fits its position. So if a damaged frame still has
    its length, its body is not searched. (A forged frame needs the journal's identity, which is
    random and never leaves its files.)
    """
    number, lsn = result.number, result.lsn_next
    length = frame_bytes(data, at, journal, number, 0)
    stop = at + padded(length)
    following = decode(data, stop, journal, number) if length and stop < room_end else None
    last = following.lsn if following is not None and lsn_gaps else lsn + 1
    if following is not None and (not lsn or lsn <= following.lsn <= last):
        return following
    cursor = Cursor.over(data, journal, number, at + ALIGN_BYTES)
    following = cursor.next()
    while following is not None and following.lsn < lsn:
        following = cursor.next()
    return following if following is not None and following.offset < room_end else None


def _read_footer(data: bytes, journal: int, number: int) -> Record | None:
    at = len(data) - FOOTER_SPACE_BYTES
    if at < FILE_HEADER_BYTES + HEADER_BYTES or at % ALIGN_BYTES:
        return None
    record = decode(data, at, journal, number)
    return record if record is not None and record.kind == Kind.FOOTER else None
