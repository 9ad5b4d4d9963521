"""One record to bytes and back: frame, checksum, kinds. No I/O.

A frame is a header of fixed width, so that numpy can gather millions of them, then `meta` (what
only some records have, as tag-length-value) and `body` (what the client stored):

     0        4        8        12       16       20       24       32       40       48       56
     +--------+--------+--------+--------+--------+--------+--------+--------+--------+--------+
     | crc32  | length | journal| segment| offset | small  |  lsn   | time_ms|  item  | number |
     +--------+--------+--------+--------+--------+--------+--------+--------+--------+--------+
     56     57     58      60      62     64
     +------+------+-------+-------+------+---------------------------
     | kind |  0   | meta  | reader|  0   | meta | body | 0..7 zeros
     +------+------+-------+-------+------+---------------------------

Little-endian. `length` counts header, meta and body; the next frame starts at the next multiple
of 8. `crc32` comes first and covers all of `length` behind itself, so that one call checks a
frame. `journal`, `segment` and `offset` say where the frame belongs, so a recycled or misplaced
block never parses. What `number` and `small` mean depends on the kind: FORMAT.md has the table,
and a test holds it equal to this file.

One rule: every record names its item by id; nothing here means "the head".
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple
from zlib import crc32

from journal.errors import NewerFormat

HEADER_BYTES: Final = 64
ALIGN_BYTES: Final = 8
# The largest frame a segment can hold: offsets and lengths are 32-bit, with a wide margin.
FRAME_BYTES_MAX: Final = 1 << 30

CRC_BYTES: Final = 4  # the checksum covers what follows it
META_BYTES_MAX: Final = (1 << 16) - 1

_COVERED: Final = struct.Struct("<IIIIIQQQQBBHHH")  # the header without its checksum
_FRAME: Final = struct.Struct("<IIIIIIQQQQBBHHH")
_PLACED: Final = struct.Struct("<IIIII")  # checksum, length, journal, segment, offset
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
TEXT_TAG: Final = struct.Struct("<BH")  # a tag and how long its value is, which follows
NUMBER_TAG: Final = struct.Struct("<BHQ")  # a tag, 8, and its value
_IDENTITY_AT: Final = 8  # where `journal` and `segment` stand in a frame
_new: Final = tuple.__new__  # half the cost of calling a named tuple
_PADDING: Final = tuple(b"\0" * (-n % ALIGN_BYTES) for n in range(ALIGN_BYTES))

assert _FRAME.size == HEADER_BYTES
assert _COVERED.size == HEADER_BYTES - CRC_BYTES


class Kind(IntEnum):
    """What a record says. Numbers are part of the format and are never reused."""

    BATCH = 1  # opens records written at once; number: the last lsn known to be synced
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
    LEASED = 13  # lent by token; number: the token; small: which delivery; meta: deadline, bytes
    RENEWED = 14  # a lease by token has a new deadline; number: the token
    READER = 15  # a reader of this log was named; reader: its number from now on
    UPTO = 16  # a reader confirmed everything up to the marker `number`
    DECLARED = 17  # queue settings declared by a client; body: TOML
    MOVING = 18  # this item is being moved; meta: the target
    MOVED = 19  # this item is now elsewhere, and ended here; meta: the target
    SETTLED = 20  # an open origin was settled: its source has recorded the move
    REDRIVEN = 21  # dead no more; number: its new place
    CARRIED = 22  # a survivor rewritten from an older segment, with its whole state
    CANCELLED = 23  # removed on request before it was delivered
    PAUSED = 24  # a reader stops (small 1) or goes on (small 0) lending
    DONE_MANY = 25  # many confirms in the room of few; body: one entry for each
    IDS = 26  # in a snapshot: dedupe ids seen, hashed
    KEYS = 27  # in a snapshot: versions reached, by hashed key
    LIVE = 28  # in a snapshot: ids of the items there
    ATTEMPTS = 29  # in a snapshot: attempts of items that came back
    SEGMENTS = 30  # in a snapshot: what is alive in each segment
    DELAYED = 31  # in a snapshot: items that are not due yet
    PLACED = 32  # in a snapshot: items whose place or marker is another number than their id
    OPEN = 33  # in a snapshot: an item here whose origin is open


# These stand between records and are not numbered: their lsn is that of the record that follows.
UNNUMBERED: Final = frozenset({Kind.BATCH, Kind.CHECKPOINT, Kind.FOOTER})
# These give an item a new place, in `number`: the queue's next one.
PLACING: Final = frozenset({Kind.PUT, Kind.RELEASED, Kind.REDRIVEN})
_PUT: Final = int(Kind.PUT)


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
    GENERATION = 23  # u64, of this queue; beside an origin or a target: of that queue
    CLIENT = 24  # who stored it, as the client says (Zaqar's Client-ID)
    LIVE = 25  # u64, items present: ready, delayed, lent or dead
    AS_OF = 26  # u64, the last lsn whose record a checkpoint's state includes
    LAST_MS = 27  # u64, the latest time of a segment's records
    ITEM_FIRST = 28  # u64, the first item put in a segment
    ITEM_LAST = 29  # u64, the last item put in a segment
    COUNTS = 30  # records of a segment by kind: u8 kind and u32 count, repeated
    DEAD_MS = 31  # u64, when a carried item died
    BYTES = 32  # u64, of the body of the item that a record is about; or of all items there
    PREVIOUS = 33  # u64, the item before this one under its key


_TAGS: Final = {int(tag): tag for tag in Tag}  # quicker than asking the enumeration
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
        Tag.GENERATION,
        Tag.LIVE,
        Tag.AS_OF,
        Tag.LAST_MS,
        Tag.ITEM_FIRST,
        Tag.ITEM_LAST,
        Tag.DEAD_MS,
        Tag.BYTES,
        Tag.PREVIOUS,
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


# A draft without its names: what the hot path makes, because a plain tuple is built in no time.
RawDraft = tuple[int, int, int, int, int, bytes, bytes, int, int]


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


def number_given(record: Record) -> int:
    """The queue's number that this record gave: to an item, or as a place; 0: it gave none."""
    if record.kind == _PUT:
        return record.item
    return record.number if record.kind in PLACING else 0


# DONE, EXPIRED, DISCARDED, CANCELLED and MOVED say in `small` how large the body was that they
# end: the lower 8 bits are which delivery it was (255: that or a later one), the others the bytes.
# A body that does not fit says so in meta (BYTES).
DELIVERY_MAX: Final = 255
_ENDED_BYTES_MAX: Final = (1 << 24) - 1


def ended(delivery: int, body_bytes: int) -> tuple[int, bytes]:
    """`small` and meta of a record that ends an item."""
    if body_bytes > _ENDED_BYTES_MAX:
        return min(delivery, DELIVERY_MAX), encode_meta({Tag.BYTES: body_bytes})
    return min(delivery, DELIVERY_MAX) | body_bytes << 8, b""


def ended_bytes(small: int, meta: bytes) -> int:
    """How large the body was that such a record ends."""
    if meta and not small >> 8:
        found = decode_meta(meta).get(Tag.BYTES, 0)
        return found if isinstance(found, int) else 0
    return small >> 8


def padded(length: int) -> int:
    """`length` rounded up to where the next frame starts."""
    return (length + 7) & ~7


def encode_meta(meta: Meta) -> bytes:
    """Tag-length-value, in the order given (writers give tags in rising order)."""
    out = []
    for tag, value in meta.items():
        data = _U64.pack(value) if isinstance(value, int) else value
        out.append(TEXT_TAG.pack(tag, len(data)))
        out.append(data)
    return b"".join(out)


def decode_meta(data: bytes) -> Meta:
    """The inverse of `encode_meta`.

    Raises NewerFormat for a tag that must be known and is not, ValueError for what is no meta.
    """
    meta: Meta = {}
    at = 0
    while at < len(data):
        if at + TEXT_TAG.size > len(data):
            raise ValueError("meta ends within a tag")
        tag, size = TEXT_TAG.unpack_from(data, at)
        at += TEXT_TAG.size
        value = data[at : at + size]
        at += size
        if at > len(data):
            raise ValueError(f"meta ends within tag {tag}")
        known = _TAGS.get(tag)
        if known is None:
            if tag >= 128:
                continue
            raise NewerFormat(f"meta tag {tag} is not known to this version")
        if known in _NUMBER_TAGS:
            if size != _U64.size:
                raise ValueError(f"meta tag {tag} is a number and has {size} bytes")
            meta[known] = _U64.unpack(value)[0]
        else:
            meta[known] = value
    return meta


def said_of_put(meta: bytes, said: Meta | None = None) -> tuple[int, bytes, bytes]:
    """When its item expires (0: never), its key and its id (empty: none), by the meta of a put.

    `said` is the meta decoded, if the caller has that.
    """
    said = decode_meta(meta) if said is None else said
    expires_ms, key = said.get(Tag.EXPIRES_MS, 0), said.get(Tag.KEY, b"")
    id_ = said.get(Tag.ID, b"")
    return (
        expires_ms if isinstance(expires_ms, int) else 0,
        key if isinstance(key, bytes) else b"",
        id_ if isinstance(id_, bytes) else b"",
    )


def encode(
    draft: RawDraft, lsn: int, journal: int, segment: int, offset: int, out: list[bytes]
) -> int:
    """Append the frame's pieces to `out`; return how many bytes they are, padding included."""
    kind, item, number, small, time_ms, meta, body, reader, _ = draft
    length = HEADER_BYTES + len(meta) + len(body)
    covered = _COVERED.pack(
        length, journal, segment, offset, small, lsn, time_ms, item, number,
        kind, 0, len(meta), reader, 0,
    )  # fmt: skip
    if meta:
        crc = crc32(body, crc32(meta, crc32(covered)))
        out += (_U32.pack(crc), covered, meta, body)
    else:
        out += (_U32.pack(crc32(body, crc32(covered))), covered, body)
    rest = length & 7
    if rest:
        out.append(_PADDING[rest])
        return length + 8 - rest
    return length


def decode(
    data: bytes | memoryview, offset: int, journal: int, segment: int, base: int = 0
) -> Record | None:
    """The record at `offset`, or None when the bytes there are not one that belongs there.

    `journal` 0 accepts any journal (for a segment whose header was lost). `base` is where in the
    file `data` begins.
    """
    if offset + HEADER_BYTES > len(data):
        return None
    (
        crc, length, owner, number_of_segment, position, small, lsn, time_ms, item, number,
        kind, zero, meta_bytes, reader, zero2,
    ) = _FRAME.unpack_from(data, offset)  # fmt: skip
    end = offset + length
    if (
        number_of_segment != segment
        or position != base + offset
        or length < HEADER_BYTES + meta_bytes
        or end > len(data)
        or (journal and owner != journal)
        or zero
        or zero2
    ):
        return None
    if crc32(data[offset + CRC_BYTES : end]) != crc:
        return None
    body_at = offset + HEADER_BYTES + meta_bytes
    meta = bytes(data[offset + HEADER_BYTES : body_at]) if meta_bytes else b""
    return _new(Record, (
        kind, item, number, small, time_ms, meta, bytes(data[body_at:end]),
        reader, lsn, segment, position, position + (length + 7 & ~7),
    ))  # fmt: skip


def is_older_frame(data: bytes | memoryview, offset: int, journal: int, segment: int) -> bool:
    """Is this what an earlier life of a recycled segment left behind? Then the log ends here."""
    if offset + HEADER_BYTES > len(data):
        return False
    crc, length, owner, older, position = _PLACED.unpack_from(data, offset)
    if owner != journal or older >= segment or position != offset:
        return False
    if not HEADER_BYTES <= length <= len(data) - offset:
        return False
    matches: bool = crc32(data[offset + CRC_BYTES : offset + length]) == crc
    return matches


def frame_end(data: bytes | memoryview, offset: int, journal: int, segment: int) -> int:
    """Where the frame at `offset` ends by what its header says, be the rest damaged; 0: unknown."""
    if offset + HEADER_BYTES > len(data):
        return 0
    _, length, owner, number_of_segment, position = _PLACED.unpack_from(data, offset)
    if owner != journal or number_of_segment != segment or position != offset:
        return 0
    return offset + padded(length) if HEADER_BYTES <= length <= len(data) - offset else 0


def frame_bytes(data: bytes, at: int, journal: int, segment: int, base: int) -> int:
    """How long the frame here says it is; 0: none begins here. `data` stands at `base`."""
    if at + HEADER_BYTES > len(data):
        return 0
    _, length, owner, number, position = _PLACED.unpack_from(data, at)
    is_here = (owner, number, position) == (journal, segment, base + at)
    return int(length) if is_here else 0


def find_next(
    data: bytes, start: int, journal: int, segment: int, stop: int | None = None
) -> Record | None:
    """The first whole record that belongs at its place, at or after `start`; None: no more.

    Used behind damage. Searches for the journal's identity and the segment's number, which every
    frame carries at bytes 8 to 16, so zeros and foreign bytes are passed over quickly.
    """
    needle = struct.pack("<II", journal, segment)
    at = padded(start)
    while True:
        found = data.find(needle, at + _IDENTITY_AT, stop)
        if found < 0:
            return None
        offset = found - _IDENTITY_AT
        if offset % ALIGN_BYTES == 0:
            record = decode(data, offset, journal, segment)
            if record is not None:
                return record
        at = offset + 1
