"""A blocking connection to a daemon, for one thread at a time.

One rule: after an error it is closed and never used again, so that no request ever gets the answer
to another one.
"""

from __future__ import annotations

import ssl
from collections import deque
from typing import ClassVar, Final

from kestrelpy.wire import dial
from kestrelpy.wire.answers import Answer, AnswerReader
from kestrelpy.wire.dial import Access, Address


class WireConnection:
    """A connection; raises OSError when it breaks, and TimeoutError when no answer comes."""

    read_bytes: ClassVar[int] = 1 << 16  # of one read
    hung_up: ClassVar[str] = "the server closed the connection"

    def __init__(
        self, address: Address, access: Access, connect_seconds: float, answer_seconds: float
    ) -> None:
        """Connect and log in. Raises OSError, LoginRefused."""
        self._where: Final = address
        self._access: Final = access
        self._answer_seconds: Final = answer_seconds
        self._is_new = True  # no line has come
        self._reader: Final = AnswerReader()
        self._answers: deque[Answer] = deque()  # that came, and were not taken
        self._socket = dial.connect(address, access, connect_seconds, answer_seconds)

    def send(self, data: bytes) -> None:
        """Send requests, each with its body if it has one."""
        self._socket.sendall(data)

    def answer(self) -> Answer:
        """Wait for the next answer, and return it. Raises OSError, BadAnswer."""
        while not self._answers:
            self._answers.extend(self.receive())
        return self._answers.popleft()

    def receive(self) -> list[Answer]:
        """Wait for bytes; return the answers that are complete now. Raises OSError, BadAnswer."""
        try:
            data = self._socket.recv(self.read_bytes)
            if not data:
                raise ConnectionError(self.hung_up)
        except ssl.SSLWantReadError:  # a message of TLS itself
            raise BlockingIOError from None
        except (ConnectionError, ssl.SSLError) as error:
            if not self._is_new:
                raise
            raise dial.explained(error, self._where, self._access) from None
        self._is_new = self._is_new and b"\r\n" not in data
        return self._reader.feed(data)

    def close(self) -> None:
        """Close it."""
        self._socket.close()
