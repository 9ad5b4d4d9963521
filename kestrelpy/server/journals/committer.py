"""Syncs on threads, one in flight per journal; segments preallocated and removed off the loop.

A worker thread owns a job for one batch and nothing else; the result returns to the loop's thread
first.

One rule: a sync is never retried, and its outcome counts only when it has finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from queue import SimpleQueue
from typing import Final

from aiofiles.base import wrap

from journal.files import Files, Handle, is_shortage
from journal.store import PreallocationJob, SyncJob, archived_path, recycled_path, retire
from kestrelpy.core import Histogram, JournalLog
from kestrelpy.server import clock
from kestrelpy.server.journals.shortage import Shortage

log = logging.getLogger("kestrelpy.committer")

# Enough that one hanging file system call does not delay the syncs of other queues.
SYNC_THREADS_MAX: Final = 8
PREALLOCATE_RETRY_SECONDS: Final = 1.0
_ARCHIVE_NAMES_MAX: Final = 100
RECYCLED_LOOK_SECONDS: Final = 0.05
_PREALLOCATION: Final = "spare"  # the cause of a stall

_Job = tuple[JournalLog, SyncJob]


class Committer:
    """Starts syncs and reports each result to `finished` on the loop's thread."""

    def __init__(
        self,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        finished: Callable[[JournalLog], None],
        prepared: Callable[[JournalLog], None],
        shortage: Shortage | None = None,
    ) -> None:
        self._files = files
        self._loop = loop
        self._finished = finished
        self._prepared = prepared
        self._shortage = shortage or Shortage(loop)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._removals: dict[JournalLog, deque[str]] = {}
        self._removing: set[JournalLog] = set()
        self._preparing: set[JournalLog] = set()
        self.in_flight = 0
        self._prepare = wrap(PreallocationJob.prepare)
        self._retire = wrap(_retire)
        self.without_room: set[JournalLog] = set()
        self.sync_us = Histogram()  # how long each sync took
        self.reserve_bytes = 0  # of the disk, left free by a new segment

    def sync(self, target: JournalLog) -> None:
        """Start a sync of the written records, if there are any and no sync is in flight."""
        job = target.journal.begin_sync()
        if job is None:
            return
        self.in_flight += 1
        if self._idle == 0 and self._threads < SYNC_THREADS_MAX:
            self._threads += 1
            threading.Thread(target=self._work, name="kestrelpy-sync", daemon=True).start()
        else:
            self._idle -= 1
        self._jobs.put((target, job))

    def _work(self) -> None:
        """The loop of a sync thread."""
        while True:
            work = self._jobs.get()
            if work is None:
                return
            target, job = work
            error: OSError | None = None
            began = clock.elapsed()
            try:
                job.run()
            except OSError as failed:
                error = failed
            except Exception as failed:  # any error: not known to be on disk
                error = OSError(errno.EIO, f"{type(failed).__name__}: {failed}")
            try:
                took_us = int((clock.elapsed() - began) * 1_000_000)
                self._loop.call_soon_threadsafe(self._report, target, error, took_us)
            except RuntimeError:  # the loop is closed: there is no receiver
                return

    def _report(self, target: JournalLog, error: OSError | None, took_us: int) -> None:
        self.sync_us.add(took_us)
        self.in_flight -= 1
        self._idle += 1
        target.journal.finish_sync(error)
        self._finished(target)

    def preallocate(self, target: JournalLog, time_ms: int) -> None:
        """Write the next segment off the loop."""
        self._preparing.add(target)
        self._start(self._preallocate(target, target.journal.begin_preallocation(
            time_ms, self.reserve_bytes)))  # fmt: skip

    async def _preallocate(self, target: JournalLog, request: PreallocationJob) -> None:
        journal = target.journal
        while True:
            self._preparing.add(target)
            try:
                handle: Handle = await self._prepare(request, self._files)
            except OSError as error:
                self._preparing.discard(target)
                self._tell(target, request, error)
                journal.preallocation_failed(request, error)
                short = error if is_shortage(error) else None
            else:
                self._preparing.discard(target)
                self._tell(target, request, None)
                journal.finish_preallocation(request, handle)
                self._prepared(target)
                return
            self._prepared(target)  # the waiting connections get the reason
            # Until then it counts as requested; a segment that is emptied meanwhile may be taken.
            journal.preallocation.is_under_way = True
            if short is not None:
                waiting = (target, _PREALLOCATION)
                await asyncio.sleep(self._shortage.pause(waiting, request.path, short))
            waited = 0.0 if short is None else PREALLOCATE_RETRY_SECONDS
            while waited < PREALLOCATE_RETRY_SECONDS and not journal.preallocation.recycled[0]:
                if target.is_reported:
                    break
                await asyncio.sleep(RECYCLED_LOOK_SECONDS)
                waited += RECYCLED_LOOK_SECONDS
            if target.is_reported:  # deleted or failed meanwhile: it is not needed
                self._tell(target, request, None)
                return
            request = journal.begin_preallocation(request.header.created_ms, self.reserve_bytes)

    def _tell(self, target: JournalLog, request: PreallocationJob, error: OSError | None) -> None:
        """Report the result of a preallocation: why there is no segment, or (None) that there
        is."""
        if error is None:
            if target in self.without_room:
                if not (target.is_short or target.is_reported):
                    log.info("%s: there is room again", request.path)
                self.without_room.remove(target)
                target.stall(_PREALLOCATION, "")
            self._shortage.over((target, _PREALLOCATION))
            return
        reason, is_short = error.strerror or str(error), is_shortage(error)
        if not (is_short or target.no_room or target.is_reported):
            log.error("%s: no room for the next segment: %s", request.path, reason)
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        state = "disk full: no room for" if is_full else "nothing is stored: cannot prepare"
        again = "; it is tried again" if is_short else ""
        target.stall(_PREALLOCATION, f"{state} the next segment ({reason}){again}", is_short)
        self.without_room.add(target)
        if not is_short:
            self._shortage.over((target, _PREALLOCATION))

    def is_preparing(self, target: JournalLog) -> bool:
        """True if a thread makes a segment for it; between two attempts none does."""
        return target in self._preparing

    def remove(self, target: JournalLog, paths: list[str]) -> None:
        """Remove segments without live records, off the loop and strictly in this order.

        A later segment may hold the confirms of an earlier one: it stays until that is gone.
        """
        waiting = self._removals.setdefault(target, deque())
        was_idle = target not in self._removing
        waiting.extend(paths)
        if was_idle and waiting:
            self._removing.add(target)
            self._start(self._remove_each(target, waiting))

    def let_go(self, target: JournalLog) -> None:
        """Forget a deleted journal: its other segments go with its folder, or stay there."""
        self._removals.pop(target, None)

    def is_removing(self, target: JournalLog) -> bool:
        """True if a segment of this journal is being removed now."""
        return target in self._removing

    async def _remove_each(self, target: JournalLog, paths: deque[str]) -> None:
        journal = target.journal
        try:
            while paths:
                path, archive = paths[0], ""
                if target.archive_to:
                    archive = archived_path(target.archive_to, path)
                recycle_to = recycled_path(path) if journal.preallocation.may_recycle else ""
                retire = partial(self._retire, self._files, path, archive, recycle_to)
                kept, size = await self._shortage.retry(path, retire)
                if kept:
                    journal.preallocation.recycled = (kept, size)
                paths.popleft()
            del self._removals[target]
        except OSError as error:  # tried again with the next segment that is emptied
            log.error("%s: not removed: %s", paths[0], error.strerror)
        finally:
            self._removing.discard(target)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, seconds: float) -> bool:
        """Wait until no sync is in flight; return False if one still is after that time."""
        for task in list(self._tasks):
            task.cancel()
        deadline = self._loop.time() + seconds
        while self.in_flight and self._loop.time() < deadline:
            await asyncio.sleep(0.005)
        for _ in range(self._threads):
            self._jobs.put(None)
        return self.in_flight == 0


def _retire(files: Files, path: str, archive_path: str, recycle_to: str) -> tuple[str, int]:
    """Remove a segment; return the file to recycle and its size, or "" and 0 without one."""
    for number in range(_ARCHIVE_NAMES_MAX):
        # A file of that name may exist from another life of this data directory.
        name = f"{archive_path}.{number}" if archive_path and number else archive_path
        with contextlib.suppress(FileExistsError):
            kept = retire(files, path, name, recycle_to)
            return kept, files.size(kept) if kept else 0
    raise OSError(errno.EEXIST, f"too many files named {archive_path}", path)
