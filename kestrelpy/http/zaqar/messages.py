"""Messages: post, list, get, delete, pop.

    POST   …/messages  {"messages": [{"ttl": 300, "body": {…}}]}   ──▶ 201  they are on disk
    GET    …/messages?marker=&limit=&echo=&include_claimed=         ──▶ 200  the oldest first
    GET    …/messages?ids=a,b      …/messages/{id}                  ──▶ 200, or 404
    DELETE …/messages?ids=a,b&claim_ids=…   …/messages/{id}?claim_id=…
    DELETE …/messages?pop=5                                         ──▶ 200  taken, and gone

One rule: no request ends what another client has claimed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Annotated, Any, Final

from msgspec import Meta
from starlette.responses import Response

from journal.format import ItemHeader, Tag
from journal.store import Put
from kestrelpy.core import AnyQueue, Delay, Lease, QueueLife, Want
from kestrelpy.durations import shown
from kestrelpy.errors import NoRoomYet, ServerError
from kestrelpy.http.answers import HttpError, answer, nothing
from kestrelpy.http.call import Gone
from kestrelpy.http.lease_taker import LeaseTaker
from kestrelpy.http.models import errors, header, request_parts
from kestrelpy.http.routing import Router
from kestrelpy.http.zaqar import models
from kestrelpy.http.zaqar.ask import LIMIT_MAX, POST_BYTES_MAX, Ask
from kestrelpy.http.zaqar.batch import batch_of, checked, may_repeat, refuse_repeats
from kestrelpy.http.zaqar.ids import ClaimId, Marker, MessageId, message_id
from kestrelpy.http.zaqar.ids import claim_id as claim_of
from kestrelpy.http.zaqar.ids import marker as marker_of
from kestrelpy.http.zaqar.metadata import in_force, parsed
from kestrelpy.http.zaqar.shown import href, message
from kestrelpy.operations import (
    PAUSE,
    UP,
    LeaseEnd,
    LogReader,
    Look,
    Observing,
    Removal,
    Rests,
    SeenItem,
    Sight,
    Storing,
    Terms,
    claimed_by,
    seen_of,
)

router: Final = Router("messaging", responses=models.ERRORS)
_MESSAGES: Final = "/v2/queues/{queue}/messages"
_STORED_PER_SLICE: Final = 200
_POP_LEASE_MS: Final = 60_000
# A message may be claimed while its body is read for its removal, and be given back after that.
_TRIES_MAX: Final = 5


# -- post -------------------------------------------------------------------------------------


@router.post(
    _MESSAGES, status=201, summary="Post messages", model=models.Posted,
    responses={201: {"headers": {"Location": header("The first 20 of them.")}}},
    reads=request_parts(body=models.BATCH, required=True),
)  # fmt: skip
async def post(ask: Ask) -> Response:
    """Store messages in their order; make the queue if there is none."""
    call, name = ask.call, ask.name
    found = call.broker.queues.get(name)
    meta = in_force(parsed(found.metadata)) if found is not None else in_force({})
    most = min(meta["_max_messages_post_size"], POST_BYTES_MAX)
    body = ask.raw(most)
    batch = batch_of(body) if body.strip() else None
    if batch is None or not batch.messages:
        raise HttpError(400, "there are no messages to post")
    if may_repeat(body, batch):
        await call.run(refuse_repeats(body))
    ready = await call.run(checked(batch.messages, meta))
    target, ids, refused = await call.run(_store(ask, name, ready))
    await call.until(Rests(target.log, target.log.lsn_appended))
    if refused is not None:
        raise refused
    hrefs = [href(ask.path, id_) for id_ in ids]
    location = f"{ask.path}/messages?ids={','.join(ids[:LIMIT_MAX])}"
    return answer({"resources": hrefs}, 201, {"Location": location})


def _store(
    ask: Ask, name: bytes, ready: list[tuple[bytes, int, int]]
) -> Generator[bytes, None, tuple[AnyQueue, list[str], ServerError | None]]:
    """Store the messages in slices, all checked before the first; return their ids, and why no more
    of them are stored. Raise Refused: none is."""
    call, broker = ask.call, ask.call.broker
    storing = Storing(broker, call.host)
    storing.check_mode()
    if name in broker.aliases:
        raise HttpError(400, "this name is an alias: name one of its queues")
    found = broker.queues.get(name)
    policy = found.policy if found is not None else broker.policy_of(name, b"")
    for at, (body, _, _) in enumerate(ready):
        if len(body) > policy.max_item_bytes:
            raise HttpError(400, f"message {at} has {len(body)} bytes "
                                 f"(limit {policy.max_item_bytes})")  # fmt: skip
        policy.keys.key_of(name, (), body)
        if at % _STORED_PER_SLICE == _STORED_PER_SLICE - 1:
            yield PAUSE
    ids, target, life = list[str](), None, None
    header = ItemHeader(texts=((Tag.CLIENT, ask.client),))
    for at, (body, ttl, delay) in enumerate(ready):
        while True:
            now_ms = call.now_ms()
            unix_ms = now_ms + broker.clock.offset_ms
            terms = Terms(
                expires_ms=unix_ms + ttl * 1000, delay=Delay(delay * 1000) if delay else None,
                header=header,
            )  # fmt: skip
            if target is None:
                target = storing.queue(name, terms, body, now_ms)
                assert target is not None, "no version is asked for"
                life = QueueLife.of(target)
            if life is not None and life.is_over:
                raise ServerError(f"the queue was deleted after {at} of {len(ready)} messages")
            if call.host.mode != UP:
                why = f"{call.host.mode}: {at} of {len(ready)} messages are stored"
                return target, ids, ServerError(why)
            number = target.next_number
            try:
                lsn = storing.put(target, body, terms, now_ms)
                break
            except NoRoomYet as none_yet:
                call.await_room(none_yet.waiting)
            yield PAUSE
        if lsn < 0:
            why = f"the queue is full: {at} of {len(ready)} messages are stored"
            return target, ids, ServerError(why)
        broker.counters.cmd_set += 1
        ids.append(str(MessageId(target.generation, number)))
        if at % _STORED_PER_SLICE == _STORED_PER_SLICE - 1:
            yield PAUSE
    assert target is not None
    return target, ids, None


# -- list and get -----------------------------------------------------------------------------


@router.get(_MESSAGES, summary="List messages", model=models.MessagePage, responses=errors(404))
async def listing(
    ask: Ask, limit: models.Limit = models.LIMIT, wait: models.Wait = 0,
    ids: Annotated[models.Several, Meta(description="Those with these ids, and no others.")] = (),
    marker: Annotated[str, Meta(description="After this one; take it from `next`.")] = "",
    echo: Annotated[models.Flag, Meta(description="Also the client's own messages.")] = False,
    include_claimed: Annotated[models.Flag, Meta(description="Also claimed messages.")] = False,
    include_delayed: Annotated[models.Flag, Meta(description="Also delayed messages.")] = False,
) -> Response:  # fmt: skip
    """List messages after a marker, or those with these ids."""
    name = ask.name
    if ids:
        for each in ask.query:
            if each != "ids":
                raise HttpError(400, f"ids and {each} contradict each other: ids name the messages")
        return await _by_ids(ask, name, ids)
    begin, sight = marker, Sight(include_claimed, include_delayed)
    if not echo:
        sight = sight._replace(but=ask.client)
    call = ask.call
    due_ms, reader = call.now_ms() + wait * 1000, LogReader(call)
    while True:
        found = LeaseEnd(call.broker).queue(name)
        at = _begin(found, begin)
        if found is not None:
            unix_ms = call.now_ms() + call.broker.clock.offset_ms
            observing = Observing(found, reader, sight, unix_ms)
            look = await call.run(observing.look(at.number, at.delayed, limit))
            at = at._replace(number=look.after, delayed=look.delayed)
            if look.seen or look.is_cut or call.now_ms() >= due_ms:
                return _page(ask, found, look, at)
            begin = str(at)
        elif call.now_ms() >= due_ms:
            return answer({"messages": [], "links": []})
        waiter = await call.wait(Want.OBSERVE, name, due_ms, after=at.number)
        if waiter.owner is None:
            due_ms = 0  # the time is over: the last look


def _begin(queue: AnyQueue | None, text: str) -> Marker:
    """Return where a listing begins; empty: at the first message. Raise HttpError if no listing of
    this queue has that marker."""
    generation = queue.generation if queue is not None else 0
    if not text:
        return Marker(generation, 0)
    at = marker_of(text)
    if at is None:
        raise HttpError(400, f"marker is {shown(text)}: take it from the link `next` of a listing")
    if queue is None:
        return at
    if at.generation < generation:
        return Marker(generation, 0)
    if at.generation > generation:
        raise HttpError(400, f"marker is {shown(text)}: it is of another queue")
    return at


def _page(ask: Ask, queue: AnyQueue, look: Look, at: Marker) -> Response:
    unix_ms = ask.call.now_ms() + ask.call.broker.clock.offset_ms
    listed = [message(queue, ask.path, each, unix_ms) for each in look.seen]
    links = []
    if listed or look.is_cut:
        where = ask.next_href(f"{ask.path}/messages", str(at._replace(generation=queue.generation)))
        links = [{"rel": "next", "href": where}]
    return answer({"messages": listed, "links": links})


async def _by_ids(ask: Ask, name: bytes, ids: Iterable[str]) -> Response:
    found = LeaseEnd(ask.call.broker).queue(name)
    seen = await _seen(ask, found, map(message_id, ids)) if found is not None else []
    if not seen or found is None:
        raise HttpError(404, "none of these messages is there")
    unix_ms = ask.call.now_ms() + ask.call.broker.clock.offset_ms
    return answer({"messages": [message(found, ask.path, each, unix_ms) for each in seen]})


@router.get(
    _MESSAGES + "/{message}", summary="Show a message", model=models.Message,
    responses=errors(404),
)  # fmt: skip
async def get(ask: Ask, message: str) -> Response:
    """Show one message, claimed or not."""
    found = LeaseEnd(ask.call.broker).queue(ask.name)
    seen = await _seen(ask, found, [message_id(message)]) if found is not None else []
    if not seen or found is None:
        raise HttpError(404, f"there is no message {message[:40]}")
    unix_ms = ask.call.now_ms() + ask.call.broker.clock.offset_ms
    return answer(_message(found, ask.path, seen[0], unix_ms))


_message: Final = message


async def _seen(
    ask: Ask, queue: AnyQueue, ids: Iterable[MessageId | None]
) -> list[SeenItem]:
    """Return the messages of this queue, of those with these ids, that are there when all are
    read."""
    call, log, puts = ask.call, queue.log, list[Put]()
    for id_ in ids:
        number = _number(queue, id_)
        if not number:
            continue
        if number > log.item_stored:
            await call.until_shown(Rests(log, log.lsn_appended))
        put: Put | None = await call.run(LogReader(call).find(queue, number))
        if put is not None:
            puts.append(put)
    # (of a queue that was deleted meanwhile nothing is)
    unix_ms = call.now_ms() + call.broker.clock.offset_ms
    return [each for put in puts if (each := seen_of(queue, put, unix_ms)) is not None]


def _number(queue: AnyQueue, id_: MessageId | None) -> int:
    """Return the number of a message of this queue; 0: it is of another one, or none."""
    if id_ is None or id_.generation != queue.generation or id_.number > queue.last_number:
        return 0
    return id_.number


# -- delete and pop ---------------------------------------------------------------------------


@router.delete(_MESSAGES + "/{message}", status=204, summary="Delete a message")
async def delete(
    ask: Ask, message: str,
    claim_id: Annotated[str, Meta(description="The claim that holds it.")] = "",
) -> Response:  # fmt: skip
    """Delete a message, with `claim_id` one that is claimed; it need not be there."""
    name, claim = ask.name, claim_of(claim_id) if claim_id else None
    if claim_id and claim is None:
        raise HttpError(400, "claim_id is no id of a claim")
    found = LeaseEnd(ask.call.broker).queue(name)
    if found is not None:
        await _delete_one(ask, found, _number(found, message_id(message)), claim)
    return nothing()


async def _delete_one(ask: Ask, queue: AnyQueue, number: int, claim: ClaimId | None) -> None:
    call = ask.call
    for _ in range(_TRIES_MAX):
        now_ms = call.now_ms()
        if not number or number not in queue.reader.live or number in queue.reader.dead.deaths:
            await call.until(Rests(queue.log, 0, queue.log.lsn_appended))
            return  # it is gone, and its end is as written as an answer of before
        lease = claimed_by(queue, number, now_ms)
        if lease is not None and (claim is None or lease.token not in claim):
            raise HttpError(403, "the message is claimed, and not by this claim")
        if lease is not None:
            await call.until(LeaseEnd.confirm(queue, lease, now_ms))
            return
        if claim is not None:
            raise HttpError(400, "the claim is over, or does not hold this message")
        if await _cancel(ask, queue, number):
            return


async def _cancel(ask: Ask, queue: AnyQueue, number: int) -> bool:
    """Remove a message that waits; False: it does not, any more."""
    call = ask.call
    Removal.check(call.broker, call.host, queue.name)
    removal = Removal(queue, LogReader(call), call.now_ms, call.host)
    if not removal.is_logged(number):
        rests = removal.cancel(number)
    else:
        if (unstored := removal.unstored(number)) is not None:
            await call.until_shown(unstored)
        rests = await call.run(removal.read_and_cancel(number))
    if rests is not None:
        await call.until(rests)
    return rests is not None


@router.delete(
    _MESSAGES, status=204, summary="Delete or pop messages",
    responses={200: {"model": models.Messages, "description": "With `pop`: they are taken."}},
)  # fmt: skip
async def delete_many(
    ask: Ask, pop: models.Limit | None = None,
    ids: Annotated[models.Several, Meta(description="Those with these ids.")] = (),
    claim_ids: Annotated[models.Several, Meta(description="The claims that hold them.")] = (),
) -> Response:  # fmt: skip
    """Delete messages by their ids, or take up to `pop` of the oldest away."""
    name = ask.name
    if pop is not None and not ids:
        if claim_ids:
            raise HttpError(400, "pop and claim_ids contradict each other: pop takes what is free")
        return await _pop(ask, name, pop)
    if not ids or pop is not None:
        raise HttpError(400, "either ids or pop is needed")
    held = [claim_of(each) for each in claim_ids]
    if None in held:
        raise HttpError(400, "claim_ids has what is no id of a claim")
    found = LeaseEnd(ask.call.broker).queue(name)
    if found is not None:
        await _delete_all(ask, found, ids, [each for each in held if each is not None])
    return nothing()


async def _delete_all(ask: Ask, queue: AnyQueue, ids: Iterable[str], claims: list[ClaimId]) -> None:
    """Delete what is not claimed, or, with claims, what these hold; leave all else."""
    call, rests, rest = ask.call, list[Rests](), list[int]()
    now_ms = call.now_ms()
    for number in (_number(queue, message_id(text)) for text in ids):
        lease: Lease | None = claimed_by(queue, number, now_ms) if number else None
        if lease is not None and any(lease.token in claim for claim in claims):
            rests.append(LeaseEnd.confirm(queue, lease, now_ms))
        elif number and not claims:
            rest.append(number)
    await call.until(*rests)
    for number in rest:
        call.check()
        if not queue.deleted and claimed_by(queue, number, call.now_ms()) is None:
            await _cancel(ask, queue, number)


async def _pop(ask: Ask, name: bytes, count: int) -> Response:
    call = ask.call
    taken = await LeaseTaker(call, name, _POP_LEASE_MS).take(count, 0)
    if taken is None:
        return answer({"messages": []})
    try:
        await call.until(*taken.rests)
    except Gone:
        taken.give_back(call.now_ms())
        raise
    now_ms = call.now_ms()
    unix_ms = now_ms + call.broker.clock.offset_ms
    rests, popped = list[Rests](), list[dict[str, Any]]()
    for lease, body in zip(taken.leases, taken.bodies, strict=True):
        if lease not in lease.holder.leases:
            continue  # it ended meanwhile: the queue was deleted
        item = lease.item
        seen = SeenItem(item.id, item.stored_ms, item.expires_ms, body, lease.attempts + 1)
        popped.append(message(taken.queue, ask.path, seen, unix_ms))
        rests.append(LeaseEnd.confirm(taken.queue, lease, now_ms))
    await call.until(*rests)
    return answer({"messages": popped})
