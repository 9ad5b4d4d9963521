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
from collections.abc import Callable, MutableMapping
from typing import Any, Final

from kestrelpy.http.access import CHALLENGE, is_open, user_of
from kestrelpy.http.answers import MISTAKE, SAFETY_HEADERS, HttpError
from kestrelpy.http.call import Call, Gone
from kestrelpy.http.checks import CLIENT, SAFE, Checks, Rejected, header_of, say, send_answer
from kestrelpy.http.listener import App, HttpConnection, Receive, Scope, Send
from kestrelpy.http.page import standby_page
from kestrelpy.http.ports import HttpHost
from kestrelpy.write_at_once import write_at_once

log = logging.getLogger("kestrelpy.http")

HELD_SECONDS: Final = 0.01  # until the next look whether an answer may be sent
# The paths that are answered while the server has no data to serve.
_ALWAYS_OPEN: Final = ("/ready", "/health", "/metrics", "/page/style.css")
_PAGE: Final = "/"


class Guard:
    """The application that uvicorn's protocol calls."""

    __slots__ = ("_app", "_checks", "_host")

    def __init__(self, app: App, host: HttpHost, checks: Checks) -> None:
        self._app = app
        self._host = host
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        connection: HttpConnection = scope["connection"]
        call = connection.call = Call(self._host, _peer(scope, connection), connection.share)
        if connection.transport.is_closing():
            return
        if self._host.is_leaving:
            call.leave()
        call.is_hurried = connection.is_hurried
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
            self._checks.check(scope)
            if closed:
                await self._say_closed(scope, answer, closed)
                return
            call.admit(await user_of(
                call, scope["method"], scope["path"], header_of(scope, b"authorization"),
                header_of(scope, b"x-project-id"),
            ), scope["method"] in SAFE and is_open(scope["path"]))  # fmt: skip
            body = await self._body(scope, receive)
            call.check()
            scope["call"], scope["body"] = call, body

            async def replay() -> MutableMapping[str, Any]:
                return {"type": "http.request", "body": body, "more_body": False}

            await self._app(scope, replay, answer)
        except HttpError as error:  # of a stranger; the routes' own are answered below
            more = (CHALLENGE,) if error.status == 401 else ()
            connection.end_after_this()  # its body is not read
            await say(answer, error.status, str(error), more)
        except Rejected as rejected:
            await say(answer, rejected.status, str(rejected), rejected.headers)
        except Gone:
            pass
        except asyncio.CancelledError:
            raise
        except Exception:  # a bug: this request ends, the others do not
            log.exception("%s %s", scope["method"], scope["path"])
            if not began:
                await say(answer, 500, MISTAKE)
        finally:
            self._host.turn.schedule()

    async def _say_closed(self, scope: Scope, send: Send, why: str) -> None:
        if scope["path"] != _PAGE or scope["method"] not in SAFE:
            raise Rejected(503, why)
        address, port = self._host.owner_address, scope["server"][1]
        await send_answer(send, 503, *standby_page(why, address, scope["scheme"], port))

    def _gate(self, connection: HttpConnection) -> Callable[[], bool] | None:
        """Return what is asked before anything is sent, which then goes out at once, as on the
        memcache port; None without a fleet."""
        may_answer = self._host.may_answer
        if may_answer is not None:
            write_at_once(connection.transport)
        return may_answer

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        most = self._checks.body_most(scope)
        parts, size = list[bytes](), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            if part := message["body"]:
                parts.append(part)
                size += len(part)
                if size > most:
                    raise self._checks.too_large(scope, most)
            if not message["more_body"]:
                return parts[0] if len(parts) == 1 else b"".join(parts)


def _peer(scope: Scope, connection: HttpConnection) -> str:
    """Return the name of the client; of a router's request the one that the router says."""
    if connection.is_of_router:
        connection.peer = header_of(scope, CLIENT).decode("latin-1") or "unknown"
        return f"http {connection.peer}"
    client = scope.get("client")
    return f"http {client[0]}:{client[1]}" if client else "http"
