"""The newest actions of people, on queues and on the server, from every wire.

    pause, flush, delete, redrive, move, mode, reload ... ──▶ `note` ──▶ on disk? ──▶ `newest`
                                                               │
                  the newest 500 on queues, and the newest 100 on the server

An action that a client repeats within a minute stays one entry, and its counts add up: a client
that purges a thousand items leaves one line.

One rule: an action is shown when its result is on disk, and never if it did not get there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from typing import Final

from kestrelpy.core import ClockOffset
from kestrelpy.operations.rests import Rests

OF_QUEUES_MAX: Final = 500
OF_SERVER_MAX: Final = 100
_REPEATED_MS: Final = 60_000
# This many entries are looked at for a repetition.
_LOOKED_MAX: Final = 20
_TEXT_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Action:
    """One action. `at_ms`, on the wall clock, is its beginning; `queue` is None if it was for the
    server; `note` says more: the target of a move, the settings of a reload."""

    at_ms: int
    who: str
    what: str
    queue: str | None
    count: int | None
    note: str | None


class _Entry:
    """An action; a repetition adds to it once the repetition is on disk."""

    __slots__ = ("_added", "_is_true", "_rests", "action", "number")

    def __init__(self, number: int, action: Action, rests: Sequence[Rests]) -> None:
        self.number = number
        self.action = action
        self._is_true = False
        self._added = 0
        self._rests = rests

    def is_true(self) -> bool:
        """True if its result is on disk."""
        if self._rests and all(
            log.lsn_stored >= stored and log.lsn_written >= written
            for log, stored, written in self._rests
        ):
            self._rests = ()
        if not self._rests:
            self._is_true = True
            if self._added:
                self._count_in(self._added)
                self._added = 0
        return self._is_true

    def repeats(self, action: Action) -> bool:
        """True if this action is a repetition of it."""
        first = self.action
        is_same = (first.who, first.what, first.queue) == (action.who, action.what, action.queue)
        if not is_same or first.count is None or action.count is None:
            return False
        return 0 <= action.at_ms - first.at_ms < _REPEATED_MS

    def add(self, action: Action, rests: Sequence[Rests]) -> None:
        """Count a repetition in."""
        if self.is_true():
            self._added, self._rests = action.count or 0, rests
        else:  # neither is on disk: both are when the later one is
            self._count_in(action.count or 0)
            self._rests = rests or self._rests
        if self.action.note != action.note:
            self.action = replace(self.action, note=None)

    def _count_in(self, count: int) -> None:
        self.action = replace(self.action, count=(self.action.count or 0) + count)


class Actions:
    """The newest actions of one server."""

    __slots__ = ("_clock", "_of_queues", "_of_server", "_total")

    def __init__(self, clock: ClockOffset) -> None:
        self._clock = clock
        self._total = 0
        self._of_queues: deque[_Entry] = deque(maxlen=OF_QUEUES_MAX)
        self._of_server: deque[_Entry] = deque(maxlen=OF_SERVER_MAX)

    def note(
        self, who: str, what: str, now_ms: int, queue: bytes | None = None,
        count: int | None = None, note: str = "", rests: Sequence[Rests] = (),
    ) -> None:  # fmt: skip
        """Note an action with the records that its result rests on."""
        at_ms = now_ms + self._clock.offset_ms
        action = Action(at_ms, who, what, _text(queue), count, note[:_TEXT_MAX] or None)
        entries = self._of_queues if queue is not None else self._of_server
        for entry in islice(reversed(entries), _LOOKED_MAX):
            entry.is_true()  # if it is, it drops the records that it rested on
            if entry.repeats(action):
                entry.add(action, rests)
                return
        self._total += 1
        entries.append(_Entry(self._total, action, rests))

    def newest(self, most: int, queue: bytes | None = None) -> list[Action]:
        """Return the newest actions, the newest first: those of the server, and of all queues or of
        this one."""
        name = _text(queue)
        every = merge(
            reversed(self._of_queues), reversed(self._of_server), key=lambda each: -each.number
        )
        shown = (
            entry.action for entry in every
            if entry.is_true() and (name is None or entry.action.queue in (None, name))
        )  # fmt: skip
        return list(islice(shown, most))


def _text(name: bytes | None) -> str | None:
    return name.decode("ascii", "replace") if name is not None else None
