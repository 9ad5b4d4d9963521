"""Which journals hold descriptors, and which let go of theirs when there are no more.

    written ──▶ holds them ──▶ nothing more to do for a second ──▶ rests: holds none
                    └── another one needs them: who was written longest ago rests now

One rule: a journal that cannot open its file waits and is tried again; it has not failed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import islice
from typing import Final

from kestrelpy.core.log.log import JournalLog
from kestrelpy.server.shortage import Shortage

# The active segment, the next one, and one that was sealed and is not synced yet.
DESCRIPTORS_EACH: Final = 3
NO_LIMIT: Final = 1 << 30
# So many are looked at for one that can rest: those written longest ago, most likely.
_LOOKS_MAX: Final = 64
_OPENING: Final = "opening"  # the cause of a stall


class OpenJournals:
    """Owned by the loop's thread. `most` journals hold descriptors, as far as that is possible."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        shortage: Shortage,
        sync: Callable[[JournalLog], None],
        again: Callable[[JournalLog], None],
    ) -> None:
        """`sync` has what is pending written and synced, `again` has a turn write what waits."""
        self._loop = loop
        self._shortage = shortage
        self._sync = sync
        self._again = again
        self.most = NO_LIMIT
        self._holding: dict[JournalLog, None] = {}  # by when they were written last
        self._waiting: dict[JournalLog, asyncio.TimerHandle] = {}
        self._stalled: set[JournalLog] = set()  # until they could open theirs
        self._is_stuck = False  # none could let go in this turn

    @property
    def count(self) -> int:
        """How many hold descriptors."""
        return len(self._holding)

    def begin_turn(self) -> None:
        """Others may have become able to rest."""
        self._is_stuck = False

    def is_waiting(self, target: JournalLog) -> bool:
        """True if it is tried again after a pause."""
        return target in self._waiting

    def has_room_for(self, target: JournalLog, wall_ms: int) -> bool:
        """True if it may open its files now; else a turn is owed when there is room."""
        if len(self._holding) < self.most or target in self._holding:
            return True
        if self._is_stuck:
            return False
        if self._let_go(1, wall_ms):
            return True
        oldest = list(islice(self._holding, _LOOKS_MAX))
        for each in oldest:
            if not each.no_room:
                self._sync(each)  # nobody may wait for that
        self._is_stuck = any(map(_is_about_to_rest, oldest))
        return not self._is_stuck  # where none will ever let go it is tried beyond the limit

    def wrote(self, target: JournalLog, wall_ms: int) -> None:
        """A turn had it write."""
        journal, holding = target.journal, self._holding
        error = journal.shortage
        if error is None or target.failure is not None:
            if target in self._stalled:
                self._end(target)
            active = journal.active
            if active is not None and active.handle is not None:
                holding.pop(target, None)
                holding[target] = None
            return
        self._stalled.add(target)
        target.stall(
            _OPENING,
            f"nothing new is stored now: no file can be opened ({os.strerror(error.errno or 0)}); "
            "it is tried again",
            True,
        )
        self._let_go(_LOOKS_MAX, wall_ms)
        seconds = self._shortage.pause(target, journal.folder, error)
        self._waiting[target] = self._loop.call_later(seconds, self._try_again, target)

    def rested(self, target: JournalLog) -> None:
        """It holds none any more."""
        self._holding.pop(target, None)

    def _let_go(self, most: int, wall_ms: int) -> int:
        """Have up to so many rest that can, written longest ago first; returns how many did."""
        count = 0
        for target in list(islice(self._holding, _LOOKS_MAX)):
            journal = target.journal
            if journal.is_resting:
                journal.rest(wall_ms)
            elif journal.commit.failure is not None and not journal.commit.lsn_in_flight:
                journal.abandon()
            else:
                continue
            del self._holding[target]
            count += 1
            if count == most:
                break
        return count

    def _try_again(self, target: JournalLog) -> None:
        del self._waiting[target]
        self._again(target)

    def _end(self, target: JournalLog) -> None:
        self._stalled.remove(target)
        target.stall(_OPENING, "")
        self._shortage.over(target)


def _is_about_to_rest(target: JournalLog) -> bool:
    """True if a turn is owed when it can: behind a write, a sync, or a segment being prepared."""
    journal = target.journal
    if target.no_room:
        return bool(journal.commit.lsn_in_flight)
    return bool(
        journal.commit.lsn_in_flight or journal.preallocation.is_under_way or journal.has_pending
    )
