"""Syncs on threads, one in flight per journal.

    turn ──▶ add, add, add ──▶ start ──▶ [ ][ ][ ][ ][ ]   each thread takes the first
                                              │
             `finished`, file by file ◀── [x][x][x]        one list of results for all threads

A journal may be synced in the turn instead (`sync_in_turn`): then the loop itself is the thread.
An engine needs none of these threads: it reports all files of a commit at once.

The threads share both lists. A file that hangs holds up no other file while another thread is free,
and the loop is notified once for many results.

One rule: a sync is never retried, and its outcome counts only when it has finished.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from journal.store import SyncJob
from kestrelpy.core import Histogram, JournalLog
from kestrelpy.server import clock

log = logging.getLogger("kestrelpy.syncs")

# Enough that one hanging file system call does not delay the syncs of other queues, and that the
# disk has something to do while threads wait for the interpreter.
THREADS_MAX: Final = 16
# A thread with more to sync tells the loop of its results this often, and when it rests.
TELL_SECONDS: Final = 0.001
# Syncs in the turn take this long in each turn; the others run on threads. After a sync that took
# SLOW_SECONDS all syncs run on threads for SLOW_PAUSE_SECONDS.
IN_TURN_SECONDS: Final = 0.003
SLOW_SECONDS: Final = 0.01
SLOW_PAUSE_SECONDS: Final = 60.0
# How many results one callback of the loop reports: some milliseconds of its time.
REPORTED_MAX: Final = 128


class Sync:
    """One sync of one journal. A thread owns it from `start` until it is a result."""

    __slots__ = ("_began", "error", "job", "target", "took_s")

    def __init__(self, target: JournalLog, job: SyncJob) -> None:
        self.target = target
        self.job = job
        self.took_s = self._began = 0.0
        self.error: OSError | None = None

    def begin(self, ended: Callable[[Sync], None]) -> bool:
        """Sync its files without a thread of ours: `ended` is called when that is over, by any
        thread. False: only `run` can."""
        if self.target.is_local:
            return False

        def done(error: OSError | None) -> None:
            self.error = error
            self.took_s = clock.elapsed() - self._began
            try:
                self.job.close()
            except OSError as failed:
                self.error = error or failed
            ended(self)

        self._began = clock.elapsed()
        return self.target.journal.files.sync_later(self.job.handles, done)

    def run(self) -> None:
        """Sync its files. Blocks; an error is kept."""
        began = clock.elapsed()
        try:
            self.job.run()
        except OSError as failed:
            self.error = failed
        except Exception as failed:  # any error: not known to be on disk
            self.error = OSError(errno.EIO, f"{type(failed).__name__}: {failed}")
        self.took_s = clock.elapsed() - began


class Syncs:
    """Owned by the loop's thread. `finished` gets each journal, with the seconds of its sync."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, finished: Callable[[JournalLog, float], None]
    ) -> None:
        self._loop = loop
        self._finished = finished
        self._added: list[Sync] = []
        self._todo: deque[Sync] = deque()
        self._results: deque[Sync | None] = deque()  # None: a thread rests
        self._unreported: deque[Sync] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()  # True wakes a thread, False ends one
        self._threads = 0
        self._busy = 0
        self._is_notified = False
        self._on_threads_until = 0.0
        self.in_flight = 0
        self.took_us = Histogram()

    def add(self, target: JournalLog, job: SyncJob) -> None:
        """Let this sync begin with the next `start`."""
        self.in_flight += 1
        self._added.append(Sync(target, job))

    def start(self) -> None:
        """Begin the syncs added since the last call."""
        if self._added:
            added, self._added = self._added, []
            here = any(sync.target.sync_in_turn for sync in added) and self._sync_here(added)
            self._todo.extend([sync for sync in added if not sync.begin(self._ended)])
            self._wake()
            if here:
                self._end(here)

    def _sync_here(self, added: list[Sync]) -> list[Sync]:
        """Take those that are to be synced in the turn, sync and return them."""
        here: list[Sync] = []
        until = clock.elapsed() + IN_TURN_SECONDS
        for sync in [sync for sync in added if sync.target.sync_in_turn]:
            now = clock.elapsed()
            if now >= until or now < self._on_threads_until:
                break
            added.remove(sync)
            sync.run()
            here.append(sync)
            if sync.took_s >= SLOW_SECONDS:
                self._on_threads_until = clock.elapsed() + SLOW_PAUSE_SECONDS
        return here

    def _wake(self) -> None:
        """Wake a thread for each sync; there are THREADS_MAX threads at most."""
        for _ in range(min(len(self._todo), THREADS_MAX - self._busy)):
            self._busy += 1
            if self._busy > self._threads:
                self._threads += 1
                threading.Thread(target=self._work, name="kestrelpy-sync", daemon=True).start()
            self._calls.put(True)

    def close(self) -> None:
        """Let the threads end; one that hangs ends with the process."""
        for _ in range(self._threads):
            self._calls.put(False)

    # -- on a thread ------------------------------------------------------------------------

    def _ended(self, sync: Sync) -> None:
        """Take the result of a sync that none of our threads made."""
        self._results.append(sync)
        self._tell()

    def _work(self) -> None:
        while self._calls.get():
            self._sync_all()
            self._results.append(None)
            self._tell()

    def _sync_all(self) -> None:
        """Sync until there is nothing more to sync."""
        reported = clock.elapsed()
        while self._todo:
            try:
                sync = self._todo.popleft()
            except IndexError:  # another thread was faster
                return
            sync.run()
            self._results.append(sync)
            if self._todo and clock.elapsed() - reported >= TELL_SECONDS:
                reported = clock.elapsed()
                self._tell()

    def _tell(self) -> None:
        """Have the loop take the results, unless it is notified already."""
        if self._is_notified:
            return
        self._is_notified = True
        try:
            self._loop.call_soon_threadsafe(self._take_results)
        except RuntimeError:  # the loop is closed: there is no receiver
            return

    # -- on the loop ------------------------------------------------------------------------

    def _take_results(self) -> None:
        self._is_notified = False  # first: a result that comes from here on is reported again
        ended: list[Sync] = []
        while self._results:
            sync = self._results.popleft()
            if sync is None:
                self._busy -= 1
            else:
                ended.append(sync)
        self._wake()  # a thread may have rested just before a sync was added
        self._end(ended)

    def _end(self, ended: list[Sync]) -> None:
        """Report these syncs, after those that ended before."""
        is_reporting = bool(self._unreported)
        self._unreported.extend(ended)
        if not is_reporting:
            self._report()

    def _report(self) -> None:
        """Report some results; a later callback reports the others."""
        for _ in range(min(len(self._unreported), REPORTED_MAX)):
            sync = self._unreported.popleft()
            self.in_flight -= 1
            self.took_us.add(int(sync.took_s * 1_000_000))
            try:
                sync.target.journal.finish_sync(sync.error)
                self._finished(sync.target, sync.took_s)
            except Exception:  # a bug: the others are reported
                log.exception("after a sync of %s", sync.target.journal.folder)
        if self._unreported:
            self._loop.call_soon(self._report)
