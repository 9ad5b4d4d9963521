"""The end of an item is asked for again only where another answer may come."""

from __future__ import annotations

import asyncio
import contextlib
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrelpy.client import AsyncItem, AsyncWorker, LeaseLost, ServerRefusal
from kestrelpy.client.item import ItemState
from kestrelpy.wire.answers import Answer, ReceivedItem

FINAL = b"CLIENT_ERROR forbidden: this needs the role write in queue jobs"
PASSING = b"SERVER_ERROR readonly: this server removes nothing now"
OVER = b"CLIENT_ERROR token 7 of jobs is not valid: confirmed, expired or never issued"


class Server:
    """Answers one line after the other, the last one again and again."""

    def __init__(self, *lines: bytes) -> None:
        self.lines = list(lines)
        self.asked = 0

    async def ask(self, _: str) -> Answer:
        self.asked += 1
        answer = Answer()
        answer.line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        return answer


async def end(server: Server, left_s: float = 1000) -> None:
    worker = AsyncWorker("jobs")
    worker._ending = cast(Any, server)
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7), worker._end, cast(Any, None))
    item._lease_ends = time.monotonic() + left_s
    await item.confirm()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    real = asyncio.sleep
    monkeypatch.setattr("kestrelpy.client.async_worker.asyncio.sleep", lambda _: real(0))


async def test_a_refusal_that_stays_is_raised_at_once() -> None:
    server = Server(FINAL)
    with pytest.raises(ServerRefusal, match="forbidden"):
        await end(server)
    assert server.asked == 1


@pytest.mark.parametrize("line", [FINAL, OVER])
async def test_a_refusal_that_may_pass_is_asked_again_until_it_stays(line: bytes) -> None:
    server = Server(PASSING, PASSING, line)
    with pytest.raises(ServerRefusal if line is FINAL else LeaseLost):
        await end(server)
    assert server.asked == 3


async def test_a_refusal_that_passes_is_none() -> None:
    server = Server(PASSING, PASSING, b"END")
    await end(server)
    assert server.asked == 3


async def test_after_its_lease_an_end_is_given_up() -> None:
    server = Server(PASSING)
    with pytest.raises(LeaseLost):
        await end(server, left_s=-1)
    assert server.asked == 1


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("stops_in", ["connect", "ask"])
async def test_a_worker_that_is_stopped_while_it_waits_fetches_nothing(
    stops_in: str, breaks: bool
) -> None:
    worker, said = AsyncWorker("jobs"), list[str]()

    class Slow:
        def step(self, name: str) -> None:
            said.append(name)
            if name == stops_in:
                worker.stop()
                if breaks or name == "ask":
                    raise ConnectionError("the wait was ended")

        async def connect(self) -> None:
            self.step("connect")

        async def ask(self, _: str) -> Answer:
            self.step("ask")
            raise AssertionError("it was stopped before")

        def end_wait(self) -> None:
            said.append("end")

        def close(self) -> None:
            said.append("close")

    worker._fetching = cast(Any, Slow())
    assert await worker.fetch() is None
    assert said == (["connect"] if stops_in == "connect" else ["connect", "ask"]) + ["end", "close"]


async def test_a_connection_that_breaks_in_a_wait_is_said() -> None:
    worker = AsyncWorker("jobs")

    class Broken:
        async def connect(self) -> None:
            raise ConnectionError("no server")

    worker._fetching = cast(Any, Broken())
    with pytest.raises(ConnectionError, match="no server"):
        await worker.fetch()


@pytest.mark.parametrize(
    ("line", "should_stop", "is_lost"), [(OVER, True, True), (b"END", False, False)]
)
async def test_a_lost_item_should_stop_and_one_that_ended_need_not(
    line: bytes, *, should_stop: bool, is_lost: bool
) -> None:
    worker = AsyncWorker("jobs")
    worker._ending = cast(Any, Server(line))
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7), worker._end, cast(Any, None))
    item._lease_ends = time.monotonic() + 1000
    assert not item.should_stop
    with contextlib.suppress(LeaseLost):
        await item.confirm()
    assert (item.should_stop, item.is_lost) == (should_stop, is_lost)


async def test_a_fetch_without_an_item_takes_no_slot_and_calls_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, found = AsyncWorker("jobs"), list[Any]([None, None, object(), None])

    async def fetched(_: object) -> object:
        if len(found) == 1:
            worker.stop()
        return found.pop(0)

    handled = list[object]()

    async def handle(item: object, *_: object) -> bool:
        handled.append(item)
        return True

    monkeypatch.setattr(worker, "_fetch_or_pause", fetched)
    monkeypatch.setattr(worker, "_handle", handle)
    wanted = found[2]
    await asyncio.wait_for(worker.run(cast(Any, None)), 20)
    assert handled == [wanted]


async def test_of_two_fetches_at_once_one_begins_to_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, begun = AsyncWorker("jobs"), list[int]()

    class Fetching:
        async def connect(self) -> None:
            await asyncio.tasks.sleep(0)

        async def ask(self, _: str) -> Any:
            await asyncio.tasks.sleep(0)
            return SimpleNamespace(found=lambda: ReceivedItem(b"x", 0, 7))

        def close(self) -> None:
            pass

    async def renew_all() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    monkeypatch.setattr(worker, "_fetching", Fetching())
    monkeypatch.setattr(worker, "_renew_all", renew_all)
    await asyncio.gather(worker.fetch(), worker.fetch())
    await asyncio.tasks.sleep(0)
    assert len(begun) == 1
    worker._items.clear()
    await worker.close()


async def test_an_item_that_its_handler_ended_is_not_ended_again_when_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says how it ended, and the worker goes on."""
    worker, server = AsyncWorker("jobs"), Server(b"END")
    worker._ending = cast(Any, server)
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7), worker._end, cast(Any, None))

    async def handle(each: AsyncItem) -> None:
        await each.defer()
        raise ConnectionError("behind its end")

    assert not await worker._handle(item, handle, ())
    assert (server.asked, item._state) == (1, ItemState.DEFERRED)
    assert caplog.messages == ["jobs: deferred: behind its end"]
