"""More of one item: its whole body, as a file; its life, as a list of events.

One rule: a browser saves a body and never shows it: what clients store is not trusted.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import AnyQueue, Browse
from kestrelpy.errors import ClientError
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import ERRORS, NUMBER_MAX, find_queue, next_page
from kestrelpy.http.admin.items import inspect
from kestrelpy.http.answers import HttpError, answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import errors
from kestrelpy.http.routing import Router
from kestrelpy.http.values import whole
from kestrelpy.operations import (
    PAGE_BYTES_MAX,
    ItemLife,
    LogReader,
    LostPlace,
    Rests,
    check_assigned,
)

router: Final = Router("admin: items", prefix="/admin", responses=ERRORS)
BYTES: Final = "application/octet-stream"
_PLACE_MAX: Final = 40
_OFFSET_MAX: Final = (1 << 32) - 1  # of a segment
_ALIGN_BYTES: Final = 8  # of a record
_BODY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}},
    **errors(503),
}
_Id = Annotated[int, Meta(ge=1, le=NUMBER_MAX, description="The item's number.")]


@router.get("/queues/{queue}/items/{item}/body", summary="The body of an item, as a file",
            responses=_BODY)  # fmt: skip
async def get_body(call: Call, queue: str, item: _Id) -> Response:
    """Answer with the whole body, whatever state the item is in."""
    found = find_queue(call, queue)
    before = await call.reserve(PAGE_BYTES_MAX)
    _, body = await inspect(call, found, item)
    if body is None:
        raise HttpError(503, f"the body of item {item} of {queue} cannot be read: see the log")
    call.share.shrink(before + len(body))
    if len(body) > PAGE_BYTES_MAX and not call.share.hold(len(body) - PAGE_BYTES_MAX):
        raise HttpError(503, "too many long answers at this moment: try again later")
    headers = {"Content-Disposition": f'attachment; filename="item-{item}"'}
    return Response(body, 200, headers, BYTES)


@router.get("/queues/{queue}/items/{item}/life", summary="The life of an item",
            model=models.Life)  # fmt: skip
async def get_life(
    request: Request,
    call: Call,
    queue: str,
    item: _Id,
    journal: Annotated[bool, Meta(description="Read the records of the journal.")] = False,
    after: Annotated[str, Meta(max_length=_PLACE_MAX, description="A cursor.")] = "",
) -> Response:
    """Answer with what is known of the item now; with `journal=1` what the journal says of it, a
    part for each call: go on with `next`. An item that is gone has a life in the journal alone."""
    found = find_queue(call, queue)
    try:
        lsn = check_assigned(found, item)
    except ClientError as error:
        raise HttpError(404, str(error)) from None
    if lsn:
        await call.until_shown(Rests(found.log, lsn))
    life = ItemLife(found, item, call, LogReader(call))
    place = _place(after)
    head = {"id": item, "looked_bytes": 0, "left_bytes": 0, "is_whole": False, "next": None}
    if not journal:
        events = await call.run(life.known())
        return answer({**head, "state": _state(found, item), "events": list(map(asdict, events))})
    try:
        part = await call.run(life.part(place))
    except LostPlace:
        text = "after: this part of the journal was rewritten meanwhile: begin again without it"
        raise HttpError(404, text) from None
    cursor = ":".join(map(str, part.next)) if part.next is not None else None
    return answer({
        **head, **part._asdict(), "state": _state(found, item),
        "events": list(map(asdict, part.events)), "next": next_page(request, cursor),
    })  # fmt: skip


def _place(text: str) -> tuple[int, int] | None:
    """Return the segment and the offset of a cursor."""
    if not text:
        return None
    number, colon, offset = text.partition(":")
    if not colon:
        raise HttpError(400, "after: take it from `next` of the part before")
    at = whole("after", offset, 0, _OFFSET_MAX)
    if at % _ALIGN_BYTES:
        raise HttpError(400, "after: take it from `next` of the part before")
    return whole("after", number, 1, _OFFSET_MAX), at


def _state(queue: AnyQueue, id_: int) -> str:
    browse = Browse(queue)
    if not browse.has(id_):
        return "gone"
    state = browse.state(id_)[0].decode("ascii")
    return "leased" if state == "lent" else state
