"""Items: pages by state and key, one with why it is not delivered, its body and its life; dead
letters by reason; what a queue had at a time.

One rule: an item is shown when it is stored. A body is cut to what was asked for; whole, it is a
file: a browser saves it and never shows it, for what clients store is not trusted.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import AnyQueue, Browse, QueueLife
from kestrelpy.errors import ClientError
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import (
    ERRORS,
    NUMBER_MAX,
    After,
    counted,
    find_queue,
    is_dry_run,
    next_page,
    note,
    refuse_other,
    text_of,
)
from kestrelpy.http.admin.models import shown
from kestrelpy.http.answers import HttpError, answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import DryRun, errors
from kestrelpy.http.routing import Router
from kestrelpy.http.values import whole
from kestrelpy.operations import (
    ITEM_STATES,
    PAGE_BYTES_MAX,
    DeathFilter,
    Deaths,
    GoneFacts,
    Inspection,
    ItemFacts,
    ItemLife,
    ItemList,
    ListedItem,
    LogReader,
    LostPlace,
    QueueAdmin,
    Removal,
    Rests,
    check_assigned,
    marker_facts,
)
from kestrelpy.wire.names import state_word

router: Final = Router("admin: items", prefix="/admin", responses=ERRORS)
LIMIT_MAX: Final = 100
BODY_MAX: Final = 64 << 10
_TEXT_MAX: Final = 256
_BYTES: Final = "application/octet-stream"
_PLACE_MAX: Final = 40
_OFFSET_MAX: Final = (1 << 32) - 1  # of a segment
_ALIGN_BYTES: Final = 8  # of a record
_WHOLE_BODY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {_BYTES: {"schema": {"type": "string", "format": "binary"}}}},
    **errors(503),
}
_TAIL_BYTES: Final = 3  # of a character that may be cut
State = Literal["ready", "leased", "delayed", "dead", "done"]
assert get_args(State) == ITEM_STATES

_Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="How many at most.")]
_Body = Annotated[int, Meta(ge=0, le=BODY_MAX, description="Bytes of a body that are shown.")]
_Id = Annotated[int, Meta(ge=1, le=NUMBER_MAX, description="The item's number.")]


@router.get("/queues/{queue}/items", summary="Items by state and key",
            model=models.ItemPage)  # fmt: skip
async def get_items(
    request: Request,
    call: Call,
    queue: str,
    state: Annotated[State | None, Meta(description="Only items in this state.")] = None,
    key: Annotated[str, Meta(max_length=1024, description="As it is shown: A,B.")] | None = None,
    body: _Body = 256,
    limit: _Limit = 20,
    after: After = 0,
) -> Response:
    """Answer with items. Without a state: all that were ever available. A page may be empty and
    have a `next`: it looks at 10,000 items at most."""
    found = find_queue(call, queue)
    items = ItemList(found, LogReader(call), state or "", key, body, call.now_ms)
    life = QueueLife.of(found)
    page = await call.run(items.page(after, limit))
    refuse_other(life)
    rows = [row_of_item(each) for each in page.items]
    return answer({"items": rows, "next": next_page(request, page.next)})


def row_of_item(item: ListedItem) -> dict[str, Any]:
    """Return the members of an item in a list."""
    row = shown(item._replace(body=b""))
    del row["body"]
    return row | {"is_cut": item.is_cut} | cut_body(item.body, item.is_cut)


def cut_body(body: bytes, is_cut: bool) -> dict[str, str]:
    """Return the beginning of a body as text, or in base64 if it is not UTF-8."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError as error:
        if is_cut and error.start >= len(body) - _TAIL_BYTES and "end of data" in error.reason:
            return {"body": body[: error.start].decode("utf-8")}
    return {"base64": b64encode(body).decode()}


@router.get("/queues/{queue}/items/{item}", summary="One item", model=models.Item)
async def get_item(call: Call, queue: str, item: _Id, body: _Body = 256) -> Response:
    """Answer with its state, why it is not delivered, and the beginning of its body, which has
    `body_bytes` in all."""
    found = find_queue(call, queue)
    facts, stored = await inspect(call, found, item)
    is_cut = stored is not None and len(stored) > body
    row = shown(facts)
    row["state"] = state_word(facts.state)
    row |= cut_body(stored[:body], is_cut) if stored is not None else {}
    body_bytes = len(stored) if stored is not None else facts.bytes
    return answer({**row, "is_cut": is_cut, "body_bytes": body_bytes})


async def inspect(
    call: Call, queue: AnyQueue, id_: int
) -> tuple[ItemFacts, bytes | None]:
    """Return the facts of an item, and its body if that can be read; raise HttpError 404."""
    try:
        lsn = check_assigned(queue, id_)
    except ClientError as error:
        raise HttpError(404, str(error)) from None
    if lsn:
        await call.until_shown(Rests(queue.log, lsn))
    reader = LogReader(call)
    inspection = Inspection(queue, id_, call.host.mode, reader)
    stored, ahead = await call.run(inspection.read())
    put = await call.run(reader.find(queue, id_))
    facts = inspection.facts(stored, ahead, call.now_ms())
    if isinstance(facts, GoneFacts):
        raise HttpError(404, f"item {id_} is gone: {facts.why}")
    return facts, put.body if put is not None else None


@router.get("/queues/{queue}/dead", summary="Dead letters", model=models.DeathPage)
async def get_dead(
    request: Request,
    call: Call,
    queue: str,
    reason: (
        Annotated[
            str, Meta(min_length=0, max_length=1024, description="Exactly this; empty: none.")
        ]
        | None
    ) = None,
    limit: _Limit = 100,
    after: After = 0,
) -> Response:
    """Answer with dead letters, by number. A page may be empty and have a `next`."""
    deaths = Deaths(find_queue(call, queue))
    wanted = DeathFilter(reason.encode("utf-8", "surrogatepass") if reason is not None else None)
    ids, cursor = deaths.some(wanted, after, limit)
    rows = [shown(each) for each in deaths.facts(ids)]
    return answer({"dead": rows, "next": next_page(request, cursor or None)})


@router.get("/queues/{queue}/dead/reasons", summary="Dead letters by reason",
            model=models.Reasons)  # fmt: skip
async def get_reasons(
    request: Request, call: Call, queue: str, limit: _Limit = 100, after: After = 0
) -> Response:
    """Answer with the dead letters by reason, the largest group first; `after` is the number of
    groups before the page. At most 200,000 dead letters of 10,000 reasons are counted."""
    groups, is_complete = await call.run(Deaths(find_queue(call, queue)).reasons())
    some = groups[after : after + limit]
    cursor = after + limit if len(groups) > after + limit else None
    return answer({
        "reasons": [
            {"reason": text_of(each.reason), "count": each.items, "first_ms": each.first_ms,
             "last_ms": each.last_ms, "sample": each.sample}
            for each in some
        ],
        "matched": len(groups), "counted": sum(each.items for each in groups),
        "is_complete": is_complete, "next": next_page(request, cursor),
    })  # fmt: skip


@router.delete("/queues/{queue}/items/{item}", summary="Remove one item",
               model=models.Count)  # fmt: skip
async def delete_item(
    request: Request, call: Call, queue: str, item: _Id, dry_run: DryRun = "false"
) -> Response:
    """Cancel an item that waits, or purge a dead letter; 404 if it is leased or gone."""
    found = find_queue(call, queue)
    Removal.check(call.broker, call.host, found.name)
    removal = Removal(found, LogReader(call), call.now_ms, call.host)
    neither = HttpError(
        404, f"item {item} of {queue} neither waits nor is dead: nothing is gone"
    )
    if is_dry_run(request, dry_run):
        if removal.is_logged(item) and (unstored := removal.unstored(item)) is not None:
            await call.until_shown(unstored)
        if not await call.run(removal.would_remove(item)):
            raise neither
        return counted(1, True)
    rests = removal.purge(item)
    if rests is None and removal.is_logged(item):
        if (unstored := removal.unstored(item)) is not None:
            await call.until_shown(unstored)
        rests = await call.run(removal.read_and_cancel(item))
    elif rests is None:
        rests = removal.cancel(item)
    if rests is None:
        raise neither
    await call.until(rests)
    note(call, "remove", found.name, 1, f"item {item}")
    return counted(1, False)


@router.post("/queues/{queue}/items/{item}/retry", summary="Make a delayed item available",
             model=models.Count)  # fmt: skip
async def retry_item(call: Call, queue: str, item: _Id) -> Response:
    """Make a delayed item available now; 404 if it is not delayed."""
    found = find_queue(call, queue)
    rests = QueueAdmin(call.broker, call.host).retry(found.name, item, call.now_ms())
    if rests is None:
        raise HttpError(404, f"item {item} of {queue} is not delayed")
    await call.until(rests)
    note(call, "retry", found.name, 1, f"item {item}")
    return answer({"count": 1})


# -- the life of one, and the past of a queue --------------------------------------------------


@router.get("/queues/{queue}/items/{item}/body", summary="The body of an item, as a file",
            responses=_WHOLE_BODY)  # fmt: skip
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
    return Response(body, 200, headers, _BYTES)


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
    return state_word(browse.state(id_)[0].decode("ascii"))


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
    body: _Body = 256,
    limit: _Limit = 20,
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
