"""Streams and categories: a key of a queue with its versions, and all streams of a queue in order.

    POST /streams/account-123   If-None-Match: *    ──▶ 201, ETag: "1"       the first event
                                If-Match: "1"       ──▶ 201, ETag: "2"       or 412 expected, actual
                                neither             ──▶ 201                  append
    GET  /streams/account-123?from_version=1        ──▶ its events
    GET  /categories/account?after=0&wait=20s       ──▶ the events of all streams, by marker
                            &member=0&size=3        ──▶ a third of the streams, by their hash

The stream `account-123` is the key `123` of the queue `account`.

One rule: 201 means that the event is on disk and that no other event has its version.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Generator
from hashlib import md5
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from journal.format import ItemHeader, as_text, named_text, text_of
from journal.store import Put
from kestrelpy.core import (
    ANY_VERSION,
    DUPLICATE,
    EXISTS,
    NOT_FOUND,
    REUSED,
    AnyQueue,
    Item,
    QueueLife,
    Want,
)
from kestrelpy.errors import ClientError
from kestrelpy.http.answers import JSON, HttpError, answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import (
    IDEMPOTENCY_KEY,
    WHY,
    Appended,
    CategoryEvents,
    Conflict,
    Duplicate,
    StreamEvents,
    header,
    parameter,
    refusals,
    request_parts,
)
from kestrelpy.http.routing import Router
from kestrelpy.http.values import duration_ms, id_of, queue_name, whole
from kestrelpy.operations import (
    PAGE_BYTES_MAX,
    PAUSE,
    LogReader,
    Rests,
    StreamStore,
    StreamWalk,
    Terms,
    check_stream,
    quoted,
    why_reused,
)

EVENTS_MAX: Final = 1000
# Events that one request looks at for those of its member.
LOOKED_AT_MAX: Final = 10_000
WAIT_MS_MAX: Final = 60_000
_MEMBERS_MAX: Final = 1 << 16
_NUMBER_MAX: Final = (1 << 53) - 1
# Bytes worded in one go: about 2 ms.
_WORDED_BYTES: Final = 1 << 20
_DASH: Final = "-"
_CARDINAL_END: Final = b"+"
_LAST: Final = "last"
_encode: Final = msgspec.json.Encoder().encode
_ETAG: Final = header("The version of the last event, quoted; absent: there is none.")



router: Final = Router("streams", responses=refusals(413))


class Stream(NamedTuple):
    """A stream by its name: the queue, and the value of its key."""

    name: str
    queue: bytes
    key: tuple[bytes, ...]


def stream_of(name: str) -> Stream:
    """Return the stream of this name; raise Refused or HttpError."""
    category, dash, id_ = name.partition(_DASH)
    if not dash or not id_:
        raise HttpError(
            400, f"{name} is a category: a stream's name is <category>-<id>, as account-123"
        )
    return Stream(name, queue_name(category), (text_of(id_.encode()),))


def hash_64(text: bytes) -> int:
    """Return Message DB's hash of a text: a signed number of 64 bits."""
    return int.from_bytes(md5(text, usedforsecurity=False).digest()[:8], "big", signed=True)


def is_of_member(key: bytes, member: int, size: int) -> bool:
    """True if the stream with this canonical key belongs to the member of a group of this size.

    The hash is of the key up to its first +, so streams that differ only after it stay together.
    """
    text = named_text(key)
    if text is None:
        text = as_text(key).encode()
    cardinal = text.partition(_CARDINAL_END)[0]
    return bool(key) and abs(hash_64(cardinal)) % size == member


# -- one stream -------------------------------------------------------------------------------


@router.post(
    "/streams/{name:rest}", status=201, summary="Append the body as one event",
    model=Appended,
    responses={
        200: {"model": Duplicate, "description": "Its id was seen before."},
        201: {"headers": {"ETag": _ETAG}}, 412: {"model": Conflict, "description": WHY[412]},
        422: {"description": WHY[422]},
    },
    reads=request_parts(
        parameter("If-Match", {"type": "string"}, 'Only after this version, as `"4"`.', "header"),
        parameter("If-None-Match", {"const": "*"}, "Only as the first event.", "header"),
        IDEMPOTENCY_KEY,
    ),
)  # fmt: skip
async def post_event(
    request: Request,
    call: Call,
    name: str,
    body: bytes,
    id_: Annotated[str, Meta(description="Its id: stored once within the queue's window.")] = "",
) -> Response:
    """Answer 201 with the version when the event is on disk; 412 if the version is another one;
    200 with the version of the first if its id was seen before in this stream, 422 if that was
    with another body."""
    stream = stream_of(name)
    expects = _expected(request)
    once = id_of(request, id_)
    header = ItemHeader(once, of_key=True) if once else None
    terms = Terms(key=stream.key, header=header, expects=expects)
    store = StreamStore(call.broker, call.host)
    limit = store.limit_of(stream.queue)
    if len(body) > limit:
        raise HttpError(413, f"item too large ({len(body)} bytes, limit {limit})")
    done = await call.with_room(
        lambda: store.append(stream.queue, body, terms, call.now_ms())
    )
    if done.rests is not None:
        await call.until(done.rests)
    if done.lsn >= 0:
        headers = {"ETag": f'"{done.version}"'}
        return answer({"version": done.version, "id": done.number}, 201, headers)
    if done.lsn == DUPLICATE:
        return await _repeated(call, stream, done.number, done.version)
    if done.lsn == REUSED:
        raise HttpError(422, why_reused(name.encode("ascii", "backslashreplace"), terms.id))
    if done.lsn not in (EXISTS, NOT_FOUND):
        raise HttpError(503, f"queue {stream.queue.decode('ascii')} is full")
    wanted = "*" if expects == ANY_VERSION else expects
    raise HttpError(
        412, f"the version of {name} is {done.version}", expected=wanted, actual=done.version
    )


async def _repeated(call: Call, stream: Stream, number: int, version: int) -> Response:
    """Answer that the event was stored before, as this item, with the version that it made then;
    0: its record says which."""
    queue = call.broker.queues.get(stream.queue)
    call.last_command_ms = call.now_ms()
    if queue is not None and number and not version:
        walk = StreamWalk(call, LogReader(call))
        version = await call.run(walk.version_of(queue, number))
    headers = {"ETag": f'"{version}"'} if version else None
    said = {"duplicate": True, "id": number or None, "version": version or None}
    return answer(said, 200, headers)


@router.get(
    "/streams/{name:rest}", summary="The events of one stream, by version",
    model=StreamEvents, responses={200: {"headers": {"ETag": _ETAG}}},
)  # fmt: skip
async def get_stream(
    call: Call,
    name: str,
    from_version: Annotated[str, Meta(description="The first version, or: last.")] = "1",
    limit: Annotated[int, Meta(ge=1, le=EVENTS_MAX, description="How many at most.")] = 100,
) -> Response:
    """Answer with the events that are retained, in the order of their versions."""
    stream, most = stream_of(name), limit
    first = 0
    if from_version != _LAST:
        first = whole("from_version", from_version, 1, _NUMBER_MAX)
    call.broker.counters.cmd_peek += 1
    queue, call.last_command_ms = call.broker.queues.get(stream.queue), call.now_ms()
    if queue is None:
        _refuse_alias(call, stream.queue)
        return answer({"stream": name, "version": 0, "events": []})
    key = check_stream(queue, stream.key, "from_version" if first else "")
    walk, life = StreamWalk(call, LogReader(call)), QueueLife.of(queue)
    if not first:
        first, most = max(walk.version(queue, key), 1), 1
    before = await call.reserve(PAGE_BYTES_MAX)
    version, items = await call.run(walk.page(queue, key, first, most))
    if life.is_over:
        version, items = 0, []  # as if it had been asked for before there is one again
    rests = Rests(queue.log, queue.log.lsn_appended)
    call.broker.counters.get_hits += bool(items)
    call.broker.counters.get_misses += not items
    head = {"stream": name, "version": version}
    data = await call.run(_worded(head, name, items))
    call.share.shrink(before + len(data))
    await call.until_shown(rests)
    return Response(data, 200, {"ETag": f'"{version}"'} if version else None, JSON)


def _worded(
    head: dict[str, Any], name: str, items: list[tuple[int, Item]]
) -> Generator[bytes, None, bytes]:
    """Return the answer, made in slices."""
    lines, size = list[bytes](), 0
    for version, item in items:
        lines.append(_encode({
            "stream": name, "version": version, "marker": item.marker or None,
            **_event(item.put),
        }))  # fmt: skip
        size += len(lines[-1])
        if size >= _WORDED_BYTES:
            size = 0
            yield PAUSE
    return _joined(head, lines)


def _expected(request: Request) -> int | None:
    """Return the version that the stream must have; None: any will do."""
    absent, there = request.headers.get("if-none-match"), request.headers.get("if-match")
    if absent is not None and there is not None:
        raise HttpError(400, "If-Match and If-None-Match contradict each other")
    if absent is not None:
        if absent.strip() != "*":
            raise HttpError(400, "If-None-Match: only * is allowed, for a stream without events")
        return 0
    if there is None:
        return None
    there = there.strip()
    if there == "*":
        return ANY_VERSION
    if len(there) > 1 and there[0] == there[-1] == '"':
        there = there[1:-1]
    return whole("If-Match", there, 0, _NUMBER_MAX)


# -- a category -------------------------------------------------------------------------------


class EventShape:
    """Events of a category as JSON; b"" for those of other members. It runs on a thread."""

    __slots__ = ("_category", "_member", "_size")

    def __init__(self, category: str, member: int, size: int) -> None:
        """A `size` of 0: the events of all streams, and those without one."""
        self._category = category
        self._member = member
        self._size = size

    def lines(self, puts: list[Put]) -> list[bytes]:
        """Return each event in JSON."""
        return [self._line(put) for put in puts]

    def _line(self, put: Put) -> bytes:
        key = put.key
        if self._size and not is_of_member(key, self._member, self._size):
            return b""
        name = None
        if (text := named_text(key)) is not None:
            name = f"{self._category}{_DASH}{text.decode('utf-8', 'backslashreplace')}"
        return _encode({"stream": name, "marker": put.marker, **_event(put)})


class CategoryPage(NamedTuple):
    """Events in JSON, and the marker up to which the category was looked at."""

    lines: list[bytes]
    after: int
    is_over: bool  # True if there was nothing after it


@router.get(
    "/categories/{name}", summary="The events of all streams of a queue, by marker",
    model=CategoryEvents,
)  # fmt: skip
async def get_category(
    call: Call,
    name: str,
    after: Annotated[
        int, Meta(ge=0, le=_NUMBER_MAX, description="The marker of the last event that was seen.")
    ] = 0,
    limit: Annotated[int, Meta(ge=1, le=EVENTS_MAX, description="How many at most.")] = 100,
    member: Annotated[str, Meta(description="Only streams of this member, from 0.")] = "",
    size: Annotated[str, Meta(description="How many members the group has.")] = "",
    wait: Annotated[str, Meta(description="How long to wait for the first, up to 60s.")] = "0",
) -> Response:
    """Answer with the events after the marker, and where to go on: `after`, `next`."""
    category = queue_name(name)
    marker, (me, all_) = after, _group(member, size)
    due_ms = call.now_ms() + duration_ms("wait", wait, WAIT_MS_MAX)
    _refuse_alias(call, category)
    call.broker.counters.cmd_peek += 1
    scan = _Scan(call, category, EventShape(name, me, all_), not all_)
    while True:
        before = await call.reserve(PAGE_BYTES_MAX)
        found = await scan.read(marker, limit)
        call.share.shrink(before + sum(map(len, found.lines)))
        marker = found.after
        if found.lines or not found.is_over or call.now_ms() >= due_ms or call.is_leaving:
            break
        queue = call.broker.queues.get(category)
        seen = max(marker, queue.last_number) if queue is not None else marker
        waiter = await call.wait(Want.OBSERVE, category, due_ms, after=seen)
        if waiter.owner is None:
            break  # the time is over
    call.broker.counters.get_hits += bool(found.lines)
    call.broker.counters.get_misses += not found.lines
    group = f"&member={me}&size={all_}" if all_ else ""
    path = quoted(category)
    head = {
        "category": name, "after": marker,
        "next": f"/categories/{path}?after={marker}&limit={limit}{group}",
    }  # fmt: skip
    return Response(_joined(head, found.lines), 200, None, JSON)


class _Scan:
    """Reads a category for one call."""

    __slots__ = ("_call", "_is_of_all", "_name", "_reader", "_shape")

    def __init__(self, call: Call, name: bytes, shape: EventShape, is_of_all: bool) -> None:
        """`is_of_all`: the shape leaves no event out."""
        self._call = call
        self._is_of_all = is_of_all
        self._name = name
        self._shape = shape
        self._reader = LogReader(call)

    async def read(self, after: int, most: int) -> CategoryPage:
        """Return up to `most` events after this marker. There are fewer if they are large, or if
        many belong to other members."""
        call, lines, begin = self._call, list[bytes](), after
        room, left = PAGE_BYTES_MAX, LOOKED_AT_MAX
        while (queue := call.broker.queues.get(self._name)) is not None:
            wanted = most - len(lines) if self._is_of_all else min(EVENTS_MAX, left)
            if lines and self._reader.must_wait(queue, after):
                return CategoryPage(lines, after, False)
            read = self._reader.page(queue, after, wanted, 0, self._shape)
            found = await call.run(read)
            if found is None:
                self._refuse_failed(queue)
                return CategoryPage(lines, after, True)
            page, browse = found
            if after == begin:
                browse.note_gap(begin, page.puts[0].marker)
            left -= len(page.puts)
            for put, line in zip(page.puts, page.lines, strict=True):
                if line and (len(lines) == most or (lines and len(put.body) > room)):
                    return CategoryPage(lines, after, False)
                after = put.marker
                if line:
                    lines.append(line)
                    room -= len(put.body)
            if len(lines) == most or left <= 0 or room <= 0:
                return CategoryPage(lines, after, False)
        return CategoryPage(lines, after, True)

    @staticmethod
    def _refuse_failed(queue: AnyQueue) -> None:
        if queue.log.failure is not None and queue.last_number > queue.log.item_stored:
            queue.raise_failed()


def _group(member: str, size: str) -> tuple[int, int]:
    """Return the member and the size of its group; a size of 0: no group."""
    if not member and not size:
        return 0, 0
    if not member or not size:
        raise HttpError(400, "member and size go together, as member=0&size=3")
    members = whole("size", size, 1, _MEMBERS_MAX)
    return whole("member", member, 0, members - 1), members


# -- both -------------------------------------------------------------------------------------


def _event(put: Put) -> dict[str, Any]:
    """Return what an event has besides its place."""
    said: dict[str, Any] = {"id": put.id, "stored_ms": put.stored_ms}
    if put.dedupe_id:
        said["idempotency_key"] = put.dedupe_id.decode("utf-8", "backslashreplace")
    try:
        said["body"] = put.body.decode("utf-8")
    except UnicodeDecodeError:
        said["base64"] = b64encode(put.body).decode()
    return said


def _joined(head: dict[str, Any], lines: list[bytes]) -> bytes:
    """Return the answer with these events."""
    return b'%b,"events":[%b]}' % (_encode(head)[:-1], b",".join(lines))


def _refuse_alias(call: Call, name: bytes) -> None:
    if name in call.broker.aliases:
        raise ClientError(f"{name.decode('ascii')} is an alias: name one of its queues")
