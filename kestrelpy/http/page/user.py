"""`GET /admin/me`: the user of a request, so that the page shows no button that is refused.

One rule: the answer says a role, and the server checks it again with each request.
"""

from __future__ import annotations

from typing import Final, Literal

from starlette.responses import Response

from kestrelpy.http.answers import answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import Shape, refusals
from kestrelpy.http.routing import Router

router: Final = Router("admin: server", prefix="/admin", responses=refusals(413))


class User(Shape):
    """The user of a request. `name` is null where the server has no users; all may do all then.
    `now_ms` is the server's clock, so that the first page shows right ages."""

    name: str | None
    role: Literal["read", "write", "admin"]
    now_ms: int


@router.get("/me", summary="The user of the request", model=User)
async def get_me(call: Call) -> Response:
    """Answer with the name and the role of the user in all queues."""
    now_ms = call.now_ms() + call.broker.clock.offset_ms
    grant = call.grant
    if grant is None:
        return answer({"name": None, "role": "admin", "now_ms": now_ms})
    return answer({"name": grant.name, "role": grant.role.name.lower(), "now_ms": now_ms})
