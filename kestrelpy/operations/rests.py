"""The records that a result rests on: no client hears of it before they are on disk.

One rule: an operation returns its result with these records, and never waits for them itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from kestrelpy.core import Log

_new: Final = tuple.__new__  # half the cost of calling a named tuple


class Gate:
    """One piece of work that a reply waits for: files removed, a configuration read."""

    __slots__ = ("failure", "lsn_stored", "lsn_written", "waiting_stored", "waiting_written")

    def __init__(self) -> None:
        self.lsn_written = 0
        self.lsn_stored = 0
        self.failure: Exception | None = None
        self.waiting_stored: set[object] = set()
        self.waiting_written: set[object] = set()

    def open(self) -> None:
        """Note that the work is done: the replies that wait for it are true."""
        self.lsn_written = self.lsn_stored = 1


class Durable:
    """A log, for replies that wait until a record is on disk, whatever its queue's `sync` says."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def lsn_stored(self) -> int:
        return self._log.lsn_durable

    @property
    def lsn_written(self) -> int:
        return self._log.lsn_durable

    @property
    def failure(self) -> Exception | None:
        return self._log.failure

    @property
    def waiting_stored(self) -> set[object]:
        return self._log.waiting_written  # they are woken at each step of the log

    @property
    def waiting_written(self) -> set[object]:
        return self._log.waiting_written


# An object that a reply can wait for. Replies that wait for a write or a sync are true up to its
# `lsn_written` and `lsn_stored`; with a `failure` no further reply becomes true.
Awaited: TypeAlias = Log | Gate | Durable


class Rests(NamedTuple):
    """A result is true once `log` has stored and written these lsns."""

    log: Awaited
    stored: int
    written: int = 0


def rests_on(log: Awaited, stored: int, written: int = 0) -> Rests:
    """Return `Rests`; for the hot path."""
    return _new(Rests, (log, stored, written))
