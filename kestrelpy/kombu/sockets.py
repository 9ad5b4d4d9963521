"""A blocking connection to the daemon, for one thread at a time.

One rule: after an error it is closed and never used again, so that no request ever gets the answer
to another one.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple

from kestrelpy.wire import dial
from kestrelpy.wire.answers import Answer, AnswerReader, BadAnswer
from kestrelpy.wire.dial import NOBODY, Access
from kestrelpy.wire.refusals import LoginRefused, is_logged_out

_READ_BYTES: Final = 1 << 16


class Server(NamedTuple):
    """Where the daemon is, and who this is."""

    address: tuple[str, int]
    access: Access = NOBODY


class KombuConnection:
    """A connection; raises OSError when it breaks, and TimeoutError when no answer comes."""

    def __init__(self, server: Server, connect_seconds: float, seconds: float) -> None:
        """Connect and log in. Raises OSError, or LoginRefused."""
        self._server, self._seconds, self._is_new = server, seconds, True
        try:
            self._socket = dial.connect(*server, connect_seconds, seconds)
        except LoginRefused as error:
            if error.may_pass:
                raise ConnectionError(str(error)) from None
            raise
        except ssl.SSLError as error:
            raise ConnectionError(dial.why(error)) from None
        self._reader = AnswerReader()

    def fileno(self) -> int:
        """Return the file descriptor, for `select`."""
        return self._socket.fileno()

    def send(self, lines: Sequence[bytes]) -> None:
        """Send requests, each with its body if it has one."""
        self._socket.sendall(b"".join(line + b"\r\n" for line in lines))

    def receive(self) -> list[Answer]:
        """Wait for bytes; return the answers that are complete now."""
        try:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionError("the server closed the connection")
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except (ConnectionError, ssl.SSLError) as error:
            found = dial.explained(error, *self._server) if self._is_new else error
            raise ConnectionError(dial.why(found)) from None
        return self._answers_in(data)

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
            self._socket.settimeout(self._seconds)

    def _answers_in(self, data: bytes) -> list[Answer]:
        try:
            answers = self._reader.feed(data)
        except BadAnswer as error:
            raise ConnectionError(str(error)) from None
        self._is_new = self._is_new and not answers
        if self._server.access.user is not None and any(
            is_logged_out(each.line) for each in answers
        ):
            raise ConnectionError("a reload has changed the user: this logs in again")
        return answers

    def ask(self, *lines: bytes) -> list[Answer]:
        """Send requests in one go, and return their answers."""
        self.send(lines)
        answers: list[Answer] = []
        while len(answers) < len(lines):
            answers += self.receive()
        return answers

    def end_wait(self, seconds: float) -> list[Answer]:
        """Close the sending direction, which ends a wait, and return the answers still to come."""
        answers: list[Answer] = []
        with contextlib.suppress(OSError):
            dial.end_sending(self._socket)
            self._socket.settimeout(seconds)
            while True:
                answers += self.receive()
        return answers

    def close(self) -> None:
        """Close it."""
        self._socket.close()
