"""Queues: pages of them, and one with its settings, markers, journal, leases and keys.

One rule: reading changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import AnyQueue
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import (
    ERRORS,
    After,
    Limit,
    find_queue,
    next_page,
)
from kestrelpy.http.admin.health import shown_queue
from kestrelpy.http.admin.models import shown
from kestrelpy.http.answers import HttpError, answer, without_paths
from kestrelpy.http.call import Call
from kestrelpy.http.routing import Router
from kestrelpy.operations import (
    PAUSE,
    QUEUE_SORTS,
    QueueOrder,
    journal_facts,
    list_delayed,
    list_keys,
    list_leases,
    list_queues,
    marker_facts,
    queue_facts,
)

router: Final = Router("admin: queues", prefix="/admin", responses=ERRORS)
_PER_SLICE: Final = 100
_CHILDREN_MAX: Final = 100
_CURSOR_MAX: Final = 200
Sort = Literal[
    "name", "items", "bytes", "delayed", "leased", "dead", "waiters", "total_items", "logsize"
]
assert set(QUEUE_SORTS) == set(get_args(Sort))


@router.get("/queues", summary="Queues, searched and sorted", model=models.QueuePage)
async def get_queues(
    request: Request,
    call: Call,
    search: Annotated[str, Meta(max_length=128, description="A part of the name.")] = "",
    sort: Annotated[Sort, Meta(description="By which figure.")] = "name",
    order: Annotated[Literal["up", "down"], Meta(description="Its direction.")] = "up",
    limit: Limit = 100,
    after: Annotated[str, Meta(max_length=_CURSOR_MAX, description="A cursor.")] = "",
) -> Response:
    """Answer with a page of queues; `matched` counts those of all pages."""
    wanted = QueueOrder(
        search.encode("utf-8", "surrogatepass"), sort, order == "down",
        _cursor(after) if after else None, limit,
    )  # fmt: skip
    page = await call.run(list_queues(call.broker, wanted))
    rows = await call.run(_rows(call, page.queues))
    cursor = f"{page.next[0]}:{page.next[1].decode('ascii')}" if page.next else None
    return answer({
        "queues": rows, "matched": page.matched, "next": next_page(request, cursor),
    })  # fmt: skip


def _cursor(text: str) -> tuple[int, bytes]:
    value, colon, name = text.partition(":")
    if not (colon and value.isascii() and value.isdigit() and name.isascii()):
        raise HttpError(400, "after: take it from `next` of the page before")
    return int(value), name.encode()


def _rows(call: Call, queues: list[AnyQueue]) -> Generator[bytes, None, list[dict[str, Any]]]:
    rows, now_ms = list[dict[str, Any]](), call.now_ms()
    for number, queue in enumerate(queues, 1):
        row = shown_queue(queue_facts(queue, now_ms))
        rows.append({"name": queue.name.decode("ascii"), **row})
        if not number % _PER_SLICE:
            yield PAUSE
    return rows


@router.get("/queues/{queue}", summary="One queue", model=models.Queue)
async def get_queue(call: Call, queue: str) -> Response:
    """Answer with its figures, settings in force with their sources, markers and journal."""
    found = find_queue(call, queue)
    return answer({
        **members_of_queue(found, call.now_ms()),
        "settings": [
            {"name": key, "value": without_paths(value), "source": source}
            for key, value, source in call.host.settings(found.name, found.declared)
        ],
    })  # fmt: skip


def members_of_queue(queue: AnyQueue, now_ms: int) -> dict[str, Any]:
    """Return the facts of one queue as members, without its settings."""
    name = queue.name.decode("ascii")
    parent = queue.files.name.decode("ascii") if queue.child is not None else None
    children = [
        f"{name}+{child.decode('ascii')}" for child in islice(queue.children, _CHILDREN_MAX)
    ]
    return {
        "name": name, "parent": parent, "children": children,
        "facts": shown_queue(queue_facts(queue, now_ms)),
        "markers": marker_facts(queue)._asdict(), "journal": shown(journal_facts(queue)),
    }  # fmt: skip


@router.get("/queues/{queue}/leases", summary="Leases", model=models.LeasePage)
async def get_leases(
    request: Request, call: Call, queue: str, limit: Limit = 100, after: After = 0
) -> Response:
    """Answer with the leases, by the ids of their items."""
    found = find_queue(call, queue)
    facts, cursor = await call.run(list_leases(found, after, limit, call.now_ms()))
    rows = [shown(each) for each in facts]
    return answer({"leases": rows, "next": next_page(request, cursor)})


@router.get("/queues/{queue}/delayed", summary="Delayed items that are due next",
            model=models.DelayedList)  # fmt: skip
async def get_delayed(call: Call, queue: str, limit: Limit = 100) -> Response:
    """Answer with when the next delayed items are available, the soonest one first."""
    found = find_queue(call, queue)
    rows = [shown(each) for each in list_delayed(found, limit)]
    return answer({"delayed": rows, "count": found.reader.delays.count})


@router.get("/queues/{queue}/keys", summary="Keys and their holders", model=models.KeyPage)
async def get_keys(
    request: Request,
    call: Call,
    queue: str,
    blocked: Annotated[bool, Meta(description="Only keys that an item waits for.")] = True,
    limit: Limit = 100,
    after: After = 0,
) -> Response:
    """Answer with keys: the item that is first for each, its holder, and how many wait."""
    page = list_keys(find_queue(call, queue), after, limit, only_blocked=blocked)
    rows = [shown(each) for each in page.keys]
    return answer({"keys": rows, "next": next_page(request, page.next)})
