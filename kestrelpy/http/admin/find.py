"""Find what a text names: a queue, an item, a marker, a token, a dedupe id, a key.

One rule: nothing is changed, and no body is searched.
"""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import LIMITED, call_of
from kestrelpy.http.answers import answer
from kestrelpy.operations import Hit, find

router: Final = APIRouter(prefix="/admin", tags=["admin: items"], responses=LIMITED)
_HITS_MAX: Final = 20


@router.get("/find", summary="What a text names", response_model=models.FoundThings)
async def get_find(
    request: Request,
    text: Annotated[str, Query(min_length=1, max_length=256, description="A name, number or id.")],
) -> Response:
    """Answer with what the text names in all queues, 20 things at most. A queue is found by a part
    of its name, the rest exactly."""
    call = call_of(request)
    wanted = text.encode("utf-8", "surrogatepass")
    found = await call.run(find(call.broker, wanted, _HITS_MAX, call.now_ms()))
    return answer({"hits": [_shown(each) for each in found.hits], "is_whole": found.is_whole})


def _shown(hit: Hit) -> dict[str, Any]:
    path = f"/admin/queues/{quote(hit.queue, safe='')}"
    return {**hit._asdict(), "link": path if hit.item is None else f"{path}/items/{hit.item}"}
