"""Work of the disk off the loop: syncs, preallocation of segments, removal of segments.

A worker thread owns a job for one batch and nothing else; the result returns to the loop's thread
first.

One rule: the segments of a journal are removed strictly in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

from aiofiles.base import wrap

from journal.files import Files, Handle, is_shortage
from journal.store import PreallocationJob, archived_path, recycled_path, retire
from kestrelpy.core import JournalLog
from kestrelpy.server.journals.shortage import Shortage
from kestrelpy.server.journals.syncs import Syncs

log = logging.getLogger("kestrelpy.committer")

PREALLOCATE_RETRY_SECONDS: Final = 1.0
_ARCHIVE_NAMES_MAX: Final = 100
RECYCLED_LOOK_SECONDS: Final = 0.05
_PREALLOCATION: Final = "preallocation"  # the cause of a stall


class Committer:
    """Owned by the loop's thread. `finished` gets each journal with the seconds that its sync
    took."""

    def __init__(
        self,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        finished: Callable[[JournalLog, float], None],
        prepared: Callable[[JournalLog], None],
        shortage: Shortage | None = None,
    ) -> None:
        self._files = files
        self._loop = loop
        self.syncs = Syncs(loop, finished)
        self._prepared = prepared
        self._shortage = shortage or Shortage(loop)
        self._tasks: set[asyncio.Task[None]] = set()
        self._removals: dict[JournalLog, deque[str]] = {}
        self._removing: set[JournalLog] = set()
        self._preparing: set[JournalLog] = set()
        self._prepare = wrap(PreallocationJob.prepare)
        self._retire = wrap(_retire)
        self.without_room: set[JournalLog] = set()
        self.reserve_bytes = 0  # of the disk, left free by a new segment

    def sync(self, target: JournalLog) -> None:
        """Sync the written records with the next `start`, if there are any and no sync is in
        flight."""
        job = target.journal.begin_sync()
        if job is not None:
            self.syncs.add(target, job)

    def start(self) -> None:
        """Begin the syncs that were asked for since the last call."""
        self.syncs.start()

    @property
    def in_flight(self) -> int:
        """How many syncs are not reported yet."""
        return self.syncs.in_flight

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
            while waited < PREALLOCATE_RETRY_SECONDS:
                await asyncio.sleep(RECYCLED_LOOK_SECONDS)
                waited += RECYCLED_LOOK_SECONDS
                if target.is_reported or journal.preallocation.recycled:
                    break
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
                recycles = self._files.is_local and journal.preallocation.may_recycle
                recycle_to = recycled_path(path) if recycles else ""
                least = journal.sizes.recycled_min
                retire = partial(self._retire, self._files, path, archive, recycle_to, least)
                kept, size = await self._shortage.retry(path, retire)
                if kept:
                    journal.preallocation.recycled.append((kept, size))
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
        self.start()
        deadline = self._loop.time() + seconds
        while self.in_flight and self._loop.time() < deadline:
            await asyncio.sleep(0.005)
        is_over = self.in_flight == 0
        self.syncs.close()
        return is_over


def _retire(
    files: Files, path: str, archive_path: str, recycle_to: str, least: int
) -> tuple[str, int]:
    """Remove a segment; return the file to recycle and its size, or "" and 0 without one.

    A file smaller than `least` is not recycled.
    """
    with contextlib.suppress(FileNotFoundError):
        if files.size(path) < least:
            recycle_to = ""
    for number in range(_ARCHIVE_NAMES_MAX):
        # A file of that name may exist from another life of this data directory.
        name = f"{archive_path}.{number}" if archive_path and number else archive_path
        with contextlib.suppress(FileExistsError):
            kept = retire(files, path, name, recycle_to)
            return kept, files.size(kept) if kept else 0
    raise OSError(errno.EEXIST, f"too many files named {archive_path}", path)
