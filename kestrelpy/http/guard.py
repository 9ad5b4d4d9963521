"""The checks before every route: which client asks, from where, and how much.

    scope ──▶ Host ──▶ origin ──▶ path ──▶ user ──▶ body, bounded ──▶ the application ──▶ headers
                │        │          │        │          │                                of safety
                └─ 421   └─ 403     └─ 400   └─ 401     └─ 413, 400 under /v2

It is a plain ASGI application around the routes: middleware of the framework triples the cost of a
request.

One rule: no page of another site can make a browser change or read anything here.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from kestrelpy.http.access import CHALLENGE, is_open, user_of
from kestrelpy.http.answers import JSON, MISTAKE, SAFETY_HEADERS, HttpError, error_body
from kestrelpy.http.call import Call, Gone
from kestrelpy.http.listener import App, HttpConnection, Receive, Scope, Send
from kestrelpy.http.page import standby_page
from kestrelpy.http.ports import HttpHost
from kestrelpy.write_at_once import write_at_once

log = logging.getLogger("kestrelpy.http")

_SAFE: Final = frozenset({"GET", "HEAD"})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
# The name of a stream goes on to the end of the path: its id is any text.
_STREAMS: Final = b"/streams/"
# A page of another site must not even open it: a stream stays, and there are few.
_STREAM: Final = "/events"
HELD_SECONDS: Final = 0.01  # until the next look whether an answer may be sent
# The paths that are answered while the server has no data to serve.
_ALWAYS_OPEN: Final = ("/ready", "/health", "/metrics", "/page/style.css")
_PAGE: Final = "/"
_LOCAL_NAMES: Final = frozenset({b"localhost"})


class Rejected(Exception):
    """A request that no route sees."""

    def __init__(self, status: int, description: str, allow: str | None = None) -> None:
        """`allow` names the methods that the path has."""
        super().__init__(description)
        self.status = status
        self.headers = ((b"allow", allow.encode()),) if allow is not None else ()


class Guard:
    """The application that uvicorn's protocol calls."""

    __slots__ = ("_allowed_hosts", "_app", "_body_max", "_host", "_methods_of")

    def __init__(
        self, app: App, host: HttpHost, allowed_hosts: frozenset[str],
        body_max: Callable[[str], int], methods_of: Callable[[str], str],
    ) -> None:  # fmt: skip
        """`body_max` returns the limit of a body, in bytes, for a path; `methods_of` its
        methods."""
        self._app = app
        self._host = host
        self._allowed_hosts = frozenset(name.lower().encode() for name in allowed_hosts)
        self._body_max = body_max
        self._methods_of = methods_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        connection: HttpConnection = scope["connection"]
        call = connection.call = Call(self._host, _peer(scope), connection.share)
        if connection.transport.is_closing():
            return
        if self._host.is_leaving:
            call.leave()
        began = False
        needs_data = scope["path"] not in _ALWAYS_OPEN
        closed = self._host.closed if needs_data else ""
        may_answer = self._gate(connection) if needs_data and not closed else None

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal began
            while may_answer is not None and not may_answer():
                await asyncio.sleep(HELD_SECONDS)
            if message["type"] == "http.response.start":
                began = call.has_begun = True
                status, statuses = message["status"], self._host.broker.counters.http_statuses
                statuses[status] = statuses.get(status, 0) + 1
                headers = message["headers"] = list(message.get("headers", ()))
                named = {name for name, _ in headers}
                headers += [pair for pair in SAFETY_HEADERS if pair[0] not in named]
            await send(message)

        try:
            self._check(scope)
            if closed:
                await self._say_closed(scope, answer, closed)
                return
            call.admit(await user_of(
                call, scope["method"], scope["path"], _header(scope, b"authorization"),
                _header(scope, b"x-project-id"),
            ), scope["method"] in _SAFE and is_open(scope["path"]))  # fmt: skip
            body = await self._body(scope, receive)
            call.check()
            scope["call"], scope["body"] = call, body

            async def replay() -> MutableMapping[str, Any]:
                return {"type": "http.request", "body": body, "more_body": False}

            await self._app(scope, replay, answer)
        except HttpError as error:  # of a stranger; the routes' own are answered below
            more = (CHALLENGE,) if error.status == 401 else ()
            connection.end_after_this()  # its body is not read
            await _say(answer, error.status, str(error), more)
        except Rejected as rejected:
            await _say(answer, rejected.status, str(rejected), rejected.headers)
        except Gone:
            pass
        except asyncio.CancelledError:
            raise
        except Exception:  # a bug: this request ends, the others do not
            log.exception("%s %s", scope["method"], scope["path"])
            if not began:
                await _say(answer, 500, MISTAKE)
        finally:
            self._host.turn.schedule()

    async def _say_closed(self, scope: Scope, send: Send, why: str) -> None:
        if scope["path"] != _PAGE or scope["method"] not in _SAFE:
            raise Rejected(503, why)
        address, port = self._host.owner_address, scope["server"][1]
        await _send(send, 503, *standby_page(why, address, scope["scheme"], port))

    def _gate(self, connection: HttpConnection) -> Callable[[], bool] | None:
        """Return what is asked before anything is sent, which then goes out at once, as on the
        memcache port; None without a fleet."""
        may_answer = self._host.may_answer
        if may_answer is not None:
            write_at_once(connection.transport)
        return may_answer

    # -- checks -----------------------------------------------------------------------------

    def _check(self, scope: Scope) -> None:
        method = scope["method"]
        if method not in _METHODS:
            text = f"{method[:16]} is not a method of this server"
            raise Rejected(405, text, self._methods_of(scope["path"]))
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            raise Rejected(400, "one Host header is needed")
        self._check_host(scope, hosts[0])
        self._check_origin(scope, method, hosts[0])
        _check_path(scope)

    def _check_host(self, scope: Scope, value: bytes) -> None:
        name, _ = _split_host(value)
        if name in _LOCAL_NAMES or name in self._allowed_hosts:
            return
        server = scope.get("server")
        if server and name == server[0].lower().encode():
            return
        raise Rejected(
            421,
            "the Host header names another server: localhost, the address that the server listens "
            "on and http_allowed_hosts are allowed",
        )

    @staticmethod
    def _check_origin(scope: Scope, method: str, host: bytes) -> None:
        site = origin = accept = b""
        for name, value in scope["headers"]:
            if name == b"sec-fetch-site":
                site = value
            elif name == b"origin":
                origin = value
            elif name == b"accept":
                accept = value
        is_stream = scope["path"] == _STREAM or b"text/event-stream" in accept
        if method in _SAFE and not is_stream:
            return
        if site and site not in (b"same-origin", b"none"):
            raise Rejected(403, "a page of another site may not ask this server for anything")
        if origin:
            parts = urlsplit(origin.decode("latin-1"))
            if parts.scheme != scope["scheme"] or parts.netloc.lower().encode() != host.lower():
                raise Rejected(403, "a page of another site may not ask this server for anything")

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        most = self._body_max(scope["path"])
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > most):
                await self._refuse_body(scope, most)
            elif name == b"expect" and value.lower() != b"100-continue":
                raise Rejected(417, "Expect: 100-continue is the only expectation known")
        parts, size = list[bytes](), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            if part := message["body"]:
                parts.append(part)
                size += len(part)
                if size > most:
                    await self._refuse_body(scope, most)
            if not message["more_body"]:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    @staticmethod
    async def _refuse_body(scope: Scope, most: int) -> None:
        scope["connection"].end_after_this()  # the rest of it is not read
        # The messaging API's clients take 413 for a success.
        status = 400 if scope["path"].startswith("/v2/") else 413
        raise Rejected(status, f"the body is too large: at most {most} bytes are allowed here")


def _check_path(scope: Scope) -> None:
    raw: bytes = scope["raw_path"]
    if _BAD_PERCENT.search(raw) or _BAD_PERCENT.search(scope["query_string"]):
        raise Rejected(400, "a % in a URL is followed by two hexadecimal digits")
    if b"%" not in raw:
        return
    path = unquote_to_bytes(raw)
    try:
        scope["path"] = path.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected(400, "the path is not UTF-8") from None
    if b"\0" in path:
        raise Rejected(400, "the path has a NUL byte")
    if raw.startswith(_STREAMS):
        return
    if _CONTROL.search(path):
        raise Rejected(400, "the path has a control character: no name here has one")
    if path.count(b"/") != raw.count(b"/"):  # it would be the path of another thing
        raise Rejected(400, "the path has an escaped slash (%2F): no name here has a slash")


def _split_host(value: bytes) -> tuple[bytes, bytes]:
    """Return the name in lower case, and the port."""
    value = value.strip().lower()
    if value.startswith(b"["):
        name, _, port = value[1:].partition(b"]")
        return name, port.removeprefix(b":")
    name, _, port = value.partition(b":")
    return name, port


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return f"http {client[0]}:{client[1]}" if client else "http"


def _header(scope: Scope, wanted: bytes) -> bytes:
    """Return a header that is there once; else nothing."""
    values = [value for name, value in scope["headers"] if name == wanted]
    return values[0].strip() if len(values) == 1 else b""


async def _say(
    send: Send, status: int, description: str, more: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    headers = ((b"content-type", JSON.encode()), *more)
    await _send(send, status, error_body(status, description), headers)


async def _send(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    await send({
        "type": "http.response.start", "status": status,
        "headers": [(b"content-length", b"%d" % len(body)), *headers],
    })  # fmt: skip
    await send({"type": "http.response.body", "body": body})
