"""All routes of the messaging API, and the short way to those of busy clients.

    POST   …/messages   …/claims       ┐
    DELETE …/messages   …/messages/{m} ┴──▶ handler ──▶ answer        the rest ──▶ FastAPI

FastAPI's layers, matching and parameters cost more than the work of a busy route. So a request for
one of the four busiest is handed to its handler at once.

One rule: the short way calls the handler that FastAPI would call, with the same arguments.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from kestrelpy.errors import Refused
from kestrelpy.http.answers import HttpError, refused
from kestrelpy.http.door import App, Receive, Scope, Send
from kestrelpy.http.zaqar import claims, home, messages, queues

ROUTES: Final[list[BaseRoute]] = [
    route for each in (messages, claims, queues, home) for route in each.router.routes
]
Handler = Callable[..., Awaitable[Response]]
_PATH: Final = re.compile(r"/v2/queues/([^/]+)/(messages|claims)(?:/([^/]+))?")
# By method and kind, and whether the path goes on.
_BUSY: Final[dict[tuple[str, str, bool], Handler]] = {
    ("POST", "messages", False): messages.post,
    ("POST", "claims", False): claims.create,
    ("DELETE", "messages", True): messages.delete,
    ("DELETE", "messages", False): messages.delete_many,
}  # fmt: skip


def with_short_way(app: App) -> App:
    """Return the application, with the short way before it."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        match = _PATH.fullmatch(scope["path"])
        if match is None:
            return await app(scope, receive, send)
        queue, kind, one = match.groups()
        handler = _BUSY.get((scope["method"], kind, one is not None))
        if handler is None:
            return await app(scope, receive, send)
        scope["path_params"] = {"queue": queue} if one is None else {"queue": queue, "message": one}
        request = Request(scope, cast(Any, receive))
        try:
            response = await handler(request, **scope["path_params"])
        except (Refused, HttpError) as error:
            response = refused(error)
        return await response(scope, cast(Any, receive), cast(Any, send))

    return answered
