"""Every state of a worker has an exit: its items, waits, renewals and connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from kestrelpy.client import AsyncItem, AsyncWorker, LeaseLost, Worker
from kestrelpy.client.item import ItemState, WorkerItem
from kestrelpy.client.renewal import Renewal
from kestrelpy.wire.answers import Answer, AnswerReader, ReceivedItem
from kestrelpy.wire.async_connection import AsyncConnection

OVER = b"CLIENT_ERROR token 7 of jobs is not valid: confirmed, expired or never issued"


def never(*_: object) -> Any:
    raise AssertionError("nothing ends it here")


def leased(token: int = 7, kind: Any = WorkerItem) -> Any:
    return kind("jobs", ReceivedItem(b"x", 0, token), never, never)


# -- the thread that renews -------------------------------------------------------------------


class Threads:
    """In the place of threads: their work is done when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Callable[[], None]] = []

    def __call__(self, target: Callable[[], None], **_: object) -> Threads:
        self.begun.append(target)
        return self

    def start(self) -> None:
        pass


class Touched:
    """The connection of a renewal."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = 0

    def touch(self, key: str, seconds: int) -> bool:
        self.asked.append(key)
        return "token=9" not in key

    def get(self, key: str) -> None:
        self.asked.append(key)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    made = Threads()
    monkeypatch.setattr("kestrelpy.client.renewal.threading.Thread", made)
    monkeypatch.setattr("kestrelpy.client.renewal.time.sleep", lambda _: None)
    return made


@pytest.fixture
def renewal(threads: Threads) -> Renewal:
    made = Renewal("jobs", ("127.0.0.1", 1), 30, None)
    made._connection = cast(Any, Touched())
    return made


def test_one_thread_renews_until_there_is_no_item_and_the_next_item_has_one_again(
    renewal: Renewal, threads: Threads
) -> None:
    connection = cast(Touched, renewal._connection)
    for turn in (1, 2, 3):
        renewal.watch(leased(turn), time.monotonic())
        renewal.watch(leased(turn), time.monotonic())
        assert len(threads.begun) == turn, "one for both"
        assert renewal._next() is not None
        renewal.unwatch()
        assert renewal._item is None
        threads.begun[-1]()  # it sees that there is nothing
        assert not renewal._running
        assert connection.closed == turn


def test_a_thread_that_dies_of_a_call_is_followed_by_another(
    renewal: Renewal, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal._times, "limit_seconds", 1.0)
    item = leased()
    item.when_stop(never)
    renewal.watch(item, time.monotonic() - 20)
    with pytest.raises(AssertionError, match="nothing ends it here"):
        threads.begun[0]()
    assert item.should_stop
    renewal.watch(leased(8), time.monotonic())
    assert len(threads.begun) == 2


@pytest.mark.parametrize("how", ["ended", "lost", "too long"])
def test_an_item_that_is_over_is_renewed_no_more(renewal: Renewal, how: str) -> None:
    connection = cast(Touched, renewal._connection)
    item = leased(9 if how == "lost" else 7)
    renewal.watch(item, time.monotonic())
    if how == "ended":
        item._state = ItemState.CONFIRMED
    elif how == "too long":
        item._ask_to_stop()
    renewal._act(item, time.monotonic())
    assert renewal._item is None
    assert (item.is_lost, len(connection.asked)) == (how != "ended", how != "ended")
    assert renewal._next() is None


def test_what_is_over_takes_no_other_item_with_it(renewal: Renewal) -> None:
    old, present = leased(9), leased(8)
    renewal.watch(old, time.monotonic())
    renewal.watch(present, time.monotonic())
    renewal._act(old, time.monotonic())
    assert old.is_lost
    assert renewal._next() is present


def test_an_item_that_was_asked_to_stop_says_so_and_calls_once() -> None:
    item, called = leased(), list[str]()
    assert not item.should_stop
    item.when_stop(lambda: called.append("first"))
    item._ask_to_stop()
    assert (item.should_stop, item.is_lost, called) == (True, False, ["first"])
    assert not item._calls
    item.when_stop(lambda: called.append("at once"))
    item._end_once(ItemState.LOST)
    assert called == ["first", "at once"]


@pytest.mark.parametrize("state", [each for each in ItemState if each is not ItemState.LEASED])
def test_an_item_that_has_ended_calls_nobody_later(state: ItemState) -> None:
    item, called = leased(), list[str]()
    item.when_stop(lambda: called.append("stop"))
    item._end_once(state)
    assert called == ["stop"] * (state is ItemState.LOST)
    assert not item._calls
    item._ask_to_stop()
    assert len(called) == (state is ItemState.LOST)


# -- a worker ---------------------------------------------------------------------------------


class Waited:
    """The connection of a worker: what happens while it waits is the test's."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.meanwhile = meanwhile
        self.said: list[str] = []

    def connect(self) -> None:
        self.said.append("connect")

    def open(self, key: str) -> ReceivedItem | None:
        self.said.append("open")
        self.meanwhile()
        return None

    def end_wait(self) -> None:
        self.said.append("end")

    def close(self) -> None:
        self.said.append("close")


@pytest.fixture
def worker() -> Worker:
    made = Worker("jobs")
    made._connection = cast(Any, Waited())
    return made


def test_a_wait_is_ended_while_it_is_one_and_no_later(worker: Worker) -> None:
    connection = cast(Waited, worker._connection)
    assert worker.fetch() is None
    connection.said.clear()
    worker.stop()
    assert connection.said == [], "it waits no more: whatever it says now must not be cut"

    assert worker.fetch() is None
    assert connection.said == ["connect", "close"]
    assert list(worker) == []


def test_a_stop_while_it_waits_ends_the_wait(worker: Worker) -> None:
    connection = cast(Waited, worker._connection)
    connection.meanwhile = worker.stop
    assert worker.fetch() is None
    assert connection.said == ["connect", "open", "end", "close"]


@pytest.mark.parametrize("error", [ConnectionError("cut"), KeyboardInterrupt()])
def test_a_wait_that_breaks_is_none_any_more(worker: Worker, error: BaseException) -> None:
    def breaks() -> None:
        raise error

    connection = cast(Waited, worker._connection)
    connection.meanwhile = breaks
    with pytest.raises(type(error)):
        worker.fetch()
    connection.said.clear()
    worker.stop()
    assert connection.said == []


# -- a worker for asyncio ---------------------------------------------------------------------


class Server:
    """Hands out items and answers their ends; `said` is what it was asked."""

    def __init__(self) -> None:
        self.tokens = 0
        self.said: list[str] = []
        self.answer: Callable[[str], Awaitable[bytes]] | None = None
        self.closed = 0

    async def connect(self) -> None:
        pass

    async def ask(self, line: str) -> Answer:
        self.said.append(line)
        made = Answer()
        made.line = await self.answer(line) if self.answer is not None else b"END"
        if line.startswith("gets "):
            self.tokens += 1
            words = [b"0", b"1", b"%d" % self.tokens, b"0", b"-", b"0", b"leased", b"-", b"-"]
            made.values.append([b"VALUE", b"jobs", *words])
            made.bodies.append(b"x")
        elif line.startswith("touch ") and made.line == b"END":
            made.line = b"TOUCHED"
        return made

    def end_wait(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


def async_worker() -> tuple[AsyncWorker, Server]:
    worker, server = AsyncWorker("jobs", items=9), Server()
    for connection in ("_fetching", "_ending"):
        setattr(worker, connection, server)
    return worker, server


async def fetched(worker: AsyncWorker) -> AsyncItem:
    item = await worker.fetch()
    assert item is not None
    return item


async def test_an_item_that_has_ended_is_held_no_more() -> None:
    worker, _ = async_worker()
    ends: list[Callable[[AsyncItem], Awaitable[Any]]] = [
        AsyncItem.confirm, AsyncItem.abort, AsyncItem.defer,
        lambda each: each.bury("why"), lambda each: worker.fail(each, "why"),
    ]  # fmt: skip
    for end in ends:
        item = await fetched(worker)
        assert worker._items == {item}
        await end(item)
        assert worker._items == set()
    await worker.close()


@pytest.mark.parametrize("how", ["ended", "lost", "too long"])
async def test_an_item_that_is_over_is_held_no_more(how: str) -> None:
    worker, server = async_worker()
    item = await fetched(worker)
    server.said.clear()

    async def refuse(_: str) -> bytes:
        return OVER

    server.answer = refuse
    if how == "ended":
        item._state = ItemState.CONFIRMED
    elif how == "too long":
        item._ask_to_stop()
    now = time.monotonic()
    await worker._act(item, now if how != "lost" else item._lease_ends + 1)
    assert worker._items == set()
    assert (item.is_lost, len(server.said)) == (how != "ended", how != "ended")
    if how != "ended":
        with pytest.raises(LeaseLost):
            await item.confirm()
    await worker.close()


async def test_after_a_close_a_worker_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its ends have no answer: their items are not held, and not renewed, any more."""
    worker, server = async_worker()
    await fetched(worker)
    await fetched(worker)
    renewing = worker._renewing
    assert renewing is not None

    async def silence(line: str) -> bytes:
        await asyncio.Event().wait()
        return b""

    server.answer = silence
    monkeypatch.setattr("kestrelpy.client.async_worker._CLOSE_SECONDS", 0.0)
    await worker.close()
    assert worker._items == set()
    assert server.closed == 2

    server.answer = None
    item = await fetched(worker)
    assert worker._items == {item}
    assert worker._renewing is not renewing
    assert worker._renewing is not None and not worker._renewing.cancelling()
    await worker.close()


async def test_a_call_that_fails_ends_no_renewal_but_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, server = async_worker()
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    failing, other = await fetched(worker), await fetched(worker)
    failing._limit_at = 0.1
    failing.when_stop(never)
    server.said.clear()
    real = asyncio.sleep
    monkeypatch.setattr("kestrelpy.client.async_worker.asyncio.sleep", lambda _: real(0))
    for _ in range(9):
        other._renew_at = 0.0
        await real(0)
        await real(0)
    assert worker._renewing is not None and not worker._renewing.done()
    assert server.said.count("touch jobs/token=2 30") > 1
    assert [type(each["exception"]) for each in heard] == [AssertionError]
    assert failing.should_stop
    await worker.close()


# -- connections ------------------------------------------------------------------------------


class Writer:
    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("breaks", ["end", "nonsense", "error"])
async def test_a_connection_that_broke_is_made_again(
    monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    connection = AsyncConnection(("127.0.0.1", 1), 9.0, 1.0)
    lines: list[tuple[asyncio.StreamReader, Writer]] = []

    async def opened() -> tuple[asyncio.StreamReader, Writer]:
        lines.append((asyncio.StreamReader(), Writer()))
        return lines[-1]

    monkeypatch.setattr(connection, "_open", opened)

    async def asked() -> asyncio.Task[Answer]:
        asking = asyncio.create_task(connection.ask("get jobs"))
        while not (lines and lines[-1][1].sent and connection._waiting):
            await asyncio.sleep(0)
        return asking

    for turn in (1, 2):
        asking = await asked()
        lines[-1][0].feed_data(b"END\r\n")
        assert (await asking).line == b"END"
        asking = await asked()
        reader, writer = lines[-1]
        if breaks == "end":
            reader.feed_eof()
        elif breaks == "error":
            reader.set_exception(OSError("broke"))
        else:
            reader.feed_data(b"VALUE jobs 0 x\r\n")
        with pytest.raises(OSError):
            await asking
        assert (connection._writer, connection._reading, writer.closed) == (None, None, True)
        assert not connection._waiting
        assert len(lines) == turn
    connection.close()


async def test_a_connection_that_broke_while_nobody_asked_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = AsyncConnection(("127.0.0.1", 1), 9.0, 1.0)
    readers: list[asyncio.StreamReader] = []

    async def opened() -> tuple[asyncio.StreamReader, Writer]:
        readers.append(asyncio.StreamReader())
        return readers[-1], Writer()

    monkeypatch.setattr(connection, "_open", opened)
    for turn in (1, 2):
        await connection.connect()
        await connection.connect()
        reading = connection._reading
        assert reading is not None and len(readers) == turn
        readers[-1].feed_eof()
        await reading
        assert (connection._writer, connection._reading) == (None, None)


def test_what_was_read_is_not_read_again() -> None:
    reader = AnswerReader()
    for _ in range(3):
        assert [each.line for each in reader.feed(b"STORED\r\nEN")] == [b"STORED"]
        assert bytes(reader._buffer) == b"EN"
        assert [each.line for each in reader.feed(b"D\r\n")] == [b"END"]
        assert not reader._buffer
    first, second = reader.feed(b"VALUE k 0 1\r\nx\r\nEND\r\nEND\r\n")
    assert (len(first.items), second.items) == (1, [])
