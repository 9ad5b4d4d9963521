"""Stored once: which ids a queue has seen, in a window, or in the newest epoch of their scope.

    add q/id=a                 seen within `dedupe_window`? ──▶ a duplicate: nothing is stored
    add q/id=a/scope=s/epoch=7 of s an older epoch than its newest? a duplicate; a newer one: what
                               was seen in the older is forgotten; the same: seen in it?

An id is remembered by a keyed hash of 128 bits with the time at which its item was stored. The
record of the item says the id, so that it is remembered if and only if the item is stored. An
entry is never too old while it is looked for at a time before its window is over, and always from
then on; sweeping it away later changes nothing.

A cancelled item's id stays remembered, as that of any other item that has gone: whoever repeats
the put that was cancelled must not bring the item back.

One rule: what was seen follows from the records and their times alone; the clock only decides.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from journal.format.item_header import ItemHeader
from journal.sets.hash_table import ID, Table, keyed, time_of
from journal.snapshot.dedupe_pending import Epoch, Fresh
from kestrelpy.core.policy import Policy

_FEW_BYTES: Final = 64 * ID.size


class Scope:
    """A writer's numbered batches: the ids of the newest, and when one was stored last.

    Items before `since` are of other epochs, or of a time that is forgotten.
    """

    __slots__ = ("epoch", "ids", "last", "since", "used_ms")

    def __init__(self, epoch: int, since: int) -> None:
        self.epoch = epoch
        self.since = since
        self.last = 0  # the newest of its items
        self.used_ms = 0
        self.ids: bytearray | Table = bytearray()  # few of them need no table

    def add(self, entry: bytes, item: int) -> None:
        """One more id of this epoch, and the item that was stored under it."""
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
        """Was this id seen in this epoch?"""
        ids = self.ids
        if isinstance(ids, Table):
            return ids.find(hash_) is not None
        found = ids.find(hash_)
        while found > 0 and found % ID.size:  # that is a time and a part of a hash
            found = ids.find(hash_, found + 1)
        return found >= 0

    @property
    def count(self) -> int:
        """How many ids."""
        return self.ids.count if isinstance(self.ids, Table) else len(self.ids) // ID.size


class Ids:
    """The ids that one queue has seen. `scopes` stand in the order of their last use."""

    __slots__ = ("_asked", "_base", "_bucket", "_hash", "fresh", "scopes", "table")

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh
        self.table = Table(ID)
        self.scopes: dict[bytes, Scope] = {}
        self._base = keyed(b"")
        self._asked, self._hash = b"", b""
        self._bucket: bytearray | None = None  # where what was asked for last would stand

    def set_secret(self, secret: bytes) -> None:
        """What ids are hashed with; before any is remembered."""
        self._base = keyed(secret)
        self._asked = b""

    @property
    def is_empty(self) -> bool:
        """Is nothing remembered?"""
        return not (self.table.count or self.scopes)

    def has_seen(self, stamp: ItemHeader, policy: Policy, unix_ms: int) -> bool:
        """Is this a duplicate?"""
        if stamp.scope:
            window_ms = policy.scope_window_ms
            scope = self.scopes.get(stamp.scope)
            if scope is None or (window_ms is not None and unix_ms - scope.used_ms >= window_ms):
                return False
            if stamp.epoch != scope.epoch:
                return stamp.epoch < scope.epoch
            return scope.has(self._hash_of(stamp.id))
        bucket, at = self.table.seek(self._hash_of(stamp.id))
        self._bucket = bucket
        if at < 0:
            return False
        window_ms = policy.dedupe_window_ms
        return window_ms is None or unix_ms - time_of(bucket, at) < window_ms

    def is_newer(self, stamp: ItemHeader, item: int) -> bool:
        """In replay: is what is remembered under this id older than this item, if anything is?

        A chunk may know more than the log that is left.
        """
        hash_ = self._hash_of(stamp.id)
        if stamp.scope:
            scope = self.scopes.get(stamp.scope)
            if scope is None or item > scope.last:
                return True
            return stamp.epoch == scope.epoch and not scope.has(hash_)
        bucket, at = self.table.seek(hash_)
        self._bucket = bucket
        return at < 0 or item > ID.unpack_from(bucket, at)[2]

    def item_of(self, id_: bytes, policy: Policy, unix_ms: int) -> int:
        """The item that was stored under this id, in no scope; 0: none that is remembered."""
        found = self.table.find(self._hash_of(id_))
        window_ms = policy.dedupe_window_ms
        if found is None or (window_ms is not None and unix_ms - time_of(*found) >= window_ms):
            return 0
        entry = ID.unpack_from(*found)
        item: int = entry[2]
        return item

    def is_outdated(self, scope: bytes, policy: Policy, unix_ms: int) -> bool:
        """True if this scope was not used for so long that it begins anew."""
        window_ms, known = policy.scope_window_ms, self.scopes.get(scope)
        return known is not None and window_ms is not None and unix_ms - known.used_ms >= window_ms

    def sweep(self, policy: Policy, unix_ms: int, buckets: int) -> None:
        """Drop ids that are too old, in so many buckets."""
        self._bucket = None
        if policy.dedupe_window_ms is not None and self.table.count:
            self.table.sweep(unix_ms - policy.dedupe_window_ms + 1, buckets)

    def oldest_scopes(self, count: int) -> list[bytes]:
        """Return the scopes that were not used for longest."""
        return list(islice(self.scopes, count))

    def load(self, epoch: Epoch, entries: bytes, latest_ms: int, has_snapshot: bool) -> None:
        """Ids of this epoch; without a snapshot every scope counts, and the newest epoch of it."""
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

    def _hash_of(self, id_: bytes) -> bytes:
        if id_ is not self._asked:  # it is asked for first, and stored then
            made = self._base.copy()
            made.update(id_)
            self._asked, self._hash, self._bucket = id_, made.digest(), None
        return self._hash

    # -- applying ---------------------------------------------------------------------------

    def _apply_seen(self, stamp: ItemHeader, item: int, stored_ms: int) -> None:
        hash_ = self._hash if stamp.id is self._asked else self._hash_of(stamp.id)
        entry = ID.pack(hash_, stored_ms, item)
        if not stamp.scope:
            bucket, self._bucket = self._bucket, None
            if bucket is not None and stamp.id is self._asked:
                self.table.add_to(bucket, entry)  # it was asked for in this very step
            else:
                self.table.add(entry)
            self.fresh.add_id(entry)
            return
        scope = self.scopes.pop(stamp.scope, None)
        if scope is None or scope.epoch != stamp.epoch:
            scope = Scope(stamp.epoch, item)
        self.scopes[stamp.scope] = scope
        if item > scope.last:
            scope.used_ms = stored_ms
        scope.add(entry, item)
        self.fresh.add_scoped(stamp.scope, stamp.epoch, entry)

    def _apply_forgotten(self, scope: bytes) -> None:
        self.scopes.pop(scope, None)
        self.fresh.forget(scope)
