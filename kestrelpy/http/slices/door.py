"""The application of the router: checks as before every server, then a slice, or all of them.

    guard's checks ──▶ the row of the route ──▶ one slice: passed through, both ways
                                            ├──▶ all slices: asked at once, one answer of theirs
                                            └──▶ a sliced queue: `sliced`

One rule: a client that hangs up hangs up in the slices, and a slice that ends in the middle of an
answer ends the client's connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

from starlette.requests import Request

from kestrelpy.errors import ClientError, SliceAway
from kestrelpy.http.admin import members_of_fleet
from kestrelpy.http.answers import MISTAKE, SAFETY_HEADERS, HttpError, refused
from kestrelpy.http.app import checks_of, route_of
from kestrelpy.http.call import Gone
from kestrelpy.http.checks import Checks, Rejected, say, send_answer
from kestrelpy.http.listener import Admission, HttpConnection, HttpListener, Receive, Scope, Send
from kestrelpy.http.live import STREAMS_MAX
from kestrelpy.http.slices import merging, metrics, ordered
from kestrelpy.http.slices.asked import Asked, SliceAnswer, to_client
from kestrelpy.http.slices.links import Links, SliceEnded, SliceLink
from kestrelpy.http.slices.live import ViewOfSlices
from kestrelpy.http.slices.ports import SlicesPort
from kestrelpy.http.slices.sliced import SlicedRequest
from kestrelpy.http.slices.table import (
    Anywhere,
    Drain,
    FleetView,
    Here,
    LiveView,
    Metrics,
    Numbered,
    OfAll,
    OfAllThere,
    OfQueue,
    ReloadAll,
    Row,
    StartsJob,
    queue_of,
    row_of,
)

log = logging.getLogger("kestrelpy.router")

_T = TypeVar("_T")
# What leaves out a slice that is away, such as /health, waits no longer for an answer: the process
# of a slice may be asleep.
ANSWER_SECONDS: Final = 5.0
# Above this a merge leaves the loop to others.
_LARGE_BYTES: Final = 64 << 10


def open_router(
    slices: SlicesPort, admission: Admission, allowed_hosts: frozenset[str]
) -> HttpListener:
    """Return the listener of a router, which does not listen yet."""
    door = Door(slices, Links(slices), checks_of(allowed_hosts))
    return HttpListener(door, admission, at_close=door.close)


class Door:
    """The application that uvicorn's protocol calls."""

    __slots__ = ("_checks", "_links", "_slices", "_tasks", "is_ending", "streams")

    def __init__(self, slices: SlicesPort, links: Links, checks: Checks) -> None:
        self._slices = slices
        self._links = links
        self._checks = checks
        self.is_ending = asyncio.Event()
        self.streams = 0  # of live views
        self._tasks: set[asyncio.Task[Any]] = set()  # they go on when their client hangs up

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Begin work that goes on when its client hangs up."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, SliceAway | SliceEnded | Rejected):
            log.error("a lease from several slices", exc_info=error)

    def close(self) -> None:
        """The router ends: streams of live views end, and no request waits in a free connection."""
        self.is_ending.set()
        self._links.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        connection: HttpConnection = scope["connection"]
        if connection.transport.is_closing():
            return
        task = asyncio.current_task()
        assert task is not None
        connection.at_hang_up = task.cancel
        began = False

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                named = {name for name, _ in message["headers"]}
                message["headers"] += [pair for pair in SAFETY_HEADERS if pair[0] not in named]
            await send(message)

        try:
            self._checks.check(scope)
            request = _Request(self._slices, self._links, self._checks, scope, receive, answer)
            await request.run(self)
        except Rejected as rejected:
            await say(answer, rejected.status, str(rejected), rejected.headers)
        except SliceAway as away:
            connection.end_after_this()  # its body may not have been read
            await say(answer, 503, str(away))
        except SliceEnded:
            if began:
                connection.transport.close()
                return
            connection.end_after_this()
            await say(answer, 502, "its slice ended before it had answered: the request may have "
                      "been carried out, or not")  # fmt: skip
        except Gone:
            pass
        except asyncio.CancelledError:
            if not connection.transport.is_closing():
                raise
        except Exception:  # a bug: this request ends, the others do not
            log.exception("%s %s", scope["method"], scope["path"])
            if not began:
                await say(answer, 500, MISTAKE)


class _Request:
    """One request and its answer."""

    def __init__(
        self, slices: SlicesPort, links: Links, checks: Checks, scope: Scope, receive: Receive,
        send: Send,
    ) -> None:  # fmt: skip
        self._slices, self._links, self._checks = slices, links, checks
        self._scope, self._receive, self._send = scope, receive, send
        self._connection: HttpConnection = scope["connection"]
        method, path = scope["method"], scope["path"]
        found = route_of(method, path)
        if found is None and method == "HEAD":
            found = route_of("GET", path)
        self._route = found[0] if found is not None else None
        self._asked = Asked.of(scope, self._route, found[1] if found is not None else {}, slices)

    async def run(self, door: Door) -> None:
        """Send it where its row says, and answer."""
        row = row_of(self._route)
        name = self._queue_of(row)
        if name is not None and self._slices.is_sliced(name):
            await SlicedRequest(self._asked, name, self, door.start).run()
        elif isinstance(row, OfQueue):
            await self.pass_on(self.any_slice if name is None else self._of(name))
        elif isinstance(row, Here):
            await self._answer_here()
        elif isinstance(row, Numbered):
            await self._pass_numbered(row.part)
        elif isinstance(row, StartsJob):
            await self._start_job()
        elif isinstance(row, OfAll):
            answers = await self._ask_all(await self.body(), by_number=row.by_number)
            await self._merge(row.merge, answers)
        elif isinstance(row, OfAllThere):
            answers, away = await self._ask_those_there(await self.body())
            await self.say(row.merge(self._asked, answers, away))
        elif isinstance(row, Metrics):
            await self._add_up()
        elif isinstance(row, FleetView):
            await self._fleet()
        elif isinstance(row, ReloadAll):
            await self._reload()
        elif isinstance(row, Drain):
            await self._drain()
        elif isinstance(row, LiveView):
            await (self._stream(door) if row.is_stream else self._view())
        else:
            assert isinstance(row, Anywhere)
            await self.pass_on(self.any_slice)

    # -- which slice ------------------------------------------------------------------------

    def _queue_of(self, row: Row) -> bytes | None:
        """Return the queue of the request; None: it concerns no one queue."""
        if isinstance(row, OfQueue):
            return row.name(self._asked)
        return queue_of(self._asked) if isinstance(row, StartsJob) else None

    def _of(self, name: bytes) -> int:
        """Return the slice of a queue."""
        return self._slices.placement.slice_of(name)

    @property
    def _numbers(self) -> range:
        return range(1, self._asked.slices + 1)

    @property
    def any_slice(self) -> int:
        """A slice that serves, on this machine if there is one."""
        slices = self._slices
        there = [each for each in self._numbers if slices.why_away(each) is None]
        return next((each for each in there if slices.is_here(each)), there[0] if there else 1)

    @property
    def producer(self) -> int:
        """The slice where the connection puts into sliced queues; 0: none yet."""
        return self._connection.producer

    @producer.setter
    def producer(self, number: int) -> None:
        self._connection.producer = number

    def free(self) -> None:
        """Free the memory of the connection, which is gone."""
        self._connection.share.shrink(0)

    # -- one slice --------------------------------------------------------------------------

    @asynccontextmanager
    async def _link(self, number: int, is_patient: bool = True) -> AsyncIterator[SliceLink]:
        """Give a connection to a slice, which is free afterwards if its answer is whole."""
        try:
            link = await self._links.take(number, is_patient)
        except SliceAway as away:
            raise SliceAway(merging.sentence(number, str(away))) from None
        try:
            yield link
        finally:
            self._links.give(number, link)

    async def pass_on(self, number: int) -> None:
        """Pass the request to a slice, and its answer to the client, part by part."""
        asked = self._asked
        most = self._checks.body_most(self._scope)
        async with self._link(number) as link:
            link.begin(asked.head(asked.target), is_head=asked.method == "HEAD")
            if asked.has_body:
                await self._send_body(link, most)
            await link.answer_begins()
            await self._answer_with(link)

    async def _send_body(self, link: SliceLink, most: int) -> None:
        """Send the client's body, as it comes; stop if the slice answers before its end."""
        sending = asyncio.create_task(self._pass_parts(link, most))
        answering = asyncio.create_task(link.answer_begins())
        try:
            await asyncio.wait((sending, answering), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            else:
                answering.result()  # it is refused, or the slice has ended
                link.may_go_on = False
                self._connection.end_after_this()
        finally:
            for each in (sending, answering):
                each.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)

    async def _pass_parts(self, link: SliceLink, most: int) -> None:
        is_chunked, share = self._asked.is_chunked, self._connection.share
        async for part in self._parts(most):
            await link.send(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
            share.shrink(max(share.held - len(part), 0))
        if is_chunked:
            await link.send(b"0\r\n\r\n")

    async def _parts(self, most: int) -> AsyncIterator[bytes]:
        """Yield the body of the request; raise Gone, Rejected."""
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            if part := message["body"]:
                size += len(part)
                if size > most:
                    raise self._checks.too_large(self._scope, most)
                yield part
            if not message["more_body"]:
                return

    async def _answer_with(self, link: SliceLink) -> None:
        headers = to_client(link.headers)
        await self._send({
            "type": "http.response.start", "status": link.status, "headers": headers,
        })  # fmt: skip
        async for part in link.parts():
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def body(self) -> bytes:
        """Return the body of the request."""
        most = self._checks.body_most(self._scope)
        return b"".join([part async for part in self._parts(most)])

    async def whole(
        self, number: int, target: bytes, body: bytes = b"", method: str = "",
        is_patient: bool = True, begun: Callable[[SliceLink], None] | None = None,
    ) -> SliceAnswer:  # fmt: skip
        """Return the whole answer of a slice to a request of this client. Raise SliceEnded,
        SliceAway: unless `is_patient` also if it has not answered soon. `begun` is called with the
        connection once the request is on its way."""
        try:
            async with asyncio.timeout(None if is_patient else ANSWER_SECONDS):
                return await self._answer_of(number, target, body, method, is_patient, begun)
        except TimeoutError:
            raise SliceAway(merging.sentence(number, "it does not answer")) from None

    async def _answer_of(
        self, number: int, target: bytes, body: bytes, method: str, is_patient: bool,
        begun: Callable[[SliceLink], None] | None,
    ) -> SliceAnswer:  # fmt: skip
        asked, share = self._asked, self._connection.share
        if asked.method == "HEAD":
            method = "GET"  # an answer is made of the bodies
        length = len(body) if body or asked.has_body else None
        async with self._link(number, is_patient) as link:
            link.begin(asked.head(target, length, method) + body)
            if begun is not None:
                begun(link)
            await link.answer_begins()
            parts = list[bytes]()
            async for part in link.parts():
                # What holds leases waits for room.
                if not share.hold(len(part)) and not (begun and await share.reserve(len(part))):
                    raise Rejected(503, "too many long answers at this moment: try again later")
                parts.append(part)
            return SliceAnswer(link.status, to_client(link.headers), b"".join(parts))

    async def say(self, said: SliceAnswer) -> None:
        headers = [pair for pair in said.headers if pair[0] != b"content-length"]
        await send_answer(self._send, said.status, said.body, headers)

    # -- all slices -------------------------------------------------------------------------

    async def _ask_all(self, body: bytes = b"", *, by_number: bool = False) -> list[SliceAnswer]:
        """Return the answers of all slices, in order; raise SliceAway, SliceEnded."""
        return await ordered.all_of(
            self.whole(each, self._target_for(each, by_number), body) for each in self._numbers
        )

    def _target_for(self, number: int, by_number: bool) -> bytes:
        """Return the path and query for a slice: a cursor that it counts itself is its own."""
        after = self._asked.query.get("after", "")
        if not by_number or not (after.isascii() and after.isdigit()):
            return self._asked.target
        own = merging.after_in(number, int(after), self._asked.slices)
        return self._asked.with_query(after=own)

    async def _merge(self, merge: merging.Merge, answers: list[SliceAnswer]) -> None:
        size = sum(len(each.body) for each in answers)
        if size > _LARGE_BYTES:
            said = await asyncio.to_thread(merging.merged, merge, self._asked, answers)
        else:
            said = merging.merged(merge, self._asked, answers)
        await self.say(said)

    async def _ask_those_there(self, body: bytes) -> tuple[list[SliceAnswer], dict[int, str]]:
        """Return the answers of those slices that serve, and why the others do not."""
        away = {each: why for each in self._numbers if (why := self._slices.why_away(each))}
        there = [each for each in self._numbers if each not in away]
        target = self._asked.target
        found = await ordered.each_of(
            self.whole(each, target, body, is_patient=False) for each in there
        )
        for number, said in zip(there, found, strict=True):
            if isinstance(said, SliceAway | SliceEnded):
                away[number] = self._slices.why_away(number) or ordered.why_not(said)
        return [each for each in found if isinstance(each, SliceAnswer)], away

    async def _add_up(self) -> None:
        answers = await self._ask_all(await self.body())
        refusal = next((each for each in answers if each.status != 200), None)
        if refusal is not None:
            await self.say(refusal)
            return
        counted = {
            'kestrelpy_connections{wire="memcache"}': float(self._slices.memcache_connections),
            'kestrelpy_connections{wire="http"}': float(self._slices.http_connections),
            "kestrelpy_connections_opened_total": float(self._slices.connections_total),
        }
        texts = [*(each.body for each in answers), metrics.of_fleet(self._slices.fleet_now)]
        body = await asyncio.to_thread(metrics.merged, texts, counted)
        await self.say(answers[0]._replace(body=body))

    async def _fleet(self) -> None:
        """Say how the slices and members are. Without users that needs no slice: none may serve."""
        body = await self.body()
        try:
            said = await self.whole(self.any_slice, self._asked.target, body, is_patient=False)
        except (SliceAway, SliceEnded):
            if self._slices.needs_login:
                raise
            said = merging.in_json(200, {})
        if said.status == 200:
            said = merging.in_json(200, members_of_fleet(await self._slices.fleet()))
        await self.say(said)

    async def _reload(self) -> None:
        """Let every slice read the configuration again, or none; the router does so after them."""
        body = await self.body()
        query, trial, is_trial = ordered.trial_of(self._asked.query, body)
        target = self._asked.with_query(**query) if query else self._asked.target
        checked = merging.merged(merging.first, self._asked, await ordered.all_of(
            self.whole(each, target, trial) for each in self._numbers
        ))  # fmt: skip
        if checked.status == 200 and (why := await self._slices.why_not_reloaded()):
            checked = merging.refusal(503, why)
        if checked.status != 200 or is_trial:
            await self.say(checked)
            return
        done = merging.merged(merging.first, self._asked, await self._ask_all(body))
        if done.status == 200:
            self._slices.reload_beside()
        else:  # the file has changed since, or a queue
            why = f"not reloaded in every slice: {merging.why_refused(done)}"
            done = merging.refusal(done.status, why)
        await self.say(done)

    # -- the page ---------------------------------------------------------------------------

    def _live(self) -> ViewOfSlices:
        share = self._connection.share
        held = share.held

        def ask(number: int, target: bytes, is_patient: bool) -> ordered.Asking:
            return self.whole(number, target, is_patient=is_patient)

        return ViewOfSlices(self._asked, ask, lambda: share.shrink(held))

    async def _view(self) -> None:
        await self.body()
        found = await self._live().look()
        await self.say(found if isinstance(found, SliceAnswer) else merging.in_json(200, found))

    async def _stream(self, door: Door) -> None:
        await self.body()
        if self._asked.method == "HEAD":
            await self.pass_on(self.any_slice)
            return
        if door.streams >= STREAMS_MAX:
            raise Rejected(503, f"{STREAMS_MAX} live views are open: close one, or ask /views")
        door.streams += 1
        try:
            refusal = await self._live().stream(self._send, door.is_ending)
        finally:
            door.streams -= 1
        if refusal is not None:
            await self.say(refusal)

    # -- numbers, jobs, the end -------------------------------------------------------------

    async def _pass_numbered(self, part: str) -> None:
        """Pass on what concerns a job or a connection, which its slice has numbered."""
        asked, said = self._asked, self._asked.parts[part]
        if not (said.isascii() and said.isdigit() and int(said)):
            await self.pass_on(self.any_slice)
            return
        slice_, own = merging.slice_of_number(int(said), asked.slices)
        target = asked.target.replace(f"/{said}".encode(), b"/%d" % own, 1)
        answer = await self.whole(slice_, target, await self.body())
        await self.say(ordered.renumbered(answer, slice_, asked.slices, (own, int(said))))

    async def _start_job(self) -> None:
        """Pass on what may become a job. Its slice sends items to other slices."""
        slice_ = self._of(queue_of(self._asked))
        answer = await self.whole(slice_, self._asked.target, await self.body())
        await self.say(ordered.renumbered(answer, slice_, self._asked.slices))

    async def _drain(self) -> None:
        """End the router, if a slice would let this client drain it."""
        body = await self.body()
        query, trial, is_trial = ordered.trial_of(self._asked.query, body)
        target = self._asked.with_query(**query) if query else self._asked.target
        answer = await self.whole(self.any_slice, target, trial)
        if answer.status == 200 and not is_trial:
            client = self._scope.get("client")
            peer = f"{client[0]}:{client[1]}" if client else "unknown"
            try:
                self._slices.shutdown(f"drain by http {peer}")
            except ClientError as error:
                raise Rejected(403, str(error)) from None
            answer = merging.in_json(202, {"count": 1})
        await self.say(answer)

    async def _answer_here(self) -> None:
        assert self._route is not None
        self._scope["body"] = await self.body()
        try:
            response = await self._route.answered(self._scope, self._asked.parts)
        except HttpError as error:
            response = refused(error)
        await response(
            Request(self._scope).scope, cast(Any, self._receive), cast(Any, self._send)
        )
