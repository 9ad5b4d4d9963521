"""A blocking connection to the daemon, for one thread at a time.

One rule: after an error it is closed and never used again, so that no request ever gets the answer
to another one.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final

from kestrelpy.client import Answer, AnswerReader

_READ_BYTES: Final = 1 << 16


class Wire:
    """A connection; raises OSError when it breaks, and TimeoutError when no answer comes."""

    def __init__(self, address: tuple[str, int], connect_seconds: float, seconds: float) -> None:
        self._socket = socket.create_connection(address, connect_seconds)
        self._socket.settimeout(seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = AnswerReader()
        self._answers: deque[Answer] = deque()

    def fileno(self) -> int:
        """Return the file descriptor, for `select`."""
        return self._socket.fileno()

    def send(self, lines: Sequence[bytes]) -> None:
        """Send requests, each with its body if it has one."""
        self._socket.sendall(b"".join(line + b"\r\n" for line in lines))

    def receive(self) -> list[Answer]:
        """Wait for bytes; return the answers that are complete now."""
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        try:
            return self._reader.feed(data)
        except (ValueError, IndexError):
            raise ConnectionError("the server sent bytes that are no answer") from None

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
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(seconds)
            while True:
                answers += self.receive()
        return answers

    def close(self) -> None:
        """Close it."""
        self._socket.close()
