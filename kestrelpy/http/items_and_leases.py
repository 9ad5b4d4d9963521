"""Items and leases for people with curl, by plain queue names.

    POST   /queues/jobs/items?key=A&delay=5s          ──▶ 201 {"id": 7}
    POST   /queues/jobs/leases?count=2&wait=10s       ──▶ 200 {"leases": [...]}
    PATCH  /queues/jobs/leases/1048577?lease=60s      ──▶ 204  renewed      (delay=: deferred)
    DELETE /queues/jobs/leases/1048577                ──▶ 204  confirmed    (abort, bury=: ended)

One rule: as on the memcache wire, 201 means that the item is on disk, and a lease ends only by its
token, its time, or the end of its item.
"""

from __future__ import annotations

from base64 import b64encode
from math import ceil
from re import compile as pattern
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote, unquote_to_bytes

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from journal.format import ItemHeader, text_of
from kestrelpy.core import ABORTED, DEFERRED, DUPLICATE, REUSED, AnyQueue, Delay, Lease
from kestrelpy.durations import shown
from kestrelpy.errors import InvalidToken
from kestrelpy.http.answers import HttpError, answer, nothing
from kestrelpy.http.call import Call, Gone
from kestrelpy.http.lease_taker import LeaseTaker, Taken
from kestrelpy.http.models import (
    BYTES,
    IDEMPOTENCY_KEY,
    TEXT_HEADERS,
    WHY,
    DryRun,
    Duplicate,
    Leases,
    Stored,
    WouldEnd,
    errors,
    header,
    refusals,
    request_parts,
)
from kestrelpy.http.routing import Router
from kestrelpy.http.values import (
    above_0_ms,
    duration_ms,
    id_of,
    is_true,
    prefers_raw,
    queue_name,
    texts_of,
)
from kestrelpy.operations import LeaseEnd, Rests, Storing, Terms, left_ms, texts_shown, why_reused

COUNT_MAX: Final = 100
WAIT_MS_MAX: Final = 60_000
_FLAGS_MAX: Final = (1 << 32) - 1
_TOKEN_MAX: Final = (1 << 53) - 1
_REASON_BYTES_MAX: Final = 1024
_DATE_MS_BELOW: Final = 1 << 53
_SECONDS: Final = pattern(r"[0-9]{1,13}(?:\.[0-9]{1,9})?")
_LEASE: Final = "30s"
_RAW: Final = "application/octet-stream"
_ONE_RAW: Final[dict[str, Any]] = {
    "description": "The leases and their items; as octet-stream one body.",
    "content": {_RAW: {"schema": BYTES}},
    "headers": {
        name: header("With an octet-stream.")
        for name in ("Lease-Token", "Item-Id", "Item-Attempts", "Item-Flags")
    },
}

_Token = Annotated[int, Meta(ge=1, le=_TOKEN_MAX)]
_Abort = Annotated[
    Literal["", "true", "1"] | None, Meta(description="Give the item back instead: it counts.")
]

router: Final = Router("queues", responses=refusals(413))
_QUEUE: Final = "/queues/{queue}"


@router.post(
    _QUEUE + "/items", status=201, summary="Store the body as one item",
    model=Stored,
    responses={
        200: {"model": Duplicate, "description": "Its id was seen before."},
        422: {"description": WHY[422]},
    },
    reads=request_parts(IDEMPOTENCY_KEY, *TEXT_HEADERS),
)  # fmt: skip
async def post_item(
    request: Request,
    call: Call,
    queue: str,
    body: bytes,
    key: Annotated[str, Meta(
        description="Values of its key, with commas between them.",
        extra_json_schema={"x-bytes": True},
    )] = "",
    id_: Annotated[str, Meta(description="Its id: stored once within the queue's window.")] = "",
    delay: Annotated[str, Meta(description="Available after this time, for instance 5s.")] = "",
    at: Annotated[str, Meta(description="Available at this time, in unix seconds.")] = "",
    expires: Annotated[str, Meta(description="Its life, for instance 1h.")] = "",
    flags: Annotated[int, Meta(ge=0, le=_FLAGS_MAX, description="The flags of memcache.")] = 0,
) -> Response:
    """Answer 201 when the item is on disk; 200 if its id was seen before; 422 if that was with
    another body or key."""
    name = queue_name(queue)
    now_ms = call.now_ms()
    unix_ms = now_ms + call.broker.clock.offset_ms
    lifetime_ms = above_0_ms("expires", expires) if expires else 0
    once, texts = id_of(request, id_), texts_of(request)
    terms = Terms(
        flags=flags, expires_ms=lifetime_ms and unix_ms + lifetime_ms,
        key=key_values(request.scope["query_string"]), delay=_delay(delay, at),
        header=ItemHeader(once, texts=texts) if once or texts else None,
    )  # fmt: skip
    storing = Storing(call.broker, call.host)
    storing.check_mode()
    if name in call.broker.aliases:
        raise HttpError(400, f"{queue} is an alias: name one of its queues")
    _check_size(call, name, len(body))

    def put() -> tuple[AnyQueue, int, int]:
        target = storing.queue(name, terms, body, call.last_command_ms)
        assert target is not None, "no version is asked for"
        number, stored = target.next_number, terms
        if lifetime_ms:  # it may have waited
            until_ms = call.last_command_ms + call.broker.clock.offset_ms + lifetime_ms
            stored = terms._replace(expires_ms=until_ms)
        return target, number, storing.put(target, body, stored, call.last_command_ms)

    target, number, lsn = await call.with_room(put)
    log = target.log
    call.broker.counters.cmd_set += 1
    await call.until(Rests(log, lsn if lsn >= 0 else log.lsn_appended))
    if lsn >= 0:
        return answer({"id": number}, 201)
    if lsn == DUPLICATE:
        first = target.dedupe.ids.item_of(terms.id, target.policy, unix_ms)
        return answer({"duplicate": True, "id": first or None})
    if lsn == REUSED:
        raise HttpError(422, why_reused(name, terms.id))
    raise HttpError(503, f"queue {queue} is full")


@router.post(
    _QUEUE + "/leases", summary="Lease the next items", model=Leases,
    responses={200: _ONE_RAW, 204: {"description": "There is no item (octet-stream)."}},
)  # fmt: skip
async def post_leases(
    request: Request,
    call: Call,
    queue: str,
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX, description="How many at most.")] = 1,
    wait: Annotated[str, Meta(description="How long to wait for the first, up to 60s.")] = "0",
    lease: Annotated[str, Meta(description="How long the leases last.")] = _LEASE,
) -> Response:
    """Answer with the leases and their items; with `Accept: application/octet-stream` with the
    body of one item, its token in `Lease-Token`, or 204."""
    name = queue_name(queue)
    lease_ms = above_0_ms("lease", lease)
    is_raw = prefers_raw(request)
    if is_raw and count > 1:
        raise HttpError(400, f"count is {count}: with Accept: {_RAW} the answer is one item")
    taker = LeaseTaker(call, name, lease_ms)
    taken = await taker.take(count, duration_ms("wait", wait, WAIT_MS_MAX))
    if taken is None:
        return nothing() if is_raw else answer({"leases": []})
    try:
        await call.until(*taken.rests)
    except Gone:
        taken.give_back(call.now_ms())
        raise
    return _raw(taken) if is_raw else answer({"leases": _shown(taken, call.now_ms())})


@router.patch(_QUEUE + "/leases/{token}", status=204, summary="Renew a lease, or defer",
              responses=errors(404))  # fmt: skip
async def patch_lease(
    call: Call,
    queue: str,
    token: _Token,
    lease: Annotated[str, Meta(description=f"It lasts for this time from now: {_LEASE}.")] = "",
    delay: Annotated[str, Meta(description="End it; the item is available after this time.")] = "",
) -> Response:
    """Renew the lease; with `delay` give the item back for later, without counting an attempt."""
    if lease and delay:
        raise HttpError(400, "lease and delay contradict each other: delay ends the lease")
    name, lease_ms = queue_name(queue), above_0_ms("lease", lease or _LEASE)
    later = Delay(duration_ms("delay", delay)) if delay else None
    ends = LeaseEnd(call.broker)
    now_ms = call.now_ms()
    found, held = _named(ends, name, token, now_ms)
    if later is not None:
        await call.until(ends.give_back(found, held, now_ms, DEFERRED, later))
    else:
        await call.until(await call.with_room(lambda: ends.renew(
            *_named(ends, name, token, call.last_command_ms), lease_ms, call.last_command_ms
        )))  # fmt: skip
    return nothing()


@router.delete(
    _QUEUE + "/leases/{token}", status=204, summary="Confirm an item",
    responses={200: {"model": WouldEnd, "description": "Of a dry run."}, **errors(404)},
)  # fmt: skip
async def delete_lease(
    call: Call,
    queue: str,
    token: _Token,
    abort: _Abort = None,
    bury: Annotated[str, Meta(description="Make it a dead letter, for this reason.")] | None = None,
    dry_run: DryRun = "false",
) -> Response:
    """Confirm the item; with `abort` give it back, with `bury=<why>` make it a dead letter."""
    name, ends = queue_name(queue), LeaseEnd(call.broker)
    if abort is not None and bury is not None:
        raise HttpError(400, "abort and bury contradict each other")
    why = (bury or "abort").encode()
    if len(why) > _REASON_BYTES_MAX:
        raise HttpError(400, f"bury: the reason has {len(why)} bytes (limit {_REASON_BYTES_MAX})")
    now_ms = call.now_ms()
    found, held = _named(ends, name, token, now_ms)
    if is_true(dry_run):
        end = "dead" if bury is not None else "confirmed" if abort is None else "given back"
        return answer({"item": held.item.id, "would_be": end, "is_dry_run": True})
    if bury is not None:
        rests = ends.bury(found, held, why, now_ms)
    elif abort is not None:
        rests = ends.give_back(found, held, now_ms, ABORTED)
    else:
        rests = ends.confirm(found, held, now_ms)
    await call.until(rests)
    return nothing()


def _named(ends: LeaseEnd, name: bytes, token: int, now_ms: int) -> tuple[Any, Lease]:
    """Return the queue and the lease that the token names; raise InvalidToken."""
    queue = ends.queue(name)
    lease = ends.named(queue, token, now_ms)
    if queue is None or lease is None:
        raise InvalidToken(token, name)
    return queue, lease


def _check_size(call: Call, name: bytes, size: int) -> None:
    queue = call.broker.queues.get(name)
    policy = queue.policy if queue is not None else call.broker.policy_of(name, b"")
    if size > policy.max_item_bytes:
        raise HttpError(413, f"item too large ({size} bytes, limit {policy.max_item_bytes})")


def key_values(raw: bytes) -> tuple[bytes, ...]:
    """Return the values of key= in a query; a comma within one is sent as %2C."""
    for part in raw.split(b"&"):
        word, _, value = part.partition(b"=")
        if unquote_to_bytes(word) == b"key":  # its value is not empty: the check has seen to that
            values = value.replace(b"+", b" ").split(b",")
            return tuple(text_of(unquote_to_bytes(each)) for each in values)
    return ()


def _delay(delay: str, at: str) -> Delay | None:
    if delay and at:
        raise HttpError(400, "delay and at contradict each other")
    if delay:
        return Delay(duration_ms("delay", delay))
    if not at:
        return None
    due_ms = ceil(float(at) * 1000) if _SECONDS.fullmatch(at) else _DATE_MS_BELOW
    if due_ms >= _DATE_MS_BELOW:
        raise HttpError(
            400, f"at is {shown(at)}: unix seconds are allowed, for instance 1789000000.5"
        )
    return Delay(due_ms, True)


def body_member(body: bytes) -> dict[str, str]:
    """Return the body as text, or in base64 if it is not UTF-8."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def _shown(taken: Taken, now_ms: int) -> list[dict[str, Any]]:
    return [
        {
            "token": lease.token, "id": lease.item.id, "attempts": lease.attempts,
            "flags": lease.item.flags, "lease_left_ms": left_ms(lease, now_ms),
            **body_member(body), **texts_shown(lease.item.texts),
        }
        for lease, body in zip(taken.leases, taken.bodies, strict=True)
    ]  # fmt: skip


def _raw(taken: Taken) -> Response:
    lease = taken.leases[0]
    headers = {
        "Lease-Token": str(lease.token), "Item-Id": str(lease.item.id),
        "Item-Attempts": str(lease.attempts), "Item-Flags": str(lease.item.flags),
    }  # fmt: skip
    for name, text in texts_shown(lease.item.texts).items():
        if text is not None:
            headers[f"Item-{name.capitalize()}"] = quote(text)
    return Response(taken.bodies[0], 200, headers, _RAW)
