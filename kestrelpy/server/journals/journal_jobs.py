"""Jobs for the journals off the loop, other than writing and syncing: reads, snapshots, compaction.

    turn ──▶ schedule_read, log_advanced ──▶ a thread ──▶ back on the loop: the result is applied
                                                          and a turn is scheduled

Reads have threads of their own, so that a disk that hangs in a sync does not delay reads from the
page cache.

One rule: a thread gets a value and the disk, and nothing that the loop owns.
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
from journal.recovery import BodyCheck, lost_items_text, set_aside
from journal.store import (
    Chunk,
    ChunkDamaged,
    CompactionJob,
    DamagedInput,
    MergeJob,
    Segment,
    SnapshotJob,
)
from kestrelpy.core import JournalLog, Log, Queue, Subscription, on_disk
from kestrelpy.operations import Caller, Work
from kestrelpy.server.journals.idle_journals import IdleJournals
from kestrelpy.server.journals.read_back import ReadBack
from kestrelpy.server.journals.shortage import Shortage, Sleep

log = logging.getLogger("kestrelpy.background")

T = TypeVar("T")

# KNOWN FLAW: a read that the disk never ends delays the end of the process, like its threads.
READ_THREADS: Final = 4
# Browsers have threads of their own, so that consumers never wait behind them.
BROWSE_THREADS: Final = 2
RETRY_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 0.05
# A browser gets the error of a shortage after this many attempts: after less than a second.
BROWSE_TRIES_MAX: Final = 4


class Pause:
    """Sleeps for the time worked since the last pause: half of one processor at most."""

    __slots__ = ("_ending", "_since")

    def __init__(self, ending: Event) -> None:
        self._ending = ending
        self._since = time.monotonic()

    def pause(self) -> None:
        """Called about every millisecond of work; raise InterruptedError when the daemon ends."""
        if self._ending.wait(min(time.monotonic() - self._since, PAUSE_SECONDS_MAX)):
            raise InterruptedError(errno.EINTR, "the daemon ends")
        self._since = time.monotonic()


def _has_no_reader(queue: Queue) -> bool:
    """True if the queue is deleted, and there are no children for which its files stay."""
    return queue.deleted and not queue.children


class JournalJobs:
    """Owned by the loop's thread. `read` gets each subscription that has more items to take."""

    def __init__(
        self,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        read: Callable[[Subscription], None],
        compacted: Callable[[JournalLog], None],
        outdated: Callable[[JournalLog, list[str]], None],
        browse_read: Callable[[Caller], None],
        shortage: Shortage | None = None,
        damaged: Callable[[list[Damage]], None] = lambda damages: None,
        unix_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`outdated` gets the segments that a compacted one replaces, `browse_read` the caller of a
        read that has ended, and `damaged` the damage that reads have found."""
        self._damaged = damaged
        self._shortage = shortage or Shortage(loop)
        self._sleep: Sleep = asyncio.sleep
        self._files = files
        self._loop = loop
        self._compacted = compacted
        self._outdated = outdated
        self._browse_read = browse_read
        self._browsers = ThreadPoolExecutor(BROWSE_THREADS, thread_name_prefix="kestrelpy-look")
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="kestrelpy-read")
        # One thread of its own: compaction takes time, and preallocation must not wait for it.
        self._rewriter = ThreadPoolExecutor(1, thread_name_prefix="kestrelpy-rewrite")
        self._ending = Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading = ReadBack(
            files, loop, self._on_reader, self._shortage, read, self._name, self._start
        )
        self._snapshots: dict[JournalLog, SnapshotJob] = {}
        self._busy: dict[JournalLog, int] = {}
        self.idle = IdleJournals(
            files, loop, self.is_busy, self._start, compacted, unix_ms
        )

    # -- reads ------------------------------------------------------------------------------

    def schedule_read(self, reader: Subscription) -> bool:
        """Schedule the next read of `reader`; return False if it cannot read yet."""
        return self._reading.schedule_read(reader)

    def start_read(self, log: Log, work: Work, caller: Caller) -> None:
        """Start a read for this caller."""
        target = on_disk(log)
        assert target is not None, "a queue in memory has nothing to be read"
        self._start(target, self._browse(work, caller))

    async def _browse(self, work: Work, caller: Caller) -> None:
        try:
            for _ in range(BROWSE_TRIES_MAX):
                await wrap(work.run)(self._files, executor=self._browsers)
                error = work.error
                if error is None or not is_shortage(error):
                    break
                await self._sleep(self._shortage.pause(work, "", error))
            self._shortage.over(work)
        finally:
            if not self._ending.is_set():  # at the end no reply leaves any more
                work.is_over = True
                self._browse_read(caller)

    def _name(self, reader: Subscription, target: JournalLog) -> None:
        """Log the damage that reads have found, and keep a copy of it."""
        backlog = reader.read_ahead or target.store.read_ahead
        damages = backlog.damages + reader.damages
        if not damages:
            return
        backlog.damages, reader.damages = [], []
        for damage in damages:
            log.error("%s", damage.sentence())
            target.store.note_unreadable(reader.live.between(damage.id_first, damage.id_last))
        self._damaged(damages)
        self._start(target, self._set_aside(target, damages))

    async def _set_aside(self, target: JournalLog, damages: list[Damage]) -> None:
        try:
            await self._retry(
                target, wrap(set_aside), self._files, target.journal.folder, damages
            )
        except OSError as error:
            log.error("%s: damage not set aside: %s", target.journal.folder, error.strerror)

    async def check_bodies(self, checks: list[tuple[Queue, BodyCheck]]) -> None:
        """Check which bodies can be read, one queue after the other; name the others."""
        for queue, bodies in checks:
            if (target := on_disk(queue.log)) is None or _has_no_reader(queue):
                continue
            pause = Pause(self._ending).pause
            check = partial(bodies.run, known=(), pause=pause)
            try:
                await self._retry(target, self._on_reader(check), self._files)
            except OSError as error:
                if not self._ending.is_set():
                    log.error("%s: bodies not checked: %s", target.journal.folder, error.strerror)
                continue
            if _has_no_reader(queue):
                continue
            if bodies.unreadable:
                target.store.note_unreadable(bodies.unreadable)
                queue.know_unreadable(bodies.unreadable)  # health and the figures say so
                log.error("%s: %s", target.journal.folder, lost_items_text(bodies.unreadable))
            for damage in bodies.damages:
                log.error("%s", damage.sentence())
            self._damaged(bodies.damages)

    # -- snapshots --------------------------------------------------------------------------

    def snapshot(self, target: JournalLog, unix_ms: int) -> None:
        """Take a snapshot of the state now; it is written when the log is durable up to here."""
        self._snapshots[target] = target.store.maintenance.begin_snapshot(target.state(), unix_ms)

    def let_go(self, target: JournalLog) -> None:
        """Forget a failed or deleted journal: its log does not advance any more."""
        self._snapshots.pop(target, None)
        self.idle.let_go(target)

    def log_advanced(self, target: JournalLog) -> None:
        """Run the jobs that waited for the log to advance."""
        job = self._snapshots.get(target)
        if job is not None and target.journal.commit.lsn_durable >= job.snapshot.lsn:
            del self._snapshots[target]
            self._start(target, self._write_snapshot(target, job))

    async def _write_snapshot(self, target: JournalLog, job: SnapshotJob) -> None:
        journal, maintenance = target.journal, target.store.maintenance
        try:
            await self._retry(target, wrap(job.run), self._files, Pause(self._ending).pause)
        except OSError as error:
            if target.failure is None:
                log.error("%s: no snapshot: %s", journal.folder, error.strerror)
            self._loop.call_later(RETRY_SECONDS, maintenance.finish_snapshot, job, False)
            return
        await self._remove(target, maintenance.finish_snapshot(job, True))
        self._compacted(target)
        self._compact(target, job)
        self._merge_dedupe(target, job)

    async def _remove(self, target: JournalLog, outdated: list[str]) -> None:
        for path in outdated:
            try:
                await self._retry(target, wrap(self._files.remove), path)
            except OSError as error:
                log.error("%s: not removed: %s", path, error.strerror)

    # -- dedupe files -----------------------------------------------------------------------

    def _merge_dedupe(self, target: JournalLog, snapshot: SnapshotJob) -> None:
        """Merge some of the files of remembered ids and versions."""
        job = target.store.maintenance.begin_merge(snapshot, Pause(self._ending).pause)
        if job is not None:
            self._start(target, self._write_merged(target, job))

    async def _write_merged(self, target: JournalLog, job: MergeJob) -> None:
        merged: Chunk | None = None
        try:
            merged = await self._retry(target, self._on_rewriter(job.run), self._files)
        except ChunkDamaged as damaged:
            log.error("%s", damaged)
        except OSError as error:  # most likely a full disk; the next snapshot tries again
            if target.failure is None:
                log.warning("%s: chunks not merged: %s", job.folder, error.strerror)
        await self._remove(target, target.store.maintenance.finish_merge(job, merged))

    # -- compaction -------------------------------------------------------------------------

    def _compact(self, target: JournalLog, snapshot: SnapshotJob) -> None:
        """Compact the next segments with few live records, if there are any."""
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
        compacted: Segment | None = None
        try:
            compacted = await self._retry(target, self._on_rewriter(job.run), self._files)
            goes_on = compacted is not None  # else not before the next snapshot
        except DamagedInput as damaged:
            log.error("%s", damaged)
            for segment in chosen:
                segment.damaged |= segment.path == damaged.path
        except OSError as error:  # most likely a full disk; the next snapshot tries again
            goes_on = False
            if target.failure is None:
                log.warning("%s: not rewritten: %s", job.path, error.strerror)
        outdated = target.store.maintenance.finish_compaction(chosen, job, compacted)
        if outdated:
            self._outdated(target, outdated)
        self._compacted(target)
        if goes_on:
            self._compact(target, snapshot)

    # -- tasks ------------------------------------------------------------------------------

    async def _retry(
        self, target: JournalLog, work: Callable[..., Awaitable[T]], *args: object
    ) -> T:
        """Run the work on a thread, again and again while a shortage stops it."""
        folder = target.journal.folder
        return await self._shortage.retry(folder, lambda: work(*args), self._sleep)

    def _on_reader(self, work: Callable[[Files], T]) -> Callable[[Files], Awaitable[T]]:
        return partial(wrap(work), executor=self._readers)

    def _on_rewriter(self, work: Callable[[Files], T]) -> Callable[[Files], Awaitable[T]]:
        return partial(wrap(work), executor=self._rewriter)

    def is_busy(self, target: JournalLog) -> bool:
        """True if a thread reads or writes something of this journal."""
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
                log.error("a bug in the server", exc_info=ended.exception())

        task.add_done_callback(done)

    def close(self) -> None:
        """Begin no more jobs; a compaction stops and leaves nothing, others end by themselves."""
        self.idle.close()
        for task in list(self._tasks):
            task.cancel()
        self._ending.set()
        for threads in (self._readers, self._browsers, self._rewriter):
            threads.shutdown(wait=False, cancel_futures=True)
