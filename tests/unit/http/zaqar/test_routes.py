"""The short way to the busiest routes: the same handlers and arguments as FastAPI's."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, cast

import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from kestrelpy.errors import ServerError
from kestrelpy.http.answers import HttpError
from kestrelpy.http.door import Receive, Scope, Send
from kestrelpy.http.zaqar import claims, messages, routes
from kestrelpy.http.zaqar.routes import with_short_way

BUSY = {
    ("POST", "/v2/queues/jobs/messages"): messages.post,
    ("POST", "/v2/queues/jobs/claims"): claims.create,
    ("DELETE", "/v2/queues/jobs/messages"): messages.delete_many,
    ("DELETE", "/v2/queues/jobs/messages/1-2"): messages.delete,
}
OTHERS = [
    ("GET", "/v2/queues/jobs/messages"), ("PUT", "/v2/queues/jobs"), ("DELETE", "/v2/queues/jobs"),
    ("PATCH", "/v2/queues/jobs/claims/7-1"), ("DELETE", "/v2/queues/jobs/claims/7-1"),
    ("POST", "/v2/queues/jobs/messages/1-2"), ("POST", "/v2/queues/jobs/messages/"),
    ("POST", "/v2/queues//messages"), ("POST", "/v2/queues/a/b/messages"),
    ("POST", "/v3/queues/jobs/messages"),
]  # fmt: skip


def ask(method: str, path: str) -> tuple[int, bytes]:
    """Return status and body of the answer; the application behind it answers with 299."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"FastAPI", 299)(scope, cast(Any, receive), cast(Any, send))

    said: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: Scope = {"type": "http", "method": method, "path": path, "headers": []}
    asyncio.run(with_short_way(app)(scope, receive, send))
    return said[0]["status"], said[1]["body"]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, dict[str, Any]]]:
    """The handlers that were called, with their arguments but the request."""
    found: list[tuple[object, dict[str, Any]]] = []

    def noted(handler: Any) -> Any:
        async def note(request: Request, **arguments: str) -> Response:
            found.append((handler, arguments))
            return Response(b"short")

        return note

    busy = {of: noted(handler) for of, handler in routes._BUSY.items()}
    monkeypatch.setattr(routes, "_BUSY", busy)
    return found


@pytest.mark.parametrize(("method", "path"), BUSY)
def test_the_short_way_calls_what_fastapi_would_call(
    called: list[tuple[object, dict[str, Any]]], method: str, path: str
) -> None:
    assert ask(method, path) == (200, b"short")
    scope = {"type": "http", "method": method, "path": path}
    [(route, matched)] = [
        (route, found[1]["path_params"])
        for route in (*messages.router.routes, *claims.router.routes)
        if isinstance(route, APIRoute) and (found := route.matches(scope))[0] is Match.FULL
    ]
    assert called == [(route.endpoint, matched)]
    assert route.endpoint is BUSY[method, path]


@pytest.mark.parametrize(("method", "path"), OTHERS)
def test_everything_else_goes_to_fastapi(
    called: list[tuple[object, dict[str, Any]]], method: str, path: str
) -> None:
    assert ask(method, path) == (299, b"FastAPI")
    assert not called


@pytest.mark.parametrize(
    ("error", "status"), [(HttpError(403, "no"), 403), (ServerError("no"), 503)]
)
def test_a_refusal_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    async def refuse(request: Request, **arguments: str) -> Response:
        raise error

    monkeypatch.setattr(routes, "_BUSY", dict.fromkeys(routes._BUSY, refuse))
    said, body = ask("POST", "/v2/queues/jobs/messages")
    assert said == status
    assert b'"description":"no"' in body
