"""Moves between queues, exactly once: what is under way, and what a start finds of it.

    order ──▶ taken in the source ──▶ PUT in the target, its origin open
                │ (lent to the mover)       │ on disk
                │                           ▼
                │                     MOVED in the source ──on disk──▶ SETTLED in the target
                └── refused: put back, tried again later (by itself) or never (asked for)

If a journal on either side fails between, the item is in doubt: it stays lent to the mover until a
restart, and `settle_all` looks at which records are there. A target that still has an open origin
has the copy, or had it: then a source that has the item, too, says MOVED before anything is served.

One rule: an item moves when it is on disk itself, MOVED waits for the copy to be on disk, SETTLED
for MOVED to be on disk, whatever `sync` says.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from journal.moving import Origin
from kestrelpy.core.leases import Holder, Lease
from kestrelpy.core.log import Log
from kestrelpy.core.moving import (
    leave,
    leave_unread,
    put_back,
    receive,
    settle,
    take_dead,
    take_first,
)
from kestrelpy.core.orders import Order
from kestrelpy.core.outgoing import onward
from kestrelpy.core.queue import Queue
from kestrelpy.errors import ServerError

if TYPE_CHECKING:
    from kestrelpy.core.broker import Broker

# Copies and their originals that are under way at once; begun in one turn: about 5 ms of work.
MOVES_MAX: Final = 1024
BYTES_MAX: Final = 8 << 20
BEGUN_MAX: Final = 256


class _Move:
    """One item on its way. `lease` is the mover's, None of what a start found."""

    __slots__ = ("copy", "lease", "lsn", "order", "source", "target")

    def __init__(
        self, order: Order | None, source: Queue, lease: Lease | None, target: Queue, copy: int,
        lsn: int,
    ) -> None:  # fmt: skip
        self.order = order
        self.source = source
        self.lease = lease
        self.target = target
        self.copy = copy
        self.lsn = lsn  # awaited, in the target's log, then in the source's


class Moves:
    """All moves of one server. `over` are requests that ended, `refusals` lines for the log."""

    __slots__ = (
        "_broker", "_bytes", "_count", "_ending", "_open", "_orders", "_orphans", "_outboxes",
        "_storing", "_stranded", "has_more", "mover", "over", "refusals",
    )  # fmt: skip

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.mover = Holder("mover")
        self.over: list[Order] = []
        self.refusals: list[str] = []
        self.has_more = False  # could the next turn go on without anything happening first?
        self._orders: dict[Order, None] = {}  # those that do not rest
        self._outboxes: dict[tuple[Queue, bytes], Order] = {}
        self._storing: dict[Log, deque[_Move]] = {}
        self._ending: dict[Log, deque[_Move]] = {}
        self._orphans: dict[Queue, list[_Move]] = {}
        self._stranded: dict[Queue, list[_Move]] = {}
        self._open: dict[Queue, int] = {}  # copies whose originals may come back with a crash
        self._count = self._bytes = 0

    # -- what is to be moved ----------------------------------------------------------------

    def request(self, order: Order) -> None:
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
                order = Order(source, target, deque(), by_itself=True)
                self._outboxes[source, target] = order
            order.ids.append(id_)
            if not order.is_resting:
                self._orders[order] = None

    def wake(self, order: Order) -> None:
        """Its target refused; perhaps it does not any more."""
        order.is_resting = False
        self._orders[order] = None

    @property
    def is_active(self) -> bool:
        """Is anything under way, or to be begun?"""
        return bool(self._orders or self._storing or self._ending)

    def advance(self, now_ms: int) -> int:
        """Do what has become possible, in bounded steps; how many were taken."""
        self.has_more = False
        taken = sum([self._leave(log, now_ms) for log in [*self._storing]])
        taken += sum([self._settle(log, now_ms) for log in [*self._ending]])
        steps = BEGUN_MAX
        for order in [*self._orders]:
            steps -= self._begin(order, steps, now_ms)
            if order.is_done and order in self._orders:
                self._end(order)
        return taken + BEGUN_MAX - steps

    def take_over(self) -> list[Order]:
        """Requests that have ended since the last time."""
        over, self.over = self.over, []
        return over

    # -- one after the other ----------------------------------------------------------------

    def _begin(self, order: Order, steps: int, now_ms: int) -> int:
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
                # Else a crash might take it away here, and what it was made of would come back.
                order.source.log.wait_durable(lease.item.lsn)
                self._put_back(order, lease)
                return begun
            try:
                self._store(order, lease, now_ms)
            except ServerError as refused:
                self._put_back(order, lease)
                self._refused(order, str(refused), now_ms)
                return begun
        self.has_more = True
        return steps

    def _put_back(self, order: Order, lease: Lease) -> None:
        put_back(order.source.reader, lease)
        if order.of_dead:
            order.ids.appendleft(lease.item.id)
        else:
            order.left += 1

    def _take(self, order: Order, now_ms: int) -> Lease | None:
        """The next item of this order; None: there is none, or it has to be read back first."""
        reader = order.source.reader
        if not order.of_dead:
            if not order.left:
                return None
            lease = take_first(reader, now_ms, self.mover)
            if lease is not None:
                order.left -= 1
            elif not reader.is_busy(now_ms, lends=False):
                order.left = 0
            else:
                # What has expired is cleared away, or what is next is being read.
                self.has_more |= not reader.is_hungry and reader.ready.resident > 0
            return lease
        while order.ids:
            id_ = order.ids[0]
            if order.wants(id_):
                lease = take_dead(reader, id_, self.mover)
                if lease is not None:
                    order.ids.popleft()
                return lease
            order.ids.popleft()
        return None

    def _store(self, order: Order, lease: Lease, now_ms: int) -> None:
        """A copy of it, in the target; raises ServerError when that refuses."""
        source, item = order.source, lease.item
        target = self._target(order.target, item.size, now_ms)
        if target is source:
            raise ServerError("a queue does not move to itself")
        origin = Origin(
            source.server_id, source.name, item.id, source.generation, item.size
        )
        copy = receive(target, item, origin, now_ms)
        order.stored()
        order.under_way += 1
        self._count += 1
        self._bytes += item.size
        self._open[target] = self._open.get(target, 0) + 1
        target.log.wait_durable(copy.lsn)
        move = _Move(order, source, lease, target, copy.id, copy.lsn)
        self._storing.setdefault(target.log, deque()).append(move)

    def _target(self, name: bytes, size: int, now_ms: int) -> Queue:
        """The queue of this name; it is made if it would not refuse so large an item."""
        broker = self._broker
        queue = broker.queues.get(name)
        if queue is not None:
            return queue
        limit = broker.policy_of(name, b"").max_item_bytes
        if size > limit:
            raise ServerError(f"item too large ({size} bytes, limit {limit})")
        return broker.create(name, now_ms)

    def _leave(self, log: Log, now_ms: int) -> int:
        """Copies that are on disk now: their originals go; how many were looked at."""
        reached = _reached(self._storing, log)
        for move in reached:
            source, lease = move.source, move.lease
            assert lease is not None
            if move.lsn > log.lsn_durable:
                self._never_stored(move)
            elif source.deleted:
                self._orphan(move, now_ms)
            elif source.log.failure is not None:
                self._doubt(move)
            else:
                target = Origin(
                    move.target.server_id, move.target.name, move.copy, move.target.generation
                )
                move.lsn = leave(source.reader, lease, target, now_ms)
                self._await_end(move)
        return len(reached)

    def _await_end(self, move: _Move) -> None:
        log = move.source.log
        log.wait_durable(move.lsn)
        self._ending.setdefault(log, deque()).append(move)

    def _settle(self, log: Log, now_ms: int) -> int:
        """Originals that are gone on disk: their copies' origins are closed."""
        reached = _reached(self._ending, log)
        for move in reached:
            if move.lsn <= log.lsn_durable:
                self._close(move, now_ms)
                if move.order is not None:
                    move.order.moved += 1
                self._over(move)
            elif move.source.deleted:
                self._orphan(move, now_ms)
            else:
                self._doubt(move)
        return len(reached)

    def _close(self, move: _Move, now_ms: int) -> None:
        if move.target.log.failure is None and not move.target.deleted:
            settle(move.target, move.copy, now_ms)

    def _orphan(self, move: _Move, now_ms: int) -> None:
        """Its source is deleted: the original is gone when the files are."""
        if move.source.is_gone:
            self._close(move, now_ms)
        else:
            self._orphans.setdefault(move.source, []).append(move)
        self._over(move)

    def _never_stored(self, move: _Move) -> None:
        """The target's journal failed, or was deleted before the copy was on disk."""
        if move.target.deleted and not move.source.deleted:
            self._stranded.setdefault(move.target, []).append(move)
        self._doubt(move)

    def _doubt(self, move: _Move) -> None:
        """A journal failed: a restart will know. Until then nobody has it."""
        if move.order is not None and not move.order.by_itself:
            move.order.give_up("a journal failed: what is in doubt is settled by a restart")
        self._over(move)

    def _over(self, move: _Move) -> None:
        """Nothing more is done about it."""
        left = self._open[move.target] - 1
        if left:
            self._open[move.target] = left
        else:
            del self._open[move.target]
        if move.order is not None:
            assert move.lease is not None
            self._count -= 1
            self._bytes -= move.lease.item.size
            move.order.under_way -= 1
            if not move.order.is_resting:
                self._orders[move.order] = None  # it may be over with that

    # -- what becomes of orders -------------------------------------------------------------

    def _refused(self, order: Order, reason: str, now_ms: int) -> None:
        if not order.by_itself:
            order.give_up(reason)
            return
        if not order.refusal:
            source, target = order.source.name.decode("ascii"), order.target.decode("ascii")
            self.refusals.append(
                f"queue {source}: what is to go to {target} stays in its dead line: {reason}"
            )
        order.refusal = reason
        self._orders.pop(order, None)
        self._broker.call_later(now_ms + order.rest(), order)

    def _end(self, order: Order) -> None:
        self._orders.pop(order, None)
        if order.by_itself:
            self._outboxes.pop((order.source, order.target), None)
        else:
            order.is_over = True
            self.over.append(order)

    # -- queues that go ---------------------------------------------------------------------

    def holds(self, queue: Queue) -> bool:
        """Would an item come back if the files of this queue went now and a crash came?"""
        return queue in self._open

    def gone(self, queue: Queue, now_ms: int) -> None:
        """The files of this deleted queue are gone: originals, or copies that were never stored."""
        queue.is_gone = True
        for move in self._orphans.pop(queue, []):
            self._close(move, now_ms)
        for move in self._stranded.pop(queue, []):
            if not move.source.deleted and move.lease is not None:
                put_back(move.source.reader, move.lease)

    # -- a start ----------------------------------------------------------------------------

    def settle_all(self, queue: Queue, now_ms: int) -> int:
        """Before anything is served: every open origin of this queue. How many are not over yet.

        Nothing of any queue has been read back.
        """
        pending = 0
        for copy, origin in [*queue.origins.items()]:
            source = self._original(origin)
            if source is None:
                settle(queue, copy, now_ms)
                continue
            target = Origin(queue.server_id, queue.name, copy, queue.generation)
            lsn = leave_unread(source.reader, origin.item, origin.body_bytes, target, now_ms)
            self._open[queue] = self._open.get(queue, 0) + 1
            self._await_end(_Move(None, source, None, queue, copy, lsn))
            pending += 1
        return pending

    def _original(self, origin: Origin) -> Queue | None:
        """The queue that still has what this copy was made of; None: it is gone."""
        source = self._broker.queues.get(origin.queue)
        if (
            source is None
            or origin.server != self._broker.server_id
            or origin.generation != source.generation
            or origin.item not in source.reader.live
        ):
            return None
        return source


def _reached(waiting: dict[Log, deque[_Move]], log: Log) -> list[_Move]:
    """Those whose record is on disk, or never will be, because this log has failed."""
    moves = waiting[log]
    reached = []
    while moves and (moves[0].lsn <= log.lsn_durable or log.failure is not None):
        reached.append(moves.popleft())
    if not moves:
        del waiting[log]
    return reached
