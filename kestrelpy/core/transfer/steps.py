"""The steps of a transfer, each within one queue: taken, stored as a copy, ended, settled.

      READY or DEAD ──take──▶ leased to the mover ──leave──▶ ended: MOVED
            ▲                       │                        (the target has it on disk)
            └────── put_back ───────┘
                                       receive ──▶ READY in the target, its origin open
                                                   settle ──▶ closed

An item leased to the mover is leased to no client, and no deadline ends its lease. No record holds
this lease: after a crash the item is where it was, and the target has an open origin if there is a
copy.

One rule: an item leaves its queue only when its copy is on disk.
"""

from __future__ import annotations

from typing import Final

from journal.format import (
    ItemHeader,
    LeaseEntry,
    Origin,
    moved,
    settled,
    settled_many,
    split,
)
from kestrelpy.core.index import Former, Holder, Lease
from kestrelpy.core.item import Item
from kestrelpy.core.log import records
from kestrelpy.core.queue import NOT_STORED, AnyQueue
from kestrelpy.core.subscription import DEFERRED, HUNG_UP, Subscription
from kestrelpy.errors import ClientError, ItemRefused

_NOBODY: Final = 0  # the token of a lease that no client is shown


class TransferSource:
    """Items that leave one subscription."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Subscription) -> None:
        self._reader = reader

    @classmethod
    def of(cls, lease: Lease) -> TransferSource:
        """Return the subscription that has this lease."""
        reader = lease.owner
        assert isinstance(reader, Subscription)
        return cls(reader)

    def take_dead(self, id_: int, mover: Holder) -> Lease | None:
        """Lease this dead letter to the mover; None: its body has to be read first, which begins.

        The caller knows that the item is dead, readable and not leased.
        """
        reader = self._reader
        item = reader.dead.take(id_)
        if item is None:
            reader.dead.wanted = id_
            reader.schedule_read()
            return None
        death = reader.dead.deaths[id_]
        return self._lend(item, death.order, mover, death.attempts, True)

    def take_first(self, now_ms: int, mover: Holder) -> Lease | None:
        """Lease the next ready item to the mover; None: there is none, or not yet."""
        reader = self._reader
        found = reader.pop(now_ms)
        if found is None:
            return None
        place, item = found
        if reader.out_of_order.count:
            reader.out_of_order.discard(item.id)
        if item.key:
            reader.key_gate.lease(item)
        return self._lend(item, place, mover, reader.attempts.get(item.id))

    def _lend(
        self, item: Item, place: int, mover: Holder, attempts: int, dead: bool = False
    ) -> Lease:
        reader = self._reader
        lease = Lease(item, place, mover, reader, _NOBODY, attempts, 0, None)
        lease.is_moving, lease.dead = True, dead
        reader.leases.grant(lease)
        reader.leased_bytes += len(item.body)
        reader.moving += 1
        return lease

    def forward(self, lease: Lease, mover: Holder) -> Former:
        """Pass a client's lease to the mover: the item is handed off. Return what it was."""
        return self._reader.leases.forward(lease, mover)

    def mark(self, lease: Lease, target: bytes, now_ms: int) -> int:
        """Record that an item leaves for a queue of another server; return the record to wait for.
        """
        reader, item = self._reader, lease.item
        unix_ms = now_ms + reader.clock.offset_ms
        entry = reader.leases.entries.get(item.id)
        if entry is None:
            key = item.key if not lease.dead else b""
            entry = LeaseEntry(
                item.id, 0, lease.attempts + 1, unix_ms, item.size, unix_ms, unix_ms, key
            )
        entry = entry._replace(target=target)
        reader.leases.leave(lease, entry)
        return reader.append(entry.leased())

    def stay(self, lease: Lease, now_ms: int) -> None:
        """Return an item to its place that the mover took and `mark` recorded: it stays here."""
        reader = self._reader
        draft = records.returned(
            lease.item, lease.attempts, 0, now_ms + reader.clock.offset_ms, DEFERRED
        )
        self.put_back(lease)
        reader.append(draft)

    def stay_with(
        self, lease: Lease, former: Former | None, is_abandoned: bool, now_ms: int
    ) -> None:
        """End a hand-off that `mark` recorded and that did not happen: the client has its lease
        again.

        A client that is gone gives the item back. After a restart there is only a lease by token.
        """
        reader, entry = self._reader, self._reader.leases.entries[lease.item.id]
        if former is None:
            reader.moving -= 1
            reader.nack(lease, now_ms, DEFERRED)
            return
        if entry.token:
            entry = entry._replace(target=b"")
            reader.leases.leave(lease, entry)
            for draft in entry.drafts():
                reader.append(draft)
        elif is_abandoned:
            reader.nack(lease, now_ms, HUNG_UP)
            return
        else:
            unix_ms = now_ms + reader.clock.offset_ms
            reader.leases.forget(lease)
            reader.append(records.returned(lease.item, lease.attempts, 0, unix_ms, DEFERRED))
        reader.leases.hand_back(lease, former)
        reader.alarm.need(former.deadline_ms)

    def give_back(self, lease: Lease, now_ms: int) -> None:
        """Return an item whose copy was lost with its queue; no attempt counts."""
        if lease.token == _NOBODY:
            self.put_back(lease)
        elif self._reader.log.failure is None:
            self._reader.nack(lease, now_ms, DEFERRED)

    def put_back(self, lease: Lease) -> None:
        """End the mover's lease, and return the item to its place."""
        reader = self._reader
        item = reader.end(lease)
        reader.moving -= 1
        if lease.dead:
            reader.dead.put_back(item, reader.log.read_ahead is None)
        else:
            reader.ready_items.put_back(item, lease.place)

    def leave(
        self, lease: Lease, target: bytes, now_ms: int, lazily: bool = False
    ) -> int:
        """End an item whose copy is on disk; return the record to wait for.

        `target` describes the copy in the record (`Origin.as_target`). `lazily`: no reply waits for
        the record, and the caller has it written soon.
        """
        reader = self._reader
        item = reader.end(lease)
        delivery = began_ms = 0
        if was_handed_off := lease.token != _NOBODY:
            delivery, began_ms = lease.attempts + 1, lease.began_ms
            reader.counters.count_confirm(now_ms + reader.clock.offset_ms - began_ms)
        else:
            reader.moving -= 1
        if lease.dead:
            reader.dead.forget(item.id, True)
        elif item.key:
            reader.key_gate.end(item)
        size, log = item.size, reader.log
        reader._apply_done(item.id, size)
        unix_ms = now_ms + reader.clock.offset_ms
        draft = moved(item.id, size, target, unix_ms, not log.is_full, delivery, began_ms)
        own = reader.own(draft)
        lsn = log.append_lazily(own) if lazily else log.append(own)
        if reader.waiters.count and (
            item.key or (was_handed_off and reader.policy.max_leased is not None)
        ):
            reader.serve(now_ms)  # another item or lease may be possible now
        return lsn

    def leave_unread(self, id_: int, body_bytes: int, target: Origin, now_ms: int) -> int:
        """`leave` at a start: the item is live, and no body was read back yet.

        The last record about the item may be older than its transfer: a crash may have lost some.
        """
        reader = self._reader
        reader.take_out(id_, body_bytes)
        log, unix_ms = reader.log, now_ms + reader.clock.offset_ms
        draft = moved(id_, body_bytes, target.as_target, unix_ms, not log.is_full)
        return reader.append(draft)


class TransferTarget:
    """Copies that one queue receives."""

    __slots__ = ("_queue",)

    def __init__(self, queue: AnyQueue) -> None:
        self._queue = queue

    def tell_left(self, copy: int, origin: Origin, now_ms: int) -> None:
        """At a start, repeat a lost MOVED record: the put of `copy` ended its origin in this log.

        The record is for programs that count a log's items.
        """
        queue = self._queue
        queue.files._apply_settled(copy)
        _, child, part = origin.queue.partition(b"+")
        reader = queue.children.get(part) if child else queue.reader
        if reader is None:
            return
        log, unix_ms = reader.log, now_ms + queue.clock.offset_ms
        target = Origin(queue.files.server_id, queue.name, copy, queue.generation).as_target
        draft = moved(origin.item, origin.body_bytes, target, unix_ms, not log.is_full)
        reader.append(draft._replace(put_lsn=0))  # it is not a live item

    def receive(
        self, item: Item, origin: Origin, now_ms: int, life_ms: int | None = None
    ) -> tuple[int, int]:
        """Store a copy as a new arrival; return its id, and its record to wait for.

        The copy keeps an expiry in the future, unless it gets `life_ms` (0: no end), and its key,
        under which it is the next version. It is never a duplicate of an id seen here. Raise
        Refused with the reason if the queue refuses it; then nothing is stored.
        """
        queue, name = self._queue, self._queue.name
        if queue.passes_on and not queue.children and queue.retained is None:
            said = name.decode("ascii")
            raise ClientError(f"queue {said} has fanout_only and no children: nobody would have it")
        try:
            key = queue.policy.keys.key_of(name, tuple(split(item.key)), item.body)
        except ClientError as error:
            raise ItemRefused(str(error)) from None
        unix_ms = now_ms + queue.clock.offset_ms
        expires_ms = item.expires_ms if item.expires_ms > unix_ms else 0
        if life_ms is not None:
            expires_ms = unix_ms + life_ms if life_ms else 0
        copy, header = queue.next_number, ItemHeader(origin=origin, texts=item.texts)
        lsn = queue.put(item.body, item.flags, expires_ms, now_ms, key, header=header)
        if lsn == NOT_STORED:
            raise ClientError(f"queue {name.decode('ascii')} is full")
        if origin.is_of(name):  # in its own log as well the origin is open until MOVED is on disk
            queue.files._apply_opened(copy, origin.put_by(lsn))
        return copy, lsn

    def close_origins(self, copies: list[int], now_ms: int, lazily: bool = False) -> None:
        """Close the origins of `copies`: the originals are gone on disk; `lazily` as in `leave`."""
        queue = self._queue
        origins, unix_ms = queue.files.origins, now_ms + queue.clock.offset_ms
        copies = [id_ for id_ in copies if id_ in origins]
        if not copies:
            return
        one = origins[copies[0]]
        for id_ in copies:
            queue.files._apply_settled(id_)
        alone = len(copies) == 1
        draft = settled(copies[0], one, unix_ms) if alone else settled_many(copies, unix_ms)
        (queue.log.append_lazily if lazily else queue.log.append)(draft)
