"""Replies leave in order, each as soon as it is true.

    held  | STORED, log jobs, stored 17 | VALUE ..., log mail, stored 4, written 9 | ...
            the first is not true yet: no reply after it leaves either

One rule: a reply never leaves before the records it rests on. If the log fails first, the reply
becomes the error; an empty reply, which only delays the next ones, stays empty.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kestrelpy.core import WireCounters
from kestrelpy.errors import ServerError
from kestrelpy.operations import Awaited, Gate, Rests
from kestrelpy.protocol.parse import SILENT, Form

# Replies in flight per connection: enough for any pipeline, small enough for ten thousand
# connections.
HELD_REPLIES_MAX: Final = 1024
# Item bytes that one connection may have in replies not yet sent and in sets not yet stored.
HELD_BYTES_MAX: Final = 4 << 20


class JointReply:
    """The replies to several keys as one reply: true when all of them are, or the first error.

    It is filled like `Replies`. Then `Replies` holds its data, and waits for this object.
    """

    end: Final = b""  # nothing closes the part of one key

    __slots__ = ("_awaited", "_data", "value_bytes")

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._awaited: list[tuple[Awaited | JointReply, int, int]] = []
        self.value_bytes = 0

    def say(self, data: bytes) -> None:
        """Add a part that is true already."""
        self._data.append(data)

    def hold(
        self, data: bytes, log: Awaited | JointReply, stored: int, written: int = 0
    ) -> None:
        """Add a part that becomes true."""
        self._data.append(data)
        self._awaited.append((log, stored, written))

    @property
    def data(self) -> bytes:
        """All parts."""
        return b"".join(self._data)

    @property
    def _first(self) -> tuple[Awaited | JointReply, int, int] | None:
        """The first part that is not true yet."""
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
    """One connection's replies: those in `out` are true, those in `held` wait.

    Equal replies to a run of requests are held as one, with their count: `merged` counts those
    after the first of each. `has_failed` is True if one waits for a log that failed before: that
    log sends no notification. `usual` is the form of its replies, None for memcache's own words.
    """

    end: Final = b"END\r\n"  # closes the reply to a get

    __slots__ = (
        "_conversation", "_rests", "counters", "form", "has_failed", "held", "joint", "merged",
        "out", "usual", "value_bytes",
    )  # fmt: skip

    def __init__(
        self, conversation: object, usual: Form | None = None,
        counters: WireCounters | None = None,
    ) -> None:  # fmt: skip
        self._conversation = conversation
        self.counters = counters or WireCounters()
        self._rests: JointReply | None = None
        self.usual = usual
        self.form = usual  # of the replies to the present request
        self.joint: JointReply | None = None  # takes the replies of requests that get one together
        self.out: list[bytes] = []
        self.held: deque[tuple[bytes, Awaited | JointReply, int, int, int]] = deque()
        self.merged = 0
        self.has_failed = False
        self.value_bytes = 0  # of the items among them; the caller that adds an item counts it

    def say(self, data: bytes) -> None:
        """Add a reply that is true already; it leaves after the replies held before it."""
        if self._rests is not None:
            self.hold(data, _THE_SAME, 0)
            return
        if self.form is not None:
            data = self.form.reply(data)
        if self.joint is not None:
            self.joint.say(data)
        elif self.held:
            log = self.held[-1][1]
            self.held.append((data, log, 0, 0, 1))
        else:
            self.out.append(data)

    def hold(
        self, data: bytes, log: Awaited | JointReply, stored: int, written: int = 0
    ) -> None:
        """Add a reply that is true when `log` has stored and written these lsns."""
        if self.form is not None:
            data = self.form.reply(data)
        held = self.held
        if self._rests is not None:
            both, self._rests = self._rests, None
            both.hold(data, log, stored, written)
            log, stored, written = both, 1, 0
        if self.joint is not None:
            self.joint.hold(data, log, stored, written)
            return
        if log.lsn_stored < stored or log.lsn_written < written:
            held.append((data, log, stored, written, 1))
            self._wait_for(log, stored, written)
        elif held:
            held.append((data, log, stored, written, 1))  # it waits only for the replies before it
        else:
            self.out.append(data)

    def say_done(
        self, noreply: bool, done: bytes, rests: Rests | None, nothing: bytes = b"NOT_FOUND\r\n"
    ) -> None:
        """Reply `done` when that is on disk; `nothing` if there was nothing to do it to."""
        if noreply:
            return
        if rests is None:
            self.say(nothing)
        else:
            self.hold(done, *rests)

    def count_error(self, is_clients: bool) -> None:
        """Count a refusal: the client's mistake, or a shortage of the server."""
        if is_clients:
            self.counters.client_errors += 1
        else:
            self.counters.server_errors += 1

    @property
    def in_flight(self) -> int:
        """The number of replies that are made and not sent."""
        return len(self.held) + self.merged + len(self.out)

    def hold_run(self, data: bytes, log: Awaited, last: int, count: int) -> None:
        """Add `count` equal replies: each is true when `log` has stored a record of its own, and
        `last` is the lsn of the last of these."""
        is_bare = self.form is None and self.joint is None and self._rests is None
        if is_bare and log.lsn_stored < last:
            self.held.append((data, log, last, 0, count))
            self.merged += count - 1
            self._wait_for(log, last, 0)
        else:
            for stored in range(last - count + 1, last + 1):
                self.hold(data, log, stored)

    def rest_on(self, log: Awaited, stored: int) -> None:
        """Let the next reply wait for this record as well."""
        if log.lsn_stored < stored:
            self._rests = self._rests or JointReply()
            self._rests.hold(b"", log, stored)

    def rest_on_nothing(self) -> None:
        """Forget `rest_on`: its request has no reply."""
        self._rests = None

    def release(self) -> None:
        """Move the replies that have become true to `out`, and those that have failed as errors."""
        held, out = self.held, self.out
        self.has_failed = False
        while held:
            data, log, stored, written, count = held[0]
            if log.lsn_stored < stored or log.lsn_written < written:
                if log.failure is None:
                    self._wait_for(log, stored, written)
                    return
                if count > 1:  # the first of them may be true
                    true = max(log.lsn_stored - (stored - count), 0)
                    out += [data] * true
                    self.merged -= true
                    count -= true
                data = self._failed(log.failure, count) if data or data is SILENT else b""
            if count > 1:
                out += [data] * count
                self.merged -= count - 1
            else:
                out.append(data)
            held.popleft()

    def _failed(self, failure: Exception, count: int) -> bytes:
        self.counters.server_errors += count
        data = ServerError(" ".join(str(failure).split())).line() + b"\r\n"
        return data if self.usual is None else self.usual.reply(data)

    def _wait_for(self, log: Awaited | JointReply, stored: int, written: int) -> None:
        if log.failure is not None:
            self.has_failed = True
        if stored > log.lsn_stored:
            log.waiting_stored.add(self._conversation)
        else:
            log.waiting_written.add(self._conversation)

    def clear(self) -> None:
        """Drop everything: the client is gone."""
        self.out.clear()
        self.held.clear()
        self._rests = self.joint = None
        self.value_bytes = self.merged = 0

    def take(self) -> bytes:
        """Return the bytes that may be sent now."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if not self.held:
            self.value_bytes = 0
        return data


_THE_SAME: Final = Gate()  # waits for nothing


def _is_true(log: Awaited | JointReply, stored: int, written: int) -> bool:
    return log.lsn_stored >= stored and log.lsn_written >= written
