"""One append-only file of a journal: its name, its header, and its footer.

    0               64                                        capacity-512     capacity
    +---------------+------------+-------+--------+-- - - ----+----------------+
    | file header   | CHECKPOINT | BATCH | records ...  zeros | FOOTER, zeros  |
    +---------------+------------+-------+--------+-- - - ----+----------------+

A segment is written with zeros once, filled from the front, and sealed by a footer at a fixed
place. It is *preallocated* while it holds no record, *active* while it is filled, *sealed*
afterwards. A *recycled* one has bytes of an earlier life in place of zeros (`scan` tells them
apart). A *compacted* one has the live puts of several segments, and stands for these.

One rule: a file says in its first 64 bytes its journal, number and size, or it is not read.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final
from zlib import crc32

from journal.errors import NewerFormat
from journal.format.kinds import PLACING, VERSION, Kind, Tag
from journal.format.meta import Meta, decode_meta
from journal.format.record import Record

MAGIC: Final = b"\x89KPJ\r\n\x1a\n"  # a transfer as text would change it
FILE_HEADER_BYTES: Final = 64
FOOTER_SPACE_BYTES: Final = 512
SUFFIX: Final = ".segment"
SUFFIX_RECYCLED: Final = ".recycled"  # ends the name of a segment's file that waits for reuse

# What a file holds. All of them hold frames.
LOG: Final = 0  # records as they came
COMPACTED: Final = 1  # the live puts of several segments; it stands for these
SNAPSHOT: Final = 2  # the state of a queue; see `snapshot`
CHUNK: Final = 3  # a part of the ids and versions that a queue remembers; see `dedupe_file`

_FILE_HEADER: Final = struct.Struct("<8sHHI16sIIQIIII")
_COUNT: Final = struct.Struct("<BI")
_RANGE_TAGS: Final = (
    Tag.ITEM_FIRST, Tag.ITEM_LAST, Tag.PLACE, Tag.STORED_MS, Tag.LAST_MS,
)  # fmt: skip
_PUT: Final = int(Kind.PUT)
_kind: Final = attrgetter("kind")
_time_ms: Final = attrgetter("time_ms")

assert _FILE_HEADER.size == FILE_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first 64 bytes of a file. `journal` is the short identity that every frame carries.

    A compacted segment stands for the segments `first` to `last` (0 in other files).
    """

    journal: int
    identity: bytes
    segment: int
    capacity: int
    created_ms: int
    role: int = LOG
    first: int = 0
    last: int = 0

    @property
    def rank(self) -> int:
        """The place of this file in the order of the log."""
        return self.first or self.segment

    def encode(self) -> bytes:
        """Return the header's bytes."""
        raw = _FILE_HEADER.pack(
            MAGIC, VERSION, FILE_HEADER_BYTES, self.journal, self.identity,
            self.segment, self.capacity, self.created_ms, self.role, self.first, self.last, 0,
        )  # fmt: skip
        return raw[:-4] + struct.pack("<I", crc32(raw[:-4]))

    @classmethod
    def decode(cls, data: bytes, path: str) -> SegmentHeader | None:
        """Return the header, or None when it is damaged. Raises NewerFormat when it is whole but
        newer.
        """
        if len(data) < FILE_HEADER_BYTES or data[:8] != MAGIC:
            return None
        fields = _FILE_HEADER.unpack_from(data)
        (
            _, version, _, journal, identity, segment, capacity, created_ms,
            role, first, last, crc,
        ) = fields  # fmt: skip
        if crc32(data[: FILE_HEADER_BYTES - 4]) != crc:
            return None
        if version > VERSION:
            raise NewerFormat(
                f"{path}: journal format {version}, this kestrelpy reads up to {VERSION}"
            )
        if role > CHUNK:
            raise NewerFormat(f"{path}: a kind of journal file that this kestrelpy does not know")
        return cls(journal, identity, segment, capacity, created_ms, role, first, last)


_KINDS: Final = 40  # more than there are; every queue has a tally


@dataclass(slots=True)
class Tally:
    """The footer of a segment: its records by kind, and the ranges they span.

    First and last are least and greatest. Times need not rise with the log: a wall clock may step,
    and a record may wait for a segment to be written to.
    """

    counts: list[int] = field(default_factory=lambda: [0] * _KINDS)
    item_first: int = 0
    item_last: int = 0
    place_first: int = 0
    place_last: int = 0
    time_min: int = 0
    time_max: int = 0

    def copy(self) -> Tally:
        """Return a tally that counts on its own."""
        return replace(self, counts=self.counts[:])

    def see_time(self, time_ms: int) -> None:
        """Note that a record of this segment has this time."""
        if not self.time_min or time_ms < self.time_min:
            self.time_min = time_ms
        self.time_max = max(self.time_max, time_ms)

    def see_items(self, item_first: int, item_last: int) -> None:
        """Note that these items were put here (0: none was), and those between them."""
        self.item_first = self.item_first or item_first
        self.item_last = item_last or self.item_last

    def see_released_ids(self, place_first: int, place_last: int) -> None:
        """Note that these places were given here (0: none was), and those between them."""
        if place_first and (not self.place_first or place_first < self.place_first):
            self.place_first = place_first
        self.place_last = max(self.place_last, place_last)

    def see(self, record: Record) -> None:
        """Count one record that is in the segment already."""
        self.see_all([record])

    def see_all(self, records: list[Record]) -> None:
        """Count records that are in the segment already."""
        for kind, count in Counter(map(_kind, records)).items():
            if kind >= len(self.counts):  # a newer version's
                self.counts.extend([0] * (kind + 1 - len(self.counts)))
            self.counts[kind] += count
        if records:
            self.see_time(min(map(_time_ms, records)))
            self.see_time(max(map(_time_ms, records)))
        puts = [r.item for r in records if r.kind == _PUT]
        if puts:
            self.see_items(puts[0], puts[-1])
        places = [r.number for r in records if r.kind in PLACING and r.number]
        if places:
            self.see_released_ids(min(places), max(places))

    def meta(self) -> Meta:
        """Return the footer's meta."""
        counts = ((kind, count) for kind, count in enumerate(self.counts) if count)
        return {
            Tag.PLACE: self.place_first,
            Tag.STORED_MS: self.time_min,
            Tag.LAST_MS: self.time_max,
            Tag.ITEM_FIRST: self.item_first,
            Tag.ITEM_LAST: self.item_last,
            Tag.COUNTS: b"".join(_COUNT.pack(kind, count) for kind, count in counts),
        }

    @classmethod
    def from_footer(cls, footer: Record) -> Tally:
        """Do the inverse of `meta`, for a whole footer."""
        meta = decode_meta(footer.meta)
        counts = meta.get(Tag.COUNTS, b"")
        item_first, item_last, place_first, time_min, time_max = (
            n if isinstance(n := meta.get(tag), int) else 0 for tag in _RANGE_TAGS
        )
        made = cls(
            item_first=item_first, item_last=item_last, place_first=place_first,
            place_last=footer.number, time_min=time_min, time_max=time_max,
        )  # fmt: skip
        for kind, count in decode_counts(counts if isinstance(counts, bytes) else b"").items():
            made.counts.extend([0] * (kind + 1 - len(made.counts)))
            made.counts[kind] = count
        return made


def decode_counts(data: bytes) -> dict[int, int]:
    """Return the records by kind, from a footer's COUNTS."""
    return dict(_COUNT.iter_unpack(data[: len(data) // _COUNT.size * _COUNT.size]))


def segment_name(number: int) -> str:
    """Return the file name of segment `number`: sorted by name is sorted by number."""
    return f"{number:010d}{SUFFIX}"


def segment_number(name: str) -> int | None:
    """Return the number in a segment's file name; None for any other file."""
    stem = name.removesuffix(SUFFIX)
    if stem == name or len(stem) != 10 or not stem.isdigit():
        return None
    return int(stem)


def segment_path(folder: str, number: int) -> str:
    """Return the path of segment `number` of the journal in `folder`."""
    return os.path.join(folder, segment_name(number))


def usable_bytes(capacity: int) -> int:
    """Return where the records of a segment of `capacity` bytes must end."""
    return capacity - FOOTER_SPACE_BYTES
