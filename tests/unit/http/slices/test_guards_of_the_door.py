"""Each guard of the door behind a wait: what comes meanwhile ends the request, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrelpy.http.call import Gone
from kestrelpy.http.checks import Rejected
from kestrelpy.http.live import STREAMS_MAX
from kestrelpy.http.slices import door
from kestrelpy.http.slices.asked import SliceAnswer
from kestrelpy.http.slices.links import SliceEnded

REFUSED = SliceAnswer(409, [], b"no")
DONE = SliceAnswer(200, [], b"a 1\n")


def parts(*found: tuple[bytes, bool]) -> Iterator[dict[str, Any]]:
    """The messages of a body."""
    for body, more in found:
        yield {"type": "http.request", "body": body, "more_body": more}


class Alone(door._Request):
    """A request without a client and without slices."""

    any_slice = 1


def request_of(messages: Iterable[dict[str, Any]] = (), method: str = "POST") -> Any:
    """A request without a connection; `said` is how it was answered."""

    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(coming, {"type": "http.disconnect"})

    made: Any = object.__new__(Alone)
    made._receive, made._scope, made.said = receive, {}, []
    made._checks = SimpleNamespace(
        too_large=lambda scope, most: Rejected(413, "too large"), body_most=lambda scope: 4
    )
    made._asked = SimpleNamespace(
        method=method, has_body=False, head=lambda target, length, method: method.encode()
    )
    made._connection = SimpleNamespace(share=SimpleNamespace(hold=lambda size: size < 3))

    async def say(said: SliceAnswer) -> None:
        made.said.append(said)

    async def pass_on(number: int) -> None:
        made.said.append(number)

    made.say, made.pass_on = say, pass_on
    return made


async def test_a_body_is_taken_up_to_its_bound_and_to_its_end_alone() -> None:
    assert await request_of(parts((b"12", True), (b"", True), (b"34", False))).body() == b"1234"
    with pytest.raises(Rejected, match="too large"):
        await request_of(parts((b"12", True), (b"345", True))).body()
    with pytest.raises(Gone):
        await request_of(parts((b"12", True))).body()


class Link:
    """A connection to a slice whose answer has two parts."""

    def __init__(self, *found: bytes) -> None:
        self.asked, self.status, self.headers, self._found = b"", 200, list[Any](), found

    def begin(self, data: bytes) -> None:
        self.asked = data

    async def answer_begins(self) -> None:
        await asyncio.sleep(0)

    async def parts(self) -> AsyncIterator[bytes]:
        for part in self._found:
            yield part


@pytest.mark.parametrize(("method", "asked"), [("HEAD", b"GET"), ("POST", b"")])
async def test_an_answer_is_taken_whole_while_there_is_room(method: str, asked: bytes) -> None:
    request, link = request_of(method=method), Link(b"12", b"34")

    @asynccontextmanager
    async def linked(number: int, is_patient: bool) -> AsyncIterator[Link]:
        yield link

    request._link = linked
    assert (await request.whole(1, b"/")).body == b"1234"
    assert link.asked == asked
    link._found = b"12", b"345"
    with pytest.raises(Rejected, match="too many long answers"):
        await request.whole(1, b"/")


async def test_one_stream_too_many_is_refused_and_a_head_opens_none() -> None:
    full: Any = SimpleNamespace(streams=STREAMS_MAX, is_ending=None)
    with pytest.raises(Rejected, match=f"{STREAMS_MAX} live views"):
        await request_of(parts((b"", False)), "GET")._stream(full)
    head = request_of(parts((b"", False)), "HEAD")
    await head._stream(full)
    assert head.said == [1]
    assert full.streams == STREAMS_MAX


@pytest.mark.parametrize("refusal", [None, REFUSED])
async def test_a_stream_that_is_refused_says_why(refusal: SliceAnswer | None) -> None:
    request = request_of(parts((b"", False)), "GET")

    async def stream(send: object, is_ending: object) -> SliceAnswer | None:
        assert one.streams == 1
        return refusal

    request._send, request._live = None, lambda: SimpleNamespace(stream=stream)
    one: Any = SimpleNamespace(streams=0, is_ending=None)
    await request._stream(one)
    assert (request.said, one.streams) == ([refusal] if refusal else [], 0)


async def test_figures_that_a_slice_refuses_are_refused() -> None:
    request = request_of(parts((b"", False)))

    async def ask_all(body: bytes) -> list[SliceAnswer]:
        return [DONE, REFUSED, DONE]

    request._ask_all = ask_all
    await request._add_up()
    assert request.said == [REFUSED]


class Transport:
    """A connection of a client."""

    def __init__(self) -> None:
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_slice_that_ends_in_an_answer_ends_the_connection(
    has_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, transport = list[dict[str, Any]](), Transport()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    class Request:
        def __init__(self, *parts: Any) -> None:
            self._answer = parts[-1]

        async def run(self, door: object) -> None:
            if has_begun:
                await self._answer({"type": "http.response.start", "status": 200, "headers": []})
            raise SliceEnded

    monkeypatch.setattr(door, "_Request", Request)
    ends = list[bool]()
    connection = SimpleNamespace(
        transport=transport, at_hang_up=None, end_after_this=lambda: ends.append(True)
    )
    made = door.Door(cast(Any, None), cast(Any, None), cast(Any, SimpleNamespace(check=len)))
    await made(cast(Any, {"connection": connection}), cast(Any, None), cast(Any, send))
    assert [each["status"] for each in sent if "status" in each] == [200 if has_begun else 502]
    assert (transport.is_closed, ends) == ((True, []) if has_begun else (False, [True]))


@pytest.mark.parametrize("has_hung_up", [False, True])
async def test_a_task_that_is_cancelled_ends_so_unless_its_client_has_gone(
    has_hung_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = Transport()

    class Request:
        def __init__(self, *parts: Any) -> None:
            pass

        async def run(self, door: object) -> None:
            transport.is_closed = has_hung_up
            raise asyncio.CancelledError

    monkeypatch.setattr(door, "_Request", Request)
    connection = SimpleNamespace(transport=transport, at_hang_up=None)
    made = door.Door(cast(Any, None), cast(Any, None), cast(Any, SimpleNamespace(check=len)))
    task = asyncio.ensure_future(
        made(cast(Any, {"connection": connection}), cast(Any, None), cast(Any, None))
    )
    await asyncio.wait([task])
    assert task.cancelled() != has_hung_up
