"""Claims: up to 20 leases at once, renewed and released together.

    POST   …/claims?limit=5&wait=20   {"ttl": 300, "grace": 60}   ──▶ 201, or 204: there is nothing
    GET    …/claims/{id}                                          ──▶ 200, or 404: it is over
    PATCH  …/claims/{id}              {"ttl": 300}                ──▶ 204  renewed
    DELETE …/claims/{id}                                          ──▶ 204  released

One rule: a claim is the tokens in its id; it lasts while one of its leases does.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from kestrelpy.core import AnyQueue
from kestrelpy.http.answers import HttpError, answer, nothing
from kestrelpy.http.call import Gone
from kestrelpy.http.lease_taker import LeaseTaker, Taken
from kestrelpy.http.models import errors, header, request_parts
from kestrelpy.http.routing import Router
from kestrelpy.http.zaqar import models
from kestrelpy.http.zaqar.ask import Ask
from kestrelpy.http.zaqar.ids import ClaimId, claim_id
from kestrelpy.http.zaqar.shown import age, message
from kestrelpy.operations import Claiming, LeaseEnd, LogReader, SeenItem, seen_of

TTL: Final = 300
GRACE: Final = 60
SECONDS_MIN: Final = 60
SECONDS_MAX: Final = 43_200

router: Final = Router("messaging", responses=models.ERRORS)
_CLAIMS: Final = "/v2/queues/{queue}/claims"


class ClaimTimes(msgspec.Struct, forbid_unknown_fields=True):
    """How long a claim lasts, and its messages after it; null is the default."""

    ttl: int | None = None
    grace: int | None = None

    def checked(self) -> tuple[int, int]:
        """Return both in ms; raise HttpError."""
        ttl = TTL if self.ttl is None else self.ttl
        grace = GRACE if self.grace is None else self.grace
        for name, value in (("ttl", ttl), ("grace", grace)):
            if not SECONDS_MIN <= value <= SECONDS_MAX:
                raise HttpError(
                    400, f"{name} is {value}: {SECONDS_MIN} to {SECONDS_MAX} seconds are allowed"
                )
        return ttl * 1000, grace * 1000


@router.post(
    _CLAIMS, status=201, summary="Claim messages", model=models.Messages,
    responses={
        201: {"headers": {"Location": header("The claim.")}},
        204: {"description": "There is nothing to claim."},
    },
    reads=request_parts(body=models.TIMES),
)  # fmt: skip
async def create(
    ask: Ask, limit: models.Limit = models.LIMIT, wait: models.Wait = 0
) -> Response:
    """Claim up to `limit` messages; wait up to `wait` seconds for the first."""
    name = ask.name
    ttl_ms, grace_ms = (ask.json(ClaimTimes) or ClaimTimes()).checked()
    call = ask.call
    taker = LeaseTaker(call, name, ttl_ms, in_one=True, grace_ms=grace_ms)
    taken = await taker.take(limit, wait * 1000)
    if taken is None:
        return nothing()
    try:
        await call.until(*taken.rests)
    except Gone:
        taken.give_back(call.now_ms())
        raise
    claim = ClaimId(taken.leases[0].token, len(taken.leases))
    unix_ms = call.now_ms() + call.broker.clock.offset_ms
    messages = _taken(taken, ask.path, claim, unix_ms)
    return answer({"messages": messages}, 201, {"Location": f"{ask.path}/claims/{claim}"})


@router.get(
    _CLAIMS + "/{claim}", summary="Show a claim", model=models.Claim,
    responses=errors(404),
)  # fmt: skip
async def show(ask: Ask, claim: str) -> Response:
    """Show a claim and the messages that it holds."""
    call, id_, found = ask.call, claim_id(claim), LeaseEnd(ask.call.broker).queue(ask.name)
    if found is None or id_ is None:
        raise _over(claim)
    claiming = Claiming(found, id_.tokens)
    puts = await call.run(claiming.puts(LogReader(call), call.now_ms()))
    now_ms = call.now_ms()
    leases, unix_ms = claiming.leases(now_ms), now_ms + call.broker.clock.offset_ms
    if not leases:
        raise _over(claim)
    entry = claiming.entry(leases[0])
    held = {lease.item.id for lease in leases}
    seen = [seen_of(found, put, unix_ms) for put in puts if put.id in held]
    return answer({
        "age": age(entry.since_ms, unix_ms),
        "ttl": (entry.deadline_ms - entry.since_ms) // 1000,
        "href": f"{ask.path}/claims/{id_}",
        "messages": [message(found, ask.path, each, unix_ms, id_) for each in seen if each],
    })  # fmt: skip


@router.patch(
    _CLAIMS + "/{claim}", status=204, summary="Renew a claim", responses=errors(404),
    reads=request_parts(body=models.TIMES),
)  # fmt: skip
async def renew(ask: Ask, claim: str) -> Response:
    """Let the claim last for `ttl` from now."""
    name = ask.name
    ttl_ms, grace_ms = (ask.json(ClaimTimes) or ClaimTimes()).checked()
    call, id_, found = ask.call, claim_id(claim), LeaseEnd(ask.call.broker).queue(name)
    if found is None or id_ is None:
        raise _over(claim)
    claiming = Claiming(found, id_.tokens)
    expiries = await _expiries(ask, found, claiming)
    call.now_ms()
    rests = await call.with_room(
        lambda: claiming.renew(ttl_ms, grace_ms, expiries, call.last_command_ms)
    )
    if not rests:
        raise _over(claim)
    await call.until(*rests)
    return nothing()


@router.delete(_CLAIMS + "/{claim}", status=204, summary="Release a claim")
async def release(ask: Ask, claim: str) -> Response:
    """Give the messages of the claim back; there need not be such a claim."""
    call, id_, found = ask.call, claim_id(claim), LeaseEnd(ask.call.broker).queue(ask.name)
    if found is not None and id_ is not None:
        await call.until(*Claiming(found, id_.tokens).release(call.now_ms()))
    return nothing()


async def _expiries(ask: Ask, queue: AnyQueue, claiming: Claiming) -> dict[int, int]:
    """Return when the messages of a claim expire; after a restart only the log knows it."""
    call = ask.call
    leases = claiming.leases(call.now_ms())
    found = {lease.item.id: lease.item.expires_ms for lease in leases}
    if not all(lease.item.stored_ms for lease in leases):
        puts = await call.run(claiming.puts(LogReader(call), call.now_ms()))
        found |= {put.id: put.expires_ms for put in puts}
    return found | {id_: ms for id_ in found if (ms := queue.reader.expiries.get(id_))}


def _taken(taken: Taken, path: str, claim: ClaimId, unix_ms: int) -> list[dict[str, Any]]:
    queue, shown = taken.queue, list[dict[str, Any]]()
    for lease, body in zip(taken.leases, taken.bodies, strict=True):
        item = lease.item
        seen = SeenItem(item.id, item.stored_ms, item.expires_ms, body, lease.attempts + 1)
        shown.append(message(queue, path, seen, unix_ms, claim))
    return shown


def _over(claim: str) -> HttpError:
    return HttpError(404, f"claim {claim[:40]} is over, or never was")
