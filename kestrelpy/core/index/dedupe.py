"""Deduplication: the ids a queue has seen, in a window or in the newest epoch of their scope.

    add q/id=a                   seen within `dedupe_window`  ──▶ a duplicate: nothing is stored
    add q/id=a/scope=s/epoch=7   older than the newest epoch of s ──▶ a duplicate
                                 newer ──▶ stored; the ids of the older epoch are forgotten
                                 the same epoch, and seen in it ──▶ a duplicate

The queue remembers an id by a keyed hash of 128 bits, with the time at which its item was stored,
and a fingerprint of that item's key and body, 32 bits each: so the same id with another body or key
is known for a mistake. The item's record carries the id, so the id is remembered if and only if the
item is stored. An entry counts until its window is over and never after that, so sweeping it away
later changes nothing.

An id counts for the queue, or, if its record says so (`of_key`), for the key of its item alone. An
id that an earlier version stored for a stream counts for the queue; its fingerprint tells whether
it is of this stream. An id from a chunk of an earlier version has none: it counts for every key
that was written since.

The id of a cancelled item stays remembered, like that of any other item that has ended: a producer
that repeats the cancelled put must not bring the item back.

One rule: the seen ids follow from the records and their times alone; the clock only decides which
of them count.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from journal.format import ItemHeader
from journal.sets import ID, Table, hash_of, keyed, time_of
from journal.store import Epoch, Fresh
from kestrelpy.core.policy import Policy

_FEW_BYTES: Final = 64 * ID.size
_FINGERPRINT_AT: Final = ID.size - 8
_KEY_BITS: Final = (1 << 32) - 1  # of a fingerprint: the key's
_OF_KEY: Final = b"of key"  # hashes of ids that count for a key alone are others


class Scope:
    """A writer's numbered batches: the ids of the newest epoch, and the time of the last put.

    Items before `since` belong to other epochs, or to a forgotten time.
    """

    __slots__ = ("epoch", "ids", "last", "since", "used_ms")

    def __init__(self, epoch: int, since: int) -> None:
        self.epoch = epoch
        self.since = since
        self.last = 0  # the newest item of the epoch
        self.used_ms = 0
        self.ids: bytearray | Table = bytearray()  # a few ids need no table

    def add(self, entry: bytes, item: int) -> None:
        """Add an id of this epoch, and the item that was stored under it."""
        self.last = max(self.last, item)
        ids = self.ids
        if isinstance(ids, Table):
            ids.add(entry)
            return
        ids += entry
        if len(ids) > _FEW_BYTES:
            table = self.ids = Table(ID)
            for at in range(0, len(ids), ID.size):
                table.add(bytes(ids[at : at + ID.size]))

    def has(self, hash_: bytes) -> bool:
        """True if this id was seen in this epoch."""
        return self.fingerprint(hash_) >= 0

    def fingerprint(self, hash_: bytes) -> int:
        """Return the fingerprint of this id, 0: unknown; below 0: it was not seen in this epoch."""
        ids = self.ids
        if isinstance(ids, Table):
            bucket, at = ids.seek(hash_)
            return -1 if at < 0 else _fingerprint_at(bucket, at)
        found = ids.find(hash_)
        while found > 0 and found % ID.size:  # a match across the fields of an entry
            found = ids.find(hash_, found + 1)
        return -1 if found < 0 else _fingerprint_at(ids, found)

    @property
    def count(self) -> int:
        """The number of ids."""
        return self.ids.count if isinstance(self.ids, Table) else len(self.ids) // ID.size


class SeenIds:
    """The ids that one queue has seen. `scopes` are in the order of their last use."""

    __slots__ = (
        "_asked", "_asked_key", "_base", "_base_of_key", "_bucket", "_hash", "_seen", "fresh",
        "scopes", "table",
    )  # fmt: skip

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh
        self.table = Table(ID)
        self.scopes: dict[bytes, Scope] = {}
        self._base, self._base_of_key = keyed(b""), keyed(b"", _OF_KEY)
        self._asked, self._asked_key, self._hash = b"", b"", b""
        self._seen = 0  # the fingerprint of the id that `has_seen` found; 0: unknown
        self._bucket: bytearray | None = None  # where the id of the last look-up would stand

    def set_secret(self, secret: bytes) -> None:
        """Set the secret of the id hashes, before any id is remembered."""
        self._base, self._base_of_key = keyed(secret), keyed(secret, _OF_KEY)
        self._asked = b""

    @property
    def is_empty(self) -> bool:
        """True if no id is remembered."""
        return not (self.table.count or self.scopes)

    def has_seen(
        self, header: ItemHeader, policy: Policy, unix_ms: int, key: bytes = b"", last: int = 0
    ) -> bool:
        """True if an item with this header and key is a duplicate; `last` is the last item that was
        written under this key."""
        self._seen = 0
        if header.scope:
            window_ms = policy.scope_window_ms
            scope = self.scopes.get(header.scope)
            if scope is None or (window_ms is not None and unix_ms - scope.used_ms >= window_ms):
                return False
            if header.epoch != scope.epoch:
                return header.epoch < scope.epoch
            found = scope.fingerprint(self._hash_of(header.id))
            self._seen = max(found, 0)
            return found >= 0
        bucket, at = self.table.seek(self._hash_of(header.id, key if header.of_key else b""))
        self._bucket = bucket
        window_ms = policy.dedupe_window_ms
        if at >= 0 and (window_ms is None or unix_ms - time_of(bucket, at) < window_ms):
            self._seen = _fingerprint_at(bucket, at)
            return True
        if not header.of_key:
            return False
        entry = self._of_queue(header.id, key, last)
        if entry is None or (window_ms is not None and unix_ms - entry[1] >= window_ms):
            return False
        self._seen = entry[3]
        return True

    def is_altered(self, key: bytes, body: bytes) -> bool:
        """True if the item of the id that `has_seen` just found had another key or body; asked once
        after each."""
        seen, self._seen = self._seen, 0
        return seen != 0 and seen != self._fingerprint(key, body)

    def _of_queue(self, id_: bytes, key: bytes, last: int) -> tuple[bytes, int, int, int] | None:
        """Return the entry of an id that counts for the queue, if its item may be of this key,
        under which the last one is `last`."""
        bucket, at = self.table.seek(hash_of(self._base, id_))
        if at < 0:
            return None
        entry: tuple[bytes, int, int, int] = ID.unpack_from(bucket, at)
        if entry[2] > last:
            return None
        is_of_key = not entry[3] or (entry[3] ^ self._fingerprint(key, b"")) & _KEY_BITS == 0
        return entry if is_of_key else None

    def _fingerprint(self, key: bytes, body: bytes) -> int:
        """Return the fingerprint of a put; never 0."""
        low, high = hash_of(self._base, key)[:4], hash_of(self._base, body)[:4]
        return int.from_bytes(low, "little") | (int.from_bytes(high, "little") or 1) << 32

    def is_newer(self, header: ItemHeader, item: int, key: bytes = b"") -> bool:
        """In replay, True if the entry remembered under this id is older than `item`, or missing.

        A chunk may know more than the log that is left.
        """
        hash_ = self._hash_of(header.id, key if header.of_key else b"")
        if header.scope:
            scope = self.scopes.get(header.scope)
            if scope is None or item > scope.last:
                return True
            return header.epoch == scope.epoch and not scope.has(hash_)
        bucket, at = self.table.seek(hash_)
        self._bucket = bucket
        return at < 0 or item > ID.unpack_from(bucket, at)[2]

    def item_of(
        self, id_: bytes, policy: Policy, unix_ms: int, key: bytes = b"", last: int = 0
    ) -> int:
        """Return the item stored under this id without a scope; 0: none is remembered.

        With a key, whose last item is `last`, the id counts for that key alone.
        """
        found, window_ms = self.table.find(self._hash_of(id_, key)), policy.dedupe_window_ms
        if found is not None and (window_ms is None or unix_ms - time_of(*found) < window_ms):
            item: int = ID.unpack_from(*found)[2]
            return item
        entry = self._of_queue(id_, key, last) if key else None
        if entry is None or (window_ms is not None and unix_ms - entry[1] >= window_ms):
            return 0
        return entry[2]

    def is_outdated(self, scope: bytes, policy: Policy, unix_ms: int) -> bool:
        """True if this scope was unused for `scope_window`, so that it begins anew."""
        window_ms, known = policy.scope_window_ms, self.scopes.get(scope)
        return known is not None and window_ms is not None and unix_ms - known.used_ms >= window_ms

    def sweep(self, policy: Policy, unix_ms: int, buckets: int) -> None:
        """Drop ids that are too old, in the next `buckets` buckets."""
        self._bucket = None
        if policy.dedupe_window_ms is not None and self.table.count:
            self.table.sweep(unix_ms - policy.dedupe_window_ms + 1, buckets)

    def oldest_scopes(self, count: int) -> list[bytes]:
        """Return the `count` scopes that were unused for longest."""
        return list(islice(self.scopes, count))

    def load(self, epoch: Epoch, entries: bytes, latest_ms: int, has_snapshot: bool) -> None:
        """Load ids of this epoch; without a snapshot, of every scope's newest epoch."""
        name, number = epoch
        scope = self.scopes.get(name)
        if not has_snapshot and (scope is None or scope.epoch < number):
            scope = self.scopes[name] = Scope(number, 0)
        if scope is None or scope.epoch != number:
            return
        if not has_snapshot:
            scope.used_ms = max(scope.used_ms, latest_ms)
        for at in range(0, len(entries), ID.size):
            item = ID.unpack_from(entries, at)[2]
            if item >= scope.since:
                scope.add(entries[at : at + ID.size], item)

    def _hash_of(self, id_: bytes, key: bytes = b"") -> bytes:
        """Return the hash of an id, or with a key of an id that counts for that key alone."""
        if id_ is not self._asked or key != self._asked_key:  # it is looked up first, then stored
            made = (self._base_of_key if key else self._base).copy()
            if key:
                made.update(len(key).to_bytes(4, "little") + key)
            made.update(id_)
            self._asked, self._asked_key = id_, key
            self._hash, self._bucket = made.digest(), None
        return self._hash

    # -- applying ---------------------------------------------------------------------------

    def _apply_seen(
        self, header: ItemHeader, item: int, stored_ms: int, key: bytes = b"", body: bytes = b""
    ) -> None:
        hash_ = self._hash_of(header.id, key if header.of_key else b"")
        entry = ID.pack(hash_, stored_ms, item, self._fingerprint(key, body))
        if not header.scope:
            bucket, self._bucket = self._bucket, None
            if bucket is not None and header.id is self._asked:
                self.table.add_to(bucket, entry)  # this same step looked it up
            else:
                self.table.add(entry)
            self.fresh.add_id(entry)
            return
        scope = self.scopes.pop(header.scope, None)
        if scope is None or scope.epoch != header.epoch:
            scope = Scope(header.epoch, item)
        self.scopes[header.scope] = scope
        if item > scope.last:
            scope.used_ms = stored_ms
        scope.add(entry, item)
        self.fresh.add_scoped(header.scope, header.epoch, entry)

    def _apply_forgotten(self, scope: bytes) -> None:
        self.scopes.pop(scope, None)
        self.fresh.forget(scope)


def _fingerprint_at(entries: bytearray, at: int) -> int:
    """Return the fingerprint of the entry at this position."""
    return int.from_bytes(entries[at + _FINGERPRINT_AT : at + ID.size], "little")
