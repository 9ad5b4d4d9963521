"""The journals that hold descriptors; some close their files when no descriptors are left.

    written ──▶ holds them ──▶ a second without work ──▶ rests: holds none
                    └── another one needs them: the one written longest ago rests now

One rule: a journal that cannot open its file, or whose engine is behind, waits and tries again; it
has not failed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import islice
from typing import Final

from journal.files import Handle
from kestrelpy.core import JournalLog
from kestrelpy.server.journals.shortage import Shortage

# The active segment, the next one, and one that was sealed and is not synced yet.
DESCRIPTORS_EACH: Final = 3
NO_LIMIT: Final = 1 << 30
# At most this many journals are examined for one that can rest, the longest unwritten first: these
# can most likely rest.
_LOOKS_MAX: Final = 64
BEHIND_SECONDS: Final = 0.01  # until the next look whether an engine has caught up
_OPENING: Final = "opening"  # the cause of a stall


class OpenJournals:
    """Owned by the loop's thread. At most `most` journals hold descriptors, if that is possible."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        shortage: Shortage,
        sync: Callable[[JournalLog], None],
        again: Callable[[JournalLog], None],
    ) -> None:
        """`sync` writes and syncs the pending records; `again` schedules a turn for a waiting
        journal."""
        self._loop = loop
        self._shortage = shortage
        self._sync = sync
        self._again = again
        self.most = NO_LIMIT
        self._open: dict[JournalLog, None] = {}  # ordered by their last write
        self._waiting: dict[JournalLog, asyncio.TimerHandle] = {}
        self._stalled: set[JournalLog] = set()  # until they could open theirs
        self._is_stuck = False  # none could rest in this turn
        self._behind: asyncio.TimerHandle | None = None  # an engine has too much to commit
        self._seen = 0  # how far `written` has come

    @property
    def count(self) -> int:
        """The number of journals that hold descriptors."""
        return len(self._open)

    def written(self, most: int) -> list[tuple[JournalLog, Handle]]:
        """Return some journals with the files that they write to; each call goes on with the next
        ones."""
        found = [
            (target, active.handle)
            for target in self._open
            if (active := target.journal.active) is not None and active.handle is not None
        ]
        if len(found) <= most:
            return found
        begin = self._seen = self._seen % len(found)
        self._seen += most
        return (found[begin:] + found[:begin])[:most]

    def begin_turn(self) -> None:
        """Begin a turn: others may have become able to rest."""
        self._is_stuck = False

    def is_waiting(self, target: JournalLog) -> bool:
        """True if it tries again after a pause."""
        return target in self._waiting

    def has_room_for(self, target: JournalLog, unix_ms: int) -> bool:
        """True if this journal may be written now; else a turn is scheduled when there is room."""
        if not target.is_local and target.journal.files.is_behind:
            if self._behind is None:
                self._behind = self._loop.call_later(BEHIND_SECONDS, self._look_again, target)
            return False
        if len(self._open) < self.most or target in self._open:
            return True
        if self._is_stuck:
            return False
        if self._let_go(1, unix_ms):
            return True
        oldest = list(islice(self._open, _LOOKS_MAX))
        for each in oldest:
            if not each.no_room:
                self._sync(each)  # it may have no waiter of its own
        self._is_stuck = any(map(_is_about_to_rest, oldest))
        return not self._is_stuck  # if none will ever rest, it opens its files beyond the limit

    def wrote(self, target: JournalLog, unix_ms: int) -> None:
        """Note that a turn has written this journal."""
        journal, opened = target.journal, self._open
        error = journal.shortage
        if error is None or target.failure is not None:
            if target in self._stalled:
                self._end(target)
            active = journal.active
            if active is not None and active.handle is not None:
                opened.pop(target, None)
                opened[target] = None
            return
        self._stalled.add(target)
        target.stall(
            _OPENING,
            f"nothing new is stored now: no file can be opened ({os.strerror(error.errno or 0)}); "
            "it is tried again",
            True,
        )
        self._let_go(_LOOKS_MAX, unix_ms)
        seconds = self._shortage.pause(target, journal.folder, error)
        self._waiting[target] = self._loop.call_later(seconds, self._try_again, target)

    def rested(self, target: JournalLog) -> None:
        """Note that this journal holds no descriptors any more."""
        self._open.pop(target, None)

    def _let_go(self, most: int, unix_ms: int) -> int:
        """Let up to `most` journals rest, the longest unwritten first; return their number."""
        count = 0
        for target in list(islice(self._open, _LOOKS_MAX)):
            journal = target.journal
            if journal.is_resting:
                journal.rest(unix_ms)
            elif journal.commit.failure is not None and not journal.commit.lsn_in_flight:
                journal.abandon()
            else:
                continue
            del self._open[target]
            count += 1
            if count == most:
                break
        return count

    def _look_again(self, target: JournalLog) -> None:
        self._behind = None
        self._again(target)

    def _try_again(self, target: JournalLog) -> None:
        del self._waiting[target]
        self._again(target)

    def _end(self, target: JournalLog) -> None:
        self._stalled.remove(target)
        target.stall(_OPENING, "")
        self._shortage.over(target)


def _is_about_to_rest(target: JournalLog) -> bool:
    """True if a turn is scheduled when it can rest: after a write, a sync or a preallocation."""
    journal = target.journal
    if target.no_room:
        return bool(journal.commit.lsn_in_flight)
    return bool(
        journal.commit.lsn_in_flight or journal.preallocation.is_under_way or journal.has_pending
    )
