"""One record to bytes and back: frame and checksum. No I/O.

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
of 8. `crc32` comes first and covers all of `length` after itself, so that one call checks a
frame. `journal`, `segment` and `offset` say where the frame belongs, so a recycled or misplaced
block never parses. What `number` and `small` mean depends on the kind: FORMAT.md has the table,
and a test holds it equal to `kinds`.

One rule: every record names its item by id; nothing here means "the head".
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from journal.format.kinds import PLACING, Kind

# True in the compiled wheel; mypyc is told so (`packaging/compiled/hook.py`).
COMPILED: Final = not __file__.endswith(".py")
if COMPILED:
    from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le

HEADER_BYTES: Final = 64
ALIGN_BYTES: Final = 8
# The largest frame a segment can hold: offsets and lengths are 32-bit, with a wide margin.
FRAME_BYTES_MAX: Final = 1 << 30

SMALL_BYTES: Final = 4 << 10  # a frame up to which one copy costs less than another call

CRC_BYTES: Final = 4  # the checksum covers what follows it
META_BYTES_MAX: Final = (1 << 16) - 1

crc32: Final = zlib.crc32  # Final: mypyc looks it up once
_COVERED: Final = struct.Struct("<IIIIIQQQQBBHHH")  # the header without its checksum
FRAME: Final = struct.Struct("<IIIIIIQQQQBBHHH")
_PLACED: Final = struct.Struct("<IIIII")  # checksum, length, journal, segment, offset
_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_PUT: Final = int(Kind.PUT)
_new: Final = tuple.__new__  # half the cost of calling a named tuple
_PADDING: Final = tuple(b"\0" * (-n % ALIGN_BYTES) for n in range(ALIGN_BYTES))

assert FRAME.size == HEADER_BYTES
assert _COVERED.size == HEADER_BYTES - CRC_BYTES


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
    """A record of a segment, with its position."""

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
    """Return the number that this record gave: to an item, or as a place; 0: it gave none."""
    if record.kind == _PUT:
        return record.item
    return record.number if record.kind in PLACING else 0


def padded(length: int) -> int:
    """Return `length` rounded up to the start of the next frame."""
    return (length + 7) & ~7


def encode(
    draft: RawDraft, lsn: int, journal: int, segment: int, offset: int, out: list[bytes]
) -> int:
    """Append the frame's pieces to `out`; return their bytes, padding included."""
    kind, item, number, small, time_ms, meta, body, reader, _ = draft
    length = HEADER_BYTES + len(meta) + len(body)
    is_small = length < SMALL_BYTES  # joined sooner than summed up in parts
    padding = _PADDING[length & 7]
    if COMPILED and is_small:  # the same bytes, for a fifth of the instructions
        writer = BytesWriter()
        _write_u32(writer, length)
        _write_u32(writer, journal)
        _write_u32(writer, segment)
        _write_u32(writer, offset)
        _write_u32(writer, small)
        _write_u64(writer, lsn)
        _write_u64(writer, time_ms)
        _write_u64(writer, item)
        _write_u64(writer, number)
        _write_u16(writer, kind)
        _write_u16(writer, len(meta))
        _write_u16(writer, reader)
        _write_u16(writer, 0)
        writer.write(meta)
        writer.write(body)
        covered = writer.getvalue()
        frame = BytesWriter()
        _write_u32(frame, crc32(covered))
        frame.write(covered)
        frame.write(padding)
        out.append(frame.getvalue())
        return length + len(padding)
    covered = _COVERED.pack(
        length, journal, segment, offset, small, lsn, time_ms, item, number,
        kind, 0, len(meta), reader, 0,
    )  # fmt: skip
    if is_small:
        covered += meta + body
        out += (_U32.pack(crc32(covered)), covered)
    else:
        crc = crc32(body, crc32(meta, crc32(covered)))
        out += (_U32.pack(crc), covered, meta, body)
    if padding:
        out.append(padding)
    return length + len(padding)


# mypyc's writer has signed numbers alone; `struct` does the rest, and refuses what has no room.


def _write_u16(writer: BytesWriter, number: int) -> None:
    if 0 <= number < 1 << 15:
        write_i16_le(writer, number)
    else:
        writer.write(_U16.pack(number))


def _write_u32(writer: BytesWriter, number: int) -> None:
    if 0 <= number < 1 << 31:
        write_i32_le(writer, number)
    elif 0 <= number < 1 << 32:  # the numbers of half the journals
        write_i32_le(writer, number - (1 << 32))
    else:
        writer.write(_U32.pack(number))


def _write_u64(writer: BytesWriter, number: int) -> None:
    if 0 <= number < 1 << 60:
        write_i64_le(writer, number)
    else:
        writer.write(_U64.pack(number))


def decode(
    data: bytes | memoryview, offset: int, journal: int, segment: int, base: int = 0
) -> Record | None:
    """Return the record at `offset`, or None when the bytes there are not one that belongs there.

    `journal` 0 accepts any journal (for a segment whose header was lost). `base` is where in the
    file `data` begins.
    """
    if offset + HEADER_BYTES > len(data):
        return None
    (
        crc, length, owner, number_of_segment, position, small, lsn, time_ms, item, number,
        kind, zero, meta_bytes, reader, zero2,
    ) = FRAME.unpack_from(data, offset)  # fmt: skip
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
    """True if this is a frame of an earlier life of a recycled segment: the log ends here then."""
    if offset + HEADER_BYTES > len(data):
        return False
    crc, length, owner, older, position = _PLACED.unpack_from(data, offset)
    if owner != journal or older >= segment or position != offset:
        return False
    if not HEADER_BYTES <= length <= len(data) - offset:
        return False
    matches: bool = crc32(data[offset + CRC_BYTES : offset + length]) == crc
    return matches


def frame_bytes(data: bytes, at: int, journal: int, segment: int, base: int) -> int:
    """Return the length of the frame here by its header, even if the rest is damaged; 0: none
    begins here. `data` is at `base`.
    """
    if at + HEADER_BYTES > len(data):
        return 0
    _, length, owner, number, position = _PLACED.unpack_from(data, at)
    is_here = (owner, number, position) == (journal, segment, base + at)
    return int(length) if is_here and length >= HEADER_BYTES else 0
