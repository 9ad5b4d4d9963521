"""A stand-in for a server, to break at the byte where a test wants it; the daemon itself is not.

It knows `stats`, `stats markers` and `gets <q>/peek/after=<m>/n=<c>/full`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from kestrelpy.spark.offsets import Address


@dataclass
class Line:
    """One queue: its items by marker, as the VALUE line and the body."""

    generation: int = 1
    latest: int = 0
    items: dict[int, tuple[str, bytes]] = field(default_factory=dict)

    def put(self, body: bytes, rest: str = "1700000000000 - 0 ready - -", flags: int = 0) -> int:
        self.latest += 1
        fields = f"{flags} {len(body)} {self.latest} {rest}"
        self.items[self.latest] = (fields, body)
        return self.latest


class StandIn:
    """Answers until it is closed; `cut` says after how many bytes of an answer it hangs up."""

    def __init__(self, queues: dict[str, Line], server_id: str = "5e12") -> None:
        self.queues = queues
        self.server_id = server_id
        self.retains = 0
        self.requests: list[str] = []
        self.cut: Callable[[str], int | None] = lambda request: None
        self.refusals: dict[str, bytes] = {}  # by the first words of a request
        self.answer_bytes_max = 4 << 20
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        for each in self._connections:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    if not line.endswith(b"\n"):
                        return  # the other side went in the middle of a request
                    request = line.decode("utf-8", "replace").strip()
                    self.requests.append(request)
                    answer = self._answer(request)
                    end = self.cut(request)
                    connection.sendall(answer if end is None else answer[:end])
                    if end is not None:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
            except OSError:
                return  # the other side went first

    def _answer(self, request: str) -> bytes:
        for start, refusal in self.refusals.items():
            if request.startswith(start):
                return refusal + b"\r\n"
        if request == "stats":
            return f"STAT uptime 5\r\nSTAT server_id {self.server_id}\r\nEND\r\n".encode()
        if request == "stats markers":
            return self._markers()
        verb, _, key = request.partition(" ")
        parts = key.split("/")
        if not (verb == "gets" and len(parts) == 5 and parts[1::3] == ["peek", "full"]):
            return b"ERROR\r\n"  # somebody else: another test's client found this port
        name, _, after, count, _ = parts
        if name not in self.queues:
            return b"END\r\n"
        return self._items(key, self.queues[name], int(after[6:]), int(count[2:]))

    def _items(self, key: str, line: Line, after: int, count: int) -> bytes:
        answer = bytearray()
        for marker in sorted(marker for marker in line.items if marker > after)[:count]:
            fields, body = line.items[marker]
            if answer and len(answer) + len(body) > self.answer_bytes_max:
                break
            answer += f"VALUE {key} {fields}\r\n".encode() + body + b"\r\n"
        return bytes(answer) + b"END\r\n"

    def _markers(self) -> bytes:
        stats = []
        for name, line in self.queues.items():
            kept = sum(len(body) for _, body in line.items.values())
            stats += [
                f"{name}_marker_earliest {min(line.items, default=line.latest + 1)}",
                f"{name}_marker_latest {line.latest}",
                f"{name}_generation {line.generation}",
                f"{name}_kept_bytes {kept}",
                f"{name}_retains {self.retains}",
            ]
        return "".join(f"STAT queue_{each}\r\n" for each in stats).encode() + b"END\r\n"
