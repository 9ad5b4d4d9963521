"""Claims: several leases by token of one queue, named together by consecutive tokens.

    tokens 7 8 9 ──▶ the leases of these that last ──▶ confirm, renew, release

A claim is in no table: it lasts while one of its leases does, also over a restart.

One rule: a claim ends and renews its own leases and no others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from journal.format import LeaseEntry
from journal.store import Put
from kestrelpy.core import ABORTED, AnyQueue, Lease
from kestrelpy.operations.lease_end import LeaseEnd
from kestrelpy.operations.ports import ItemReader
from kestrelpy.operations.rests import Rests


class Claiming:
    """A claim on a queue: the leases of these tokens."""

    __slots__ = ("_queue", "_tokens")

    def __init__(self, queue: AnyQueue, tokens: Iterable[int]) -> None:
        self._queue = queue
        self._tokens = tokens

    def leases(self, now_ms: int) -> list[Lease]:
        """Return its leases that last, in the order of their tokens."""
        named = (LeaseEnd.named(self._queue, token, now_ms) for token in self._tokens)
        return [lease for lease in named if lease is not None and not lease.dead]

    def entry(self, lease: Lease) -> LeaseEntry:
        """Return when the lease began or was renewed, and when it ends."""
        return self._queue.reader.leases.entries[lease.item.id]

    def puts(self, reader: ItemReader, now_ms: int) -> Generator[bytes, None, list[Put]]:
        """Return the puts of its items that can be read."""
        found = list[Put]()
        for lease in self.leases(now_ms):
            put = yield from reader.find(self._queue, lease.item.id)
            if put is not None:
                found.append(put)
        return found

    def renew(
        self, lease_ms: int, grace_ms: int, expiries: dict[int, int], now_ms: int
    ) -> list[Rests]:
        """Let its leases end `lease_ms` from now, and its items live for the grace after that.

        `expiries` are those of the items, by id (0: never). An empty result: the claim is over.
        """
        deadline_ms = now_ms + self._queue.clock.offset_ms + lease_ms
        rests = []
        for lease in self.leases(now_ms):
            expires_ms = expiries.get(lease.item.id, 0)
            expiry_ms = deadline_ms + grace_ms if 0 < expires_ms < deadline_ms else 0
            rests.append(LeaseEnd.renew(self._queue, lease, lease_ms, now_ms, expiry_ms))
        return rests

    def release(self, now_ms: int) -> list[Rests]:
        """End its leases: the items are available again, and each attempt counts."""
        return [
            LeaseEnd.give_back(self._queue, lease, now_ms, ABORTED)
            for lease in self.leases(now_ms)
        ]


def claimed_by(queue: AnyQueue, id_: int, now_ms: int) -> Lease | None:
    """Return the lease of this item, if it is leased to any client and not dead."""
    lease = queue.reader.leases.of(id_)
    if lease is None or lease.dead:
        return None
    if lease.deadline_ms is not None and lease.deadline_ms <= now_ms:
        return None  # the next tick ends it
    return lease
