"""Health, readiness, and all figures in one answer.

    /health      200 while the server serves, 503 if a journal has failed
    /ready       200 while it stores new items, else 503 with the reason in a word; new queues alone
                 may be refused: a warning
    /stats.json  the figures of the server and of its queues, in parts

One rule: each walk over the queues leaves turns to others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Generator
from typing import Annotated, Any, Final, cast
from urllib.parse import quote

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import LIMITED
from kestrelpy.http.answers import Parts, answer, without_paths
from kestrelpy.http.call import Call
from kestrelpy.http.models import Error
from kestrelpy.http.routing import Router
from kestrelpy.operations import (
    PAUSE,
    QueueFacts,
    Totals,
    queue_facts,
    server_facts,
    survey,
)

router: Final = Router("health", responses=LIMITED)
_encode: Final = msgspec.json.Encoder().encode
QUEUES_MAX: Final = 10_000
_PER_PART: Final = 100
_NOT_STORING: Final = ("failed", "disk_full")
_SEEN_MS: Final = 1000


class Readiness:
    """The worst state of all queues, seen a moment ago.

    It needs no login, so it walks over the queues at most once a second.
    """

    def __init__(self) -> None:
        self._seen_ms: int | None = None
        self._health: str | None = None

    async def health(self, call: Call) -> str:
        """Return the state, at most a second old."""
        now_ms = call.now_ms()
        is_fresh = self._seen_ms is not None and now_ms - self._seen_ms < _SEEN_MS
        if self._health is None or not is_fresh:
            self._seen_ms = now_ms
            try:
                self._health = (await totals_of(call)).health
            except BaseException:
                self._seen_ms = None  # the client hung up: the next one walks
                raise
        return self._health


@router.get(
    "/health", summary="How the server is", model=models.HealthNow,
    responses={503: {
        "model": models.HealthNow | Error, "description": "A journal has failed.",
    }},
)  # fmt: skip
async def get_health(call: Call) -> Response:
    """Answer 503 if the journal of any queue has failed."""
    totals, closed = await totals_of(call), call.host.closed
    health = "failed" if closed else totals.health
    reason = closed or totals.reason
    body = {
        "status": health, "reason": reason and without_paths(reason), "unwell": totals.unwell,
        "uptime_seconds": (call.now_ms() - call.host.started_ms) // 1000, "unserved": [],
    }  # fmt: skip
    return answer(body, 503 if health == "failed" else 200)


@router.get(
    "/ready", summary="Whether the server takes new items", model=models.Ready,
    responses={503: {
        "model": models.Ready | Error, "description": "It takes none now: the answer says why.",
    }},
)  # fmt: skip
async def get_ready(request: Request, call: Call) -> Response:
    """Answer 503 if the server stops, is not up, or has a queue that can store nothing, or no queue
    and can make none.

    While only new queues are refused it is ready: the others go on. It needs no login.
    """
    health = await cast(Readiness, request.scope["shared"].readiness).health(call)
    why: str | None = None
    if call.host.is_leaving:
        why = "stopping"
    elif call.host.closed:
        why = call.host.closed
    elif call.host.mode != "up":
        why = call.host.mode
    elif health in _NOT_STORING:
        why = health
    elif call.broker.no_new_queue and not call.broker.queues:
        why = "no_new_queue"
    warning = without_paths(call.broker.no_new_queue) or None
    body = {"ready": why is None, "why": why, "warning": warning}
    return answer(body, 200 if why is None else 503)


@router.get(
    "/stats.json", summary="All figures", model=models.Stats
)
async def get_stats(
    call: Call,
    limit: Annotated[int, Meta(ge=1, le=QUEUES_MAX, description="Queues at most.")] = 1000,
    after: Annotated[str, Meta(max_length=128, description="The queue before the first.")] = "",
) -> Response:
    """Answer with the figures of the server, and of its queues in the order of their names."""
    totals = await totals_of(call)
    facts = server_facts(call.broker, call.host, totals, call.now_ms())
    names = sorted(call.broker.queues)
    begin = bisect_right(names, after.encode("utf-8", "surrogatepass")) if after else 0
    some = names[begin : begin + limit]
    next_path = None
    if begin + limit < len(names):
        next_path = f"/stats.json?limit={limit}&after={quote(some[-1].decode('ascii'))}"
    shown = facts._asdict()
    if facts.health_reason is not None:
        shown["health_reason"] = without_paths(facts.health_reason)
    head = b'{"server":%b,"queues":{' % _encode(shown)
    return Parts(_stats(call, head, some, b'},"next":%b}' % _encode(next_path)))


async def totals_of(call: Call) -> Totals:
    """Return the totals of all queues."""
    return await call.run(survey(call.broker, call.now_ms()))


async def _stats(
    call: Call, head: bytes, names: list[bytes], tail: bytes
) -> AsyncIterator[bytes]:
    yield head
    is_first = True
    for start in range(0, len(names), _PER_PART):
        now_ms, rows = call.now_ms(), list[bytes]()
        for name in names[start : start + _PER_PART]:
            if (queue := call.broker.queues.get(name)) is not None:
                row = shown_queue(queue_facts(queue, now_ms))
                rows.append(_encode(name.decode("ascii")) + b":" + _encode(row))
        if rows:
            yield (b"" if is_first else b",") + b",".join(rows)
            is_first = False
        await call.run(pause())
    yield tail


def shown_queue(facts: QueueFacts) -> dict[str, Any]:
    """Return the facts of a queue as members; its reason without folders."""
    row = facts._asdict()
    if facts.reason is not None:
        row["reason"] = without_paths(facts.reason)
    return row


def pause() -> Generator[bytes, None, None]:
    """Leave one turn to others."""
    yield PAUSE
