"""Reads of bodies for the ready list, the out-of-order items and the dead letters.

    turn ──▶ schedule_read ──▶ a thread ──▶ items taken in, waiting clients served
                                  │
                                  └─ a shortage: scheduled again after a pause

One rule: an item that a shortage of descriptors or memory leaves unread is neither damaged nor
gone. It stays the next one, and a client that asks for it waits or gets the reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, TypeVar

from journal.files import Files, is_shortage
from journal.format import Record
from journal.store import ReadOne, ReadSome, SegmentRead
from kestrelpy.core import JournalLog, Subscription, on_disk
from kestrelpy.protocol import LogLimit
from kestrelpy.server import clock
from kestrelpy.server.journals.read_cache import ReadCache
from kestrelpy.server.journals.shortage import Shortage

log = logging.getLogger("kestrelpy.background")


T = TypeVar("T")


class OnThread(Protocol):
    """Threads for reads."""

    def __call__(self, work: Callable[[Files], T]) -> Callable[[Files], Awaitable[T]]:
        """Return the same work as a call on one of them."""


class ReadBack:
    """Owned by the loop's thread."""

    def __init__(
        self,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        on_thread: OnThread,
        shortage: Shortage,
        done: Callable[[Subscription], None],
        name: Callable[[Subscription, JournalLog], None],
        start: Callable[[JournalLog, Coroutine[object, object, None]], None],
    ) -> None:
        """`done` gets a subscription with more items to take, `name` logs the damage of a
        subscription, and `start` runs a task that counts as work on this journal."""
        self._files = files
        self._loop = loop
        self._on_thread = on_thread
        self._shortage = shortage
        self._read_done = done
        self._log_damage = name
        self._start = start
        self._cache = ReadCache(loop)
        self._reviving: set[Subscription] = set()
        self._log_limit = LogLimit()
        self._waiting: set[Subscription] = set()  # tried again after a shortage

    def schedule_read(self, reader: Subscription) -> bool:
        """Schedule the next read of `reader`; return False if it cannot read yet."""
        if reader in self._waiting:
            return True
        for note in reader.notes:
            end = self._log_limit.take(f"queue {reader.name.decode('ascii')}", clock.now_ms())
            if end is not None:
                log.warning("%s%s", note, end)
        reader.notes.clear()
        target = on_disk(reader.log)
        if target is None:
            return True
        self._log_damage(reader, target)
        return (
            self._read_dead_letter(reader, target)
            & self._read_ready(reader, target)
            & self._read_out_of_order(reader, target)
        )

    def _read_dead_letter(self, reader: Subscription, target: JournalLog) -> bool:
        missing, journal = reader.dead.sought, target.journal
        if not missing or reader in self._reviving:
            return True
        one = target.store.one(missing)
        if one is not None:
            self._reviving.add(reader)
            self._start(target, self._revive(reader, target, one))
            return True
        if journal.has_pending and journal.commit.failure is None:
            return False
        self._hide(reader, target, missing)  # no segment holds it
        self._look_again(reader, target)
        return True

    def _hide(self, reader: Subscription, target: JournalLog, id_: int) -> None:
        """Hide a dead letter without a body until the next start."""
        if target.failure is None:
            reader.ready_items.hide(id_)
        elif id_ == reader.dead.sought:
            reader.dead.hide(id_)  # most likely never written: that is no damage

    def _read_ready(self, reader: Subscription, target: JournalLog) -> bool:
        ready, backlog = reader.ready, reader.read_ahead
        if not ready.beyond or backlog is None:
            return True
        made = backlog.next_read(ready.frontier)
        if made is not None:
            self._start(target, self._read(reader, target, *made))
            return True
        if backlog.is_reading:
            return True
        if backlog.has_more:
            if reader.ready_items.has_room():
                self._look_again(reader, target)
            return True
        if target.failure is not None:
            return True  # an item that was never written is not damaged, and never comes
        lost = backlog.lost_up_to(ready.frontier)
        if not lost:
            return False
        backlog.give_up()
        reader.ready_items.skip_lost(lost)
        self._look_again(reader, target)
        return True

    def _read_out_of_order(self, reader: Subscription, target: JournalLog) -> bool:
        """Read the next out-of-order items."""
        journal, disk_refs = target.journal, reader.ready.disk_refs
        is_shared = reader.needs is not None
        if (
            is_shared
            and disk_refs.count
            and not disk_refs.is_fetching
            and self._cache.is_reading(target)
        ):
            return False  # it takes the results of that read
        wanted = reader.ready_items.begin_fetch()
        if not wanted:
            return True
        if is_shared and (known := self._cache.of(target, wanted)):
            reader.ready_items.fetched(known)
            reader.ready.disk_refs.put_back()
            self._look_again(reader, target)
            return True
        some = target.store.some(wanted)
        if some.parts:
            if is_shared:
                self._cache.begin(target)
            self._start(target, self._fetch(reader, target, some, wanted))
            return True
        if journal.has_pending and target.failure is None:
            reader.ready.disk_refs.put_back()
            return False
        for id_ in wanted:  # no segment holds them
            reader.ready_items.hide_disk_ref(id_)
        reader.ready.disk_refs.put_back()  # the look is over: without that nothing is read again
        self._look_again(reader, target)
        return True

    async def _fetch(
        self, reader: Subscription, target: JournalLog, some: ReadSome, wanted: list[int]
    ) -> None:
        records: dict[int, Record] = {}
        try:
            found = await self._on_thread(some.run)(self._files)
            records = found.records
        finally:
            if self._cache.is_reading(target):
                self._cache.end(target, records)
        reader.ready_items.fetched(records.values())
        if found.shortage is not None:
            reader.ready.disk_refs.put_back()
            self._try_later(reader, target, found.shortage)
            return
        self._can_read(reader)
        missing = [id_ for id_ in wanted if id_ not in found.records]
        again = target.store.some(missing)
        for id_ in missing:
            number = some.number(id_)
            if number and again.number(id_) == number:  # otherwise written, or compacted, meanwhile
                reason = found.reasons.get(id_, "not found")
                log.error("%s: item %d cannot be read: %s", target.journal.folder, id_, reason)
                reader.ready_items.hide_disk_ref(id_)
        reader.ready.disk_refs.put_back()
        self._log_damage(reader, target)
        self._read_done(reader)

    def _look_again(self, reader: Subscription, target: JournalLog) -> None:
        """Take or skip items in the next turn, so that other subscriptions have their turn."""
        self._log_damage(reader, target)
        self._loop.call_soon(self._read_done, reader)

    async def _read(
        self, reader: Subscription, target: JournalLog, life: int, read: SegmentRead
    ) -> None:
        backlog = reader.read_ahead
        assert backlog is not None, "what is read back was ordered of one"
        try:
            start, data = await self._on_thread(read.run)(self._files)
        except OSError as error:
            backlog.failed(life, error)
            if is_shortage(error):
                self._try_later(reader, target, error)
                return
        else:
            backlog.arrived(life, start, data)
        self._can_read(reader)
        self._read_done(reader)

    def _try_later(self, reader: Subscription, target: JournalLog, error: OSError) -> None:
        """Schedule the read again after a pause: a shortage stopped it."""
        reason = os.strerror(error.errno or 0)
        reader.unread = f"the next item cannot be read now ({reason}); it is tried again"
        seconds = self._shortage.pause(reader, target.journal.folder, error)
        if reader not in self._waiting:
            self._waiting.add(reader)
            self._loop.call_later(seconds, self._try_again, reader)
        self._read_done(reader)

    def _try_again(self, reader: Subscription) -> None:
        self._waiting.discard(reader)
        ready = reader.ready
        if ready.beyond or ready.disk_refs.count or reader.dead.sought:
            reader.schedule_read()
        else:  # gone meanwhile: no consumer needs it
            self._can_read(reader)
        self._read_done(reader)

    def _can_read(self, reader: Subscription) -> None:
        if reader.unread:
            reader.unread = ""
            self._shortage.over(reader)

    async def _revive(self, reader: Subscription, target: JournalLog, one: ReadOne) -> None:
        try:
            record = await self._on_thread(one.run)(self._files)
        except OSError as error:
            if is_shortage(error):
                self._reviving.discard(reader)
                self._try_later(reader, target, error)
                return
            record, reason = None, error.strerror
        else:
            reason = "not found"
        self._reviving.discard(reader)
        self._can_read(reader)
        again = target.store.one(one.item)
        if record is not None:
            reader.ready_items.revive(record)
        elif again is not None and again.extent.number != one.extent.number:
            reader.schedule_read()  # its segment was compacted meanwhile
        else:
            log.error("%s: item %d cannot be read: %s", one.extent.path, one.item, reason)
            self._hide(reader, target, one.item)
        self._read_done(reader)
