"""New leases for an HTTP client: up to n at once, after earlier waiters; always by token.

`items_and_leases` and `zaqar.claims` have the routes, which also renew and end leases.

    the front is known ──▶ lease ──▶ lease ──▶ ...      it is on disk: its read comes first
    nothing, and time left: wait ──▶ one lease ──▶ more of them

One rule: a lease whose client left before the answer ends at once and counts no attempt.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kestrelpy.core import DEFERRED, AnyQueue, Lease, QueueLife, Subscription, Want
from kestrelpy.errors import ServerError
from kestrelpy.http.call import Call
from kestrelpy.operations import PAGE_BYTES_MAX, Children, LeaseEnd, Leasing, Rests

# Until the front of a queue is looked at again while it is read from the log.
_READ_MS: Final = 2


class Taken(NamedTuple):
    """Leases of one queue with the bodies of their items, and what an answer rests on.

    The bodies are here because the queue may drop them from memory once the reply is made.
    """

    queue: AnyQueue
    leases: list[Lease]
    bodies: list[bytes]
    rests: list[Rests]

    def give_back(self, now_ms: int) -> None:
        """End the leases that last: their client has not received them."""
        for lease in self.leases:
            if lease in lease.holder.leases:
                LeaseEnd.give_back(self.queue, lease, now_ms, DEFERRED)


class LeaseTaker:
    """Takes leases of one queue for one call.

    `in_one`: only leases whose tokens follow each other, so that the first one and their number
    name them all. `grace_ms`: the items do not expire within that time after their leases.
    """

    __slots__ = (
        "_call", "_grace_ms", "_in_one", "_lease_ms", "_leasing", "_life", "_name", "_room",
        "_taken",
    )  # fmt: skip

    def __init__(
        self, call: Call, name: bytes, lease_ms: int, *, in_one: bool = False,
        grace_ms: int | None = None,
    ) -> None:  # fmt: skip
        self._call = call
        self._name = name
        self._lease_ms = lease_ms
        self._in_one = in_one
        self._grace_ms = grace_ms
        self._room = PAGE_BYTES_MAX  # of bodies in one answer; the first one always has room
        self._leasing = Leasing(call.broker, call.host)
        self._taken: Taken | None = None
        self._life: QueueLife | None = None  # of the queue of what is taken

    async def take(self, most: int, wait_ms: int) -> Taken | None:
        """Return up to `most` leases, after `wait_ms` at most; None: there is nothing.

        The caller gives them back if its client is gone before the answer. Raise Refused, Gone.
        """
        call, until_ms = self._call, self._call.now_ms() + wait_ms
        self._leasing.check_mode()
        named = Children(call.broker, call.host).asked(self._name, call.now_ms())
        if named is not None:  # a child gets every item from its first mention on
            await call.until_shown(named)
        try:
            await self._more(most)
            if self._taken is None:
                await self._first(until_ms)
                await self._more(most)
        except BaseException:
            if self._taken is not None:
                self._taken.give_back(call.now_ms())
            raise
        return self._taken

    async def _more(self, most: int) -> None:
        """Lease what there is, up to `most` in all; wait for reads of the queue's front."""
        call = self._call
        while True:
            queue = await call.with_room(
                lambda: self._leasing.queue(self._name, by_token=True)
            )
            self._leasing.check_mode()
            now_ms = call.now_ms()  # it may have waited
            if queue is None or (self._life is not None and self._life.is_over):
                return
            reader = queue.reader
            while len(self._taken.leases if self._taken else ()) < most:
                if self._room <= 0 or not self._follows(reader):
                    return
                lease = Leasing.next(
                    reader, call.holder, now_ms, False, self._lease_ms, self._grace_ms
                )
                if lease is None:
                    break
                self._add(queue, lease)
            else:
                return
            if self._taken is None or not reader.is_busy(now_ms, False, True) or reader.unread:
                return
            await call.pause(self._name, now_ms + _READ_MS)

    async def _first(self, until_ms: int) -> None:
        """Wait in line for one item; a wait that ends at once still reads the front."""
        call = self._call
        if self._name in call.broker.aliases:
            return
        waiter = await call.wait(
            Want.OPEN, self._name, until_ms, lease_ms=self._lease_ms, grace_ms=self._grace_ms
        )
        queue = call.broker.queues.get(self._name)
        if waiter.lease is not None:
            if queue is not None and queue.reader is waiter.owner:
                self._add(queue, waiter.lease)
            # Otherwise the queue was deleted since, and the lease with it: there is nothing.
        elif waiter.refused:
            raise ServerError(waiter.refused)
        elif queue is not None and queue.reader.unread:
            raise ServerError(queue.reader.unread)

    def _follows(self, reader: Subscription) -> bool:
        if not self._in_one or self._taken is None:
            return True
        return reader.next_token == self._taken.leases[-1].token + 1

    def _add(self, queue: AnyQueue, lease: Lease) -> None:
        if self._taken is None:
            self._taken, self._life = Taken(queue, [], [], []), QueueLife.of(queue)
        self._taken.leases.append(lease)
        self._taken.bodies.append(lease.item.body)
        self._room -= lease.item.size
        self._taken.rests.append(Leasing.rests(queue.reader, lease, shows_token=True))
        queue.reader.ready_items.said(lease)
