"""Records to the same apply methods that made them; no clock, and nothing can fail.

    a snapshot, if there is one ──▶ the records behind it ──▶ the state; bodies stay in the log

Leases by connection are not in the log (the connection does not survive either), so a record that
ends a delivery finds its item where it was before: the open it answers is implied. Those by token
are: what nothing ended goes on when the queue is taken into the books, which knows the time.

One rule: a record about an item that is not there (its put was in a segment that is gone, or
damaged) is passed over.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress

from journal.checkpoint import TOKENS_SKIPPED, Checkpoint
from journal.epochs import nominal_of_ids, nominal_of_put
from journal.errors import NewerFormat
from journal.ids import IdSet
from journal.lending import LeaseEntry
from journal.moving import origin_of
from journal.record import Kind, Record, Tag, decode_meta, ended_bytes
from journal.snapshot import Snapshot
from kestrelpy.core.apart import Apart
from kestrelpy.core.queue import Queue


class Replay:
    """Fills one fresh queue from its journal."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._reader = queue.reader
        self._leases = queue.reader.leases.entries
        # How large the bodies of the puts were that were met here, from item `_base` on: version 1
        # did not say it again where they end.
        self._base = 0
        self._sizes = array("I")
        # Spared by a flush whose sum counts them, but no longer in the log: their end comes later.
        self._gone_since: set[int] = set()
        self._opening = Checkpoint(b"")  # the latest that is known
        self._numbered = IdSet()  # items whose puts were met
        self._apart = Apart(queue.reader)
        self._apply: dict[int, Callable[[Record], None]] = {
            Kind.PUT: self._put,
            Kind.DONE: self._gone,
            Kind.RETURNED: self._returned,
            Kind.DEAD: self._dead,
            Kind.EXPIRED: self._gone,
            Kind.DISCARDED: self._gone,
            Kind.CANCELLED: self._gone,
            Kind.MOVED: self._gone,
            Kind.SETTLED: self._settled,
            Kind.FLUSHED: self._flushed,
            Kind.TOKENS: self._tokens,
            Kind.DECLARED: self._declared,
            Kind.PAUSED: self._paused,
            Kind.LEASED: self._leased,
            Kind.RENEWED: self._renewed,
            Kind.IDS: self._ids,
            Kind.RELEASED: self._released,
            Kind.REDRIVEN: self._redriven,
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with this state instead of nothing; the records behind it follow."""
        queue, reader = self._queue, self._reader
        queue.next_number = snapshot.checkpoint.next_item
        self._opening = snapshot.checkpoint
        reader._apply_tokens(snapshot.checkpoint.tokens)
        reader.live = snapshot.live
        reader.live_bytes = snapshot.live_bytes
        reader.attempts = snapshot.attempts
        queue._apply_declared(snapshot.declared)
        queue.epochs = snapshot.epochs
        reader.paused = snapshot.paused
        for dead in sorted(snapshot.dead, key=lambda d: d.order):
            reader.dead.bury(
                dead.item, dead.attempts, dead.reason, dead.died_ms, dead.body_bytes, dead.order
            )

        self._apart.restore(snapshot.delayed, snapshot.placed)
        reader.keyed.held.update(snapshot.held)
        for lease in snapshot.leased:
            self._lend(lease)
        queue.origins.update(snapshot.origins)

    def run(self, records: Iterable[Record]) -> None:
        """Apply every record, in order."""
        apply = self._apply
        for record in records:
            method = apply.get(record.kind)
            if method is None:
                raise NewerFormat(
                    f"segment {record.segment}, byte {record.offset}: records of kind "
                    f"{record.kind} are not known to this version of kestrelpy"
                )
            method(record)

    def finish(self, checkpoint: Checkpoint | None, lsn_last: int, item_lost: int = 0) -> None:
        """Take over what the last segment opened with.

        `item_lost` is the last item whose put may be among what was damaged: its number is not
        given again.
        """
        queue, reader = self._queue, self._reader
        if checkpoint is not None:
            queue.next_number = max(queue.next_number, checkpoint.next_item)
            if checkpoint.next_item > self._opening.next_item:
                self._opening = checkpoint
            reader._apply_tokens(checkpoint.tokens)
        queue.next_number = max(queue.next_number, item_lost + 1)
        queue.total_items = self._count(item_lost)
        reader.tokens_lsn = lsn_last
        if not reader.live:
            reader.live_bytes = 0
        reader.line.begin(*self._apart.settle())

    def _count(self, item_lost: int) -> int:
        """The items ever put: those that a checkpoint counted, those met since, those lost."""
        since, met = self._opening.next_item, self._numbered
        found = self._opening.total_items + met.count_between(since, met.last)
        if item_lost >= since:
            places = self._apart.count_places(since, item_lost)
            found += item_lost + 1 - since - places - met.count_between(since, item_lost)
        return found

    def skip_tokens(self) -> None:
        """A record that reserved tokens may be lost: none that it may have covered is issued."""
        reader = self._reader
        reader._apply_tokens(reader.tokens_below + TOKENS_SKIPPED)

    def _put(self, record: Record) -> None:
        size = len(record.body)
        sizes = self._sizes
        if not sizes:
            self._base = record.item
        missing = record.item - self._base - len(sizes)
        if missing > 0:
            sizes.extend([0] * missing)
        sizes.append(size)
        self._numbered.add(record.item)
        self._queue._apply_put(record.item, size)
        if record.meta and (nominal := nominal_of_put(record.meta)) is not None:
            self._queue._apply_nominal(nominal)
        if not record.number:
            self._apart.put(record, size)
        if record.meta and (origin := origin_of(record.meta, size)) is not None:
            self._queue._apply_opened(record.item, origin)

    def _size(self, record: Record) -> int:
        """Of the body that this record ends, as far as one knows."""
        at = record.item - self._base
        if 0 <= at < len(self._sizes):
            return self._sizes[at]
        return ended_bytes(record.small, record.meta)

    def _size_of(self, id_: int) -> int:
        """Of a body whose put was met here; else 0."""
        at = id_ - self._base
        return self._sizes[at] if 0 <= at < len(self._sizes) else 0

    def _gone(self, record: Record) -> None:
        reader, id_ = self._reader, record.item
        if id_ in reader.live:
            self._leases.pop(id_, None)
            self._apart.leave(id_)
            if id_ in reader.dead.deaths:
                reader.dead.forget(id_, False)
            reader._apply_done(id_, self._size(record))
        elif id_ in self._gone_since:
            self._gone_since.remove(id_)
            reader.live_bytes -= self._size(record)

    def _settled(self, record: Record) -> None:
        self._queue._apply_settled(record.item)

    def _returned(self, record: Record) -> None:
        # The item stands at its place already, if it is not put off: its attempts are news.
        reader, id_ = self._reader, record.item
        self._leases.pop(id_, None)
        if id_ in reader.live and id_ not in reader.dead.deaths:
            reader._apply_returned(id_, record.small)
            self._apart.put_off(record)

    def _released(self, record: Record) -> None:
        queue, id_ = self._queue, record.item
        queue.next_number = max(queue.next_number, record.number + 1)
        is_there = id_ in self._reader.live and id_ not in self._reader.dead.deaths
        self._apart.release(id_, record.number, self._size_of(id_), is_there)

    def _redriven(self, record: Record) -> None:
        queue, dead, id_ = self._queue, self._reader.dead, record.item
        queue.next_number = max(queue.next_number, record.number + 1)
        death = dead.deaths.get(id_)
        size = death.body_bytes if death is not None else self._size_of(id_)
        if death is not None:
            dead.forget(id_, False)
        self._apart.release(id_, record.number, size, id_ in self._reader.live)

    def _dead(self, record: Record) -> None:
        reader, id_ = self._reader, record.item
        if id_ not in reader.live:
            return
        self._leases.pop(id_, None)
        self._apart.leave(id_)
        if id_ in reader.dead.deaths:
            reader.dead.forget(id_, False)
        meta = decode_meta(record.meta)
        reason, size = meta.get(Tag.REASON, b""), meta.get(Tag.BYTES)
        reader._apply_dead(
            id_, record.small, reason if isinstance(reason, bytes) else b"", record.time_ms,
            size if isinstance(size, int) else self._size(record),
        )  # fmt: skip

    def _flushed(self, record: Record) -> None:
        reader = self._reader
        ids = struct.unpack(f"<{len(record.body) // 8}Q", record.body)
        spared = [id_ for id_ in ids if id_ in reader.live]
        self._gone_since = set(ids).difference(spared)
        for id_ in self._leases.keys() - set(spared):
            del self._leases[id_]
        live_bytes = record.number
        if not live_bytes and self._sizes:  # version 1 did not say it
            live_bytes = sum(self._sizes[i - self._base] for i in spared if i >= self._base)
            live_bytes += reader.dead.bytes
        reader._apply_flushed(spared, record.item, live_bytes)
        self._apart.keep_only(spared, record.item)

    def _paused(self, record: Record) -> None:
        self._reader.paused = record.small == 1

    def _tokens(self, record: Record) -> None:
        self._reader._apply_tokens(record.number)

    def _declared(self, record: Record) -> None:
        if record.small:
            raise NewerFormat(
                f"segment {record.segment}, byte {record.offset}: declarations of kind "
                f"{record.small} are not known to this version of kestrelpy"
            )
        self._queue._apply_declared(record.body)

    def _ids(self, record: Record) -> None:
        nominal = nominal_of_ids(record)
        if nominal is not None:
            self._queue._apply_nominal(nominal)

    def _leased(self, record: Record) -> None:
        with suppress(ValueError):
            self._lend(LeaseEntry.begun(record))

    def _renewed(self, record: Record) -> None:
        lease = self._leases.get(record.item)
        if lease is not None:
            with suppress(ValueError):
                self._leases[record.item] = lease.renewed(record)

    def _lend(self, lease: LeaseEntry) -> None:
        reader = self._reader
        if lease.item in reader.live and lease.item not in reader.dead.deaths:
            self._leases[lease.item] = lease
            self._apart.lend(lease.item)
