"""The records about items and their queue: each function makes one, and appends it nowhere.

    log.append(records.done(item, ...))          of the whole queue, or of its only subscription
    subscription.append(records.done(item, ...)) of one subscription among several

One rule: each kind of record is made here, in one place. A record is a plain tuple, which takes no
time to build.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Final

from journal.format import (
    DELIVERY_MAX,
    NUMBER_TAG,
    TEXT_TAG,
    ItemHeader,
    Kind,
    Meta,
    RawDraft,
    Tag,
    Watermark,
    encode_meta,
    ended,
)
from journal.sets import IdSet
from kestrelpy.core.item import Item

_PUT: Final = int(Kind.PUT)
_DONE: Final = int(Kind.DONE)
_RETURNED: Final = int(Kind.RETURNED)
_RELEASED: Final = int(Kind.RELEASED)
_REDRIVEN: Final = int(Kind.REDRIVEN)
_DEAD: Final = int(Kind.DEAD)
_EXPIRED: Final = int(Kind.EXPIRED)
_DISCARDED: Final = int(Kind.DISCARDED)
_CANCELLED: Final = int(Kind.CANCELLED)
_FLUSHED: Final = int(Kind.FLUSHED)
_UPTO: Final = int(Kind.UPTO)
_TOKENS: Final = int(Kind.TOKENS)
_PAUSED: Final = int(Kind.PAUSED)
_IDS: Final = int(Kind.IDS)
_RUNS: Final = int(Tag.RUNS_MS)
FORGOTTEN: Final = 1  # `small` of an IDS record: nothing of this scope is remembered any more
_NO_EXPIRY: Final = encode_meta({Tag.EXPIRES_MS: 0})
SMALL_BODY_MAX: Final = (1 << 24) - 1  # sizes of bodies up to this need no meta
# The meta of an item may have this much beside its key: times, a schedule's run.
_PLAIN_BYTES: Final = 48
_HEADER_BYTES: Final = 64
_ORIGIN_BYTES: Final = 64


def meta_most(header: ItemHeader | None, key: bytes) -> int:
    """Return the most that the meta of an item with this header takes."""
    if header is None:
        return _PLAIN_BYTES + len(key)
    size = _PLAIN_BYTES + _HEADER_BYTES + len(key)
    size += len(header.id) + len(header.scope)
    for _, text in header.texts:
        size += TEXT_TAG.size + len(text)
    return size if header.origin is None else size + _ORIGIN_BYTES + len(header.origin.queue)


def put(
    item: Item, due_ms: int = 0, nominal: Watermark | None = None, runs_ms: int = 0
) -> RawDraft:
    """The item is stored, and delayed until `due_ms` (0: not).

    `nominal` is the run time of the schedule that the item is put for; `runs_ms` the due time of a
    duration by the running clock (0: it is a date).
    """
    meta = b""
    if item.expires_ms or item.key or item.header is not None or due_ms or nominal is not None:
        meta = item.said(due_ms, b"" if nominal is None else nominal.meta)
        if runs_ms:
            meta += NUMBER_TAG.pack(_RUNS, 8, runs_ms)
    return _PUT, item.id, item.marker, item.flags, item.stored_ms, meta, item.body, 0, 0


def puts(items: list[Item]) -> list[RawDraft]:
    """Return the records of `put` for items with nothing but flags and a body."""
    return [
        (_PUT, item.id, item.marker, item.flags, item.stored_ms, b"", item.body, 0, 0)
        for item in items
    ]


def done(item: Item, attempts: int, began_ms: int, unix_ms: int) -> RawDraft:
    """The item is confirmed."""
    size = item.size
    if size <= SMALL_BODY_MAX and attempts < DELIVERY_MAX:
        small, meta = attempts + 1 | size << 8, b""
    else:
        small, meta = ended(attempts + 1, size)
    return _DONE, item.id, began_ms, small, unix_ms, meta, b"", 0, item.lsn


def returned(
    item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes, due_ms: int = 0,
    runs_ms: int = 0,
) -> RawDraft:  # fmt: skip
    """The item was nacked: it has `attempts` now, and is delayed until `due_ms` (0: not); `runs_ms`
    is the due time of a duration by the running clock (0: it is a date).
    """
    meta = encode_meta({Tag.REASON: reason})
    if due_ms:
        said: Meta = {Tag.DUE_MS: due_ms, Tag.KEY: item.key, Tag.REASON: reason}
        if not item.key:
            del said[Tag.KEY]
        said[Tag.BYTES] = item.size
        if runs_ms:
            said[Tag.RUNS_MS] = runs_ms
        meta = encode_meta(said)
    return _RETURNED, item.id, began_ms, attempts, unix_ms, meta, b"", 0, 0


def released(id_: int, place: int, unix_ms: int) -> RawDraft:
    """The delayed item is available, at this place."""
    return _RELEASED, id_, place, 0, unix_ms, b"", b"", 0, 0


def redriven(id_: int, place: int, unix_ms: int) -> RawDraft:
    """The dead letter is ready again, at this place, and has no expiry."""
    return _REDRIVEN, id_, place, 0, unix_ms, _NO_EXPIRY, b"", 0, 0


def dead(item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes) -> RawDraft:
    """The item is a dead letter now."""
    meta = encode_meta({Tag.REASON: reason, Tag.BYTES: item.size})
    return _DEAD, item.id, began_ms, attempts, unix_ms, meta, b"", 0, 0


def expired(item: Item, unix_ms: int) -> RawDraft:
    """The item is past its expiry."""
    small, meta = ended(0, item.size)
    return _EXPIRED, item.id, 0, small, unix_ms, meta, b"", 0, item.lsn


def discarded(item: Item, unix_ms: int) -> RawDraft:
    """A limit dropped the item."""
    small, meta = ended(0, item.size)
    return _DISCARDED, item.id, 0, small, unix_ms, meta, b"", 0, item.lsn


def cancelled(id_: int, body_bytes: int, unix_ms: int) -> RawDraft:
    """A client removed the item, which was waiting or dead."""
    small, meta = ended(0, body_bytes)
    return _CANCELLED, id_, 0, small, unix_ms, meta, b"", 0, 1


def flushed(last_id: int, spared: IdSet, live_bytes: int, unix_ms: int) -> RawDraft:
    """All items up to `last_id` are gone, except `spared` ones and dead letters, which have
    `live_bytes` of bodies."""
    return _FLUSHED, last_id, live_bytes, 0, unix_ms, b"", _bytes_of(spared.numbers()), 0, 0


def confirmed_up_to(
    marker: int, spared: Iterable[int], live_bytes: int, unix_ms: int
) -> RawDraft:
    """All items up to the marker are confirmed, except `spared`, delayed and dead ones."""
    meta = encode_meta({Tag.BYTES: live_bytes})
    return _UPTO, 0, marker, 0, unix_ms, meta, packed(spared), 0, 0


def tokens(below: int, unix_ms: int) -> RawDraft:
    """Lease tokens below this one may be issued."""
    return _TOKENS, 0, below, 0, unix_ms, b"", b"", 0, 0


def paused(is_paused: bool, unix_ms: int) -> RawDraft:
    """The subscription is paused and leases nothing, or is resumed."""
    return _PAUSED, 0, 0, int(is_paused), unix_ms, b"", b"", 0, 0


def forgotten(scope: bytes, unix_ms: int) -> RawDraft:
    """All that was remembered of this scope is forgotten."""
    return _IDS, 0, 0, FORGOTTEN, unix_ms, encode_meta({Tag.SCOPE: scope}), b"", 0, 0


def packed(ids: Iterable[int]) -> bytes:
    """Return ids as the body of a record: u64 each, little-endian, rising."""
    return _bytes_of(array("Q", sorted(ids)))


def _bytes_of(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
