"""A wait for the next message of one queue, on a connection of its own.

    idle ── ask ──▶ asked ── an item, or nothing within the wait ──▶ idle
                      ├──── the connection breaks ─────────────────▶ idle, asks again after a pause
                      └──── no answer at all, long after the wait ─▶ the same

One rule: an item that the daemon leased is delivered or given back, even if the wait is called off.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from kestrelpy.client import Backoff, ReceivedItem, ServerRefusal, parse_found
from kestrelpy.kombu.outage import Outage
from kestrelpy.kombu.sockets import KombuConnection, Server

WAIT_SECONDS: Final = 20
_CONNECT_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 30.0
_OVERDUE_SECONDS: Final = WAIT_SECONDS + _ANSWER_SECONDS
_END_SECONDS: Final = 1.0


class Fetcher:
    """Waits for items of one name; `no_ack` items are confirmed as they are handed out."""

    def __init__(
        self, server: Server, queue: str, name: str, lease_seconds: int, no_ack: bool,
        outage: Outage,
    ) -> None:  # fmt: skip
        self.queue: Final = queue  # as kombu calls it
        self.name: Final = name  # on the wire
        self.no_ack: Final = no_ack
        self._server = server
        self._outage = outage
        how = "" if no_ack else f"/open/lease={lease_seconds}s/full"
        verb = "get" if no_ack else "gets"
        self._line: Final = f"{verb} {name}{how}/t={WAIT_SECONDS}s\r\n".encode("ascii")
        self._wire: KombuConnection | None = None
        self.is_asked = False
        self.next_try = 0.0
        self._overdue_at = 0.0  # of a wait
        self._pause = Backoff(0.1, 2.0)

    def fileno(self) -> int:
        """Return the file descriptor of a wait, for `select`."""
        assert self._wire is not None
        return self._wire.fileno()

    def ask(self) -> None:
        """Begin to wait for an item; after a failure, not before the pause is over. If the machine
        of the daemon is gone, the connection does not break: no answer comes.

        Raises Refused if the login is wrong.
        """
        now = time.monotonic()
        if self.is_asked:
            if now >= self._overdue_at:
                self._broke(TimeoutError(f"no answer within {_OVERDUE_SECONDS:.0f} s"))
            return
        if now < self.next_try:
            return
        try:
            if self._wire is None:
                self._wire = KombuConnection(self._server, _CONNECT_SECONDS, _ANSWER_SECONDS)
            self._wire.send(self._line)
            self.is_asked = True
            self._overdue_at = now + _OVERDUE_SECONDS
        except OSError as error:
            self._broke(error)

    def read(self) -> ReceivedItem | None:
        """Read what has come; return an item, if that is one.

        Raises Refused if the daemon never takes this request.
        """
        assert self._wire is not None
        try:
            answers = self._wire.receive_now()
            if not answers:
                return None
            self.is_asked = False
            return self._item(answers[0].items, answers[0].line)
        except OSError as error:
            self._broke(error)
            return None

    def end(self) -> ReceivedItem | None:
        """Call off the wait; return an item that came nevertheless."""
        wire, self._wire = self._wire, None
        was_asked, self.is_asked = self.is_asked, False
        if wire is None:
            return None
        answers = wire.end_wait(_END_SECONDS) if was_asked else []
        wire.close()
        with contextlib.suppress(ServerRefusal, OSError):
            return self._item(answers[0].items, answers[0].line) if answers else None
        return None

    def _item(self, items: list[tuple[list[bytes], bytes]], line: bytes) -> ReceivedItem | None:
        if items:
            self._pause.reset()
            self._outage.works()
            words, body = items[0]
            return ReceivedItem(body, 0, 0) if self.no_ack else parse_found(body, words)
        if line != b"END":
            refused = ServerRefusal(line)
            if not refused.may_pass:
                raise refused
            self._broke(refused)
        else:
            self._pause.reset()
            self._outage.works()
        return None

    def _broke(self, error: Exception) -> None:
        self._outage.broke(error)
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
        self.is_asked = False
        self.next_try = time.monotonic() + self._pause.next_seconds()
