"""Find what a text names: a queue, an item, a marker, a token, a dedupe id, a key.

One rule: nothing is changed, and no body is searched.
"""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

from msgspec import Meta
from starlette.responses import Response

from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import LIMITED
from kestrelpy.http.answers import answer
from kestrelpy.http.call import Call
from kestrelpy.http.routing import Router
from kestrelpy.operations import Hit, find

router: Final = Router("admin: items", prefix="/admin", responses=LIMITED)
_HITS_MAX: Final = 20


@router.get("/find", summary="What a text names", model=models.FoundThings)
async def get_find(
    call: Call,
    text: Annotated[str, Meta(min_length=1, max_length=256, description="A name, number or id.")],
) -> Response:
    """Answer with what the text names in all queues, 20 things at most. A queue is found by a part
    of its name, the rest exactly."""
    wanted = text.encode("utf-8", "surrogatepass")
    found = await call.run(find(call.broker, wanted, _HITS_MAX, call.now_ms()))
    return answer({"hits": [_shown(each) for each in found.hits], "is_whole": found.is_whole})


def _shown(hit: Hit) -> dict[str, Any]:
    path = f"/admin/queues/{quote(hit.queue, safe='')}"
    return {**hit._asdict(), "link": path if hit.item is None else f"{path}/items/{hit.item}"}
