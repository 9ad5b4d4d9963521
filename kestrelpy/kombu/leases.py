"""The thread that renews the leases of messages that are not acknowledged yet, and ends them.

    hold ──half of the lease──▶ renewed ─ ─ ─▶ end: close, defer, abort, abort/dead
                                   └─ NOT_FOUND ──▶ lost: the message may be handled again

One rule: an end is sent until it is answered or the lease is over, over breaks and restarts of the
daemon; no worker waits for it, as with an acknowledgement of AMQP.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kestrelpy.client import Backoff, ServerRefusal
from kestrelpy.kombu.outage import Outage
from kestrelpy.kombu.sockets import KombuConnection, Server

log = logging.getLogger("kestrelpy.kombu")

_BATCH: Final = 500  # requests in one go
_CONNECT_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 0.5
_IDLE_SECONDS: Final = 60.0


@dataclass(slots=True, eq=False)
class Held:
    """One lease; `words` are those of its end, empty until an end is asked for."""

    name: str
    token: int
    ends_at: float
    renew_at: float
    words: str = ""


class LeaseKeeper:
    """Renews and ends the leases of one transport; any thread may call it.

    It calls `on_answer` when there are fewer ends without an answer than before.
    """

    def __init__(
        self, server: Server, lease_seconds: int,
        on_answer: Callable[[], None] = lambda: None, outage: Outage | None = None,
    ) -> None:  # fmt: skip
        self._server = server
        self._on_answer = on_answer
        self._outage = outage or Outage("the daemon")
        self._lease_seconds: Final = lease_seconds
        self._patience: Final = max(min(lease_seconds / 4, 10.0), 0.5)
        self._held: dict[tuple[str, int], Held] = {}
        self._ending: dict[tuple[str, int], Held] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._wakes_at = 0.0
        self._wire: KombuConnection | None = None
        self._pid = os.getpid()

    @property
    def unanswered(self) -> int:
        """How many ends were asked for that the daemon has not answered yet."""
        return len(self._ending)

    def hold(self, name: str, token: int) -> None:
        """Renew a lease that was granted just now, until `end`."""
        now = time.monotonic()
        ends_at, renew_at = now + self._lease_seconds, now + self._lease_seconds / 2
        with self._changed:
            self._held[name, token] = Held(name, token, ends_at, renew_at)
            self._closing = False  # a connection that was closed is used again
            self._start()
            if renew_at < self._wakes_at:
                self._changed.notify()

    def end(self, name: str, token: int, words: str) -> None:
        """End a lease; return at once. Its first end counts."""
        if os.getpid() != self._pid:
            return  # a copy of this process has no leases
        with self._changed:
            held = self._held.pop((name, token), None)
            if held is not None:
                held.words = words
                self._ending[name, token] = held
                self._start()
                self._changed.notify()

    def close(self, seconds: float) -> None:
        """Send the ends that were asked for, for this long at most, and end the thread."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closing = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="kestrelpy leases", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        pause = Backoff(0.1, 2.0)
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            is_fresh = self._wire is None  # an old connection may have broken long ago
            try:
                self._send(batch)
                self._outage.works()
                pause.reset()
            except (OSError, ServerRefusal) as error:
                self._drop_wire()
                if is_fresh:
                    self._outage.broke(error)
                self._forget_ended()
                time.sleep(pause.next_seconds())

    def _next_batch(self) -> list[Held] | None:
        """Wait for ends or due renewals; None: closed, and nothing is left to end."""
        with self._changed:
            while True:
                now = time.monotonic()
                batch = list(self._ending.values())[:_BATCH]
                due = [each for each in self._held.values() if each.renew_at <= now]
                batch += due[: max(_BATCH - len(batch), 0)]
                if batch:
                    return batch
                if self._closing:
                    self._drop_wire()  # before another thread may begin
                    self._thread = None
                    return None
                renewals = (each.renew_at for each in self._held.values())
                next_at = min(renewals, default=now + _IDLE_SECONDS)
                self._wakes_at = next_at
                self._changed.wait(max(next_at - now, 0.01))

    def _send(self, batch: list[Held]) -> None:
        if self._wire is None:
            self._wire = KombuConnection(self._server, _CONNECT_SECONDS, self._patience)
        requests = [(each, each.words, self._line(each)) for each in batch]
        now = time.monotonic()
        answers = self._wire.ask(*(line for _, _, line in requests))
        with self._changed:
            for (each, words, _), answer in zip(requests, answers, strict=True):
                refused: ServerRefusal | None = None
                try:
                    answer.check()
                except ServerRefusal as error:
                    refused = error
                if words:
                    self._ended(each, refused)
                elif refused is None and answer.line == b"TOUCHED":
                    each.ends_at = now + self._lease_seconds
                    each.renew_at = now + self._lease_seconds / 2
                elif refused is not None and refused.may_pass:
                    each.renew_at = now + self._lease_seconds / 8
                else:
                    self._lose(each, "its lease ended, and it went back")
        self._on_answer()
        if any(each.words and (each.name, each.token) in self._ending for each in batch):
            time.sleep(_REFUSED_SECONDS)  # refused for now

    def _line(self, held: Held) -> bytes:
        if held.words:
            return f"get {held.name}/{held.words}/token={held.token}".encode("ascii")
        return f"touch {held.name}/token={held.token} {self._lease_seconds}".encode("ascii")

    def _ended(self, held: Held, refused: ServerRefusal | None) -> None:
        may_pass = refused is not None and refused.may_pass and not refused.is_lease_over
        if may_pass and time.monotonic() < held.ends_at:
            return  # it is sent again
        self._ending.pop((held.name, held.token), None)
        if refused is not None:
            self._warn(held, str(refused))

    def _forget_ended(self) -> None:
        """After a break: forget the leases that are over meanwhile."""
        now = time.monotonic()
        with self._changed:
            for each in [*self._held.values(), *self._ending.values()]:
                if each.ends_at <= now:
                    self._lose(each, "its lease ended while the server was away")
        self._on_answer()

    def _lose(self, held: Held, why: str) -> None:
        self._held.pop((held.name, held.token), None)
        self._ending.pop((held.name, held.token), None)
        self._warn(held, why)

    def _warn(self, held: Held, why: str) -> None:
        log.warning("%s: a message may be handled again: %s", held.name, why)

    def _drop_wire(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.close()
