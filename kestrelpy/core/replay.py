"""Records to the same apply methods that made them; no clock, and nothing can fail.

Leases by connection are not in the log (the connection does not survive either), so a record that
ends a delivery finds its item in the ready line: the open it answers is implied.

One rule: a record about an item that is not there (its put was in a segment that is gone, or
damaged) is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from journal.checkpoint import Checkpoint
from journal.errors import NewerFormat
from journal.record import Kind, Record, Tag, decode_meta
from kestrelpy.core.item import Item
from kestrelpy.core.queue import Queue


class Replay:
    """Fills one fresh queue from its journal."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._reader = queue.reader
        self._live: dict[int, Item] = {}
        self._apply: dict[int, Callable[[Record], None]] = {
            Kind.PUT: self._put,
            Kind.DONE: self._gone,
            Kind.RETURNED: self._returned,
            Kind.DEAD: self._dead,
            Kind.EXPIRED: self._gone,
            Kind.DISCARDED: self._gone,
            Kind.FLUSHED: self._flushed,
            Kind.TOKENS: self._tokens,
        }

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

    def finish(
        self, checkpoint: Checkpoint | None, lsn_last: int, item_lost: int = 0
    ) -> list[Item]:
        """Take over what the last segment opened with; returns the items that are alive.

        `item_lost` is the last item whose put may be among what was damaged: its number, and a
        place for each of the lost, are not given again.
        """
        queue, reader = self._queue, self._reader
        if checkpoint is not None:
            queue.next_item = max(queue.next_item, checkpoint.next_item)
            queue.next_place = max(queue.next_place, checkpoint.next_place)
            reader._apply_tokens(checkpoint.tokens)
        lost = item_lost + 1 - queue.next_item
        if lost > 0:
            queue.next_item += lost
            queue.next_place += lost
        reader.tokens_lsn = lsn_last
        return list(self._live.values())

    def _put(self, record: Record) -> None:
        expires_ms = 0
        marker = record.number
        if record.meta:
            meta = decode_meta(record.meta)
            expires = meta.get(Tag.EXPIRES_MS, 0)
            expires_ms = expires if isinstance(expires, int) else 0
        item = Item(
            record.item, marker, record.body, record.small, record.time_ms, expires_ms, record.lsn
        )
        self._live[item.id] = item
        self._queue._apply_put(item)

    def _gone(self, record: Record) -> None:
        item = self._live.pop(record.item, None)
        if item is not None:
            self._take(item)
            self._reader._apply_done(item)

    def _returned(self, record: Record) -> None:
        # The item stands at its place already: only its attempts are news.
        if (
            record.small
            and record.item in self._live
            and record.item not in self._reader.dead.deaths
        ):
            self._reader.attempts[record.item] = record.small

    def _dead(self, record: Record) -> None:
        item = self._live.get(record.item)
        if item is not None:
            self._take(item)
            reason = decode_meta(record.meta).get(Tag.REASON, b"")
            self._reader._apply_dead(
                item, record.small, reason if isinstance(reason, bytes) else b"", record.time_ms
            )

    def _flushed(self, record: Record) -> None:
        spared = set(struct.unpack(f"<{len(record.body) // 8}Q", record.body))
        for item in list(self._reader.ready):
            if item.id <= record.item and item.id not in spared:
                del self._live[item.id]
                self._reader.ready.remove(item)
                self._reader._apply_done(item)

    def _tokens(self, record: Record) -> None:
        self._reader._apply_tokens(record.number)

    def _take(self, item: Item) -> None:
        """Out of the line it stands in: the open that this record answers."""
        dead = self._reader.dead
        if item.id in dead.deaths:
            dead.line.remove(item)
            dead.forget(item)
        else:
            self._reader.ready.remove(item)
