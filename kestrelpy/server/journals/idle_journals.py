"""Journals that are idle, so that they free what they do not need (see `journal.compaction`).

    at rest, has a segment prepared, or found at the start
        │
        ▼
    watched ──IDLE_MS──▶ idle? ──yes──▶ a round: a step each second
        ▲                   │ no: it was written to      │
        └───────────────────┴────────────────────────────┘

All journals wait for the same time, so they are due in the order in which they came: one timer is
enough. If thousands are due at once, a few have their round at a time.

One rule: the loop decides and appends; files are removed by a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

from aiofiles.base import wrap

from journal.files import Files
from kestrelpy.core import JournalLog

log = logging.getLogger("kestrelpy.background")

STEP_SECONDS: Final = 1.0
ROUNDS_MAX: Final = 8  # at a time
LOOKS_MAX: Final = 100  # in one step: a start watches all journals at once
# A round ends when its next step has waited for this many looks: a thread hangs, or clients came.
WAITS_MAX: Final = 600


class IdleJournals:
    """Owned by the loop's thread. `appended` gets each journal that a record was appended to."""

    def __init__(
        self,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        is_busy: Callable[[JournalLog], bool],
        start: Callable[[JournalLog, Coroutine[object, object, None]], None],
        appended: Callable[[JournalLog], None],
        unix_ms: Callable[[], int],
    ) -> None:
        """`is_busy` is true while a thread works for a journal, and so while `start` runs a job of
        it."""
        self._files = files
        self._loop = loop
        self._is_busy = is_busy
        self._start = start
        self._appended = appended
        self._unix_ms = unix_ms
        self._watched: OrderedDict[JournalLog, int] = OrderedDict()  # with the time it is due
        self._rounds: dict[JournalLog, int] = {}  # with how often it has waited
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, target: JournalLog) -> None:
        """Look at this journal when it has been idle, unless it has nothing to free."""
        if self.is_watching(target):
            return
        self._watch(target)
        self._arm()

    def is_watching(self, target: JournalLog) -> bool:
        """True if this journal waits for its round, or has it now."""
        return target in self._watched or target in self._rounds

    def has_round(self, target: JournalLog) -> bool:
        """True if this journal has its round now."""
        return target in self._rounds

    def let_go(self, target: JournalLog) -> None:
        """Forget a failed or deleted journal."""
        self._watched.pop(target, None)
        self._rounds.pop(target, None)

    def close(self) -> None:
        """Look at none any more."""
        self._watched.clear()
        self._rounds.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self, target: JournalLog) -> None:
        if target.store.reclaim.may_have_some:
            self._watched[target] = target.store.reclaim.mark(self._now_ms())

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _arm(self) -> None:
        """Set the timer for the next step or the journal that is due first."""
        if self._timer is not None or not (self._watched or self._rounds):
            return
        wait = STEP_SECONDS
        if not self._rounds:
            due_ms = next(iter(self._watched.values()))
            wait = max((due_ms - self._now_ms()) / 1000, STEP_SECONDS)
        self._timer = self._loop.call_later(wait, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        for _ in range(min(len(self._watched), LOOKS_MAX)):
            target, due_ms = next(iter(self._watched.items()))
            if due_ms > now_ms or len(self._rounds) >= ROUNDS_MAX:
                break
            del self._watched[target]
            reclaim = target.store.reclaim
            if reclaim.writes_little and reclaim.is_worth_it(self._unix_ms()):
                reclaim.begin_round()
                self._rounds[target] = 0
            else:
                self._watch(target)
        for target in list(self._rounds):
            self._go_on(target)
        self._arm()

    def _go_on(self, target: JournalLog) -> None:
        """Take the next step of a round, if the last one is over."""
        reclaim = target.store.reclaim
        if target.failure is not None or target.is_reported:
            self.let_go(target)
            return
        reclaim.went_on()
        self._rounds[target] += 1
        if self._rounds[target] > WAITS_MAX or not reclaim.writes_little:
            del self._rounds[target]
            self._watch(target)
            return
        if target.lsn_durable < target.lsn_appended:  # of a queue that syncs later, or never
            target.wait_durable(target.lsn_appended)
            self._appended(target)
            return
        if self._is_busy(target) or not reclaim.is_ready:
            return
        paths = reclaim.next_step(self._unix_ms(), not target.no_room)
        if paths is None:
            del self._rounds[target]
            self._watch(target)
        elif paths:
            self._start(target, self._remove(paths))
        else:
            self._start(target, self._append(target))

    async def _remove(self, paths: list[str]) -> None:
        try:
            await wrap(self._files.remove_all)(paths)
        except OSError as error:  # the next start finds them
            log.error("%s: not removed: %s", paths[0], error.strerror)

    async def _append(self, target: JournalLog) -> None:
        """Append the record of the step, if the disk has room for the files that follow from it."""
        try:
            free = await wrap(partial(self._files.free, target.journal.folder))()
        except OSError:
            return
        reclaim = target.store.reclaim
        if target not in self._rounds or not reclaim.is_ready or target.no_room:
            return
        if reclaim.has_room(free):
            target.reclaim(self._unix_ms())
            self._appended(target)
