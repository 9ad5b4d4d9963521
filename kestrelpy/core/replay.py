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
from journal.errors import NewerFormat
from journal.lending import LeaseEntry
from journal.moving import origin_of
from journal.record import Kind, Record, Tag, decode_meta, ended_bytes
from journal.snapshot import Snapshot
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
        self._placed: list[int] = []  # numbers that are a place alone
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
        reader.paused = snapshot.paused
        for dead in sorted(snapshot.dead, key=lambda d: d.order):
            reader.dead.bury(
                dead.item, dead.attempts, dead.reason, dead.died_ms, dead.body_bytes, dead.order
            )

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
        # What a checkpoint counted, and the numbers given since that were not places alone.
        since, given = self._opening.next_item, self._placed
        queue.total_items = self._opening.total_items + queue.next_number - since
        queue.total_items -= sum(number >= since for number in given)
        reader.tokens_lsn = lsn_last
        if not reader.live:
            reader.live_bytes = 0
        reader.line.begin([], 0)

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
        self._queue._apply_put(record.item, size)
        if record.meta and (origin := origin_of(record.meta, size)) is not None:
            self._queue._apply_opened(record.item, origin)

    def _size(self, record: Record) -> int:
        """Of the body that this record ends, as far as one knows."""
        at = record.item - self._base
        if 0 <= at < len(self._sizes):
            return self._sizes[at]
        return ended_bytes(record.small, record.meta)

    def _gone(self, record: Record) -> None:
        reader, id_ = self._reader, record.item
        if id_ in reader.live:
            self._leases.pop(id_, None)
            if id_ in reader.dead.deaths:
                reader.dead.forget(id_, False)
            reader._apply_done(id_, self._size(record))
        elif id_ in self._gone_since:
            self._gone_since.remove(id_)
            reader.live_bytes -= self._size(record)

    def _settled(self, record: Record) -> None:
        self._queue._apply_settled(record.item)

    def _returned(self, record: Record) -> None:
        # The item stands at its place already: only its attempts are news.
        reader = self._reader
        self._leases.pop(record.item, None)
        if record.small and record.item in reader.live and record.item not in reader.dead.deaths:
            reader._apply_returned(record.item, record.small)

    def _dead(self, record: Record) -> None:
        reader, id_ = self._reader, record.item
        if id_ not in reader.live:
            return
        self._leases.pop(id_, None)
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
