"""The records of a subscription, in a queue's own log or in one that several share.

One rule: each record is made in one place, so a child's record and the queue's own are alike.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Final

from journal.format import DELIVERY_MAX, Draft, Kind, LeaseEntry, Meta, Tag, encode_meta, ended
from kestrelpy.core.item import Item

_DONE: Final = int(Kind.DONE)
_RETURNED: Final = int(Kind.RETURNED)
_RELEASED: Final = int(Kind.RELEASED)
_DEAD: Final = int(Kind.DEAD)
_EXPIRED: Final = int(Kind.EXPIRED)
_DISCARDED: Final = int(Kind.DISCARDED)
_TOKENS: Final = int(Kind.TOKENS)
_CANCELLED: Final = int(Kind.CANCELLED)
SMALL_BODY_MAX: Final = (1 << 24) - 1  # sizes of bodies up to this need no meta


def packed(ids: Iterable[int]) -> bytes:
    """Return ids as the body of a record: u64 each, little-endian, rising."""
    numbers = array("Q", sorted(ids))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


class Records:
    """Makes the records; `write` appends them. `kestrelpy.core.log.log.Log` describes each one."""

    __slots__ = ()

    def write(self, draft: Draft) -> int:
        """Append a record; return its lsn."""
        raise NotImplementedError

    def _without_room(self) -> int | None:
        """Return the last lsn if the disk has room for necessary records alone; else None."""
        raise NotImplementedError

    def done(self, item: Item, attempts: int, began_ms: int, unix_ms: int) -> int:
        size = item.size
        if size <= SMALL_BODY_MAX and attempts < DELIVERY_MAX:
            small, meta = attempts + 1 | size << 8, b""
        else:
            small, meta = ended(attempts + 1, size)
        return self.write(
            Draft(_DONE, item.id, began_ms, small, unix_ms, meta, b"", 0, item.lsn)
        )

    def returned(
        self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes,
        always: bool = False, due_ms: int = 0,
    ) -> int:  # fmt: skip
        if not always and (last := self._without_room()) is not None:
            # The room left is for the confirms. A restart does not know of this delivery.
            return last
        meta = encode_meta({Tag.REASON: reason})
        if due_ms:
            said: Meta = {Tag.DUE_MS: due_ms, Tag.KEY: item.key, Tag.REASON: reason}
            if not item.key:
                del said[Tag.KEY]
            meta = encode_meta(said | {Tag.BYTES: item.size})
        return self.write(
            Draft(_RETURNED, item.id, began_ms, attempts, unix_ms, meta, b"", 0, 0)
        )

    def released(self, id_: int, place: int, unix_ms: int) -> int:
        return self.write(Draft(_RELEASED, id_, place, 0, unix_ms, b"", b"", 0, 0))

    def dead(self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes) -> int:
        meta = encode_meta({Tag.REASON: reason, Tag.BYTES: item.size})
        return self.write(Draft(_DEAD, item.id, began_ms, attempts, unix_ms, meta, b"", 0, 0))

    def expired(self, item: Item, unix_ms: int) -> int:
        small, meta = ended(0, item.size)
        return self.write(Draft(_EXPIRED, item.id, 0, small, unix_ms, meta, b"", 0, item.lsn))

    def discarded(self, item: Item, unix_ms: int) -> int:
        small, meta = ended(0, item.size)
        return self.write(Draft(_DISCARDED, item.id, 0, small, unix_ms, meta, b"", 0, item.lsn))

    def cancelled(self, id_: int, body_bytes: int, unix_ms: int) -> int:
        small, meta = ended(0, body_bytes)
        return self.write(Draft(_CANCELLED, id_, 0, small, unix_ms, meta, b"", 0, 1))

    def tokens(self, below: int, unix_ms: int) -> int:
        return self.write(Draft(_TOKENS, 0, below, 0, unix_ms, b"", b"", 0, 0))

    def leased(self, entry: LeaseEntry) -> int:
        return self.write(entry.leased())

    def renewed(self, entry: LeaseEntry) -> int:
        return self.write(entry.renewal())
