"""Moves between queues, exactly once: who orders them, and how many are begun.

    what dies and goes elsewhere ──▶ outbox ─▶ order ─▶ taken ─▶ put there ─▶ `in_flight`
    what somebody asks for ──────────────────▶   ▲        │ (lent to the mover)
                                                 └────────┴── refused: put back; tried again later
                                                              (by itself), or over (asked for)

One rule: an item is moved when it is on disk itself; else a crash might take it away here, and what
it was made of would come back.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from journal.format.transfer import Origin
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.registry.lifecycle import Lifecycle
from kestrelpy.core.subscription.outbox import onward
from kestrelpy.core.transfer.in_flight import InFlight
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import Source, Target
from kestrelpy.errors import ItemRefused, ServerError

# Copies and their originals that are under way at once; begun in one turn: about 5 ms of work.
MOVES_MAX: Final = 1024
BYTES_MAX: Final = 8 << 20
BEGUN_MAX: Final = 256


class Transfers:
    """All orders of one server. `over` are requests that ended, `refusals` lines for the log."""

    __slots__ = (
        "_bytes",
        "_count",
        "_orders",
        "_outboxes",
        "_registry",
        "has_more",
        "in_flight",
        "over",
        "refusals",
    )  # fmt: skip

    def __init__(self, registry: Lifecycle) -> None:
        self._registry = registry
        self.in_flight = InFlight(registry, self._over)
        self.over: list[TransferRequest] = []
        self.refusals: list[str] = []
        self.has_more = False  # could the next turn go on without anything happening first?
        self._orders: dict[TransferRequest, None] = {}  # those that do not rest
        self._outboxes: dict[tuple[Queue, bytes], TransferRequest] = {}
        self._count = self._bytes = 0  # of items of orders, that are under way

    # -- what is to be moved ----------------------------------------------------------------

    def request(self, order: TransferRequest) -> None:
        """Somebody wants this moved; it stands in `over` when it has ended."""
        self._orders[order] = None

    def send(self, source: Queue) -> None:
        """What its policy moves by itself goes on, in the order of dying."""
        reader = source.reader
        outgoing, reader.outgoing = reader.outgoing, []
        for id_ in outgoing:
            death = reader.dead.deaths.get(id_)
            target = onward(reader.policy, death.reason) if death is not None else b""
            if not target:
                continue
            order = self._outboxes.get((source, target))
            if order is None:
                order = TransferRequest(source, target, deque(), by_itself=True)
                self._outboxes[source, target] = order
            order.ids.append(id_)
            if not order.is_resting:
                self._orders[order] = None

    def wake(self, order: TransferRequest) -> None:
        """Its target refused; perhaps it does not any more."""
        order.is_resting = False
        self._orders[order] = None

    @property
    def is_active(self) -> bool:
        """Is anything under way, or to be begun?"""
        return bool(self._orders or self.in_flight.are_any)

    def advance(self, now_ms: int) -> int:
        """Do what has become possible, in bounded steps; how many were taken."""
        self.has_more = False
        taken = self.in_flight.advance(now_ms) if self.in_flight.are_any else 0
        steps = BEGUN_MAX
        for order in [*self._orders]:
            steps -= self._begin(order, steps, now_ms)
            if order.is_done and order in self._orders:
                self._end(order)
        return taken + BEGUN_MAX - steps

    def take_over(self) -> list[TransferRequest]:
        """Requests that have ended since the last time."""
        over, self.over = self.over, []
        return over

    # -- one after the other ----------------------------------------------------------------

    def _begin(self, order: TransferRequest, steps: int, now_ms: int) -> int:
        """Take and store as many as may be under way; how many were begun."""
        for begun in range(steps):
            if order.source.deleted or order.source.log.failure is not None:
                order.give_up("its journal failed or it was deleted")
                return begun
            if self._count >= MOVES_MAX or self._bytes >= BYTES_MAX:
                return begun
            lease = self._take(order, now_ms)
            if lease is None:
                return begun
            if lease.item.lsn > order.source.log.lsn_durable:
                order.source.log.wait_durable(lease.item.lsn)
                self._put_back(order, lease)
                return begun
            try:
                self._store(order, lease, now_ms)
            except ServerError as refused:
                self._put_back(order, lease)
                if self._stops(order, lease, refused, now_ms):
                    return begun
        self.has_more = True
        return steps

    def _put_back(self, order: TransferRequest, lease: Lease) -> None:
        Source(order.source.reader).put_back(lease)
        if order.of_dead:
            order.ids.appendleft(lease.item.id)
        else:
            order.left += 1

    def _take(self, order: TransferRequest, now_ms: int) -> Lease | None:
        """The next item of this order; None: there is none, or it has to be read back first."""
        reader = order.source.reader
        if not order.of_dead:
            if not order.left:
                return None
            lease = Source(reader).take_first(now_ms, self.in_flight.mover)
            if lease is not None:
                order.left -= 1
            elif not (order.under_way or reader.is_busy(now_ms, lends=False)):
                order.left = 0  # (what is under way has its key until it is elsewhere)
            else:
                # What has expired is cleared away, or what is next is being read.
                self.has_more |= not reader.needs_read and reader.ready.resident > 0
            return lease
        while order.ids:
            id_ = order.ids[0]
            if order.wants(id_):
                lease = Source(reader).take_dead(id_, self.in_flight.mover)
                if lease is not None:
                    order.ids.popleft()
                return lease
            order.ids.popleft()
        return None

    def _store(self, order: TransferRequest, lease: Lease, now_ms: int) -> None:
        """A copy of it, in the target; raises ServerError when that refuses."""
        source, item = order.source, lease.item
        there = self._registry.queues.get(order.target)
        if self._registry.tombstones and (why := source.why_mistaken(there, order.target)):
            raise ServerError(why)
        target = there or self._make(order.target, item.size, now_ms)
        if target is source:
            raise ServerError("a queue does not move to itself")
        origin = Origin(
            source.server_id, source.name, item.id, source.generation, item.size
        )
        copy = Target(target).receive(item, origin, now_ms)
        order.stored()
        order.under_way += 1
        self._count += 1
        self._bytes += item.size
        self.in_flight.stored(order, lease, target, copy.id, copy.lsn)

    def _make(self, name: bytes, size: int, now_ms: int) -> Queue:
        """A queue of this name, if it would not refuse so large an item."""
        limit = self._registry.policy_of(name, b"").max_item_bytes
        if size > limit:
            raise ItemRefused(f"item too large ({size} bytes, limit {limit})")
        return self._registry.create(name, now_ms)

    def _over(self, order: TransferRequest, bytes_: int) -> None:
        """Nothing more is done about one of its items, of that size."""
        self._count -= 1
        self._bytes -= bytes_
        order.under_way -= 1
        if not order.is_resting:
            self._orders[order] = None  # it may be over with that

    # -- what becomes of orders -------------------------------------------------------------

    def _stops(
        self, order: TransferRequest, lease: Lease, refused: ServerError, now_ms: int
    ) -> bool:
        """The target refused this item: is nothing more begun for now, or the next one tried?"""
        reason = str(refused)
        if not order.by_itself:
            order.give_up(reason)
            return True
        item = lease.item.id if isinstance(refused, ItemRefused) else 0
        if order.is_news(reason, item):
            source, target = order.source.name.decode("ascii"), order.target.decode("ascii")
            self.refusals.append(
                f"queue {source}: what is to go to {target} stays in its dead line: {reason}"
            )
        if item and order.skip():
            return False
        self._orders.pop(order, None)
        self._registry.call_later(now_ms + order.rest(), order)
        return True

    def _end(self, order: TransferRequest) -> None:
        self._orders.pop(order, None)
        if order.by_itself:
            self._outboxes.pop((order.source, order.target), None)
        else:
            order.is_over = True
            self.over.append(order)
