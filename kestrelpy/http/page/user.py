"""`GET /admin/me`: the user of a request, so that the page shows no button that is refused.

One rule: the answer says a role, and the server checks it again with each request.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, cast

from fastapi import APIRouter, Header
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.access import credentials
from kestrelpy.http.answers import answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import refusals

router: Final = APIRouter(prefix="/admin", tags=["admin: server"], responses=refusals(413))


class User(BaseModel):
    """The user of a request. `name` is null where the server has no users; all may do all then.
    `now_ms` is the server's clock, so that the first page shows right ages."""

    name: str | None
    role: Literal["read", "write", "admin"]
    now_ms: int


@router.get("/me", summary="The user of the request", response_model=User)
async def get_me(
    request: Request, authorization: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Answer with the name and the role of the user in all queues."""
    call = cast(Call, request.scope["call"])
    sender = credentials(authorization.encode("latin-1"))
    logins = call.host.logins
    now_ms = call.now_ms() + call.broker.clock.offset_ms
    if not logins.are_needed or sender is None:
        return answer({"name": None, "role": "admin", "now_ms": now_ms})
    grant = await logins.check(sender.name, sender.secret, call.holder.name)
    role = grant.role.name.lower() if grant is not None else "read"
    return answer({"name": sender.name, "role": role, "now_ms": now_ms})
