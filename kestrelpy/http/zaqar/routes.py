"""All routes of the messaging API, and which of them are busy."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from kestrelpy.http.short_way import BusyRoute
from kestrelpy.http.zaqar import claims, home, messages, queues

router: Final = APIRouter(tags=["messaging"])
for _each in (messages, claims, queues, home):
    router.include_router(_each.router)
_QUEUE: Final = "/v2/queues/{queue}"
BUSY: Final = (
    BusyRoute("POST", f"{_QUEUE}/messages", messages.post, {}),
    BusyRoute("POST", f"{_QUEUE}/claims", claims.create, {}),
    BusyRoute("DELETE", f"{_QUEUE}/messages/{{message}}", messages.delete, {}),
    BusyRoute("DELETE", f"{_QUEUE}/messages", messages.delete_many, {}),
)
