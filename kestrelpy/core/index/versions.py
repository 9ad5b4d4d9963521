"""The version of each key: how many items were written under it, and which was the last.

    set q/key=K ──▶ version 1 ──▶ 2 ──▶ 3      in the item's own record, with the id of the item
                      ◀──────── ◀─────         before it: a client can walk back from the last

The step that stores an item also gives its version, so any number of writers get versions without
gaps or repeats. A key without a write in `dedupe_window` counts as never written, unless the queue
has `retain`.

One rule: the version of a key follows from the records alone; the clock only decides whether the
queue has forgotten it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from journal.sets import HASH_BYTES, KEY, Table, hash_of, keyed
from journal.store import Fresh
from kestrelpy.core.policy import Policy

_BEHIND_HASH: Final = struct.Struct("<QQQ")
_new: Final = tuple.__new__  # half the cost of calling a named tuple


class Written(NamedTuple):
    """The last item under a key, its version, and when it was stored; 0: there is none."""

    version: int
    item: int
    stored_ms: int


NEVER = Written(0, 0, 0)


class Versions:
    """The versions of one queue's keys."""

    __slots__ = (
        "_asked", "_at", "_base", "_bucket", "_hash", "_highest", "_is_first", "fresh",
        "lost_item", "lost_ms", "table",
    )  # fmt: skip

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh
        self.table = Table(KEY)
        # Writes up to `lost_ms`, by items up to `lost_item`, may be damaged; 0: none are.
        self.lost_ms = self.lost_item = 0
        self._base = keyed(b"")
        # Where the key of the last look-up stands, or would stand; None: not known any more.
        self._asked, self._hash = b"", b""
        self._bucket: bytearray | None = None
        self._at = -1
        self._is_first = True  # while chunks are loaded: True during the first one
        self._highest = b""

    @property
    def is_empty(self) -> bool:
        """True if no key is remembered."""
        return not self.table.count

    def set_secret(self, secret: bytes) -> None:
        """Set the secret of the key hashes, before any key is remembered."""
        self._base = keyed(secret)
        self._bucket = None

    def of(self, key: bytes, policy: Policy | None, unix_ms: int) -> Written:
        """Return the last write under this canonical key that `policy` remembers.

        With `policy` None, return it if it was not swept away.
        """
        made = self._base.copy()
        made.update(key)
        self._asked, self._hash = key, made.digest()
        bucket, at = self._bucket, self._at = self.table.seek(self._hash)
        if at < 0:
            return NEVER
        stored_ms, item, version = _BEHIND_HASH.unpack_from(bucket, at + HASH_BYTES)
        if policy is not None and not policy.retains:
            window_ms = policy.dedupe_window_ms
            if window_ms is not None and unix_ms - stored_ms >= window_ms:
                return NEVER
        return _new(Written, (version, item, stored_ms))

    def is_known(self, written: Written, policy: Policy, unix_ms: int) -> bool:
        """True if no lost write that `policy` would remember can be later than `written`."""
        if written.item > self.lost_item or not self.lost_item:
            return True
        window_ms = None if policy.retains else policy.dedupe_window_ms
        return window_ms is not None and unix_ms - self.lost_ms >= window_ms

    def lose(self, item: int, written_ms: int) -> None:
        """Note that writes up to `written_ms`, by items up to `item`, may be lost."""
        self.lost_item, self.lost_ms = max(self.lost_item, item), max(self.lost_ms, written_ms)

    def unused(self) -> Written:
        """Return a write whose next version no key has had: no version exceeds its item's id."""
        return Written(self.lost_item, 0, 0)

    def is_newer(self, key: bytes, item: int) -> bool:
        """In replay, True if no write under this key is later than `item`.

        A chunk may know more than the log that is left.
        """
        return item > self.last(key).item

    def last(self, key: bytes) -> Written:
        """Return the last write under this key, at any age, if it was not swept away."""
        return self.of(key, None, 0)

    def sweep(self, policy: Policy, unix_ms: int, buckets: int) -> None:
        """Drop keys whose last write is too old, in the next `buckets` buckets."""
        self._bucket = None
        if policy.dedupe_window_ms is not None and not policy.retains and self.table.count:
            self.table.sweep(unix_ms - policy.dedupe_window_ms + 1, buckets)

    def load(self, entries: bytes) -> None:
        """Load the sorted entries of a chunk, which are newer than those already loaded."""
        self._bucket = None
        highest, self._highest = self._highest, entries[-KEY.size : HASH_BYTES - KEY.size]
        if highest < entries[:HASH_BYTES] and self._is_first:
            self.table.load(entries)  # of the first chunk: the table has no others yet
            return
        self._is_first = False
        for at in range(0, len(entries), KEY.size):
            self.table.put(entries[at : at + KEY.size])

    # -- applying ---------------------------------------------------------------------------

    def _apply_written(self, key: bytes, version: int, item: int, stored_ms: int) -> None:
        bucket, self._bucket = self._bucket, None
        if bucket is None or key is not self._asked:
            entry = KEY.pack(hash_of(self._base, key), stored_ms, item, version)
            self.table.put(entry)
        else:  # this same step looked it up
            entry = KEY.pack(self._hash, stored_ms, item, version)
            if self._at < 0:
                self.table.add_to(bucket, entry)
            else:
                bucket[self._at : self._at + KEY.size] = entry
        self.fresh.add_key(entry)
