"""Remembered ids and versions as files: each has those from between two snapshots, for good.

    snapshot at lsn 50 ──▶  1-50.chunk
    snapshot at lsn 90 ──▶ 51-90.chunk ──▶ later, in the background: 1-90.chunk, and both go

    0             64
    +-------------+---------+---------+---------------------+----------+--------+
    | file header | IDS ... | IDS ... of a scope's epoch    | KEYS ... | FOOTER |
    +-------------+---------+---------+---------------------+----------+--------+

A chunk repeats records up to its last lsn, and these are on disk before it is: an id that was
stored stays a stored one. So its entries are never undone, and two chunks with the same entry do no
harm. A start takes all chunks that its snapshot lists, or a larger one that stands for them.

Within a part the entries are sorted by hash, so that they fill a table run by run.

One rule: a chunk is whole or it is not used; and a missing chunk that a snapshot lists is named,
because an id in it may be stored once more.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Final

from journal.files import Files
from journal.format import (
    CHUNK,
    FILE_HEADER_BYTES,
    HEADER_BYTES,
    Draft,
    Kind,
    Meta,
    Record,
    SegmentHeader,
    Tag,
    decode_meta,
    encode,
    encode_meta,
    number_in,
    padded,
)
from journal.sets import HASH_BYTES, ID, KEY
from journal.snapshot.dedupe_pending import Epoch, PendingEntries

SUFFIX: Final = ".chunk"
SUFFIX_PART: Final = ".part"  # ends the name of one that is being written
_DIGITS: Final = 20
# `small` of IDS and KEYS records.
SCOPE: Final = 2  # in a snapshot: the newest epoch of a scope; number: last used; item: the first
LISTED: Final = 3  # in a snapshot: a chunk; item and number: its first and last lsn
ENTRIES: Final = 4  # in a chunk: keys; of ids those that earlier versions wrote, without prints
PRINTED: Final = 5  # in a chunk: ids, each with the fingerprint of its put
_PIECE_BYTES: Final = 1 << 20
# Entries sorted at once: about 2 ms, in which no other thread runs. (Of more than half a million
# that came since the last snapshot, more at once.)
_SORTED_ENTRIES: Final = 2048
_hash: Final = itemgetter(slice(HASH_BYTES))
_TIME_AT: Final = HASH_BYTES // 8  # in words of 8 bytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """One file: its records, bytes and entries, and the latest time in each part.

    Of a lost one also the last item that it may have known: an older version of a key may be
    outdated.
    """

    first: int
    last: int
    size: int
    ids: int = 0
    scoped: int = 0
    keys: int = 0
    ids_ms: int = 0
    keys_ms: int = 0
    epochs: frozenset[Epoch] = frozenset()
    item_lost: int = 0

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.first:0{_DIGITS}d}-{self.last:0{_DIGITS}d}{SUFFIX}"

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return self.ids + self.scoped + self.keys

    def listing(self) -> Draft:
        """Return the record by which a snapshot lists it."""
        meta: Meta = {Tag.TOTAL: self.ids, Tag.LIVE: self.keys, Tag.BYTES: self.size}
        if self.item_lost:
            meta[Tag.ITEM_LAST] = self.item_lost
        latest_ms = max(self.ids_ms, self.keys_ms)
        return Draft(
            Kind.IDS, self.first, self.last, LISTED, latest_ms, encode_meta(meta), b"", 0, 0
        )

    def covers(self, other: Chunk) -> bool:
        """True if it has all entries of the other one."""
        return self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class ScopeState:
    """A scope in a snapshot: see `Scope` in the core."""

    scope: bytes
    epoch: int
    since: int
    used_ms: int

    def draft(self) -> Draft:
        """Return the record of it."""
        meta = encode_meta({Tag.SCOPE: self.scope, Tag.EPOCH: self.epoch})
        return Draft(Kind.IDS, self.since, 0, SCOPE, self.used_ms, meta, b"", 0, 0)


def listed(frames: Iterable[Record]) -> list[Chunk]:
    """Return the chunks that a snapshot lists; of their times the latest is known."""
    found = []
    for frame in frames:
        if frame.kind == Kind.IDS and frame.small == LISTED:
            said = decode_meta(frame.meta)
            found.append(Chunk(
                frame.item, frame.number, number_in(said, Tag.BYTES),
                ids=number_in(said, Tag.TOTAL), keys=number_in(said, Tag.LIVE),
                ids_ms=frame.time_ms, keys_ms=frame.time_ms,
                item_lost=number_in(said, Tag.ITEM_LAST),
            ))  # fmt: skip
    return found


def scopes_in(frames: Iterable[Record]) -> list[ScopeState]:
    """Return the scopes in a snapshot, in the order of their last use. Raises ValueError."""
    found = []
    for frame in frames:
        if frame.kind == Kind.IDS and frame.small == SCOPE:
            said = decode_meta(frame.meta)
            scope = said.get(Tag.SCOPE)
            if not isinstance(scope, bytes):
                raise ValueError("a scope without a name")
            found.append(
                ScopeState(scope, number_in(said, Tag.EPOCH), frame.item, frame.time_ms)
            )
    return found


def chunk_range(name: str) -> tuple[int, int] | None:
    """Return first and last lsn in a chunk's file name; None for any other file."""
    stem = name.removesuffix(SUFFIX)
    first, dash, last = stem.partition("-")
    if stem == name or not dash or len(first) != _DIGITS or len(last) != _DIGITS:
        return None
    return (int(first), int(last)) if first.isdecimal() and last.isdecimal() else None


# -- writing --------------------------------------------------------------------------------------


@dataclass(slots=True)
class EntriesPart:
    """Entries of one kind: of ids, of ids in an epoch, of keys; in pieces, all sorted."""

    kind: Kind
    entry: struct.Struct
    epoch: Epoch | None
    pieces: list[bytes]

    def drafts(self, first: int) -> Iterator[Draft]:
        """Yield its frames."""
        meta = b""
        if self.epoch is not None:
            meta = encode_meta({Tag.SCOPE: self.epoch[0], Tag.EPOCH: self.epoch[1]})
        step = _PIECE_BYTES // self.entry.size * self.entry.size
        for piece, at in ((p, at) for p in self.pieces for at in range(0, len(p), step)):
            body = piece[at : at + step]
            latest = max(memoryview(body).cast("Q")[_TIME_AT :: self.entry.size // 8])
            small = PRINTED if self.kind == Kind.IDS else ENTRIES
            yield Draft(
                self.kind, first, len(body) // self.entry.size, small, latest, meta, body, 0, 0
            )


def write_chunk(
    files: Files, folder: str, batch: PendingEntries, first: int, last: int,
    identity: bytes, time_ms: int, pause: Callable[[], None] = lambda: None,
) -> Chunk:  # fmt: skip
    """Write this batch as a chunk of these records; on disk on return. Raises OSError."""
    parts = [EntriesPart(Kind.IDS, ID, None, [in_order([batch.ids], ID, False, pause)])]
    for scope, (number, entries) in sorted(batch.scoped.items()):
        ids = in_order([entries], ID, False, pause)
        parts.append(EntriesPart(Kind.IDS, ID, (scope, number), [ids]))
    parts.append(EntriesPart(Kind.KEYS, KEY, None, [in_order([batch.keys], KEY, True, pause)]))
    return write_parts(files, folder, parts, first, last, identity, time_ms, pause)


def write_parts(
    files: Files, folder: str, parts: list[EntriesPart], first: int, last: int, identity: bytes,
    time_ms: int, pause: Callable[[], None],
) -> Chunk:  # fmt: skip
    """Write these parts, each sorted by hash, as a chunk; on disk on return. Raises OSError."""
    short = int.from_bytes(identity[:4], "little") or 1
    made, size, count = Summary(first, last), FILE_HEADER_BYTES + HEADER_BYTES, 0
    for part in parts:
        for draft in part.drafts(first):
            made.see(draft.kind, draft.number, draft.time_ms, part.epoch)
            size += padded(HEADER_BYTES + len(draft.meta) + len(draft.body))
            count += 1
    chunk = made.chunk(size)
    path = os.path.join(folder, chunk.name)
    header = SegmentHeader(short, identity, 0, size, time_ms, CHUNK).encode()
    footer = Draft(Kind.FOOTER, count, last, 0, time_ms, b"", b"", 0, 0)
    handle, at = files.create(path + SUFFIX_PART, header, len(header)), FILE_HEADER_BYTES
    try:
        drafts = (draft for part in parts for draft in part.drafts(first))
        for draft in chain(drafts, (footer,)):
            frames: list[bytes] = []
            length = encode(draft, last + 1, short, 0, at, frames)
            handle.write(at, b"".join(frames))
            at += length
            pause()
        handle.sync()
        handle.close()
        files.rename(path + SUFFIX_PART, path)
    except OSError:
        handle.close()
        with suppress(OSError):
            files.remove(path + SUFFIX_PART)
        raise
    return chunk


@dataclass(slots=True)
class Summary:
    """The counts of a chunk, frame by frame."""

    first: int
    last: int
    ids: int = 0
    scoped: int = 0
    keys: int = 0
    ids_ms: int = 0
    keys_ms: int = 0
    epochs: set[Epoch] = field(default_factory=set)

    def see(self, kind: int, count: int, latest_ms: int, epoch: Epoch | None) -> None:
        """Count one frame of entries."""
        if kind == Kind.KEYS:
            self.keys += count
            self.keys_ms = max(self.keys_ms, latest_ms)
        elif epoch is not None:
            self.scoped += count
            self.epochs.add(epoch)
        else:
            self.ids += count
            self.ids_ms = max(self.ids_ms, latest_ms)

    def chunk(self, size: int) -> Chunk:
        """Return the chunk with these counts, in a file of this size."""
        return Chunk(
            self.first, self.last, size, self.ids, self.scoped, self.keys, self.ids_ms,
            self.keys_ms, frozenset(self.epochs),
        )  # fmt: skip


def in_order(
    runs: list[bytes | bytearray], entry: struct.Struct, last_only: bool,
    pause: Callable[[], None],
) -> bytes:  # fmt: skip
    """Return the entries of these runs sorted by hash; those of one hash as they came, or only the
    last one.
    """
    whole = struct.Struct(f"{entry.size}s")
    total = sum(map(len, runs)) // entry.size
    bits = min(max(total // _SORTED_ENTRIES, 1).bit_length() - 1, 8)
    piles: list[list[bytes]] = [[] for _ in range(1 << bits)]
    shift = 8 - bits
    for run in runs:
        for (each,) in whole.iter_unpack(run):
            piles[each[0] >> shift].append(each)
    out = []
    for number, pile in enumerate(piles):
        if last_only:
            pile = sorted({each[:HASH_BYTES]: each for each in pile}.values())
        else:
            pile.sort(key=_hash)
        out.append(b"".join(pile))
        piles[number] = []
        pause()
    return b"".join(out)


def epoch_of(frame: Record) -> Epoch | None:
    """Return the epoch of the ids in this frame; None: they are of no scope."""
    said = decode_meta(frame.meta) if frame.meta else {}
    scope = said.get(Tag.SCOPE)
    return (scope, number_in(said, Tag.EPOCH)) if isinstance(scope, bytes) else None
