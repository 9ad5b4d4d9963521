"""A raw connection for wire tests: bytes out, bytes in, nothing in between."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 30.0


class Ended(AssertionError):
    """The server hung up where an answer was expected."""


class Raw:
    """One socket. Each read ends at an exact byte, so no byte is ever skipped."""

    def __init__(self, address: tuple[str, int] | str, *, receive_buffer: int = 0) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_SECONDS)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.connect(address)
        self._in = self.sock.makefile("rb")

    def send(self, data: bytes) -> None:
        """Send all of the data."""
        self.sock.sendall(data)

    def line(self) -> bytes:
        """Return one line without its end."""
        line = self._in.readline()
        if not line.endswith(b"\r\n"):
            raise Ended(f"the connection ended: {line!r}")
        return line[:-2]

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes."""
        return self._in.read(size)

    def values(self, key: bytes) -> list[tuple[int, bytes]]:
        """Send `gets` of this key; return the number and the body of each VALUE."""
        self.send(b"gets " + key + b"\r\n")
        return self.read_values(key)

    def read_values(self, key: bytes) -> list[tuple[int, bytes]]:
        """Return the number and the body of each VALUE of the next answer to `gets` of this key."""
        found = []
        while (line := self.line()) != b"END":
            word, echo, _, size, number, *_ = line.split(b" ")
            assert (word, echo) == (b"VALUE", key), line
            body = self._in.read(int(size))
            self.expect(b"\r\n")
            found.append((int(number), body))
        return found

    def expect(self, data: bytes) -> None:
        """Exactly this comes next."""
        found = self._in.read(len(data))
        if data.startswith(found) and found != data:
            raise Ended(f"expected {data[:500]!r}, and the connection ended: {found[:500]!r}")
        assert found == data, f"expected {data[:500]!r}, was {(found or b'')[:500]!r}"

    def ask(self, data: bytes, answer: bytes) -> None:
        """Send and expect."""
        self.send(data)
        self.expect(answer)

    def stats(self, request: bytes = b"stats") -> dict[str, str]:
        """The answer to `stats`."""
        self.send(request + b"\r\n")
        found = {}
        while (line := self.line()) != b"END":
            _, key, value = line.decode("ascii").split(" ", 2)
            found[key] = value
        return found

    def rest(self) -> bytes:
        """Return all bytes until the server hangs up."""
        try:
            return self._in.read()
        except ConnectionResetError:
            return b"(reset)"

    def end(self) -> None:
        """Say no more, but listen."""
        self.sock.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        """Gone."""
        self._in.close()
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.hang_up()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not in {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.005)


def resident_bytes(pid: int) -> int:
    """Return how much memory a process uses."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"no process {pid}")
