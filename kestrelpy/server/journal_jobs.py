"""What the journals need beside writing and syncing, off the loop: bodies read back, snapshots,
segments rewritten and removed.

    turn ──▶ feed, settle ──▶ a thread ──▶ back on the loop: `ReadAhead.arrived`, `finish_snapshot`
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
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Final, TypeVar

from aiofiles.base import wrap

from journal.errors import Damage
from journal.files import Files, is_shortage
from journal.recovery.reopen import set_aside
from journal.snapshot.dedupe_file import Chunk
from journal.snapshot.dedupe_load import ChunkDamaged
from journal.snapshot.dedupe_merge import MergeJob
from journal.store import CompactionJob, DamagedInput, Segment, SnapshotJob
from kestrelpy.core.log.log import JournalLog, Log
from kestrelpy.core.log.shared_log import on_disk
from kestrelpy.core.subscription.subscription import Reader
from kestrelpy.protocol.ports import Talk, Work
from kestrelpy.server.read_back import ReadBack
from kestrelpy.server.shortage import Shortage, Sleep

log = logging.getLogger("kestrelpy.background")

T = TypeVar("T")

# KNOWN FLAW: a read that the disk never ends holds up the end of the process, like its threads.
READ_THREADS: Final = 4
# Observers have threads of their own: however many there are, consumers do not wait behind them.
OBSERVER_THREADS: Final = 2
RETRY_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 0.05
# Who observes is told after so many attempts that there is a shortage: after less than a second.
OBSERVER_TRIES_MAX: Final = 4


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
        shortage: Shortage | None = None,
    ) -> None:
        """`outdated` is given segments that another one stands for, `observed` whose read ended."""
        self._shortage = shortage or Shortage(loop)
        self._sleep: Sleep = asyncio.sleep
        self._files = files
        self._loop = loop
        self._settled = settled
        self._outdated = outdated
        self._observed = observed
        self._observers = ThreadPoolExecutor(OBSERVER_THREADS, thread_name_prefix="kestrelpy-look")
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="kestrelpy-read")
        # One, and its own: rewriting takes its time, and spares must not wait behind it.
        self._rewriter = ThreadPoolExecutor(1, thread_name_prefix="kestrelpy-rewrite")
        self._ending = Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading = ReadBack(
            files, loop, self._on_reader, self._shortage, read, self._name, self._start
        )
        self._snapshots: dict[JournalLog, SnapshotJob] = {}
        self._busy: dict[JournalLog, int] = {}

    # -- reading back -----------------------------------------------------------------------

    def feed(self, reader: Reader) -> bool:
        """Have read back what `reader` needs next; False: nothing of it can be read yet."""
        return self._reading.feed(reader)

    def observe(self, log: Log, work: Work, talk: Talk) -> None:
        """Have read what this conversation's observer asked for."""
        target = on_disk(log)
        assert target is not None, "a queue in memory has nothing to be read"
        self._start(target, self._observe(work, talk))

    async def _observe(self, work: Work, talk: Talk) -> None:
        try:
            for _ in range(OBSERVER_TRIES_MAX):
                await wrap(work.run)(self._files, executor=self._observers)
                error = work.error
                if error is None or not is_shortage(error):
                    break
                await self._sleep(self._shortage.pause(work, "", error))
            self._shortage.over(work)
        finally:
            if not self._ending.is_set():  # else nobody is answered any more
                work.is_over = True
                self._observed(talk)

    def _name(self, reader: Reader, target: JournalLog) -> None:
        """Say what was found to be damaged, and keep a copy of it."""
        backlog = reader.log.backlog or target.store.read_ahead
        damages = backlog.damages + reader.damages
        if not damages:
            return
        backlog.damages, reader.damages = [], []
        for damage in damages:
            log.error("%s", damage.sentence())
        self._start(target, self._set_aside(target, damages))

    async def _set_aside(self, target: JournalLog, damages: list[Damage]) -> None:
        try:
            await self._patiently(
                target, wrap(set_aside), self._files, target.journal.folder, damages
            )
        except OSError as error:
            log.error("%s: damage not set aside: %s", target.journal.folder, error.strerror)

    # -- snapshots --------------------------------------------------------------------------

    def snapshot(self, target: JournalLog, wall_ms: int) -> None:
        """Keep the state as of now; it is written when the log is durable up to here."""
        self._snapshots[target] = target.store.maintenance.begin_snapshot(target.state(), wall_ms)

    def let_go(self, target: JournalLog) -> None:
        """It has failed, or is deleted: what waits for its log to get on waits in vain."""
        self._snapshots.pop(target, None)

    def settle(self, target: JournalLog) -> None:
        """The log got on: what waited for that is done now."""
        job = self._snapshots.get(target)
        if job is not None and target.journal.commit.lsn_durable >= job.snapshot.lsn:
            del self._snapshots[target]
            self._start(target, self._write_snapshot(target, job))

    async def _write_snapshot(self, target: JournalLog, job: SnapshotJob) -> None:
        journal, maintenance = target.journal, target.store.maintenance
        try:
            await self._patiently(target, wrap(job.run), self._files, Pause(self._ending).pause)
        except OSError as error:
            if target.failure is None:
                log.error("%s: no snapshot: %s", journal.folder, error.strerror)
            self._loop.call_later(RETRY_SECONDS, maintenance.finish_snapshot, job, False)
            return
        await self._remove(target, maintenance.finish_snapshot(job, True))
        self._settled(target)
        self._carry(target, job)
        self._merge(target, job)

    async def _remove(self, target: JournalLog, outdated: list[str]) -> None:
        for path in outdated:
            try:
                await self._patiently(target, wrap(self._files.remove), path)
            except OSError as error:
                log.error("%s: not removed: %s", path, error.strerror)

    # -- what is remembered -----------------------------------------------------------------

    def _merge(self, target: JournalLog, snapshot: SnapshotJob) -> None:
        """Have some of the files of remembered ids and versions made into one."""
        job = target.store.maintenance.begin_merge(snapshot, Pause(self._ending).pause)
        if job is not None:
            self._start(target, self._write_merged(target, job))

    async def _write_merged(self, target: JournalLog, job: MergeJob) -> None:
        merged: Chunk | None = None
        try:
            merged = await self._patiently(target, self._on_rewriter(job.run), self._files)
        except ChunkDamaged as damaged:
            log.error("%s", damaged)
        except OSError as error:  # a full disk, most likely; the next snapshot tries again
            if target.failure is None:
                log.warning("%s: chunks not merged: %s", job.folder, error.strerror)
        await self._remove(target, target.store.maintenance.finish_merge(job, merged))

    # -- rewriting --------------------------------------------------------------------------

    def _carry(self, target: JournalLog, snapshot: SnapshotJob) -> None:
        """Have the next segments rewritten that are mostly done with, if there are any."""
        maintenance = target.store.maintenance
        chosen = maintenance.choose(snapshot.snapshot.lsn, snapshot.time_ms)
        if chosen:
            job = maintenance.begin_compaction(
                chosen, snapshot.snapshot.needed(), Pause(self._ending).pause, snapshot.time_ms
            )
            self._start(target, self._rewrite(target, chosen, job, snapshot))

    async def _rewrite(
        self, target: JournalLog, chosen: list[Segment], job: CompactionJob, snapshot: SnapshotJob
    ) -> None:
        goes_on = True
        survivors: Segment | None = None
        try:
            survivors = await self._patiently(target, self._on_rewriter(job.run), self._files)
            goes_on = survivors is not None  # else not before the next snapshot
        except DamagedInput as damaged:
            log.error("%s", damaged)
            for segment in chosen:
                segment.damaged |= segment.path == damaged.path
        except OSError as error:  # a full disk, most likely; the next snapshot tries again
            goes_on = False
            if target.failure is None:
                log.warning("%s: not rewritten: %s", job.path, error.strerror)
        outdated = target.store.maintenance.finish_compaction(chosen, job, survivors)
        if outdated:
            self._outdated(target, outdated)
        self._settled(target)
        if goes_on:
            self._carry(target, snapshot)

    # -- tasks ------------------------------------------------------------------------------

    async def _patiently(
        self, target: JournalLog, work: Callable[..., Awaitable[T]], *args: object
    ) -> T:
        """Do it on a thread, and again as long as a shortage is all that stops it."""
        folder = target.journal.folder
        return await self._shortage.patiently(folder, lambda: work(*args), self._sleep)

    def _on_reader(self, work: Callable[[Files], T]) -> Callable[[Files], Awaitable[T]]:
        return partial(wrap(work), executor=self._readers)

    def _on_rewriter(self, work: Callable[[Files], T]) -> Callable[[Files], Awaitable[T]]:
        return partial(wrap(work), executor=self._rewriter)

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
