"""The other wire: a connection that sends the same requests over HTTP.

    set jobs/id=a ...          ──▶ POST   /queues/jobs/items?id=a         201 ──▶ STORED
    gets jobs/open/lease=1s    ──▶ POST   /queues/jobs/leases?lease=1s    200 ──▶ VALUE ... END
    touch jobs/token=7 2       ──▶ PATCH  /queues/jobs/leases/7?lease=2s  204 ──▶ TOUCHED
    get jobs/close/token=7     ──▶ DELETE /queues/jobs/leases/7           204 ──▶ END

One rule: the checker reads requests and answers in memcache's words, and so holds both wires to the
same promises.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tests.simulation.loop import SimLoop
from tests.simulation.requests import Request
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

_HEAD_END: Final = b"\r\n\r\n"
_LAST_WORDS: Final = (
    b"POST /queues/jo", b"POST /queues/jobs/items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9",
    b"\r", b"DELETE /queues/jobs/leases/1 HTTP/1.1\r\nHost",
)  # fmt: skip


class HttpWire(Wire):
    """Both ends of one HTTP connection, in one life of the server."""

    def __init__(self, loop: SimLoop, random: Random, checker: Checker, number: int) -> None:
        super().__init__(loop, random, checker, number)
        self._heard = b""
        self._behind: deque[Request] = deque()  # each is executed when the one before is answered

    def note_arrival(self, request: Request) -> None:
        if self.talk.asked:
            self._behind.append(request)
        else:
            super().note_arrival(request)

    def send(self, requests: list[Request], rest: bytes = b"") -> None:
        super().send(requests, self._random.choice(_LAST_WORDS) if rest else b"")

    def encode(self, request: Request) -> bytes:
        method, path, body = _translated(request)
        return b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
            method.encode(), path.encode(), len(body), body
        )  # fmt: skip

    def write(self, data: bytes) -> None:
        if self.is_closing() or self._loop.is_over or self._loop.is_mute:
            return
        self._heard += bytes(data)
        while (end := self._heard.find(_HEAD_END)) >= 0:
            head = self._heard[:end].lower().split(b"\r\n")
            sizes = [line[15:] for line in head if line.startswith(b"content-length:")]
            size = int(sizes[0]) if sizes else 0
            whole = end + len(_HEAD_END) + size
            if len(self._heard) < whole:
                return
            body, self._heard = self._heard[end + len(_HEAD_END) : whole], self._heard[whole:]
            if self.talk.asked:  # else it answers words without an end
                super().write(_in_words(self.talk.asked[0], int(head[0].split(b" ")[1]), body))
            if self._behind:
                super().note_arrival(self._behind.popleft())

    def note_close(self) -> None:
        if self.talk.asked:  # one that has nothing to say, or does not end its words, may be closed
            super().note_close()

    def can_write_eof(self) -> bool:
        return False


def _translated(request: Request) -> tuple[str, str, bytes]:
    """Return the method, the path and the body of the same request over HTTP."""
    where = f"/queues/{quote(request.queue)}"
    named = dict(part.split("=", 1) for part in request.options.split("/") if "=" in part)
    if request.item is not None:
        asks = {k: v for k, v in named.items() if k in ("id", "key", "delay")}
        asks["flags"] = str(request.item.number)
        if request.expiry:
            asks["expires"] = f"{request.expiry}s"
        query = "&".join(f"{name}={value}" for name, value in asks.items())
        return "POST", f"{where}/items?{query}", request.item.body
    if request.opens:
        wait = named.get("t", "0")
        wait += "ms" if wait.isdigit() else ""
        return "POST", f"{where}/leases?lease={named['lease']}&wait={wait}", b""
    where += f"/leases/{request.token}"
    if request.verb == "touch":
        return "PATCH", f"{where}?lease={request.seconds}s", b""
    if request.ending == "defer":
        return "PATCH", f"{where}?delay={named.get('delay', '0ms')}", b""
    return "DELETE", where + ("?abort" if request.ending == "abort" else ""), b""


def _in_words(request: Request, status: int, body: bytes) -> bytes:
    """Return the same answer in the words of memcache's wire."""
    said: dict[str, Any] = json.loads(body) if body else {}
    why = str(said.get("description", ""))
    if status == 404 and request.verb in ("touch", "delete"):
        return b"NOT_FOUND\r\n"
    if status == 503 and why.endswith(" is full"):
        return b"NOT_STORED\r\n"
    if status == 422 and why.endswith("use a new id"):  # what the wire says of any repeated id
        return b"STORED\r\n" if request.verb == "set" else b"NOT_STORED\r\n"
    if status >= 400:
        words = {503: "SERVER_ERROR", 413: "SERVER_ERROR", 500: "MISTAKE"}
        word = words.get(status, "CLIENT_ERROR")
        return f"{word} {why}\r\n".encode()
    if request.item is not None:
        is_stored = status == 201 or request.verb == "set"
        return b"STORED\r\n" if is_stored else b"NOT_STORED\r\n"
    if not request.opens:
        return {"touch": b"TOUCHED\r\n", "delete": b"DELETED\r\n"}.get(request.verb, b"END\r\n")
    if not said["leases"]:
        return b"END\r\n"
    [lease] = said["leases"]
    item = base64.b64decode(lease["base64"]) if "base64" in lease else lease["body"].encode()
    return b"VALUE %b %d %d %d\r\n%b\r\nEND\r\n" % (
        request.key, lease["flags"], len(item), lease["token"], item
    )  # fmt: skip
