"""A queue that remembers ids, scopes and versions: two chunks, a snapshot that lists them, and the
records after it.

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from dataclasses import dataclass

from journal.format.checkpoint import Checkpoint
from journal.format.item_header import ItemHeader
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta, encode_meta, ended
from journal.format.record import Draft
from journal.format.segment import Tally
from journal.sets.hash_table import ID, KEY, hash_of, keyed
from journal.sets.id_counts import IdCounts
from journal.snapshot.dedupe_file import Chunk, ScopeState
from journal.snapshot.dedupe_pending import Fresh, PendingEntries
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import IDENTITY, SERVER, TIME_MS, SegmentBuilder, draft, ids

ACCOUNT = b"\1\7\0\0\0account"  # a canonical key


@dataclass(frozen=True)
class Remembered:
    """The entries that a chunk holds of these records."""

    batch: PendingEntries
    first: int
    last: int


def once() -> list[SegmentBuilder | Snapshot | Remembered]:
    """Ids in no scope, in a scope's two epochs, a scope that is forgotten, and three versions."""
    one = SegmentBuilder(1, 4096, 1, Checkpoint(b"once", server=SERVER, generation=1))
    first = [
        _put(1, b"one", ItemHeader(b"order-1")),
        _put(2, b"two", ItemHeader(b"part 1", b"writer", 7)),
        _put(3, b"three", ItemHeader(version=1), ACCOUNT),
    ]
    second = [
        _put(4, b"four", ItemHeader(b"part 1", b"writer", 8)),
        _put(5, b"five", ItemHeader(b"order-2", version=2, previous=3, of_key=True), ACCOUNT),
    ]
    done = draft(Kind.DONE, 1, TIME_MS + 5, ended(1, 3)[0], time_ms=TIME_MS + 9)
    written = one.batch(*first, *second, done)
    tally = Tally()
    tally.see_all(written)
    chunks = [
        Chunk(1, 3, 464, ids=1, keys=1, ids_ms=TIME_MS + 1, keys_ms=TIME_MS + 3),
        Chunk(4, 6, 464, ids=1, keys=1, ids_ms=TIME_MS + 5, keys_ms=TIME_MS + 5),
    ]
    between = Snapshot(
        6, 1, one.at, Checkpoint(b"once", 6, 6, 1, 5, 4, 1, SERVER, as_of=6), ids(2, 3, 4, 5), 16,
        IdCounts(), [], [], tally, chunks=chunks,
        scopes=[ScopeState(b"writer", 8, 4, TIME_MS + 4)],
    )  # fmt: skip
    one.batch(
        draft(Kind.IDS, small=1, meta={Tag.SCOPE: b"writer"}),
        _put(6, b"six", ItemHeader(b"part 1", b"writer", 8)),
        _put(7, b"seven", ItemHeader(version=3, previous=5), ACCOUNT),
        synced=6,
    )
    one.batch(synced=9)
    return [one, between, _remembered(first, 1, 3), _remembered(second, 4, 6)]


def _put(item: int, body: bytes, header: ItemHeader, key: bytes = b"") -> Draft:
    meta = (encode_meta({Tag.KEY: key}) if key else b"") + header.meta
    return draft(Kind.PUT, item, item, 0, body, time_ms=TIME_MS + item)._replace(meta=meta)


def _remembered(puts: list[Draft], first: int, last: int) -> Remembered:
    fresh, base, of_key = Fresh(), keyed(IDENTITY), keyed(IDENTITY, b"of key")
    for put in puts:
        said = decode_meta(put.meta)
        id_, scope, key = said.get(Tag.ID), said.get(Tag.SCOPE), said.get(Tag.KEY)
        epoch, version = said.get(Tag.EPOCH, 0), said.get(Tag.VERSION, 0)
        if isinstance(id_, bytes):
            hash_, of = hash_of(base, id_), key if isinstance(key, bytes) else b""
            if Tag.OF_KEY in said:
                hash_ = hash_of(of_key, len(of).to_bytes(4, "little") + of + id_)
            parts = hash_of(base, of)[:4] + hash_of(base, put.body)[:4]
            entry = ID.pack(hash_, put.time_ms, put.item, int.from_bytes(parts, "little"))
            if isinstance(scope, bytes) and isinstance(epoch, int):
                fresh.add_scoped(scope, epoch, entry)
            else:
                fresh.add_id(entry)
        if isinstance(key, bytes):
            fresh.add_key(KEY.pack(hash_of(base, key), put.time_ms, put.item, version))
    return Remembered(fresh.take(), first, last)
