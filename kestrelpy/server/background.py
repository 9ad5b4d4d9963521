"""What the journals need beside writing and syncing, off the loop: bodies read back, snapshots,
segments rewritten and removed.

    turn ──▶ feed, settle ──▶ a thread ──▶ back on the loop: `Backlog.arrived`, `finish_snapshot`
                                           and the turn is owed

Reads have threads of their own, so that a disk that hangs in a sync does not hold up what the page
cache has.

One rule: a thread is given a value and the disk, and nothing that the loop owns.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final

from aiofiles.base import wrap

from journal.backlog import ReadOne, ReadOrder
from journal.by_id import ReadSome
from journal.carry import CarryJob, DamagedVictim
from journal.chunk_files import ChunkDamaged
from journal.chunks import Chunk
from journal.errors import Damage
from journal.files import Files
from journal.merging import MergeJob
from journal.record import Record
from journal.resume import set_aside
from journal.rotation import Segment
from journal.upkeep import SnapshotJob
from kestrelpy.core.log import JournalLog, Log
from kestrelpy.core.reader import Reader
from kestrelpy.core.shared_log import SharedLog, on_disk
from kestrelpy.protocol.host import Talk, Work
from kestrelpy.protocol.log_limit import LogLimit
from kestrelpy.server import clock
from kestrelpy.server.shared_reads import SharedReads

log = logging.getLogger("kestrelpy.background")

# KNOWN FLAW: a read that the disk never ends holds up the end of the process, like its threads.
READ_THREADS: Final = 4
# Observers have threads of their own: however many there are, consumers do not wait behind them.
OBSERVER_THREADS: Final = 2
RETRY_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 0.05


class Pause:
    """Sleeps for as long as was worked since the last time: half of one processor at most."""

    __slots__ = ("_ending", "_since")

    def __init__(self, ending: Event) -> None:
        self._ending = ending
        self._since = time.monotonic()

    def pause(self) -> None:
        """Called about every millisecond of work; raises InterruptedError when the daemon ends."""
        if self._ending.wait(min(time.monotonic() - self._since, PAUSE_SECONDS_MAX)):
            raise InterruptedError(errno.EINTR, "the daemon ends")
        self._since = time.monotonic()


class Background:
    """Owned by the loop's thread. `read` is told which reader has more to take."""

    def __init__(
        self,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        read: Callable[[Reader], None],
        settled: Callable[[JournalLog], None],
        outdated: Callable[[JournalLog, list[str]], None],
        observed: Callable[[Talk], None],
    ) -> None:
        """`outdated` is given segments that another one stands for, `observed` whose read ended."""
        self._files = files
        self._loop = loop
        self._read_done = read
        self._settled = settled
        self._outdated = outdated
        self._observed = observed
        self._observers = ThreadPoolExecutor(OBSERVER_THREADS, thread_name_prefix="kestrelpy-look")
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="kestrelpy-read")
        # One, and its own: rewriting takes its time, and spares must not wait behind it.
        self._rewriter = ThreadPoolExecutor(1, thread_name_prefix="kestrelpy-rewrite")
        self._ending = Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reviving: set[Reader] = set()
        self._shared = SharedReads(loop)
        self._log_limit = LogLimit()
        self._snapshots: dict[JournalLog, SnapshotJob] = {}
        self._busy: dict[JournalLog, int] = {}

    # -- reading back -----------------------------------------------------------------------

    def feed(self, reader: Reader) -> bool:
        """Have read back what `reader` needs next; False: nothing of it can be read yet."""
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
        one = journal.backlog.one(missing)
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
        some = journal.backlog.some(wanted)
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
            found = await wrap(some.run)(self._files, executor=self._readers)
            records = found.records
        finally:
            if self._shared.is_reading(target):
                self._shared.end(target, records)
        reader.line.fetched(records.values())
        missing = [id_ for id_ in wanted if id_ not in found.records]
        again = target.journal.backlog.some(missing)
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
        self, reader: Reader, target: JournalLog, life: int, order: ReadOrder
    ) -> None:
        backlog = reader.log.backlog
        assert backlog is not None, "what is read back was ordered of one"
        try:
            start, data = await wrap(order.run)(self._files, executor=self._readers)
        except OSError as error:
            backlog.failed(life, error)
        else:
            backlog.arrived(life, start, data)
        self._read_done(reader)

    async def _revive(self, reader: Reader, target: JournalLog, one: ReadOne) -> None:
        try:
            record = await wrap(one.run)(self._files, executor=self._readers)
        except OSError as error:
            record, reason = None, error.strerror
        else:
            reason = "not found"
        self._reviving.discard(reader)
        again = target.journal.backlog.one(one.item)
        if record is not None:
            reader.line.revive(record)
        elif again is not None and again.number != one.number:
            reader.ask()  # that segment was rewritten meanwhile
        else:
            log.error("%s: item %d cannot be read: %s", one.path, one.item, reason)
            self._hide(reader, target, one.item)
        self._read_done(reader)

    def observe(self, log: Log, work: Work, talk: Talk) -> None:
        """Have read what this conversation's observer asked for."""
        target = on_disk(log)
        assert target is not None, "a queue in memory has nothing to be read"
        self._start(target, self._observe(work, talk))

    async def _observe(self, work: Work, talk: Talk) -> None:
        try:
            await wrap(work.run)(self._files, executor=self._observers)
        finally:
            if not self._ending.is_set():  # else nobody is answered any more
                work.is_over = True
                self._observed(talk)

    def _name(self, reader: Reader, target: JournalLog) -> None:
        """Say what was found to be damaged, and keep a copy of it."""
        backlog = reader.log.backlog or target.journal.backlog
        damages = backlog.damages + reader.damages
        if not damages:
            return
        backlog.damages, reader.damages = [], []
        for damage in damages:
            log.error("%s", damage.sentence())
        self._start(target, self._set_aside(target, damages))

    async def _set_aside(self, target: JournalLog, damages: list[Damage]) -> None:
        try:
            await wrap(set_aside)(self._files, target.journal.folder, damages)
        except OSError as error:
            log.error("%s: damage not set aside: %s", target.journal.folder, error.strerror)

    # -- snapshots --------------------------------------------------------------------------

    def snapshot(self, target: JournalLog, wall_ms: int) -> None:
        """Keep the state as of now; it is written when the log is durable up to here."""
        self._snapshots[target] = target.journal.upkeep.begin_snapshot(target.state(), wall_ms)

    def settle(self, target: JournalLog) -> None:
        """The log got on: what waited for that is done now."""
        job = self._snapshots.get(target)
        if job is not None and target.journal.commit.lsn_durable >= job.snapshot.lsn:
            del self._snapshots[target]
            self._start(target, self._write_snapshot(target, job))

    async def _write_snapshot(self, target: JournalLog, job: SnapshotJob) -> None:
        journal = target.journal
        try:
            await wrap(job.run)(self._files, Pause(self._ending).pause)
        except OSError as error:
            if target.failure is None:
                log.error("%s: no snapshot: %s", journal.folder, error.strerror)
            self._loop.call_later(RETRY_SECONDS, journal.upkeep.finish_snapshot, job, False)
            return
        await self._remove(journal.upkeep.finish_snapshot(job, True))
        self._settled(target)
        self._carry(target, job)
        self._merge(target, job)

    async def _remove(self, outdated: list[str]) -> None:
        for path in outdated:
            try:
                await wrap(self._files.remove)(path)
            except OSError as error:
                log.error("%s: not removed: %s", path, error.strerror)

    # -- what is remembered -----------------------------------------------------------------

    def _merge(self, target: JournalLog, snapshot: SnapshotJob) -> None:
        """Have some of the files of remembered ids and versions made into one."""
        job = target.journal.upkeep.begin_merge(snapshot, Pause(self._ending).pause)
        if job is not None:
            self._start(target, self._write_merged(target, job))

    async def _write_merged(self, target: JournalLog, job: MergeJob) -> None:
        merged: Chunk | None = None
        try:
            merged = await wrap(job.run)(self._files, executor=self._rewriter)
        except ChunkDamaged as damaged:
            log.error("%s", damaged)
        except OSError as error:  # a full disk, most likely; the next snapshot tries again
            if target.failure is None:
                log.warning("%s: chunks not merged: %s", job.folder, error.strerror)
        await self._remove(target.journal.upkeep.finish_merge(job, merged))

    # -- rewriting --------------------------------------------------------------------------

    def _carry(self, target: JournalLog, snapshot: SnapshotJob) -> None:
        """Have the next segments rewritten that are mostly done with, if there are any."""
        journal = target.journal
        chosen = journal.upkeep.choose(snapshot.snapshot.lsn, snapshot.time_ms)
        if chosen:
            job = journal.upkeep.begin_carry(
                chosen, snapshot.snapshot.kept(), Pause(self._ending).pause, snapshot.time_ms
            )
            self._start(target, self._rewrite(target, chosen, job, snapshot))

    async def _rewrite(
        self, target: JournalLog, chosen: list[Segment], job: CarryJob, snapshot: SnapshotJob
    ) -> None:
        journal, goes_on = target.journal, True
        survivors: Segment | None = None
        try:
            survivors = await wrap(job.run)(self._files, executor=self._rewriter)
            goes_on = survivors is not None  # else not before the next snapshot
        except DamagedVictim as damaged:
            log.error("%s", damaged)
            for segment in chosen:
                segment.damaged |= segment.path == damaged.path
        except OSError as error:  # a full disk, most likely; the next snapshot tries again
            goes_on = False
            if target.failure is None:
                log.warning("%s: not rewritten: %s", job.path, error.strerror)
        outdated = journal.upkeep.finish_carry(chosen, job, survivors)
        if outdated:
            self._outdated(target, outdated)
        self._settled(target)
        if goes_on:
            self._carry(target, snapshot)

    # -- tasks ------------------------------------------------------------------------------

    def is_busy(self, target: JournalLog) -> bool:
        """Is anything of this journal being read or written on a thread?"""
        return target in self._busy

    def _start(self, target: JournalLog, work: Coroutine[object, object, None]) -> None:
        self._busy[target] = self._busy.get(target, 0) + 1
        task = self._loop.create_task(work)
        self._tasks.add(task)

        def done(ended: asyncio.Task[None]) -> None:
            self._tasks.discard(ended)
            left = self._busy[target] - 1
            if left:
                self._busy[target] = left
            else:
                del self._busy[target]
            if not ended.cancelled() and ended.exception() is not None:
                log.error("a mistake of ours", exc_info=ended.exception())

        task.add_done_callback(done)

    def close(self) -> None:
        """Nothing more is begun; a rewriting stops and leaves nothing, others end by themselves."""
        for task in list(self._tasks):
            task.cancel()
        self._ending.set()
        for threads in (self._readers, self._observers, self._rewriter):
            threads.shutdown(wait=False, cancel_futures=True)
