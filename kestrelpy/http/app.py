"""The routes, put together: from a request to a handler, from an exception to an answer.

    guard ──▶ the route by method and path ──▶ its check ──▶ its handler ──▶ the answer

One rule: every error is `{title, description}`, whoever raised it.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final, NamedTuple, cast

import msgspec
from starlette.responses import Response

import kestrelpy
from kestrelpy.errors import Refused
from kestrelpy.http import admin, docs, items_and_leases, live, metrics, page, streams, zaqar
from kestrelpy.http.answers import JSON, HttpError, error_body, refused
from kestrelpy.http.checks import Checks
from kestrelpy.http.guard import Guard
from kestrelpy.http.listener import Admission, HttpListener, Receive, Scope, Send
from kestrelpy.http.models import Error
from kestrelpy.http.ports import HttpHost
from kestrelpy.http.routing import Route, Router, described

# The largest item may be larger; its queue's own limit is checked by the handler.
_ITEM_BYTES_MAX: Final = 64 << 20
_BODY_BYTES_MAX: Final = 1 << 20
# Ten thousand ids and their commas: reading it takes one turn.
_ADMIN_BYTES_MAX: Final = 200 << 10
_description: Final = Router(is_described=False)


@_description.get("/openapi.json")
async def get_openapi() -> Response:
    """Answer with the description of all routes; the first request makes it, on a thread."""
    return Response(await asyncio.to_thread(_openapi_json), 200, None, JSON)


ROUTES: Final[tuple[Route, ...]] = (
    *zaqar.ROUTES, *items_and_leases.router.routes, *streams.router.routes,
    *metrics.router.routes, *admin.ROUTES, *live.router.routes, *docs.router.routes,
    *_description.routes, *page.ROUTES,
)  # fmt: skip


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


def open_listener(
    host: HttpHost, admission: Admission, allowed_hosts: frozenset[str]
) -> HttpListener:
    """Return the listener of this server, which does not listen yet."""
    shared = Shared(admin.Jobs(), metrics.Scrapes(), admin.Readiness(), live.Live(host))

    async def of_this_server(scope: Scope, receive: Receive, send: Send) -> None:
        scope["shared"] = shared
        response = await _answered(scope)
        await response(scope, cast(Any, receive), cast(Any, send))

    guard = Guard(of_this_server, host, checks_of(allowed_hosts))
    return HttpListener(guard, admission, shared.live.open, shared.close)


def checks_of(allowed_hosts: frozenset[str]) -> Checks:
    """Return the checks of a server with these routes."""
    return Checks(allowed_hosts, body_bytes_max, allowed_methods)


@cache
def openapi() -> dict[str, Any]:
    """Return the description of all routes."""
    return described(ROUTES, kestrelpy.__version__, Error)


@cache
def _openapi_json() -> bytes:
    return msgspec.json.encode(openapi())


async def _answered(scope: Scope) -> Response:
    """Return the answer to a request; a bug is an exception, which the guard handles."""
    method, path = scope["method"], scope["path"]
    found = route_of(method, path)
    if found is None and method == "HEAD" and (found := route_of("GET", path)) is not None:
        scope["call"].is_head = True  # the protocol class leaves the body out
    if found is None:
        return _absent(method, path)
    route, matched = found
    try:
        return await route.answered(scope, matched)
    except (Refused, HttpError) as error:
        return refused(error)


def route_of(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Return the route of this request, and the parts of its path; None: there is none."""
    for route in _table().get((method, path.split("/", 2)[1]), ()):
        if (match := route.pattern.fullmatch(path)) is not None:
            return route, match.groupdict()
    return None


@cache
def _table() -> dict[tuple[str, str], list[Route]]:
    """Return the routes by their method and the first part of their path."""
    found = dict[tuple[str, str], list[Route]]()
    for route in ROUTES:
        found.setdefault((route.method, route.path.split("/", 2)[1]), []).append(route)
    return found


def _absent(method: str, path: str) -> Response:
    """Return the answer where no route is."""
    headers = None
    if allow := allowed_methods(path):
        status, text = 405, f"{method} is not possible here; /docs lists what is"
        headers = {"Allow": allow}
    elif _has_empty_name(path):
        status, text = 400, "a name in the path is empty: say it between its slashes"
    else:
        status, text = 404, "there is nothing at this path; /docs lists what there is"
    return Response(error_body(status, text), status, headers, JSON)


def _has_empty_name(path: str) -> bool:
    """True if a route would have this path if nothing in it were empty."""
    parts = path.split("/")[1:]
    return "" in parts and bool(allowed_methods("".join(f"/{each or '-'}" for each in parts)))


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
    found = {route.method for route in ROUTES if route.pattern.fullmatch(path)}
    return ", ".join(sorted(found | ({"HEAD"} if "GET" in found else set())))
