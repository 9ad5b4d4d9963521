"""Leasing items: the next one, first come, first served, and the record that the reply rests on.

    waiting clients first ──▶ the next item that may be leased ──▶ a lease ──▶ stored? token known?

One rule: no request overtakes a client that waits for the same items.
"""

from __future__ import annotations

from kestrelpy.core import AnyQueue, Broker, Holder, Lease, Subscription
from kestrelpy.errors import NoRoomYet, ServerError
from kestrelpy.operations.modes import check_hands_out
from kestrelpy.operations.ports import Site
from kestrelpy.operations.rests import Rests, rests_on


class Leasing:
    """Leases items of the queues of one server."""

    __slots__ = ("_broker", "_site")

    def __init__(self, broker: Broker, site: Site) -> None:
        self._broker = broker
        self._site = site

    def check_mode(self) -> None:
        """Raise ServerError unless the server hands out items now."""
        check_hands_out(self._site.mode)

    def queue(self, name: bytes, *, by_token: bool) -> AnyQueue | None:
        """Return the queue; None: there is none. Raise ServerError if it can lease nothing."""
        queue = self._broker.queues.get(name)
        if queue is not None:
            if queue.log.failure is not None:
                queue.raise_failed()
            if by_token:
                self.check_room(queue)
        elif self._broker.refusal:
            raise ServerError(self._broker.refusal)
        return queue

    @staticmethod
    def check_room(queue: AnyQueue) -> None:
        """Raise ServerError if the journal has no room for the record of a lease by token, and its
        end."""
        if queue.log.no_room:
            raise ServerError(queue.log.no_room)
        if not queue.log.has_lease_room():
            raise NoRoomYet(queue.log.waiting_room, queue.name)

    @staticmethod
    def next(
        reader: Subscription, holder: Holder, now_ms: int, dead: bool, lease_ms: int,
        grace_ms: int | None = None,
    ) -> Lease | None:  # fmt: skip
        """Lease the next item, by token with `lease_ms`; None: there is none for this client now.

        If `reader.is_busy`, the items at the front are still being read.
        """
        if lease_ms and not reader.log.has_lease_room():
            return None
        waiters = reader.waiters
        if waiters.count and waiters.first(dead) is not None:
            # other waiters come first, and a read may have been for all of them
            reader.serve(now_ms)
            if waiters.first(dead) is not None:
                return None
        return reader.open(holder, now_ms, dead, lease_ms, grace_ms)

    @staticmethod
    def rests(reader: Subscription, lease: Lease, *, shows_token: bool) -> Rests:
        """Return the record that a reply with the leased item rests on; it may show the token."""
        stored, written = lease.item.lsn, 0
        if shows_token:
            stored = max(stored, reader.tokens_lsn)
            # a lease by token has been known by its token since it began
            if not lease.by_token:
                reader.leases.show(lease)
        if lease.by_token:
            written = lease.lsn
            if reader.policy.confirms_synced:
                stored = max(stored, written)
        return rests_on(reader.log, stored, written)
