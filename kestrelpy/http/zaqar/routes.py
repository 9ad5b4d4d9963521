"""All routes of the messaging API, and which of them are busy."""

from __future__ import annotations

from typing import Final

from starlette.routing import BaseRoute

from kestrelpy.http.short_way import BusyRoute
from kestrelpy.http.zaqar import claims, home, messages, queues

ROUTES: Final[list[BaseRoute]] = [
    route for each in (messages, claims, queues, home) for route in each.router.routes
]
_QUEUE: Final = "/v2/queues/{queue}"
BUSY: Final = (
    BusyRoute("POST", f"{_QUEUE}/messages", messages.post, {}),
    BusyRoute("POST", f"{_QUEUE}/claims", claims.create, {}),
    BusyRoute("DELETE", f"{_QUEUE}/messages/{{message}}", messages.delete, {}),
    BusyRoute("DELETE", f"{_QUEUE}/messages", messages.delete_many, {}),
)
