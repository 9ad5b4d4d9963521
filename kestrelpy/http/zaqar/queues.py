"""Queues of a project: list, make, change, delete; their figures, and purge.

    GET /v2/queues?limit=&marker=&name=&detailed=&with_count=&<key>=<value>
    PUT, GET, HEAD, PATCH, DELETE /v2/queues/{q}    GET …/stats    POST …/purge

One rule: a project sees its own queues and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime
from heapq import nsmallest
from re import compile as pattern
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from journal.store import Put
from kestrelpy.core import AnyQueue
from kestrelpy.durations import shown
from kestrelpy.http.answers import HttpError, answer, nothing
from kestrelpy.http.models import errors, header, request_parts
from kestrelpy.http.routing import Router
from kestrelpy.http.zaqar import models
from kestrelpy.http.zaqar.ask import Ask
from kestrelpy.http.zaqar.ids import MessageId
from kestrelpy.http.zaqar.metadata import (
    METADATA_BYTES_MAX,
    Metadata,
    checked,
    in_force,
    parsed,
    patched,
    settings_of,
    stored_form,
)
from kestrelpy.http.zaqar.projects import own_name
from kestrelpy.http.zaqar.shown import age, href
from kestrelpy.operations import PAUSE, LeaseEnd, LogReader, QueueAdmin, Rests

router: Final = Router("messaging", responses=models.ERRORS)
_QUEUES: Final = "/v2/queues"
_QUEUE: Final = "/v2/queues/{queue}"
_PATCH_TYPE: Final = "application/openstack-messaging-v2.0-json-patch"
_NAMES_PER_SLICE: Final = 1000
_PARSED_PER_SLICE: Final = 50
_LOOKED_FOR_ENDS: Final = 100
_WORDS: Final = frozenset({"marker", "limit", "detailed", "name", "with_count"})
_PATTERN: Final = pattern(r"\^?([A-Za-z0-9_.*\-]{0,80})\$?")


class Purge(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be purged; absent: all."""

    resource_types: list[Literal["messages", "subscriptions"]] | None = None


# -- the listing ------------------------------------------------------------------------------


@router.get(
    _QUEUES, summary="List queues", model=models.ProjectQueues,
    reads=request_parts(models.METADATA_FILTER),
)  # fmt: skip
async def listing(
    ask: Ask, limit: models.Limit = models.LIMIT,
    marker: Annotated[str, Meta(description="After this name.")] = "",
    name: Annotated[
        str, Meta(description="The beginning of a name; `.*` stands for anything.")
    ] = "",
    detailed: Annotated[models.Flag, Meta(description="With metadata.")] = False,
    with_count: Annotated[models.Flag, Meta(description="With how many match.")] = False,
) -> Response:  # fmt: skip
    """List the queues of the project by name, after the marker."""
    wanted = {key: value for key, value in ask.query.items() if key not in _WORDS}
    names, count = await ask.call.run(_names(ask, limit, marker, _matcher(name), wanted))
    found = []
    for own in names:
        each: dict[str, Any] = {"name": own, "href": f"{_QUEUES}/{own}"}
        queue = ask.call.broker.queues.get(ask.prefix + own.encode())
        if detailed and queue is not None:
            each["metadata"] = in_force(parsed(queue.metadata))
        found.append(each)
    links = [{"rel": "next", "href": ask.next_href(_QUEUES, names[-1])}] if names else []
    more = {"count": count} if with_count else {}
    return answer({"queues": found, "links": links, **more})


def _names(
    ask: Ask, most: int, after: str, is_named: Callable[[str], bool], wanted: dict[str, str]
) -> Generator[bytes, None, tuple[list[str], int]]:
    """Return the first names after the marker, and the number of all that match."""
    queues, prefix = ask.call.broker.queues, ask.prefix
    names, first, count = list(queues), list[str](), 0
    step = _PARSED_PER_SLICE if wanted else _NAMES_PER_SLICE
    for at in range(0, len(names), step):
        own = (own_name(name, prefix) for name in names[at : at + step])
        some = [name for name in own if name is not None and is_named(name)]
        if wanted:
            some = [name for name in some if _has(queues.get(prefix + name.encode()), wanted)]
        count += len(some)
        first = nsmallest(most, [*first, *(name for name in some if name > after)])
        yield PAUSE
    return first, count


def _has(queue: AnyQueue | None, wanted: dict[str, str]) -> bool:
    """True if the metadata have these values."""
    if queue is None:
        return False
    meta = parsed(queue.metadata)
    return all(key in meta and _as_text(meta[key]) == value for key, value in wanted.items())


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _matcher(text: str) -> Callable[[str], bool]:
    """Return whether a name matches: it begins with the text, in which `.*` stands for anything."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise HttpError(400, f"name is {shown(text)}: the beginning of a name and .* are allowed")
    parts, ends = found[1].split(".*"), text.endswith("$")
    if any("*" in part for part in parts):
        raise HttpError(400, f"name is {shown(text)}: the beginning of a name and .* are allowed")

    def matches(name: str) -> bool:
        if not name.startswith(parts[0]):
            return False
        at = len(parts[0])
        for part in parts[1:]:
            at = name.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return not ends or at == len(name) or (len(parts) > 1 and name.endswith(parts[-1]))

    return matches


# -- one queue --------------------------------------------------------------------------------


@router.put(
    _QUEUE, status=201, summary="Make a queue",
    responses={
        201: {"headers": {"Location": header("The queue.")}},
        204: {"description": "It was there.", "headers": {"Location": header("The queue.")}},
        **errors(409),
    },
    reads=request_parts(body=models.METADATA),
)  # fmt: skip
async def put(ask: Ask) -> Response:
    """Make the queue, with the metadata in the body; of a queue that is there, replace them."""
    name = ask.name
    given: Metadata | None = ask.json(dict[str, Any], METADATA_BYTES_MAX)
    found = ask.call.broker.queues.get(name)
    headers = {"Location": ask.path}
    if found is not None and given is None:
        await ask.call.until(Rests(found.log, found.log.lsn_appended))
        return nothing(204, headers)
    await _set(ask, name, checked(given or {}))
    return nothing(204 if found is not None else 201, headers)


async def _set(ask: Ask, name: bytes, meta: Metadata) -> None:
    """Give the queue these valid metadata, and the settings that follow from them."""
    call = ask.call
    stored, found = stored_form(meta), call.broker.queues.get(name)
    before = settings_of(parsed(found.metadata), ask.full_name) if found is not None else b""
    done = QueueAdmin(call.broker, call.host).set_metadata(
        name, stored, settings_of(meta, ask.full_name), before, call.now_ms(), call.user
    )
    await call.until(done.rests)
    if done.is_new:
        call.host.actions.note(call.who, "declare", call.now_ms(), name)
    if not done.is_in_force:
        raise HttpError(409, "the queue was declared with other settings, not by its metadata")


@router.get(_QUEUE, summary="Show the metadata of a queue", model=dict[str, Any])
async def get(ask: Ask) -> Response:
    """Show the metadata, with the reserved keys; the queue need not be there."""
    found = ask.call.broker.queues.get(ask.name)
    return answer(in_force(parsed(found.metadata) if found is not None else {}))


@router.head(_QUEUE, status=204, summary="Is there such a queue?", responses=errors(404))
async def head(ask: Ask) -> Response:
    """Answer 204 or 404."""
    return Response(b"", 204 if ask.name in ask.call.broker.queues else 404)


@router.patch(
    _QUEUE, summary="Change the metadata of a queue", model=dict[str, Any],
    responses=errors(404, 409, 415),
    reads=request_parts(body=models.PATCH, kind=_PATCH_TYPE, required=True),
)  # fmt: skip
async def patch(ask: Ask) -> Response:
    """Apply the operations of a JSON patch to `/metadata`; show the result."""
    name = ask.name
    kind = ask.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _PATCH_TYPE:
        raise HttpError(415, f"Content-Type must be {_PATCH_TYPE}")
    body = ask.raw(2 * METADATA_BYTES_MAX)
    found = ask.call.broker.queues.get(name)
    if found is None:
        raise HttpError(404, f"there is no queue {ask.own_name[:64]}")
    meta = patched(parsed(found.metadata), body)
    await _set(ask, name, meta)
    return answer(in_force(meta))


@router.delete(_QUEUE, status=204, summary="Delete a queue")
async def delete(ask: Ask) -> Response:
    """Delete the queue with its messages; it need not be there."""
    call = ask.call
    found = call.broker.queues.get(ask.name)
    count = len(found.reader.live) if found is not None else 0
    rests = QueueAdmin(call.broker, call.host).delete(ask.name, call.now_ms())
    await call.until(*(rests or ()))
    if rests is not None:
        call.host.actions.note(call.who, "delete", call.now_ms(), ask.name, count)
    return nothing()


@router.post(
    _QUEUE + "/purge", status=204, summary="Empty a queue",
    reads=request_parts(body=models.PURGE),
)  # fmt: skip
async def purge(ask: Ask) -> Response:
    """Remove all messages that are not claimed."""
    name, call = ask.name, ask.call
    given: Purge = ask.json(Purge) or Purge()
    if given.resource_types is None or "messages" in given.resource_types:
        found = call.broker.queues.get(name)
        count = found.reader.ready.count + found.reader.delays.count if found is not None else 0
        rests = QueueAdmin(call.broker, call.host).flush(name, call.now_ms())
        if rests is not None:
            await call.until(rests)
            call.host.actions.note(call.who, "flush", call.now_ms(), name, count)
    return nothing()


# -- figures ----------------------------------------------------------------------------------


@router.get(_QUEUE + "/stats", summary="Show the figures of a queue", model=models.QueueFigures)
async def stats(ask: Ask) -> Response:
    """Show how many messages are free and claimed, the oldest and the newest."""
    call, found = ask.call, LeaseEnd(ask.call.broker).queue(ask.name)
    figures: dict[str, Any] = {"claimed": 0, "free": 0, "total": 0}
    if found is not None:
        oldest, newest = await call.run(_ends(found, LogReader(call)))
        unix_ms = call.now_ms() + call.broker.clock.offset_ms
        reader = found.reader
        total = reader.live.count - len(reader.dead.deaths)
        leased_dead = len(reader.dead.deaths) - reader.dead.count
        claimed = max(min(len(reader.leases) - leased_dead, total), 0)
        figures = {"claimed": claimed, "free": total - claimed, "total": total}
        for word, put in (("oldest", oldest), ("newest", newest)):
            if put is not None and total:
                stored = datetime.fromtimestamp(put.stored_ms // 1000, UTC)
                figures[word] = {
                    "href": href(ask.path, str(MessageId(found.generation, put.id))),
                    "age": age(put.stored_ms, unix_ms),
                    "created": f"{stored:%Y-%m-%dT%H:%M:%SZ}",
                }
    return answer({"messages": figures})


def _ends(
    queue: AnyQueue, reader: LogReader
) -> Generator[bytes, None, tuple[Put | None, Put | None]]:
    """Return the first and the last message; None: not known, or there is none."""
    ids, deaths = queue.reader.live, queue.reader.dead.deaths
    first, last = ids.first_from(1), ids.last if ids.count else 0
    for _ in range(_LOOKED_FOR_ENDS):
        if first in deaths:
            first = ids.first_from(first + 1)
    some = ids.between(max(last - _LOOKED_FOR_ENDS, 1), last) if last else ids
    last = max((id_ for id_ in some if id_ not in deaths), default=0)
    if not last or not first or first in deaths:
        return None, None
    oldest = yield from reader.find(queue, first)
    newest = yield from reader.find(queue, last)
    return oldest, newest
