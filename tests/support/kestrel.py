"""Journals of Kestrel as bytes: the golden vectors, and a builder of records."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kestrelpy.kestrel import FilePiece, JournalSource

ADDED_MS = 0x0000013A2B3C4D5E  # 2012-10-04T10:05:03Z
_STAMP = "5e4d3c2b3a0100000000000000000000"

# Whole files, and the bodies that are left, the head first.
FILES: dict[str, tuple[str, list[bytes]]] = {
    "V1": (
        f"0211000000{_STAMP}610211000000{_STAMP}6201",
        [b"b"],
    ),
    "V2": (
        f"0215000000{_STAMP}686f7573650213000000{_STAMP}636174"
        "090100000009020000000501000000060200000001",
        [],
    ),
    "V3": (
        f"0211000000{_STAMP}310211000000{_STAMP}320211000000{_STAMP}330211000000{_STAMP}34"
        f"0211000000{_STAMP}35090100000009020000000903000000090400000006020000000604000000",
        [b"1", b"3", b"5"],
    ),
    "V4": (
        f"0213000000{_STAMP}6f6e650901000000080100000013000000{_STAMP}74776f",
        [b"two"],
    ),
    "V5": (f"0211000000{_STAMP}617f", [b"a"]),
    "V6": (f"0211000000{_STAMP}610213000000{_STAMP}", [b"a"]),
    "V7": (
        f"070500000011000000{_STAMP}4103070600000011000000{_STAMP}420304"
        f"090000000211000000{_STAMP}43",
        [b"A", b"B", b"C"],
    ),
}  # fmt: skip


def golden(name: str) -> bytes:
    """Return the bytes of a golden file."""
    return bytes.fromhex(FILES[name][0])


def add(body: bytes, added_ms: int = ADDED_MS, expires_ms: int = 0) -> bytes:
    """Return an ADDX record."""
    return struct.pack("<Biqq", 2, 16 + len(body), added_ms, expires_ms) + body


def add_1_0(body: bytes, expires_s: int = 0) -> bytes:
    """Return an ADD record of Kestrel 1.0."""
    return struct.pack("<Bii", 0, 4 + len(body), expires_s) + body


def with_xid(opcode: int, xid: int) -> bytes:
    """Return a record of an opcode and an xid."""
    return struct.pack("<Bi", opcode, xid)


def opened(xid: int) -> bytes:
    """Return the record of an open."""
    return with_xid(9, xid)


def confirmed(xid: int) -> bytes:
    """Return the record of a confirm."""
    return with_xid(6, xid)


def put_back(xid: int) -> bytes:
    """Return the record of an abort."""
    return with_xid(5, xid)


REMOVED = b"\x01"


def source(*files: bytes, piece_bytes: int = 1 << 20) -> JournalSource:
    """Return a journal of these files, replayed."""
    content = {f"q.{number}": data for number, data in enumerate(files)}
    pieces = [FilePiece(name, len(data)) for name, data in content.items()]
    made = JournalSource(
        pieces, lambda name, offset, size: content[name][offset : offset + size], piece_bytes
    )
    made.run()
    return made


def left(*files: bytes, piece_bytes: int = 1 << 20) -> list[bytes]:
    """Return the bodies that a replay of these files leaves, the head first."""
    return [item.body for item in source(*files, piece_bytes=piece_bytes).items()]


def damages(made: JournalSource) -> Sequence[tuple[str, int]]:
    """Return where a journal is damaged."""
    return [(name, damage.offset) for name, damage in made.damages]
