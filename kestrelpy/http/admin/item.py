"""More of one item: its whole body, as a file.

One rule: a browser saves a body and never shows it: what clients store is not trusted.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.admin.common import ERRORS, NUMBER_MAX, call_of, find_queue
from kestrelpy.http.admin.items import inspect
from kestrelpy.http.answers import HttpError
from kestrelpy.http.models import errors
from kestrelpy.operations import PAGE_BYTES_MAX

router: Final = APIRouter(prefix="/admin", tags=["admin: items"], responses=ERRORS)
BYTES: Final = "application/octet-stream"
_BODY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}},
    **errors(503),
}
_Id = Annotated[int, Path(ge=1, le=NUMBER_MAX, description="The item's number.")]


@router.get("/queues/{queue}/items/{item}/body", summary="The body of an item, as a file",
            response_class=Response, responses=_BODY)  # fmt: skip
async def get_body(request: Request, queue: str, item: _Id) -> Response:
    """Answer with the whole body, whatever state the item is in."""
    call = call_of(request)
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
