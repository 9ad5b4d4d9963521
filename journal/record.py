"""One record to bytes and back: frame, checksum, kinds. No I/O.

A frame is a header of fixed width, so that numpy can gather millions of them, then `meta` (what
only some records have, as tag-length-value) and `body` (what the client stored):

     0        4        8        12       16       24       32       40       48
     +--------+--------+--------+--------+--------+--------+--------+--------+
     | length | journal| segment| offset |  lsn   | time_ms|  item  | number |
     +--------+--------+--------+--------+--------+--------+--------+--------+
     48     49     50      52      54     56       60       64
     +------+------+-------+-------+------+--------+--------+-----------------
     | kind |  0   | meta  | reader|  0   | small  | crc32  | meta | body | 0..7 zeros
     +------+------+-------+-------+------+--------+--------+-----------------

Little-endian. `length` counts header, meta and body; the next frame starts at the next multiple
of 8. `crc32` covers the 60 bytes before it, meta and body. `journal`, `segment` and `offset` say
where the frame belongs, so a recycled or misplaced block never parses. What `number` and `small`
mean depends on the kind: FORMAT.md has the table, and a test holds it equal to this file.

One rule: every record names its item by id; nothing here means "the head".
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple
from zlib import crc32

HEADER_BYTES: Final = 64
ALIGN_BYTES: Final = 8
# The largest frame a segment can hold: offsets and lengths are 32-bit, with a wide margin.
FRAME_BYTES_MAX: Final = 1 << 30

_FRONT: Final = struct.Struct("<IIIIQQQQBBHHHI")
_FRAME: Final = struct.Struct("<IIIIQQQQBBHHHII")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_TAG: Final = struct.Struct("<BH")
_PADDING: Final = tuple(b"\0" * (-n % ALIGN_BYTES) for n in range(ALIGN_BYTES))

assert _FRAME.size == HEADER_BYTES
assert _FRONT.size == HEADER_BYTES - 4


class Kind(IntEnum):
    """What a record says. Numbers are part of the format and are never reused."""

    BATCH = 1  # a group of records written at once; number: the last lsn known to be synced
    CHECKPOINT = 2  # a segment's opening state; item, number: the next id, the next place
    PUT = 3  # an item; number: its place, 0 while it is not yet due; small: client flags
    DONE = 4  # confirmed; number: when the delivery began; small: which delivery it was
    RETURNED = 5  # given back; number: when the delivery began; small: attempts from now on
    DEAD = 6  # attempts used up, or buried; number: when the delivery began; small: attempts
    EXPIRED = 7  # past its expiry
    DISCARDED = 8  # dropped by a limit
    FLUSHED = 9  # everything ready or delayed up to `item` is gone; body: ids that stay
    TOKENS = 10  # lease tokens below `number` may have been issued
    FOOTER = 11  # closes a sealed segment, at a fixed place: counts and ranges
    RELEASED = 12  # a delayed item became available; number: its place
    LEASED = 13  # lent by token; number: the token; meta: deadline
    RENEWED = 14  # a lease by token has a new deadline; number: the token
    READER = 15  # a reader of this log was named; reader: its number from now on
    UPTO = 16  # a reader confirmed everything up to the marker `number`
    DECLARED = 17  # queue settings declared by a client; body: TOML
    MOVING = 18  # this item is being moved; meta: the target
    MOVED = 19  # this item is now elsewhere; meta: the target
    SETTLED = 20  # an open origin was settled: its source has recorded the move
    REDRIVEN = 21  # dead no more; number: its new place
    CARRIED = 22  # a survivor rewritten from an older segment, with its whole state
    CANCELLED = 23  # removed on request before it was delivered
    PAUSED = 24  # a reader stops (small 1) or goes on (small 0) lending


# These stand between records and are not numbered: their lsn is that of the record that follows.
UNNUMBERED: Final = frozenset({Kind.BATCH, Kind.CHECKPOINT, Kind.FOOTER})


class Tag(IntEnum):
    """What `meta` may hold. Below 128 a reader must know the tag; from 128 on it may pass over."""

    EXPIRES_MS = 1  # u64, wall clock
    DUE_MS = 2  # u64, wall clock
    KEY = 3  # canonical key, typed values
    ID = 4  # dedupe id as sent
    SCOPE = 5
    EPOCH = 6  # u64
    VERSION = 7  # u64, the version this item makes under its key
    ORIGIN = 8  # server:queue:id
    ATTEMPTS = 9  # u64
    REASON = 10  # text
    TOKEN = 11  # u64
    DEADLINE_MS = 12  # u64, wall clock
    PLACE = 13  # u64, where it differs from the number in the header
    MARKER = 14  # u64, first place, where it differs from the place
    FIRST_MS = 15  # u64, first delivery of a dead item
    STORED_MS = 16  # u64, when a carried or moved item was first stored
    NAME = 17  # a queue's or a reader's name
    TARGET = 18  # server:queue:id
    TOKENS = 19  # u64, tokens below this may have been issued
    TOTAL = 20  # u64, items ever put
    SERVER = 21  # server id
    SYNCED = 22  # u64, last lsn known to be synced


_NUMBER_TAGS: Final = frozenset(
    {
        Tag.EXPIRES_MS,
        Tag.DUE_MS,
        Tag.EPOCH,
        Tag.VERSION,
        Tag.ATTEMPTS,
        Tag.TOKEN,
        Tag.DEADLINE_MS,
        Tag.PLACE,
        Tag.MARKER,
        Tag.FIRST_MS,
        Tag.STORED_MS,
        Tag.TOKENS,
        Tag.TOTAL,
        Tag.SYNCED,
    }
)

Meta = dict[Tag, int | bytes]


class Draft(NamedTuple):
    """A record before it has a position. `put_lsn` names the put that this record ends, or 0."""

    kind: int
    item: int
    number: int
    small: int
    time_ms: int
    meta: bytes
    body: bytes
    reader: int
    put_lsn: int


class Record(NamedTuple):
    """A record as it stands in a segment."""

    kind: int
    item: int
    number: int
    small: int
    time_ms: int
    meta: bytes
    body: bytes
    reader: int
    lsn: int
    segment: int
    offset: int
    end: int


def padded(length: int) -> int:
    """`length` rounded up to where the next frame starts."""
    return (length + 7) & ~7


def encode_meta(meta: Meta) -> bytes:
    """Tag-length-value, in the order given. Numbers take 8 bytes."""
    out = []
    for tag, value in meta.items():
        data = _U64.pack(value) if isinstance(value, int) else value
        out.append(_TAG.pack(tag, len(data)))
        out.append(data)
    return b"".join(out)


def decode_meta(data: bytes) -> Meta:
    """The inverse of `encode_meta`; raises ValueError for a tag that must be known and is not."""
    meta: Meta = {}
    at = 0
    while at < len(data):
        tag, size = _TAG.unpack_from(data, at)
        at += _TAG.size
        value = data[at : at + size]
        at += size
        try:
            known = Tag(tag)
        except ValueError:
            if tag >= 128:
                continue
            raise ValueError(f"meta tag {tag} is not known to this version") from None
        meta[known] = _U64.unpack(value)[0] if known in _NUMBER_TAGS else value
    return meta


def encode(
    draft: Draft, lsn: int, journal: int, segment: int, offset: int, out: list[bytes]
) -> int:
    """Append the frame's pieces to `out`; return how many bytes they are, padding included."""
    kind, item, number, small, time_ms, meta, body, reader, _ = draft
    length = HEADER_BYTES + len(meta) + len(body)
    front = _FRONT.pack(
        length, journal, segment, offset, lsn, time_ms, item, number,
        kind, 0, len(meta), reader, 0, small,
    )  # fmt: skip
    out.append(front)
    if meta:
        out.append(_U32.pack(crc32(body, crc32(meta, crc32(front)))))
        out.append(meta)
    else:
        out.append(_U32.pack(crc32(body, crc32(front))))
    out.append(body)
    rest = length & 7
    if rest:
        out.append(_PADDING[rest])
        return length + 8 - rest
    return length


def decode(data: bytes | memoryview, offset: int, journal: int, segment: int) -> Record | None:
    """The record at `offset`, or None when the bytes there are not one that belongs there.

    `journal` 0 accepts any journal (for a segment whose header was lost).
    """
    if offset + HEADER_BYTES > len(data):
        return None
    (
        length, owner, number_of_segment, position, lsn, time_ms, item, number,
        kind, zero, meta_bytes, reader, zero2, small, crc,
    ) = _FRAME.unpack_from(data, offset)  # fmt: skip
    end = offset + length
    if (
        number_of_segment != segment
        or position != offset
        or length < HEADER_BYTES + meta_bytes
        or end > len(data)
        or (owner != journal and journal != 0)
        or zero
        or zero2
    ):
        return None
    if crc32(data[offset + HEADER_BYTES : end], crc32(data[offset : offset + 60])) != crc:
        return None
    body_at = offset + HEADER_BYTES + meta_bytes
    return Record(
        kind, item, number, small, time_ms,
        bytes(data[offset + HEADER_BYTES : body_at]), bytes(data[body_at:end]),
        reader, lsn, segment, offset, offset + padded(length),
    )  # fmt: skip


def is_older_frame(data: bytes | memoryview, offset: int, journal: int, segment: int) -> bool:
    """Is this what an earlier life of a recycled segment left behind? Then the log ends here."""
    if offset + HEADER_BYTES > len(data):
        return False
    length, owner, older = struct.unpack_from("<III", data, offset)
    end = offset + length
    if owner != journal or older >= segment or not HEADER_BYTES <= length <= len(data) - offset:
        return False
    stored: int = _U32.unpack_from(data, offset + 60)[0]
    return crc32(data[offset + HEADER_BYTES : end], crc32(data[offset : offset + 60])) == stored


def find_next(data: bytes, start: int, journal: int, segment: int) -> Record | None:
    """The first whole record that belongs at its place, at or after `start`; None: no more.

    Used behind damage. Searches for the journal's identity and the segment's number, which every
    frame carries at bytes 4 to 12, so zeros and foreign bytes are passed over quickly.
    """
    needle = struct.pack("<II", journal, segment)
    at = padded(start)
    while True:
        found = data.find(needle, at + 4)
        if found < 0:
            return None
        offset = found - 4
        if offset % ALIGN_BYTES == 0:
            record = decode(data, offset, journal, segment)
            if record is not None:
                return record
        at = found - 3
