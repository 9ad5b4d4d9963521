"""Leases that a client confirms or renews, by their token or as its own.

    token ──▶ `named`: the lease of that queue, or None: confirmed, expired or never issued
    lease ──▶ `confirm`, `renew` ──▶ `Rests`

One rule: the end of a lease is answered when its record is written, or synced if the queue's policy
says so (`confirms`).
"""

from __future__ import annotations

from kestrelpy.core import AnyQueue, Broker, Delay, Lease
from kestrelpy.errors import NoRoomYet, ServerError
from kestrelpy.operations.rests import Rests, rests_on


def ended(queue: AnyQueue, lsn: int) -> Rests:
    """Return the record that the reply to the end of a lease rests on; `lsn` is its number."""
    if queue.policy.confirms_synced:
        return rests_on(queue.log, lsn)
    return rests_on(queue.log, 0, lsn)


class LeaseEnd:
    """Ends and renews leases of the queues of one server."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def queue(self, name: bytes) -> AnyQueue | None:
        """Return the queue; None: there is none. Raise ServerError if its journal has failed."""
        queue = self._broker.queues.get(name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        return queue

    @staticmethod
    def named(queue: AnyQueue | None, token: int, now_ms: int) -> Lease | None:
        """Return the lease of this queue that the token names; None: there is none, or it is
        over."""
        return queue.reader.by_token.find(token, now_ms) if queue is not None else None

    @staticmethod
    def confirm(queue: AnyQueue, lease: Lease, now_ms: int) -> Rests:
        """End the lease: its item is done."""
        return ended(queue, queue.reader.confirm(lease, now_ms))

    @staticmethod
    def give_back(
        queue: AnyQueue, lease: Lease, now_ms: int, reason: bytes, delay: Delay | None = None
    ) -> Rests:
        """End the lease: its item is available again, at once or after the delay.

        `reason` is ABORTED, which counts an attempt, or DEFERRED, which does not.
        """
        return ended(queue, queue.reader.nack(lease, now_ms, reason, delay))

    @staticmethod
    def bury(queue: AnyQueue, lease: Lease, why: bytes, now_ms: int) -> Rests:
        """End the lease: its item is a dead letter, for this reason."""
        return ended(queue, queue.reader.dead_letter(lease, now_ms, why))

    @staticmethod
    def revoke(
        queue: AnyQueue, lease: Lease, now_ms: int, reason: bytes, *, buries: bool = False
    ) -> Rests:
        """End the lease in place of its holder: its item is available again, or a dead letter.

        The holder gets the answer that it would get if the lease had expired.
        """
        if not lease.by_token:
            lease.holder.overdue.append(queue.reader)
        if buries:
            return LeaseEnd.bury(queue, lease, reason, now_ms)
        return LeaseEnd.give_back(queue, lease, now_ms, reason)

    @staticmethod
    def renew(
        queue: AnyQueue, lease: Lease, lease_ms: int, now_ms: int, expiry_ms: int = 0
    ) -> Rests:
        """Let the lease end `lease_ms` from now; raise ServerError if its record has no room.

        `expiry_ms`: the new expiry of its item, on the wall clock; 0: it stays.
        """
        if lease.by_token:
            if queue.log.no_room:
                raise ServerError(queue.log.no_room)
            if not queue.log.has_lease_room():
                raise NoRoomYet(queue.log.waiting_room, queue.name)
        return ended(queue, queue.reader.renew(lease, lease_ms, now_ms, expiry_ms))
