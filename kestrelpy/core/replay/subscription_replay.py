"""The replay of one subscription's records: the queue's own, or a child's.

One rule: as in `replay`, a record about an item that is missing is skipped.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from contextlib import suppress

from journal.format import (
    ENDS,
    Kind,
    LeaseEntry,
    Origin,
    ReaderState,
    Record,
    Tag,
    decode_meta,
    ended_bytes,
)
from journal.sets import IdSet
from journal.store import Snapshot
from kestrelpy.core.subscription import OutOfOrder, Subscription


class PutSizes:
    """The body sizes of the puts met in the replay, from item `base` on.

    In version 1 of the format, the record that ends an item does not repeat its size.
    """

    __slots__ = ("_sizes", "base")

    def __init__(self) -> None:
        self.base = 0
        self._sizes = array("I")

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def add(self, id_: int, size: int) -> None:
        """Note the size of an item that was put after all others."""
        sizes = self._sizes
        if not sizes:
            self.base = id_
        missing = id_ - self.base - len(sizes)
        if missing > 0:
            sizes.extend([0] * missing)
        sizes.append(size)

    def of(self, id_: int) -> int:
        """Return the body size of an item if its put was met; else 0."""
        at = id_ - self.base
        return self._sizes[at] if 0 <= at < len(self._sizes) else 0

    def ended_by(self, record: Record) -> int:
        """Return the body size of the item that this record ends; 0 if it is not known."""
        if 0 <= record.item - self.base < len(self._sizes):
            return self._sizes[record.item - self.base]
        return ended_bytes(record.small, record.meta)


class SubscriptionReplay:
    """One subscription during replay."""

    __slots__ = (
        "_apply_settled", "_copies", "_gone_since", "_leases", "_sizes", "apply", "out_of_order",
        "reader",
    )  # fmt: skip

    def __init__(
        self, reader: Subscription, sizes: PutSizes, apply_settled: Callable[[int], None]
    ) -> None:
        self.reader = reader
        self._apply_settled = apply_settled
        self._copies: dict[int, int] = {}  # copies of items that were handed off within this log
        self.out_of_order = OutOfOrder(reader)
        self._leases = reader.leases.entries
        self._sizes = sizes
        # Items that a flush spared and counts in its sum, but that are no longer in the log: the
        # records that end them come later.
        self._gone_since: set[int] = set()
        self.apply: dict[int, Callable[[Record], None]] = {
            **dict.fromkeys(ENDS, self._gone),
            Kind.RETURNED: self._returned,
            Kind.DEAD: self._dead,
            Kind.FLUSHED: self._flushed,
            Kind.PAUSED: self._paused,
            Kind.LEASED: self._leased,
            Kind.MOVING: self._leased,
            Kind.RENEWED: self._renewed,
            Kind.UPTO: self._upto,
        }

    def restore(self, state: Snapshot | ReaderState) -> None:
        """Begin with the state of a snapshot."""
        reader = self.reader
        reader.live = state.live
        reader.live_bytes = state.live_bytes
        reader.attempts = state.attempts
        for dead in sorted(state.dead, key=lambda d: d.order):
            reader.dead.add(
                dead.item, dead.attempts, dead.reason, dead.died_ms, dead.body_bytes, dead.order
            )
        self.out_of_order.restore(state.delayed, state.placed)
        self.out_of_order.hear(state.heard_ms)
        reader.held_keys.update(state.held)
        reader.ageless = state.ageless
        for lease in state.leased:
            self._lend(lease)

    def finish(self, shared: Callable[[int], bool]) -> None:
        """End the replay. `shared` is true for items that are delayed for several subscriptions."""
        reader = self.reader
        if not reader.live:
            reader.live_bytes = 0
        reader.ready_items.begin(*self.out_of_order.finish(shared))

    def leave_all(self) -> None:
        """Remove all items, dead letters and leases."""
        reader = self.reader
        for id_ in [*reader.dead.deaths]:
            reader.dead.forget(id_, False)
        self._leases.clear()
        reader._apply_flushed(IdSet(), reader.live.last, 0)
        self.out_of_order.retain_only([], reader.live.last)

    def put(self, record: Record, size: int) -> None:
        """Add an item of this subscription, available or delayed."""
        self.reader._apply_put(record.item, size)
        if not record.number:
            self.out_of_order.put(record, size)

    def lose(self, ids: IdSet) -> None:
        """Add items whose puts are lost: their bodies can never be read."""
        for id_ in ids:
            if id_ not in self.reader.live:
                self.reader._apply_put(id_, 0)

    def release(self, record: Record) -> None:
        """Make a delayed item available."""
        reader, id_ = self.reader, record.item
        is_there = id_ in reader.live and id_ not in reader.dead.deaths
        self.out_of_order.release(id_, record.number, self._sizes.of(id_), is_there)

    def redrive(self, record: Record) -> None:
        """Make a dead letter ready again."""
        reader, id_ = self.reader, record.item
        death = reader.dead.deaths.get(id_)
        size = death.body_bytes if death is not None else self._sizes.of(id_)
        if death is not None:
            reader.dead.forget(id_, False)
        self.out_of_order.release(id_, record.number, size, id_ in reader.live)
        # Before version 7 a redriven item kept the expiry of its put.
        if id_ in reader.live and decode_meta(record.meta).get(Tag.EXPIRES_MS) == 0:
            reader._apply_ageless(id_)

    def _gone(self, record: Record) -> None:
        reader, id_ = self.reader, record.item
        if id_ in reader.live:
            self._end(id_, self._sizes.ended_by(record))
        elif id_ in self._copies:
            self._apply_settled(self._copies.pop(id_))
        elif id_ in self._gone_since:
            self._gone_since.remove(id_)
            reader.live_bytes -= self._sizes.ended_by(record)

    def _end(self, id_: int, body_bytes: int) -> None:
        reader = self.reader
        self._leases.pop(id_, None)
        self.out_of_order.leave(id_)
        if id_ in reader.dead.deaths:
            reader.dead.forget(id_, False)
        reader._apply_done(id_, body_bytes)

    def hand_on(self, copy: int, origin: Origin) -> bool:
        """End the item that `copy` was made of; return False if it was not present."""
        if origin.item not in self.reader.live:
            return False
        self._end(origin.item, origin.body_bytes)
        self._copies[origin.item] = copy
        return True

    def _returned(self, record: Record) -> None:
        # Without a delay the item is at its place already; only its attempts change.
        reader, id_ = self.reader, record.item
        self._leases.pop(id_, None)
        if id_ in reader.live and id_ not in reader.dead.deaths:
            reader._apply_returned(id_, record.small)
            self.out_of_order.delay(record)

    def _dead(self, record: Record) -> None:
        reader, id_ = self.reader, record.item
        if id_ not in reader.live:
            return
        self._leases.pop(id_, None)
        self.out_of_order.leave(id_)
        if id_ in reader.dead.deaths:
            reader.dead.forget(id_, False)
        meta = decode_meta(record.meta)
        reason, size = meta.get(Tag.REASON, b""), meta.get(Tag.BYTES)
        reader._apply_dead(
            id_, record.small, reason if isinstance(reason, bytes) else b"", record.time_ms,
            size if isinstance(size, int) else self._sizes.ended_by(record),
        )  # fmt: skip

    def _flushed(self, record: Record) -> None:
        reader = self.reader
        ids = struct.unpack(f"<{len(record.body) // 8}Q", record.body)
        spared = [id_ for id_ in ids if id_ in reader.live]
        self._gone_since = set(ids).difference(spared)
        for id_ in self._leases.keys() - set(spared) - reader.dead.deaths.keys():
            del self._leases[id_]
        live_bytes = record.number
        if not live_bytes and self._sizes:  # version 1 did not record it
            live_bytes = sum(self._sizes.of(i) for i in spared)
            live_bytes += reader.dead.bytes
        reader._apply_flushed(IdSet.of(spared), record.item, live_bytes)
        self.out_of_order.retain_only(spared, record.item)

    def _upto(self, record: Record) -> None:
        reader, marker = self.reader, record.number
        spared = struct.unpack(f"<{len(record.body) // 8}Q", record.body)
        stay = IdSet.of(self.out_of_order.behind(marker).union(spared))
        live_bytes = decode_meta(record.meta).get(Tag.BYTES, 0)
        assert isinstance(live_bytes, int)
        reader._apply_upto(marker, stay, live_bytes)
        for id_ in [id_ for id_ in self._leases if id_ not in reader.live]:
            del self._leases[id_]
        for id_ in [id_ for id_ in self.out_of_order.ids if id_ not in reader.live]:
            self.out_of_order.leave(id_)

    def _paused(self, record: Record) -> None:
        self.reader.paused = record.small == 1

    def _leased(self, record: Record) -> None:
        with suppress(ValueError):
            self._lend(LeaseEntry.begun(record))

    def _renewed(self, record: Record) -> None:
        lease = self._leases.get(record.item)
        if lease is not None:
            with suppress(ValueError):
                self._leases[record.item] = renewed = lease.renewed(record)
                self.out_of_order.hear(renewed.heard_ms)

    def _lend(self, lease: LeaseEntry) -> None:
        reader = self.reader
        self.out_of_order.hear(lease.heard_ms)
        if lease.item in reader.live:
            self._leases[lease.item] = lease
            self.out_of_order.leased(lease.item)
