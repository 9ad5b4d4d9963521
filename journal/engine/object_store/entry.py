"""An entry of the log of a slice, as an object: a claim, a commit, or a word of the owner.

    "KPS1", size of the row, row, size of the changes, changes, the written bytes, CRC-32

The row is all that others need to know: who owns the slice, its epoch, the number of its next
commit, and the newest snapshot. It stands first, so that they read the front of an entry alone.

One rule: what an entry says holds from its position on, until the next entry.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from journal.engine.batch import Batch, batch_of
from journal.engine.engine import Claim, Member, Op

_MAGIC: Final = b"KPS1"
_SIZE: Final = struct.Struct(">I")
FRONT_BYTES: Final = 4096  # a row and what is before it are shorter


class SliceRow(NamedTuple):
    """A slice, as an entry leaves it."""

    position: int  # of the entry in the log
    epoch: int
    seq: int  # of the next commit
    member: Member
    snapshot: str = ""  # the newest one that counts; "": none
    is_claim: bool = False
    has_released: bool = False
    is_importing: bool = False

    def claim(self, number: int) -> Claim:
        """Return the right to the next commit."""
        return Claim(number, self.epoch, self.seq)


class LogEntry(NamedTuple):
    """An entry: the row, and what a commit changes."""

    row: SliceRow
    batch: Batch


class Damaged(ValueError):
    """These bytes are no entry."""


def pack(row: SliceRow, ops: Sequence[Op] = ()) -> bytes:
    """Return the bytes of an entry."""
    batch = batch_of(ops)
    changes = {
        "created": [[file, path, size] for file, (path, size) in batch.created.items()],
        "renamed": [*batch.renamed.items()],
        "deleted": batch.deleted,
        "written": [
            [file, [[offset, len(data)] for offset, data in written]]
            for file, written in batch.written.items()
        ],
    }  # fmt: skip
    parts = [_MAGIC]
    for each in (row._asdict(), changes if ops else {}):
        text = json.dumps(each, separators=(",", ":")).encode()
        parts += [_SIZE.pack(len(text)), text]
    parts += [data for written in batch.written.values() for _, data in written]
    whole = b"".join(parts)
    return whole + _SIZE.pack(zlib.crc32(whole))


def unpack_row(data: bytes) -> SliceRow:
    """Return the row of an entry, of its front; raise Damaged."""
    return _row(data)[0]


def unpack(data: bytes) -> LogEntry:
    """Return an entry; raise Damaged."""
    if zlib.crc32(data[: -_SIZE.size]) != _SIZE.unpack(data[-_SIZE.size :])[0]:
        raise Damaged("its checksum is wrong")
    row, at = _row(data)
    changes, at = _text(data, at)
    batch = Batch()
    for file, path, size in changes.get("created", ()):
        batch.created[file] = (path, size)
    batch.renamed = dict(changes.get("renamed", ()))
    batch.deleted = changes.get("deleted", [])
    for file, written in changes.get("written", ()):
        batch.written[file] = []
        for offset, size in written:
            batch.written[file].append((offset, data[at : at + size]))
            at += size
    return LogEntry(row, batch)


def _row(data: bytes) -> tuple[SliceRow, int]:
    if data[: len(_MAGIC)] != _MAGIC:
        raise Damaged("it is no entry of a log")
    fields, at = _text(data, len(_MAGIC))
    fields["member"] = Member(*fields["member"])
    return SliceRow(**fields), at


def _text(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    try:
        begin = at + _SIZE.size
        end = begin + _SIZE.unpack_from(data, at)[0]
        found: dict[str, Any] = json.loads(data[begin:end])
    except (ValueError, struct.error):
        raise Damaged("it is cut off") from None
    return found, end
