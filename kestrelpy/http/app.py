"""The routes, put together: from a request to a handler, from an exception to an answer.

One rule: every error is `{title, description}`, whoever raised it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import kestrelpy
from kestrelpy.errors import Refused
from kestrelpy.http import admin, docs, items_and_leases, live, metrics, page, streams, zaqar
from kestrelpy.http.answers import JSON, MISTAKE, HttpError, error_body, refused
from kestrelpy.http.checks import DeclaredRoute, checked, of_pydantic
from kestrelpy.http.door import Admission, App, Door, Receive, Scope, Send
from kestrelpy.http.guard import Guard
from kestrelpy.http.models import described
from kestrelpy.http.ports import HttpHost
from kestrelpy.http.short_way import with_short_way

# The largest item may be larger; its queue's own limit is checked by the handler.
_ITEM_BYTES_MAX: Final = 64 << 20
_BODY_BYTES_MAX: Final = 1 << 20
# Ten thousand ids and their commas: reading it takes one turn.
_ADMIN_BYTES_MAX: Final = 200 << 10


class Shared(NamedTuple):
    """What the requests to one server share."""

    jobs: admin.Jobs
    scrapes: metrics.Scrapes
    readiness: admin.Readiness
    live: live.Live

    def close(self) -> None:
        """End what is under way: the server stops."""
        self.live.close()
        self.jobs.close()
        self.scrapes.close()


def open_door(host: HttpHost, admission: Admission, allowed_hosts: frozenset[str]) -> Door:
    """Return the door of this server, which does not listen yet."""
    app = with_short_way(
        cast(App, make_app()), (*zaqar.BUSY, *items_and_leases.BUSY),
        lambda busy: declarations()[busy.method, busy.path].check,
    )  # fmt: skip
    shared = Shared(admin.Jobs(), metrics.Scrapes(), admin.Readiness(), live.Live(host))

    async def of_this_server(scope: Scope, receive: Receive, send: Send) -> None:
        scope["shared"] = shared
        if scope["method"] == "HEAD" and "HEAD" not in _methods(scope["path"]):
            scope["call"].is_head = True  # the protocol class leaves the body out
            scope = {**scope, "method": "GET"}
        await app(scope, receive, send)

    guard = Guard(of_this_server, host, allowed_hosts, body_bytes_max, allowed_methods)
    return Door(guard, admission, shared.live.open, shared.close)


class _App(FastAPI):
    """The routes, and their description."""

    def openapi(self) -> dict[str, Any]:
        """Return the description, with what the routes do answer."""
        return described(super().openapi())


@cache
def make_app() -> FastAPI:
    """Return the application with all routes, for every server of this process.

    A request brings its `Call`, and what its server shares, in its scope.
    """
    app = _App(
        title="kestrelpy", version=kestrelpy.__version__, docs_url=None, redoc_url=None,
        openapi_url=None, redirect_slashes=False,
        exception_handlers={
            Refused: _refused, HttpError: _refused, RequestValidationError: _invalid,
            HTTPException: _http_exception, Exception: _bug,
        },
    )  # fmt: skip
    app.state.openapi = b""
    # `include_router` makes each route once more when the first request comes: 200 ms of the loop.
    app.router.routes += zaqar.ROUTES
    for router in (items_and_leases.router, streams.router, metrics.router):
        app.router.routes += router.routes
    app.router.routes += [*admin.ROUTES, *live.router.routes]
    app.router.routes += [*docs.router.routes, *page.ROUTES]
    for route in app.router.routes:
        if isinstance(route, APIRoute):  # the others refuse whatever is asked
            route.app = cast(Any, checked(DeclaredRoute(route), route.app))
    return app


def body_bytes_max(path: str) -> int:
    """Return the limit of a request's body, by its path."""
    is_item = path.startswith("/queues/") and path.endswith("/items")
    if is_item or path.startswith("/streams/"):
        return _ITEM_BYTES_MAX
    if path.startswith("/admin/"):
        return _ADMIN_BYTES_MAX
    return _BODY_BYTES_MAX


def allowed_methods(path: str) -> str:
    """Return the methods of this path, as in a header `Allow`: HEAD is there wherever GET is."""
    found = _methods(path)
    return ", ".join(sorted(found | ({"HEAD"} if "GET" in found else set())))


def _methods(path: str) -> set[str]:
    """Return the methods that the routes of this path declare."""
    return {
        method for route in all_routes() if route.path_regex.match(path)
        for method in route.methods or ()
    }  # fmt: skip


@cache
def all_routes() -> tuple[Route, ...]:
    """Return the routes of the application."""
    routes = make_app().routes
    assert all(isinstance(each, Route) for each in routes), "their methods and paths are known"
    return tuple(cast(list[Route], routes))


@cache
def declarations() -> dict[tuple[str, str], DeclaredRoute]:
    """Return what the routes declare, by method and path."""
    return {
        (method, route.path): DeclaredRoute(route)
        for route in all_routes() if isinstance(route, APIRoute) for method in route.methods or ()
    }  # fmt: skip


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused | HttpError)
    return refused(error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    text = of_pydantic(error.errors()[0], DeclaredRoute(request.scope["route"]).model)
    return Response(error_body(400, text), 400, None, JSON)


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    status = error.status_code
    if status == 404 and _has_empty_name(request.scope["path"]):
        status, text = 400, "a name in the path is empty: say it between its slashes"
    elif status == 404:
        text = "there is nothing at this path; /docs lists what there is"
    elif status == 405:
        text = f"{request.method} is not possible here; /docs lists what is"
        # The framework names the methods of one route alone.
        headers = {"Allow": allowed_methods(request.scope["path"])}
    else:
        text = str(error.detail)
    return Response(error_body(status, text), status, headers, JSON)


def _has_empty_name(path: str) -> bool:
    """True if a route would have this path if nothing in it were empty."""
    parts = path.split("/")[1:]
    return "" in parts and bool(_methods("".join(f"/{each or '-'}" for each in parts)))


async def _bug(_: Request, error: Exception) -> Response:
    # The guard logs it.
    return Response(error_body(500, MISTAKE), 500, None, JSON)
