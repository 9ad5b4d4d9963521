"""Bodies read back for the ready line, what stands apart of it, and the dead.

    turn ──▶ feed ──▶ ordered of the journal ──▶ a thread ──▶ taken in, and whoever waits is served
                                                    │
                                                    └─ a shortage: asked for again after a pause

One rule: what could not be read for want of a descriptor or memory is not damaged and not gone: it
stays the next one, and whoever asks for it waits or hears why.
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
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.log.shared_log import SharedLog, on_disk
from kestrelpy.core.subscription.subscription import Reader
from kestrelpy.protocol.log_limit import LogLimit
from kestrelpy.server import clock
from kestrelpy.server.read_cache import SharedReads
from kestrelpy.server.shortage import Shortage

log = logging.getLogger("kestrelpy.background")


T = TypeVar("T")


class OnThread(Protocol):
    """Threads for reads."""

    def __call__(self, work: Callable[[Files], T]) -> Callable[[Files], Awaitable[T]]:
        """The same work, done on one of them."""


class ReadBack:
    """Owned by the loop's thread."""

    def __init__(
        self,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        on_thread: OnThread,
        shortage: Shortage,
        done: Callable[[Reader], None],
        name: Callable[[Reader, JournalLog], None],
        start: Callable[[JournalLog, Coroutine[object, object, None]], None],
    ) -> None:
        """`done` is told which reader has more to take, `name` whose damage is to be named; `start`
        has a task run that counts as work on this journal."""
        self._files = files
        self._loop = loop
        self._on_thread = on_thread
        self._shortage = shortage
        self._read_done = done
        self._name = name
        self._start = start
        self._shared = SharedReads(loop)
        self._reviving: set[Reader] = set()
        self._log_limit = LogLimit()
        self._waiting: set[Reader] = set()  # to be tried again after a shortage

    def feed(self, reader: Reader) -> bool:
        """Have read back what `reader` needs next; False: nothing of it can be read yet."""
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
        self._name(reader, target)
        return (
            self._feed_dead(reader, target)
            & self._feed_line(reader, target)
            & self._feed_stubs(reader, target)
        )

    def _feed_dead(self, reader: Reader, target: JournalLog) -> bool:
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

    def _hide(self, reader: Reader, target: JournalLog, id_: int) -> None:
        """A dead item that is not offered before the next start: there is no body."""
        if target.failure is None:
            reader.line.hide(id_)
        elif id_ == reader.dead.sought:
            reader.dead.hide(id_)  # never written, most likely: that is no damage

    def _feed_line(self, reader: Reader, target: JournalLog) -> bool:
        ready, backlog = reader.ready, reader.log.backlog
        if not ready.beyond or backlog is None:
            return True
        made = backlog.order(ready.frontier)
        if made is not None:
            self._start(target, self._read(reader, target, *made))
            return True
        if backlog.is_reading:
            return True
        if backlog.has_more:
            if reader.line.has_room():
                self._look_again(reader, target)
            return True
        if target.failure is not None:
            return True  # what was never written is not damage, and never comes
        lost = backlog.lost_up_to(ready.frontier)
        if not lost:
            return False
        backlog.give_up()
        reader.line.pass_over(lost)
        self._look_again(reader, target)
        return True

    def _feed_stubs(self, reader: Reader, target: JournalLog) -> bool:
        """What stands apart and is next."""
        journal, stubs = target.journal, reader.ready.stubs
        is_shared = isinstance(reader.log, SharedLog)
        if is_shared and stubs.count and not stubs.is_fetching and self._shared.is_reading(target):
            return False  # it takes what that read finds
        wanted = reader.line.begin_fetch()
        if not wanted:
            return True
        if is_shared and (known := self._shared.of(target, wanted)):
            reader.line.fetched(known)
            reader.ready.stubs.put_back()
            self._look_again(reader, target)
            return True
        some = target.store.some(wanted)
        if some.parts:
            if is_shared:
                self._shared.begin(target)
            self._start(target, self._fetch(reader, target, some, wanted))
            return True
        if journal.has_pending and target.failure is None:
            reader.ready.stubs.put_back()
            return False
        for id_ in wanted:  # no segment holds them
            reader.line.hide_stub(id_)
        self._look_again(reader, target)
        return True

    async def _fetch(
        self, reader: Reader, target: JournalLog, some: ReadSome, wanted: list[int]
    ) -> None:
        records: dict[int, Record] = {}
        try:
            found = await self._on_thread(some.run)(self._files)
            records = found.records
        finally:
            if self._shared.is_reading(target):
                self._shared.end(target, records)
        reader.line.fetched(records.values())
        if found.shortage is not None:
            reader.ready.stubs.put_back()
            self._try_later(reader, target, found.shortage)
            return
        self._can_read(reader)
        missing = [id_ for id_ in wanted if id_ not in found.records]
        again = target.store.some(missing)
        for id_ in missing:
            number = some.number(id_)
            if number and again.number(id_) == number:  # else written, or rewritten, meanwhile
                reason = found.reasons.get(id_, "not found")
                log.error("%s: item %d cannot be read: %s", target.journal.folder, id_, reason)
                reader.line.hide_stub(id_)
        reader.ready.stubs.put_back()
        self._name(reader, target)
        self._read_done(reader)

    def _look_again(self, reader: Reader, target: JournalLog) -> None:
        """There is something to take, or to miss: in the next turn, so that others have theirs."""
        self._name(reader, target)
        self._loop.call_soon(self._read_done, reader)

    async def _read(
        self, reader: Reader, target: JournalLog, life: int, order: SegmentRead
    ) -> None:
        backlog = reader.log.backlog
        assert backlog is not None, "what is read back was ordered of one"
        try:
            start, data = await self._on_thread(order.run)(self._files)
        except OSError as error:
            backlog.failed(life, error)
            if is_shortage(error):
                self._try_later(reader, target, error)
                return
        else:
            backlog.arrived(life, start, data)
        self._can_read(reader)
        self._read_done(reader)

    def _try_later(self, reader: Reader, target: JournalLog, error: OSError) -> None:
        """Nothing could be read for the moment: what is needed is asked for again after a pause."""
        reason = os.strerror(error.errno or 0)
        reader.unread = f"the next item cannot be read now ({reason}); it is tried again"
        seconds = self._shortage.pause(reader, target.journal.folder, error)
        if reader not in self._waiting:
            self._waiting.add(reader)
            self._loop.call_later(seconds, self._try_again, reader)
        self._read_done(reader)

    def _try_again(self, reader: Reader) -> None:
        self._waiting.discard(reader)
        ready = reader.ready
        if ready.beyond or ready.stubs.count or reader.dead.sought:
            reader.ask()
        else:  # gone meanwhile: nobody needs it
            self._can_read(reader)
        self._read_done(reader)

    def _can_read(self, reader: Reader) -> None:
        if reader.unread:
            reader.unread = ""
            self._shortage.over(reader)

    async def _revive(self, reader: Reader, target: JournalLog, one: ReadOne) -> None:
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
            reader.line.revive(record)
        elif again is not None and again.number != one.number:
            reader.ask()  # that segment was rewritten meanwhile
        else:
            log.error("%s: item %d cannot be read: %s", one.path, one.item, reason)
            self._hide(reader, target, one.item)
        self._read_done(reader)
