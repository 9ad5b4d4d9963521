"""All routes of the messaging API, those of busy clients first.

FastAPI's own matching and parameters cost more than the work of a busy route. So the four busiest
routes stand before it as plain ones, with the same handlers.

One rule: each plain route is in the documentation, by the route of FastAPI that it stands before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kestrelpy.http.zaqar import claims, home, messages, queues

router: Final = APIRouter(tags=["messaging"])
for _each in (messages, claims, queues, home):
    router.include_router(_each.router)
_BUSY: Final[tuple[Callable[..., Awaitable[Response]], ...]] = (
    messages.post, claims.create, messages.delete, messages.delete_many,
)  # fmt: skip


def _plain(route: APIRoute) -> Route:
    handler = route.endpoint

    async def answered(request: Request) -> Response:
        answer: Response = await handler(request, **request.path_params)
        return answer

    methods = list(route.methods or ())
    return Route(route.path, answered, methods=methods, include_in_schema=False)


BUSY_ROUTES: Final = [
    _plain(route)
    for handler in _BUSY
    for route in (*messages.router.routes, *claims.router.routes)
    if isinstance(route, APIRoute) and route.endpoint is handler
]
