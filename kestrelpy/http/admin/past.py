"""Going back in time among the items that a queue retains: from a time or a marker on.

One rule: it changes nothing; a page looks at a bounded part, and says how far it got.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import QueueLife
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import (
    ERRORS,
    NUMBER_MAX,
    After,
    find_queue,
    next_page,
    refuse_other,
)
from kestrelpy.http.admin.items import BODY_MAX, LIMIT_MAX, row_of_item
from kestrelpy.http.answers import answer
from kestrelpy.http.call import Call
from kestrelpy.http.routing import Router
from kestrelpy.operations import ItemList, LogReader, marker_facts

router: Final = Router("admin: items", prefix="/admin", responses=ERRORS)
_TEXT_MAX: Final = 256


@router.get("/queues/{queue}/at", summary="Items from a time or a marker on",
            model=models.PastPage)  # fmt: skip
async def get_at(
    request: Request,
    call: Call,
    queue: str,
    ms: Annotated[
        int, Meta(ge=0, le=NUMBER_MAX, description="Stored then or later, in ms since 1970.")
    ] = 0,
    after: After = 0,
    key: Annotated[str, Meta(max_length=1024, description="As it is shown: A,B.")] | None = None,
    text: Annotated[str, Meta(max_length=_TEXT_MAX, description="A part of the body.")] = "",
    body: Annotated[int, Meta(ge=0, le=BODY_MAX, description="Bytes of a body shown.")] = 256,
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="How many at most.")] = 20,
) -> Response:
    """Answer with the items after a marker, done ones as well if they are retained; without
    `after`, from the first one stored at `ms` or later. It looks at 10,000 items or 32 MiB of
    bodies."""
    found, reader = find_queue(call, queue), LogReader(call)
    life = QueueLife.of(found)
    since_ms = 0 if after else ms
    if since_ms:
        after = max((await call.run(reader.search(found, since_ms))) - 1, 0)
    wanted = text.encode("utf-8", "surrogatepass")
    items = ItemList(found, reader, "", key, body, call.now_ms, wanted, since_ms)
    page = await call.run(items.page(after, limit))
    refuse_other(life)
    markers = marker_facts(found)
    return answer({
        "items": [row_of_item(each) for each in page.items], "looked": page.looked,
        "is_whole": page.is_whole, "marker_earliest": markers.marker_earliest,
        "marker_latest": markers.marker_latest, "next": next_page(request, page.next),
    })  # fmt: skip
