"""Leases, as an operator ends or renews them in place of their holder.

    PATCH  /admin/queues/q/leases/7?lease=60s       the lease of item 7 ends 60 s from now
    DELETE /admin/queues/q/leases/7                 its item is given back
    DELETE /admin/queues/q/leases/7?bury=why        its item is a dead letter
    ... ?by=token                                   7 is a token
    ... ?began_ms=1789000000000                     only if this delivery began then
    ... ?dry_run=true                               nothing is changed

One rule: a lease is taken from its holder as if it had expired: what the holder confirms later is
refused, and confirms nothing.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import ABORTED, DEFERRED, AnyQueue, Lease
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import (
    ERRORS,
    NUMBER_MAX,
    counted,
    find_queue,
    is_dry_run,
    note,
)
from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call
from kestrelpy.http.models import DryRun
from kestrelpy.http.routing import Router
from kestrelpy.http.values import above_0_ms
from kestrelpy.operations import LeaseEnd, Rests

router: Final = Router("admin: actions", prefix="/admin", responses=ERRORS)
_REASON_BYTES_MAX: Final = 1024
_LEASE_MS_MAX: Final = 366 * 86_400_000

_Number = Annotated[int, Meta(ge=1, le=NUMBER_MAX, description="The item's number, or a token.")]
_By = Annotated[Literal["item", "token"], Meta(description="What the number is.")]
_Began = Annotated[
    int, Meta(ge=0, le=NUMBER_MAX, description="When the delivery began; 0: whenever it did.")
]
_UNTOLD: Final = "its holder is not told; it keeps the item until then"
_BY_TOKEN: Final = "its token is not valid any more: what its holder confirms is refused"
_BY_CONNECTION: Final = "its holder's next close is answered `lease expired`, and confirms nothing"


@router.patch("/queues/{queue}/leases/{number}", summary="Renew a lease",
              model=models.LeaseTold)  # fmt: skip
async def renew_lease(
    call: Call,
    queue: str,
    number: _Number,
    lease: Annotated[str, Meta(max_length=40, description="It lasts so long from now.")] = "30s",
    by: _By = "item",
    began_ms: _Began = 0,
) -> Response:
    """Let the lease end after this time from now; its holder is not told."""
    found = find_queue(call, queue)
    lease_ms, now_ms = above_0_ms("lease", lease, _LEASE_MS_MAX), call.now_ms()
    held = _lease(found, number, by, began_ms, now_ms)
    if held.deadline_ms is None:
        text = f"item {held.item.id} of {queue} is leased until its holder hangs up"
        raise HttpError(400, f"{text}: there is no time to renew")
    began_ms = held.began_ms

    def renew() -> Rests:
        again_ms = call.last_command_ms
        there = _lease(found, number, by, began_ms, again_ms)
        return LeaseEnd.renew(found, there, lease_ms, again_ms)

    await call.until(await call.with_room(renew))
    note(call, "renew lease", found.name, 1, f"item {held.item.id}, {lease}")
    return _answer(held, _UNTOLD)


@router.delete("/queues/{queue}/leases/{number}", summary="End a lease",
               model=models.LeaseTold)  # fmt: skip
async def end_lease(
    request: Request,
    call: Call,
    queue: str,
    number: _Number,
    by: _By = "item",
    began_ms: _Began = 0,
    bury: Annotated[str, Meta(description="Make it a dead letter, for this.")] | None = None,
    counts: Annotated[bool, Meta(description="The delivery counts as an attempt.")] = False,
    dry_run: DryRun = "false",
) -> Response:
    """Give the item back, or make it a dead letter with `bury=<why>`; what its holder confirms
    later is refused."""
    found = find_queue(call, queue)
    why = (bury or "").encode("utf-8", "surrogatepass")
    if bury is not None and not 0 < len(why) <= _REASON_BYTES_MAX:
        raise HttpError(400, f"bury: a reason of 1 to {_REASON_BYTES_MAX} bytes is allowed")
    if bury is not None and counts:
        raise HttpError(400, "bury and counts contradict each other")
    now_ms = call.now_ms()
    held = _lease(found, number, by, began_ms, now_ms)
    holder, is_by_token, id_ = held.holder.name, held.by_token, held.item.id
    if is_dry_run(request, dry_run):
        return _answer(held, _BY_TOKEN if is_by_token else _BY_CONNECTION, is_dry_run=True)
    if bury is not None:
        rests = LeaseEnd.revoke(found, held, now_ms, why, buries=True)
    else:
        rests = LeaseEnd.revoke(found, held, now_ms, ABORTED if counts else DEFERRED)
    await call.until(rests)
    action = "end lease" if bury is None else "bury leased"
    note(call, action, found.name, 1, f"item {id_} of {holder}")
    return _answer(held, _BY_TOKEN if is_by_token else _BY_CONNECTION)


def _lease(queue: AnyQueue, number: int, by: str, began_ms: int, now_ms: int) -> Lease:
    """Return the lease that is meant; raise HttpError 404 if it is over."""
    name = queue.name.decode("ascii")
    if queue.log.failure is not None:
        queue.raise_failed()
    leases = queue.reader.leases
    found = leases.by_token(number) if by == "token" else leases.of(number)
    if found is None or (found.deadline_ms is not None and found.deadline_ms <= now_ms):
        raise HttpError(404, f"no lease of {name} has the {by} {number}: it is over, or never was")
    if found.is_moving:
        raise HttpError(404, f"item {number} of {name} is being moved, and leased to no client")
    if began_ms not in (0, found.began_ms):
        raise HttpError(404, f"this lease of {name} is over: another delivery has begun since")
    return found


def _answer(lease: Lease, notice: str, *, is_dry_run: bool = False) -> Response:
    return counted(1, is_dry_run, item=lease.item.id, holder=lease.holder.name, told=notice)
