"""A blocking connection to the daemon, for one thread at a time.

One rule: after an error it is closed and never used again, so that no request ever gets the answer
to another one.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import NamedTuple

from kestrelpy.wire import dial
from kestrelpy.wire.answers import Answer, BadAnswer
from kestrelpy.wire.connection import WireConnection
from kestrelpy.wire.dial import NOBODY, Access
from kestrelpy.wire.refusals import LoginRefused, is_logged_out


class Server(NamedTuple):
    """The address of the daemon, and the login of this client."""

    address: tuple[str, int]
    access: Access = NOBODY


class KombuConnection(WireConnection):
    """A connection; raises OSError when it breaks, and TimeoutError when no answer comes."""

    def __init__(self, server: Server, connect_seconds: float, seconds: float) -> None:
        """Connect and log in. Raises OSError, or LoginRefused."""
        try:
            super().__init__(*server, connect_seconds, seconds)
        except LoginRefused as error:
            if error.may_pass:
                raise ConnectionError(str(error)) from None
            raise
        except ssl.SSLError as error:
            raise ConnectionError(dial.why(error)) from None

    def fileno(self) -> int:
        """Return the file descriptor, for `select`."""
        return self._socket.fileno()

    def receive(self) -> list[Answer]:
        """Wait for bytes; return the answers that are complete now."""
        try:
            answers = super().receive()
        except BadAnswer as error:
            raise ConnectionError(str(error)) from None
        except (ConnectionError, ssl.SSLError) as error:
            raise ConnectionError(dial.why(error)) from None
        if self._access.user is not None and any(is_logged_out(each.line) for each in answers):
            raise ConnectionError("a reload has changed the user: this logs in again")
        return answers

    def receive_now(self) -> list[Answer]:
        """Return the answers that are complete now, without a wait.

        What `select` has seen may be a message of TLS itself.
        """
        self._socket.settimeout(0)
        try:
            return self.receive()
        except BlockingIOError:
            return []
        finally:
            self._socket.settimeout(self._answer_seconds)

    def ask(self, *lines: bytes) -> list[Answer]:
        """Send requests in one go, and return their answers."""
        self.send(b"".join(line + b"\r\n" for line in lines))
        return [self.answer() for _ in lines]

    def end_wait(self, seconds: float) -> list[Answer]:
        """Close the sending direction, which ends a wait, and return the answers still to come."""
        answers: list[Answer] = []
        with contextlib.suppress(OSError):
            dial.end_sending(self._socket)
            self._socket.settimeout(seconds)
            while True:
                answers += self.receive()
        return answers
