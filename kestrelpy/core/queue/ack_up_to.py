"""Confirm every item of one subscription up to a marker: a cursor moves on.

    marker   1      2       3     4      5      6          delete q+cursor/upto=4
             ready  leased  dead  ready  ready  delayed    ──▶  3 (dead), 5, 6 (delayed)

A client that holds one of these items is refused when it ends the lease, as if the lease had
expired.

A long way takes several steps, each with a record of its own: `upto=1000000` is `upto=2048`,
`upto=4096`, and so on. A crash between two steps leaves the items before it confirmed and the
others as they were.

One rule: delayed and dead items stay, whatever their marker. So do items that have no marker yet,
and items on their way to another queue: those end when that queue has them.
"""

from __future__ import annotations

from typing import Final, NoReturn

from journal.sets import IdSet
from kestrelpy.core.log import records
from kestrelpy.core.queue.child_queue import AnyQueue
from kestrelpy.core.subscription import Subscription
from kestrelpy.errors import ClientError

# Numbers in one step: it takes 3 ms even if all of them are items in memory.
STEP_NUMBERS: Final = 2048
# A step takes this part (1/4) of them if they wait for keys: each end may unblock others. 10 ms.
_BLOCKED_PART: Final = 4
# Up to this number, disk references after the marker are looked up one by one.
_FEW_DISK_REFS: Final = 8


class AckUpTo:
    """One request to confirm up to a marker. `lsn` is the record to wait for once it `is_over`."""

    __slots__ = ("_at", "_marker", "_passed", "_queue", "is_over", "lsn")

    def __init__(self, queue: AnyQueue, marker: int) -> None:
        """Raise ClientError beyond the latest number, ServerError when the journal has failed."""
        if queue.log.failure is not None:
            queue.raise_failed()
        if marker > queue.last_number:
            refuse_beyond(queue.name, marker, queue.last_number)
        self._queue = queue
        self._marker = marker
        self._at = 0  # items up to here are confirmed
        self._passed = IdSet()  # items whose marker is not their id, and not above `_at`
        self.is_over = False
        self.lsn = 0

    def step(self, now_ms: int) -> None:
        """Take the next step; raise ServerError when the journal has failed."""
        queue = self._queue
        if queue.log.failure is not None:
            queue.raise_failed()
        marker = self._next()
        for _, id_ in queue.reader.markers.between(self._at + 1, marker):
            self._passed.add(id_)
        self.lsn = self._confirm(marker, now_ms)
        self._at, self.is_over = marker, marker == self._marker

    def finish(self, now_ms: int) -> int:
        """Take all steps at once; return the record to wait for, or raise what `step` raises."""
        while not self.is_over:
            self.step(now_ms)
        return self.lsn

    def _next(self) -> int:
        """Return the marker up to which the next step goes.

        A step does not look one by one at items that only the log has and that hold no key, so
        their number does not matter.
        """
        reader, at = self._queue.reader, self._at
        ready, keys = reader.ready, reader.key_gate.keys
        if not (ready.resident or ready.disk_refs.count or len(reader.leases) or len(keys)):
            return self._marker
        markers = reader.markers
        firsts = reader.live.first_without(at + 1, markers.hidden), markers.first_from(at + 1)
        first = min((number for number in firsts if number), default=self._marker)
        most = STEP_NUMBERS // _BLOCKED_PART if keys.blocked.count else STEP_NUMBERS
        return min(first - 1 + most, self._marker)

    def _confirm(self, marker: int, now_ms: int) -> int:
        """Confirm every item up to the marker; return the record to wait for.

        `_passed` has the items whose marker is not their id and is at most this one.
        """
        queue, passed = self._queue, self._passed
        reader = queue.reader
        there, hidden = reader.live.between(1, marker), reader.markers.hidden
        moving = reader.leases.moving.between(1, marker)
        stay = IdSet.union([reader.delays.ids, reader.dead.ids, moving])
        if hidden.count:
            stay = IdSet.union([stay, hidden.between(1, marker).without(passed)])
        live_bytes = self._leave_line(reader, marker, there.without(stay))
        reader._apply_upto(marker, stay, live_bytes)
        unlogged = reader.delays.unlogged | reader.dead.unlogged
        spared = {*moving, *(id_ for id_ in unlogged if id_ <= marker)}
        unix_ms = now_ms + reader.clock.offset_ms
        draft = records.confirmed_up_to(marker, spared, reader.live_bytes, unix_ms)
        lsn = queue.files.append_lessening(reader.own(draft), now_ms)
        if reader.waiters:
            reader.serve(now_ms)  # a key, or a lease, may be free
        return lsn

    def _leave_line(self, reader: Subscription, marker: int, gone: IdSet) -> int:
        """Take items out of the ready list and out of their leases; return the bytes of the others.

        The bytes of items that only the log has are an estimate. With a limit on bytes they count
        as none: an estimate must not make a queue full.
        """
        ready, keyed, left = reader.ready, reader.key_gate, reader.live_bytes
        blocked, freed = keyed.drop_blocked(gone, marker)
        left -= blocked
        if ready.beyond and ready.frontier <= marker:
            count = reader.ready_items.count_unleased(ready.frontier, min(marker, reader.live.last))
            share = count if reader.policy.max_bytes is None else ready.beyond
            size = ready.beyond_bytes * share // ready.beyond
            left -= size
            ready.drop_beyond(size, count)
            ready.advance(marker + 1)
            if reader.read_ahead is not None:
                reader.read_ahead.reset()
        if reader.leases or ready.resident:
            left -= self._end_each(reader, gone)
        if ready.disk_refs.count:
            left -= self._drop_disk_refs(reader, marker, gone)
        for id_ in keyed.keys.holders(gone) if len(keyed.keys) else ():
            keyed.drop_unread(id_, 0)  # of an item that went to the log alone
        keyed.put_back(freed)
        return max(left, 0)

    def _end_each(self, reader: Subscription, gone: IdSet) -> int:
        """Take out the items that are leased or in memory; return the bytes of their bodies."""
        ready, leases, size = reader.ready, reader.leases, 0
        for id_ in gone:
            lease = leases.of(id_)
            if lease is not None:
                if not lease.by_token:
                    lease.holder.overdue.append(reader)
                item = reader.end(lease)
            elif (found := ready.at(id_)) is not None:
                item = found
                ready.remove(item)
            else:
                continue
            reader.watch.forget(id_)
            size += item.size
            reader.key_gate.drop(item)
        return size

    def _drop_disk_refs(self, reader: Subscription, marker: int, gone: IdSet) -> int:
        """Take out the items with a disk reference in memory; return the bytes of their bodies.

        (A KNOWN FLAW: a step with items that came back to a place after the marker looks at all
        disk references: 0.1 s for 300,000.)
        """
        disk_refs, dropped = reader.ready.disk_refs, list[tuple[int, int]]()
        while disk_refs.first_place() <= marker:
            _, id_, size = disk_refs.pop()
            dropped.append((id_, size))
        others = disk_refs.ids.both(gone)
        if others.count <= _FEW_DISK_REFS:
            found = [(id_, disk_refs.size_of(id_)) for id_ in others]
        else:
            found = [(id_, size) for _, id_, size in disk_refs if id_ in others]
        for id_, size in found:
            disk_refs.remove(id_, size)
        dropped += found
        for id_, size in dropped:
            reader.key_gate.drop_unread(id_, size)
        return sum(size for _, size in dropped)


def refuse_beyond(name: bytes, marker: int, latest: int) -> NoReturn:
    """Raise ClientError: no item has this marker yet."""
    raise ClientError(
        f"option upto: {marker} is beyond the latest marker of {name.decode('ascii')}, {latest}"
    )
