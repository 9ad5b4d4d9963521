"""All routes of the messaging API, those of busy clients first."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from kestrelpy.http.zaqar import claims, home, messages, queues

router: Final = APIRouter(tags=["messaging"])
for _each in (messages, claims, queues, home):
    router.include_router(_each.router)
