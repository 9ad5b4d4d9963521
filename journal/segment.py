"""One append-only file of a journal: its name, its header, and a scan to the first bad byte.

    0               64                                        capacity-512     capacity
    +---------------+------------+-------+--------+-- - - ----+----------------+
    | file header   | CHECKPOINT | BATCH | records ...  zeros | FOOTER, zeros  |
    +---------------+------------+-------+--------+-- - - ----+----------------+

A segment is written with zeros once, filled from the front, and sealed by a footer at a fixed
place. It is *active* while it is filled, *sealed* afterwards, *spare* while it holds no record.

One rule: scanning never raises and never guesses. What does not parse is a `Gap`; whether it is
torn or corrupt is decided by `recovery`, which knows up to where the journal was synced.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final
from zlib import crc32

from journal.errors import NewerFormat
from journal.record import (
    ALIGN_BYTES,
    HEADER_BYTES,
    PLACING,
    UNNUMBERED,
    Kind,
    Meta,
    Record,
    Tag,
    decode,
    find_next,
    frame_end,
    is_older_frame,
)

MAGIC: Final = b"\x89KPJ\r\n\x1a\n"  # a transfer as text would change it
VERSION: Final = 1
FILE_HEADER_BYTES: Final = 64
FOOTER_SPACE_BYTES: Final = 512
SUFFIX: Final = ".segment"

_FILE_HEADER: Final = struct.Struct("<8sHHI16sIIQ12xI")
_RESERVED: Final = slice(48, 60)  # zero for a segment of the log; other files may follow later
_IDENTITY_SEARCH_BYTES: Final = 1 << 20  # how far to look for a frame when the header is lost

_COUNT: Final = struct.Struct("<BI")
_PUT: Final = int(Kind.PUT)
_kind: Final = attrgetter("kind")
_time_ms: Final = attrgetter("time_ms")
# Why bytes are a gap; `recovery` tells some of them apart.
NOT_WHOLE: Final = "not a whole record"
ZEROS: Final = "zeros among records"
FEWER_THAN_COUNTED: Final = "the segment's footer counts more records"
FOOTER_LOST: Final = "the segment's footer is not readable"

assert _FILE_HEADER.size == FILE_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first 64 bytes of a segment. `journal` is the short identity that every frame carries."""

    journal: int
    identity: bytes
    segment: int
    capacity: int
    created_ms: int

    def encode(self) -> bytes:
        """The header's bytes."""
        raw = _FILE_HEADER.pack(
            MAGIC, VERSION, FILE_HEADER_BYTES, self.journal, self.identity,
            self.segment, self.capacity, self.created_ms, 0,
        )  # fmt: skip
        return raw[:-4] + struct.pack("<I", crc32(raw[:-4]))

    @classmethod
    def decode(cls, data: bytes, path: str) -> SegmentHeader | None:
        """The header, or None when it is damaged; raises NewerFormat when it is whole but newer."""
        if len(data) < FILE_HEADER_BYTES or data[:8] != MAGIC:
            return None
        fields = _FILE_HEADER.unpack_from(data)
        _, version, _, journal, identity, segment, capacity, created_ms, crc = fields
        if crc32(data[: FILE_HEADER_BYTES - 4]) != crc:
            return None
        if version > VERSION:
            raise NewerFormat(
                f"{path}: journal format {version}, this kestrelpy reads up to {VERSION}"
            )
        if any(data[_RESERVED]):
            raise NewerFormat(f"{path}: a kind of journal file that this kestrelpy does not know")
        return cls(journal, identity, segment, capacity, created_ms)


@dataclass(slots=True)
class Tally:
    """What a footer says of its segment: its records by kind, and the ranges they span.

    First and last are least and greatest. Times need not rise with the log: a wall clock may step,
    and a record may wait for a segment to be written to.
    """

    counts: list[int] = field(default_factory=lambda: [0] * 256)
    item_first: int = 0
    item_last: int = 0
    place_first: int = 0
    place_last: int = 0
    time_min: int = 0
    time_max: int = 0

    def see_time(self, time_ms: int) -> None:
        """A record of this segment has this time."""
        if not self.time_min or time_ms < self.time_min:
            self.time_min = time_ms
        self.time_max = max(self.time_max, time_ms)

    def see_items(self, item_first: int, item_last: int) -> None:
        """These items were put here (0: none was), and those between them."""
        self.item_first = self.item_first or item_first
        self.item_last = item_last or self.item_last

    def see_places(self, place_first: int, place_last: int) -> None:
        """These places were given here (0: none was), and those between them."""
        if place_first and (not self.place_first or place_first < self.place_first):
            self.place_first = place_first
        self.place_last = max(self.place_last, place_last)

    def see(self, record: Record) -> None:
        """Account for one record that is in the segment already."""
        self.see_all([record])

    def see_all(self, records: list[Record]) -> None:
        """Account for records that are in the segment already."""
        for kind, count in Counter(map(_kind, records)).items():
            self.counts[kind] += count
        if records:
            self.see_time(min(map(_time_ms, records)))
            self.see_time(max(map(_time_ms, records)))
        puts = [r.item for r in records if r.kind == _PUT]
        if puts:
            self.see_items(puts[0], puts[-1])
        places = [r.number for r in records if r.kind in PLACING and r.number]
        if places:
            self.see_places(min(places), max(places))

    def meta(self) -> Meta:
        """What stands in the footer's meta."""
        counts = ((kind, count) for kind, count in enumerate(self.counts) if count)
        return {
            Tag.PLACE: self.place_first,
            Tag.STORED_MS: self.time_min,
            Tag.LAST_MS: self.time_max,
            Tag.ITEM_FIRST: self.item_first,
            Tag.ITEM_LAST: self.item_last,
            Tag.COUNTS: b"".join(_COUNT.pack(kind, count) for kind, count in counts),
        }


def decode_counts(data: bytes) -> dict[int, int]:
    """Records by kind, from a footer's COUNTS."""
    return dict(_COUNT.iter_unpack(data[: len(data) // _COUNT.size * _COUNT.size]))


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no record. `lsn_next` is the record found behind them, 0: none was."""

    offset: int
    end: int
    reason: str
    lsn_expected: int
    lsn_next: int


@dataclass(slots=True)
class Scan:
    """What one segment holds. `records` has the numbered records in order."""

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


def segment_name(number: int) -> str:
    """The file name of segment `number`: sorted by name is sorted by number."""
    return f"{number:010d}{SUFFIX}"


def segment_number(name: str) -> int | None:
    """The number in a segment's file name; None for any other file."""
    stem = name.removesuffix(SUFFIX)
    if stem == name or len(stem) != 10 or not stem.isdigit():
        return None
    return int(stem)


def scan(data: bytes, path: str, journal: int, number: int) -> Scan:
    """Read a segment's bytes to its end, past whatever does not parse."""
    result = Scan(path, number)
    footer = result.footer = _read_footer(data, journal, number)
    room_end = footer.offset if footer is not None else len(data)
    at = FILE_HEADER_BYTES
    while True:
        record = decode(data, at, journal, number) if at < room_end else None
        if record is None or (result.lsn_next and record.lsn != result.lsn_next):
            record = _skip_gap(data, at, room_end, journal, result)
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
        result.gaps.append(
            Gap(at, footer.offset, FEWER_THAN_COUNTED, result.lsn_next, footer.lsn)
        )
        result.lsn_next = footer.lsn
    return result


def find_identity(data: bytes, number: int) -> int:
    """Whose segment this is when its header is damaged, by its first whole frame; 0: unknown."""
    last = min(len(data), _IDENTITY_SEARCH_BYTES)
    for offset in range(FILE_HEADER_BYTES, last, ALIGN_BYTES):
        if decode(data, offset, 0, number) is not None:
            owner: int = struct.unpack_from("<I", data, offset + 8)[0]
            return owner
    return 0


def _take_unnumbered(record: Record, result: Scan) -> None:
    """Account for a record that stands between the others: its lsn is the next one's."""
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


def _skip_gap(data: bytes, at: int, room_end: int, journal: int, result: Scan) -> Record | None:
    """At bytes that are no record: the next whole record, after noting the gap; None: the end."""
    expected = result.lsn_next
    if _only_zeros(data, at, room_end):
        return None  # the usual end
    following = _find_following(data, at, room_end, journal, result)
    if following is not None:
        reason = NOT_WHOLE if data[at : following.offset].strip(b"\0") else ZEROS
        result.gaps.append(Gap(at, following.offset, reason, expected, following.lsn))
        result.lsn_next = 0  # the next record says where the count goes on
        return following
    rest = data[at:room_end].rstrip(b"\0")
    if not rest or is_older_frame(data, at, journal, result.number):
        return None  # the end: zeros, or what an earlier life of this file left behind
    end = at + len(rest)
    if frame_end(data, at, journal, result.number):
        end = max(end, at + HEADER_BYTES)  # the damaged record ends in zeros
    footer, zone = result.footer, len(data) - FOOTER_SPACE_BYTES
    if footer is not None:
        result.gaps.append(Gap(at, end, NOT_WHOLE, expected, footer.lsn))
        result.lsn_next = footer.lsn
    elif at < zone and not data[at:zone].strip(b"\0"):
        result.gaps.append(Gap(zone, len(data), FOOTER_LOST, expected, expected))
    else:
        result.gaps.append(Gap(at, end, NOT_WHOLE, expected, 0))
    return None


def _only_zeros(data: bytes, at: int, stop: int) -> bool:
    """Comparing is many times faster than searching, and a segment may be mostly zeros."""
    if any(data[at : min(at + HEADER_BYTES, stop)]):
        return False
    return data[at:stop] == bytes(max(stop - at, 0))


def _find_following(
    data: bytes, at: int, room_end: int, journal: int, result: Scan
) -> Record | None:
    """The first whole record behind the bytes at `at` that the log may go on with.

    Bodies may hold anything, a frame that fits its place among it: while a damaged frame still
    says how long it is, its body is not searched. (Who wants to be found elsewhere has to know
    the journal's identity, which is random and never leaves its files.)
    """
    number, lsn = result.number, result.lsn_next
    stop = frame_end(data, at, journal, number)
    following = decode(data, stop, journal, number) if 0 < stop < room_end else None
    if following is not None and (not lsn or lsn <= following.lsn <= lsn + 1):
        return following
    following = find_next(data, at + ALIGN_BYTES, journal, number, room_end)
    while following is not None and following.lsn < lsn:
        following = find_next(data, following.end, journal, number, room_end)
    return following


def _read_footer(data: bytes, journal: int, number: int) -> Record | None:
    at = len(data) - FOOTER_SPACE_BYTES
    if at < FILE_HEADER_BYTES + HEADER_BYTES or at % ALIGN_BYTES:
        return None
    record = decode(data, at, journal, number)
    return record if record is not None and record.kind == Kind.FOOTER else None
