"""The short way to the routes of busy clients.

    POST /queues/jobs/items ──▶ handler ──▶ answer            the rest ──▶ FastAPI

FastAPI's layers, matching and parameters cost more than the work of a busy route. So a request for
one of these is handed to its handler at once.

One rule: the short way calls the handler that FastAPI would call, with the same arguments, after
the same check of what the request says.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.errors import Refused
from kestrelpy.http.answers import HttpError, refused
from kestrelpy.http.door import App, Receive, Scope, Send

Check = Callable[[Scope], dict[str, str]]
Handler = Callable[..., Awaitable[Response]]
_NAME: Final = re.compile(r"\{(\w+)\}")


class BusyRoute(NamedTuple):
    """A route with its path as FastAPI has it, and its parameters of the query with their defaults:
    by the name in the URL, the name and the default of the handler."""

    method: str
    path: str
    handler: Handler
    query: dict[str, tuple[str, str | None]]


class _Way(NamedTuple):
    pattern: re.Pattern[str]
    route: BusyRoute
    check: Check


def with_short_way(
    app: App, routes: Iterable[BusyRoute], check_of: Callable[[BusyRoute], Check]
) -> App:
    """Return the application, with the short way to these routes before it. `check_of` returns the
    check of what a request to a route says: it returns the values of the query, or raises
    HttpError."""
    ways = [
        _Way(re.compile(_NAME.sub(r"(?P<\1>[^/]+)", route.path)), route, check_of(route))
        for route in routes
    ]

    def found(method: str, path: str) -> tuple[_Way, dict[str, str]] | None:
        for way in ways:
            if method == way.route.method and (match := way.pattern.fullmatch(path)) is not None:
                return way, match.groupdict()
        return None

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        busy = found(scope["method"], scope["path"])
        if busy is None:
            return await app(scope, receive, send)
        (_, route, check), parameters = busy
        scope["path_params"] = parameters
        request = Request(scope, cast(Any, receive))
        try:
            said = check(scope)
            values = {own: said.get(name, default) for name, (own, default) in route.query.items()}
            response = await route.handler(request, **parameters, **values)
        except (Refused, HttpError) as error:
            response = refused(error)
        return await response(scope, cast(Any, receive), cast(Any, send))

    return answered
