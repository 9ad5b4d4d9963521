"""The short way to the busy routes: the same handlers and arguments as FastAPI's."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, cast
from urllib.parse import parse_qsl

import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from kestrelpy.errors import ServerError
from kestrelpy.http import items_and_leases, zaqar
from kestrelpy.http.answers import HttpError
from kestrelpy.http.door import Receive, Scope, Send
from kestrelpy.http.short_way import BusyRoute, Check, with_short_way
from kestrelpy.http.zaqar import claims, messages

BUSY = (*zaqar.BUSY, *items_and_leases.BUSY)
ROUTES = [
    route
    for router in (messages.router, claims.router, items_and_leases.router)
    for route in router.routes if isinstance(route, APIRoute)
]  # fmt: skip
OTHERS = [
    ("GET", "/v2/queues/jobs/messages"), ("PUT", "/v2/queues/jobs"), ("DELETE", "/v2/queues/jobs"),
    ("PATCH", "/v2/queues/jobs/claims/7-1"), ("DELETE", "/v2/queues/jobs/claims/7-1"),
    ("POST", "/v2/queues/jobs/messages/1-2"), ("POST", "/v2/queues/jobs/messages/"),
    ("POST", "/v2/queues//messages"), ("POST", "/v2/queues/a/b/messages"),
    ("GET", "/queues/jobs/items"), ("POST", "/queues/jobs/items/1"), ("POST", "/queues/items"),
]  # fmt: skip


def anything(scope: Scope) -> dict[str, str]:
    """Find nothing wrong with a request."""
    return dict(parse_qsl(scope["query_string"].decode()))


def ask(
    routes: tuple[BusyRoute, ...], method: str, path: str, query: bytes = b"",
    check: Check = anything,
) -> Any:  # fmt: skip
    """Return status and body of the answer; the application behind it answers with 299."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"FastAPI", 299)(scope, cast(Any, receive), cast(Any, send))

    said: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: Scope = {
        "type": "http", "method": method, "path": path, "headers": [], "query_string": query,
    }  # fmt: skip
    asyncio.run(with_short_way(app, routes, lambda busy: check)(scope, receive, send))
    return said[0]["status"], said[1]["body"]


def noted(route: BusyRoute) -> tuple[BusyRoute, list[dict[str, Any]]]:
    """Return the route with a handler that notes its arguments."""
    calls: list[dict[str, Any]] = []

    async def note(request: Request, **arguments: str) -> Response:
        calls.append(arguments)
        return Response(b"short")

    return route._replace(handler=note), calls


@pytest.mark.parametrize("busy", BUSY, ids=lambda busy: f"{busy.method} {busy.path}")
def test_the_short_way_calls_what_fastapi_would_call(busy: BusyRoute) -> None:
    path = busy.path.format(queue="jobs", message="1-2", token="7")
    [(route, matched)] = [
        (route, found[1]["path_params"])
        for route in ROUTES
        if (found := route.matches({"type": "http", "method": busy.method, "path": path}))[0]
        is Match.FULL
    ]
    assert route.endpoint is busy.handler
    assert busy.query == {
        each.alias: (each.name, each.field_info.default) for each in route.dependant.query_params
    }
    other, calls = noted(busy)
    assert ask((other,), busy.method, path) == (200, b"short")
    assert calls == [matched | dict(busy.query.values())]


def test_the_query_is_read() -> None:
    busy = items_and_leases.BUSY
    route, calls = noted(next(each for each in busy if each.path.endswith("/items")))
    ask((route,), "POST", "/queues/jobs/items", b"id=a%20b&delay=5s")
    [said] = calls
    assert (said["id_"], said["delay"], said["queue"]) == ("a b", "5s", "jobs")


def test_the_handler_is_not_called_if_the_check_refuses() -> None:
    def refuse(scope: Scope) -> dict[str, str]:
        assert scope["path_params"] == {"queue": "jobs"}
        raise HttpError(400, "no")

    route, calls = noted(items_and_leases.BUSY[0])
    status, body = ask((route,), "POST", "/queues/jobs/items", b"nosuch=1", refuse)
    assert (status, calls) == (400, [])
    assert b'"description":"no"' in body


@pytest.mark.parametrize(("method", "path"), OTHERS)
def test_everything_else_goes_to_fastapi(method: str, path: str) -> None:
    assert ask(BUSY, method, path) == (299, b"FastAPI")


@pytest.mark.parametrize(
    ("error", "status"), [(HttpError(403, "no"), 403), (ServerError("no"), 503)]
)
def test_a_refusal_is_an_answer(error: Exception, status: int) -> None:
    async def refuse(request: Request, **arguments: str) -> Response:
        raise error

    route = BUSY[0]._replace(handler=refuse)
    said, body = ask((route,), "POST", "/v2/queues/jobs/messages")
    assert said == status
    assert b'"description":"no"' in body
