"""One record of Kestrel's journal, to bytes and back. No I/O.

    0  ADD (1.0)            i32 size, i32 expiry in seconds, data[size - 4]
    1  REMOVE
    2  ADDX                 i32 size, i64 added ms, i64 expiry ms, data[size - 16]
    3  REMOVE_TENTATIVE (1.x)
    4  SAVE_XID (1.x)       i32 xid
    5  UNREMOVE             i32 xid
    6  CONFIRM_REMOVE       i32 xid
    7  ADD_XID (1.x)        i32 xid, then as ADDX
    8  CONTINUE             i32 xid, then as ADDX
    9  REMOVE_TENTATIVE_XID i32 xid

An opcode byte, then its fields; every integer is little-endian and signed, `size` counts the bytes
after itself, and 0 means "never expires". There is no header, no checksum and no padding.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

ADD: Final = 0
REMOVE: Final = 1
ADDX: Final = 2
REMOVE_TENTATIVE: Final = 3
SAVE_XID: Final = 4
UNREMOVE: Final = 5
CONFIRM_REMOVE: Final = 6
ADD_XID: Final = 7
CONTINUE: Final = 8
REMOVE_TENTATIVE_XID: Final = 9

I32: Final = struct.Struct("<i")
_TIMES: Final = struct.Struct("<qq")
ADDX_HEADER: Final = struct.Struct("<Biqq")
ADDX_BYTES: Final = ADDX_HEADER.size
TIMES_BYTES: Final = _TIMES.size
SECONDS_BYTES: Final = I32.size
# Bytes in front of the data, by opcode.
HEADER_BYTES: Final = {ADD: 9, ADDX: ADDX_BYTES, ADD_XID: 25, CONTINUE: 25}
HEADER_BYTES_MAX: Final = 25
BODY_BYTES_MAX: Final = (1 << 31) - 1 - TIMES_BYTES


class KestrelItem(NamedTuple):
    """An item: when it was added (0: the record does not say) and expires (0: never), in ms."""

    added_ms: int
    expires_ms: int
    body: bytes


def add_record(item: KestrelItem) -> bytes:
    """Return the ADDX record of an item.

    Raise ValueError if the body has more than BODY_BYTES_MAX bytes.
    """
    if len(item.body) > BODY_BYTES_MAX:
        raise ValueError(f"an item of {len(item.body)} bytes (limit {BODY_BYTES_MAX})")
    size = TIMES_BYTES + len(item.body)
    return ADDX_HEADER.pack(ADDX, size, item.added_ms, item.expires_ms) + item.body


def record_bytes(data: bytes, at: int) -> int:
    """Return the length of the record here that adds an item, by its header."""
    if data[at] in (ADD, ADDX):
        return 5 + int(I32.unpack_from(data, at + 1)[0])
    return 9 + int(I32.unpack_from(data, at + 5)[0])


def item_at(data: bytes, at: int) -> KestrelItem:
    """Return the item that the record here adds; the record is whole."""
    opcode = data[at]
    end = at + record_bytes(data, at)
    if opcode == ADD:
        (seconds,) = I32.unpack_from(data, at + 5)
        return KestrelItem(0, seconds * 1000, data[at + 9 : end])
    times_at = at + HEADER_BYTES[opcode] - TIMES_BYTES
    added_ms, expires_ms = _TIMES.unpack_from(data, times_at)
    return KestrelItem(added_ms, expires_ms, data[times_at + TIMES_BYTES : end])
