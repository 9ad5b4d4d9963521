"""The layout of the golden journals: by hand, with `encode` alone, so that no change of the
writer's habits moves a byte.

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.meta import Meta, encode_meta
from journal.format.record import HEADER_BYTES, Draft, Record, decode, encode
from journal.format.segment import (
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    LOG,
    SegmentHeader,
    Tally,
    segment_name,
)
from journal.sets.id_set import IdSet

IDENTITY = bytes(range(0xA0, 0xB0))
SHORT_IDENTITY = int.from_bytes(IDENTITY[:4], "little")
TIME_MS = 1_767_323_045_000  # 2026-01-02T03:04:05Z
SERVER = b"server-1"


def draft(
    kind: Kind,
    item: int = 0,
    number: int = 0,
    small: int = 0,
    body: bytes = b"",
    meta: Meta | None = None,
    reader: int = 0,
    time_ms: int = TIME_MS,
) -> Draft:
    """A record with only what matters written out."""
    return Draft(kind, item, number, small, time_ms, encode_meta(meta or {}), body, reader, 0)


@dataclass
class SegmentBuilder:
    """Lays out one segment; `lsn` is that of the next record.

    A compacted segment replaces the segments `first` to `last`. `life` are the file's bytes of
    before.
    """

    number: int = 1
    capacity: int = 4096
    lsn: int = 1
    checkpoint: Checkpoint | None = None
    identity: bytes = IDENTITY
    time_ms: int = TIME_MS
    first: int = 0
    last: int = 0
    life: bytes | None = None
    data: bytearray = field(init=False)
    at: int = field(init=False)
    tally: Tally = field(default_factory=Tally)
    records: int = 0

    def __post_init__(self) -> None:
        header = SegmentHeader(
            self.journal, self.identity, self.number, self.capacity, self.time_ms,
            COMPACTED if self.first else LOG, self.first, self.last,
        )  # fmt: skip
        self.data = bytearray(self.life or self.capacity)
        assert len(self.data) == self.capacity
        self.data[:FILE_HEADER_BYTES] = header.encode()
        self.at = FILE_HEADER_BYTES
        self._end()
        if self.checkpoint is not None:
            self.at += self._lay(self.at, self.checkpoint.draft(self.time_ms, self.lsn - 1))

    @property
    def journal(self) -> int:
        """The short identity."""
        return int.from_bytes(self.identity[:4], "little")

    def batch(
        self, *drafts: Draft, synced: int = 0, lsns: Sequence[int] = ()
    ) -> list[Record]:
        """Append a batch, which says that everything up to `synced` is on disk; return its records.

        `lsns` are their lsns if those have gaps.
        """
        offset = self.at + HEADER_BYTES
        first = lsns[0] if lsns else self.lsn
        written = []
        for index, one in enumerate(drafts):
            self.lsn = lsns[index] if lsns else self.lsn
            size = self._lay(offset, one)
            record = decode(bytes(self.data), offset, self.journal, self.number)
            assert record is not None
            self.tally.see(record)
            written.append(record)
            offset += size
            self.lsn += 1
            self.records += 1
        opening = Draft(
            Kind.BATCH, offset - self.at, synced, len(drafts), self.time_ms, b"", b"", 0, 0
        )
        self._lay(self.at, opening, lsn=first)
        self.at = offset
        self._end()
        return written

    def _end(self) -> None:
        """In what held something before, zeros where the next frame would be."""
        if self.life is not None:
            end = min(self.at + HEADER_BYTES, self.capacity - FOOTER_SPACE_BYTES)
            self.data[self.at : end] = bytes(max(end - self.at, 0))

    def seal(self, live: int) -> None:
        """Write the footer."""
        place = self.capacity - FOOTER_SPACE_BYTES
        assert self.at <= place
        meta = encode_meta(self.tally.meta())
        footer = Draft(
            Kind.FOOTER, self.records, self.tally.place_last, live, self.time_ms, meta, b"", 0, 0
        )
        self._lay(place, footer)

    def write_to(self, folder: Path) -> Path:
        """Write the segment as a file; return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / segment_name(self.number)
        path.write_bytes(self.data)
        return path

    def _lay(self, offset: int, one: Draft, lsn: int = 0) -> int:
        pieces: list[bytes] = []
        size = encode(one, lsn or self.lsn, self.journal, self.number, offset, pieces)
        frame = b"".join(pieces)
        assert len(frame) == size
        assert offset + size <= self.capacity
        self.data[offset : offset + size] = frame
        return size


def ids(*numbers: int) -> IdSet:
    """Return a set of these ids."""
    made = IdSet()
    for number in numbers:
        made.add(number)
    return made
