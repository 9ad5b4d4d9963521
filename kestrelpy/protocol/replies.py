"""Replies leave in order, each when what it says is true.

    held  | STORED, log jobs, stored 17 | VALUE ..., log mail, stored 4, written 9 | ...
            the first is not true yet: nothing behind it leaves either

One rule: a reply is never sent ahead of its record, nor of one that it rests on beside that. If the
log fails first, the reply becomes the error; an empty one (it only holds back what follows) stays
empty.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from kestrelpy.errors import ServerError

# Bytes of items that one connection may have in answers not yet sent, and in sets not yet stored.
HELD_BYTES_MAX: Final = 4 << 20


class Awaited(Protocol):
    """What a reply can wait for: a queue's log, or a `Gate`."""

    @property
    def lsn_written(self) -> int:
        """Up to where replies that wait for a write are true."""

    @property
    def lsn_stored(self) -> int:
        """Up to where replies that wait for a sync are true."""

    @property
    def failure(self) -> Exception | None:
        """Why no more will become true."""

    @property
    def waiting_stored(self) -> set[object]:
        """The conversations to look at when more is stored."""

    @property
    def waiting_written(self) -> set[object]:
        """The conversations to look at when more is written."""


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


class JointReply:
    """The answers to several keys as one reply: true when all of them are, or the first error.

    It is filled like `Replies`, and then held by them as what its own data waits for.
    """

    __slots__ = ("_awaited", "_data", "value_bytes")

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._awaited: list[tuple[Awaited, int, int]] = []
        self.value_bytes = 0

    def say(self, data: bytes) -> None:
        """A part that is true already."""
        self._data.append(data)

    def hold(self, data: bytes, log: Awaited, stored: int, written: int = 0) -> None:
        """A part that becomes true."""
        self._data.append(data)
        self._awaited.append((log, stored, written))

    @property
    def data(self) -> bytes:
        """All parts."""
        return b"".join(self._data)

    @property
    def _first(self) -> tuple[Awaited, int, int] | None:
        """The first that is not true yet."""
        awaited = self._awaited
        while awaited and _is_true(*awaited[0]):
            awaited[0] = awaited[-1]
            awaited.pop()
        return awaited[0] if awaited else None

    @property
    def lsn_stored(self) -> int:
        return 1 if self._first is None else 0

    @property
    def lsn_written(self) -> int:
        return self.lsn_stored

    @property
    def failure(self) -> Exception | None:
        first = self._first
        return None if first is None else first[0].failure

    @property
    def waiting_stored(self) -> set[object]:
        first = self._first
        if first is None:
            return set()
        log, stored, _ = first
        return log.waiting_stored if log.lsn_stored < stored else log.waiting_written

    @property
    def waiting_written(self) -> set[object]:
        return self.waiting_stored


class Replies:
    """One connection's answers: `out` are true, `held` wait."""

    __slots__ = ("_conversation", "_rests", "held", "out", "value_bytes")

    def __init__(self, conversation: object) -> None:
        self._conversation = conversation
        self._rests: JointReply | None = None
        self.out: list[bytes] = []
        self.held: deque[tuple[bytes, Awaited, int, int]] = deque()
        self.value_bytes = 0  # of the items among them; whoever adds one counts it

    def say(self, data: bytes) -> None:
        """This is true already; it leaves behind what is held before it."""
        if self._rests is not None:
            self.hold(data, _THE_SAME, 0)
        elif self.held:
            log = self.held[-1][1]
            self.held.append((data, log, 0, 0))
        else:
            self.out.append(data)

    def hold(self, data: bytes, log: Awaited, stored: int, written: int = 0) -> None:
        """This becomes true when `log` has stored and written up to these records."""
        held = self.held
        if self._rests is not None:
            both, self._rests = self._rests, None
            both.hold(data, log, stored, written)
            log, stored, written = both, 1, 0
        if log.lsn_stored < stored or log.lsn_written < written:
            held.append((data, log, stored, written))
            self._wait_for(log, stored, written)
        elif held:
            held.append((data, log, stored, written))  # it waits for those before it alone
        else:
            self.out.append(data)

    def rest_on(self, log: Awaited, stored: int) -> None:
        """The next answer is true only if this record is stored, too."""
        if log.lsn_stored < stored:
            self._rests = self._rests or JointReply()
            self._rests.hold(b"", log, stored)

    def rest_on_nothing(self) -> None:
        """There was no answer to what rested on something."""
        self._rests = None

    def release(self) -> None:
        """Move to `out` what has become true, and what has failed as its error."""
        held, out = self.held, self.out
        while held:
            data, log, stored, written = held[0]
            if log.lsn_stored < stored or log.lsn_written < written:
                if log.failure is None:
                    self._wait_for(log, stored, written)
                    return
                data = _failed(log.failure) if data else b""
            out.append(data)
            held.popleft()

    def _wait_for(self, log: Awaited, stored: int, written: int) -> None:
        if stored > log.lsn_stored:
            log.waiting_stored.add(self._conversation)
        else:
            log.waiting_written.add(self._conversation)

    def clear(self) -> None:
        """Keep nothing: the client is gone."""
        self.out.clear()
        self.held.clear()
        self._rests = None
        self.value_bytes = 0

    def take(self) -> bytes:
        """What may be sent now."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if not self.held:
            self.value_bytes = 0
        return data


_THE_SAME: Final = Gate()  # nothing is waited for there


def say(
    to: Replies | JointReply, data: bytes, awaited: Awaited | None, stored: int, written: int
) -> None:
    """Now, or behind these records of a log."""
    if awaited is None:
        to.say(data)
    else:
        to.hold(data, awaited, stored, written)


def _is_true(log: Awaited, stored: int, written: int) -> bool:
    return log.lsn_stored >= stored and log.lsn_written >= written


def _failed(failure: Exception) -> bytes:
    return ServerError(" ".join(str(failure).split())).line() + b"\r\n"
