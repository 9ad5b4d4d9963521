"""Requests for a sliced queue, which is in all slices: one answer of theirs, as of one queue.

    POST items                   the slice of the key or the id, else that of the connection
    POST leases                  each slice in turn, and then all at once: `SlicedTaking`
    leases/{token}               the slice that issued the token
    streams/{name}               the slice of the key
    the queue, pause, flush      all slices

What a slice cannot say of the whole queue is refused with one sentence.

One rule: a request reaches each slice once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar

from kestrelpy.errors import ClientError
from kestrelpy.http.answers import HttpError
from kestrelpy.http.checks import Rejected, header_of
from kestrelpy.http.items_and_leases import COUNT_MAX, WAIT_MS_MAX, key_values
from kestrelpy.http.slices import merging, ordered
from kestrelpy.http.slices.asked import Asked, SliceAnswer
from kestrelpy.http.slices.merging import Members
from kestrelpy.http.slices.sliced_taking import SlicedTaking, Whole
from kestrelpy.http.streams import stream_of
from kestrelpy.http.values import duration_ms

_IDEMPOTENCY_KEY: Final = b"idempotency-key"
_DIGITS_MAX: Final = 16
_T = TypeVar("_T")
_QUEUE: Final = "/admin/queues/{queue}"


class Start(Protocol):
    """How work begins that goes on when the client hangs up."""

    def __call__(self, work: Coroutine[Any, Any, _T], /) -> asyncio.Task[_T]:
        """Begin it."""


class SlicedDoor(Protocol):
    """The request at the door, as this module sees it."""

    async def pass_on(self, number: int) -> None:
        """Pass the request to a slice, and its answer to the client."""

    async def body(self) -> bytes:
        """Return the body of the request."""

    async def say(self, said: SliceAnswer) -> None:
        """Answer."""

    @property
    def any_slice(self) -> int:
        """A slice that serves."""

    @property
    def whole(self) -> Whole:
        """How a slice is asked."""

    producer: int  # the slice where its connection puts; 0: none yet

    def free(self) -> None:
        """Free the memory of a connection that is gone."""


class SlicedRequest:
    """One request for a queue that is in all slices."""

    __slots__ = ("_asked", "_door", "_name", "_queues", "_start")

    def __init__(
        self, asked: Asked, name: bytes, door: SlicedDoor,
        start: Start,
    ) -> None:  # fmt: skip
        self._asked, self._name, self._door, self._start = asked, name, door, start
        self._queues = asked.router.sliced_queues

    async def run(self) -> None:
        """Answer it; raise Rejected, SliceAway, SliceEnded."""
        assert self._asked.route is not None
        if b"+" in self._name:
            raise self._refused("has no children")
        try:
            await _STEPS.get(self._asked.route.path, SlicedRequest._refuse)(self)
        except ClientError as error:
            raise Rejected(400, str(error)) from None

    def _refused(self, why: str) -> Rejected:
        word = self._name.decode("utf-8", "replace")
        return Rejected(409, f"queue {word} is sliced, and a sliced queue {why}")

    async def _refuse(self) -> None:
        asked = self._asked
        assert asked.route is not None
        label = f"{asked.method} {asked.route.path}"
        raise self._refused(f"takes no {label}: its items are numbered in each slice")

    # -- one slice --------------------------------------------------------------------------

    async def _put(self) -> None:
        asked, queues, door = self._asked, self._queues, self._door
        id_ = asked.query.get("id", "").encode() or header_of(asked.scope, _IDEMPOTENCY_KEY)
        key = key_values(asked.scope["query_string"])
        producer = door.producer = queues.slice_of_producer(door.producer)
        if key or not queues.reads_bodies(self._name):
            await door.pass_on(queues.slice_of(self._name, key, b"", id_, producer))
            return
        body = await door.body()
        number = queues.slice_of(self._name, key, body, id_, producer)
        await door.say(await door.whole(number, asked.target, body))

    async def _end_lease(self) -> None:
        token, number = self._asked.parts["token"], self._door.any_slice
        if token.isascii() and token.isdigit() and len(token) <= _DIGITS_MAX:
            number = self._queues.placement.slice_of_token(self._name, int(token))
        await self._door.pass_on(number)

    async def _stream(self) -> None:
        try:
            key = stream_of(self._asked.parts["name"]).key
        except HttpError:  # a slice words the refusal
            await self._door.pass_on(self._door.any_slice)
            return
        await self._door.pass_on(self._queues.slice_of(self._name, key, b"", b"", 0))

    async def _of_schedule(self) -> None:
        await self._door.pass_on(self._queues.placement.slice_of(self._name))

    async def _category(self) -> None:
        raise self._refused("has no category: its streams are in all slices, read each of them")

    # -- leases -----------------------------------------------------------------------------

    async def _lease(self) -> None:
        asked, body = self._asked, await self._door.body()
        count, wait = asked.query.get("count", "1"), asked.query.get("wait", "0")
        names = [each.partition(b"=")[0] for each in asked.scope["query_string"].split(b"&")]
        is_count = count.isascii() and count.isdigit() and 1 <= int(count[:4]) <= COUNT_MAX
        try:
            wait_ms = duration_ms("wait", wait, WAIT_MS_MAX)
        except HttpError:
            wait_ms = -1
        if body or not is_count or wait_ms < 0 or len({*names}) < len(names):
            await self._door.say(await self._door.whole(self._door.any_slice, asked.target, body))
            return
        taking = SlicedTaking(
            asked, self._queues.order(self._name), self._door.whole, int(count), wait_ms,
            self._door.free,
        )  # fmt: skip
        task = self._start(taking.run())
        try:
            said = await asyncio.shield(task)
        except asyncio.CancelledError:
            taking.leave()
            if task.done():
                self._start(taking.give_back())
            raise
        await self._door.say(said)

    # -- all slices -------------------------------------------------------------------------

    async def _answers(self) -> list[SliceAnswer]:
        """Return the answers of the slices that have the queue; of none, those of all. All are
        asked in any case. Raise SliceAway, SliceEnded."""
        body = await self._door.body()
        target, whole = self._asked.target, self._door.whole
        found = await ordered.all_of(whole(each, target, body) for each in self._queues.slices)
        return [each for each in found if each.status != 404] or found

    async def _of_all(self) -> None:
        await self._door.say(merging.merged(_counted, self._asked, await self._answers()))

    async def _acknowledge(self) -> None:
        answers = await self._answers()
        lost = [each for each in answers if each.status == 200]  # the others have lost nothing
        if any(each.status >= 500 for each in answers):
            lost = []
        await self._door.say(merging.merged(_counted, self._asked, lost or answers))

    async def _queue(self) -> None:
        merge = _counted if self._asked.method == "DELETE" else _details
        await self._door.say(merging.merged(merge, self._asked, await self._answers()))

    async def _delayed(self) -> None:
        await self._door.say(merging.merged(_soonest, self._asked, await self._answers()))


def _counted(asked: Asked, answers: list[Members]) -> Members:
    """Return how many items it concerned; a pause concerns one queue."""
    is_one = asked.route is not None and asked.route.path.endswith(("/pause", "/resume"))
    count = 1 if is_one else sum(each["count"] for each in answers)
    return {**answers[0], "count": count}


def _details(asked: Asked, answers: list[Members]) -> Members:
    """Return one queue: sums, and settings that are the same everywhere."""
    return merging.whole_queue(answers)


def _soonest(asked: Asked, answers: list[Members]) -> Members:
    """Return the delayed items that are due next."""
    rows: list[dict[str, Any]] = [row for each in answers for row in each["delayed"]]
    rows.sort(key=lambda row: row["due_ms"])
    return {
        "delayed": rows[: asked.limit()], "count": sum(each["count"] for each in answers),
    }  # fmt: skip


_STEPS: Final = {
    "/queues/{queue}/items": SlicedRequest._put, "/queues/{queue}/leases": SlicedRequest._lease,
    "/queues/{queue}/leases/{token}": SlicedRequest._end_lease,
    "/streams/{name}": SlicedRequest._stream, "/categories/{name}": SlicedRequest._category,
    _QUEUE: SlicedRequest._queue, _QUEUE + "/delayed": SlicedRequest._delayed,
    _QUEUE + "/pause": SlicedRequest._of_all, _QUEUE + "/resume": SlicedRequest._of_all,
    _QUEUE + "/flush": SlicedRequest._of_all, _QUEUE + "/acknowledge": SlicedRequest._acknowledge,
    "/admin/schedules/{name}/run": SlicedRequest._of_schedule,
}  # fmt: skip
