"""Replies leave in order, each when what it says is true.

    held  | STORED, log jobs, stored 17 | VALUE ..., log mail, stored 4, written 9 | ...
            the first is not true yet: nothing behind it leaves either

One rule: a reply is never sent ahead of its record. If the log fails first, the reply becomes the
error.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kestrelpy.protocol.conversation import Conversation


class Awaited(Protocol):
    """What a reply can wait for: a queue's log, or a `Gate`."""

    lsn_written: int
    lsn_stored: int
    failure: Exception | None
    waiting_stored: set[object]
    waiting_written: set[object]


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
        """It is done: whoever waits for it may be answered."""
        self.lsn_written = self.lsn_stored = 1


class Replies:
    """One connection's answers: `out` are true, `held` wait."""

    __slots__ = ("_conversation", "held", "held_bytes", "out")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.out: list[bytes] = []
        self.held: deque[tuple[bytes, Awaited, int, int]] = deque()
        self.held_bytes = 0

    def say(self, data: bytes) -> None:
        """This is true already; it leaves behind what is held before it."""
        if self.held:
            log = self.held[-1][1]
            self.held.append((data, log, 0, 0))
        else:
            self.out.append(data)

    def hold(self, data: bytes, log: Awaited, stored: int, written: int = 0) -> None:
        """This becomes true when `log` has stored and written up to these records."""
        if (
            not self.held
            and log.lsn_stored >= stored
            and log.lsn_written >= written
            and log.failure is None
        ):
            self.out.append(data)
            return
        self.held.append((data, log, stored, written))
        self.held_bytes += len(data)
        self._wait_for(log, stored, written)

    def release(self) -> None:
        """Move to `out` what has become true, and what has failed as its error."""
        held, out = self.held, self.out
        while held:
            data, log, stored, written = held[0]
            if log.lsn_stored < stored or log.lsn_written < written:
                if log.failure is None:
                    self._wait_for(log, stored, written)
                    return
                data = _failed(log.failure)
            out.append(data)
            held.popleft()
        self.held_bytes = 0

    def _wait_for(self, log: Awaited, stored: int, written: int) -> None:
        if stored > log.lsn_stored:
            log.waiting_stored.add(self._conversation)
        else:
            log.waiting_written.add(self._conversation)

    def take(self) -> bytes:
        """What may be sent now."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data


def _failed(failure: Exception) -> bytes:
    text = str(failure).encode("ascii", "backslashreplace")
    return b"SERVER_ERROR " + text[:400] + b"\r\n"
