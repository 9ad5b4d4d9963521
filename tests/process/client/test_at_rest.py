"""After each end of a worker's use nothing is left: no item, no connection, no thread, no count."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kestrelpy.client import AsyncItem, AsyncWorker, LeaseLost, Worker, WorkerItem
from kestrelpy.client.item import LeasedItem
from tests.process.client.items import put, take, worker_of
from tests.support.at_rest import Walk, left_over
from tests.support.daemon import DaemonProcess
from tests.support.rest_table import MAY_HOLD

# A renewal comes after half of it: soon, so that its thread ends soon as well.
LEASE = "1s"


class Failed(Exception):
    """The error that the body of a loop, or a handler, raises."""


def fail(_: object) -> None:
    raise Failed("no")


# -- a worker ---------------------------------------------------------------------------------


def confirm_by_the_next_fetch(worker: Worker) -> None:
    first = take(worker)
    take(worker).confirm()
    assert not first.is_lost


def end_the_loop(worker: Worker) -> None:
    for _ in worker:
        break


def raise_in_the_loop(worker: Worker) -> None:
    with pytest.raises(Failed):
        for item in worker:
            fail(item)


def stop_in_the_loop(worker: Worker) -> None:
    for _ in worker:
        worker.stop()


def stop_in_a_handler(worker: Worker, *bury: type[Exception]) -> None:
    def handle(item: WorkerItem) -> None:
        worker.stop()
        fail(item)

    worker.run(handle, bury=bury)


def end_and_raise(worker: Worker) -> None:
    """The handler ends its item before it fails."""

    def handle(item: WorkerItem) -> None:
        item.defer()
        worker.stop()
        fail(item)

    worker.run(handle)


def stop_during_a_wait(worker: Worker) -> None:
    take(worker).confirm()
    take(worker).confirm()

    def stop() -> None:
        while not worker._waiting:
            time.sleep(0.001)
        worker.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    assert worker.fetch() is None
    thread.join()


def lose(worker: Worker) -> None:
    """Another client with the token has ended the lease."""
    item = take(worker)
    worker._connection.get(f"{worker.queue}/defer/token={item.token}")
    with pytest.raises(LeaseLost):
        item.confirm()


def be_asked_to_stop(worker: Worker) -> None:
    """The item reaches `work_limit`, and is deferred by the thread of its lease."""
    calls: list[str] = []
    item = take(worker)
    item.when_stop(lambda: calls.append("stop"))
    item._limit_at = time.monotonic()
    threads_over(worker)
    assert (item.is_lost, calls) == (True, ["stop"])


def raise_when_asked_to_stop(worker: Worker) -> None:
    item = take(worker)
    item.when_stop(lambda: fail(None))
    item._limit_at = time.monotonic()
    threads_over(worker)


def break_off(worker: Worker) -> None:
    """Its connection breaks while it has an item."""
    item = take(worker)
    client = worker._connection._client
    assert client is not None and client.sock is not None
    client.sock.shutdown(2)
    item.confirm()


def confirm_with_a_call(worker: Worker) -> None:
    """Confirm an item with a `when_stop` call: the call is dropped."""
    item = take(worker)
    item.when_stop(lambda: fail(None))
    item.confirm()


def give_up_a_second_end(worker: Worker) -> None:
    item = take(worker)
    item.confirm()
    with pytest.raises(ValueError, match="already"):
        item.abort()


USES: dict[str, Callable[[Worker], object]] = {
    "nothing": lambda worker: None,
    "confirmed": lambda worker: take(worker).confirm(),
    "confirmed with a call of when_stop": confirm_with_a_call,
    "confirmed by the next fetch": confirm_by_the_next_fetch,
    "given back": lambda worker: take(worker).abort(),
    "given back for a while": lambda worker: take(worker).abort(delay=60),
    "deferred": lambda worker: take(worker).defer(),
    "buried": lambda worker: take(worker).bury("why"),
    "failed": lambda worker: worker.fail(take(worker), "why"),
    "its number was asked for": lambda worker: take(worker).number,
    "closed with an item": take,
    "the loop ends": end_the_loop,
    "the loop raises": raise_in_the_loop,
    "stopped in the loop": stop_in_the_loop,
    "stopped in a handler": stop_in_a_handler,
    "buried by run": lambda worker: stop_in_a_handler(worker, Failed),
    "ended by a handler that fails": end_and_raise,
    "stopped during a wait": stop_during_a_wait,
    "lost": lose,
    "asked to stop": be_asked_to_stop,
    "a call of when_stop raises": raise_when_asked_to_stop,
    "a connection breaks": break_off,
    "a second end": give_up_a_second_end,
}


def threads_over(worker: Worker) -> None:
    """Wait for the thread that renews: it looks again after an eighth of the lease."""
    for thread in threading.enumerate():
        if thread.name == f"lease {worker.queue}":
            thread.join()


@pytest.fixture
def name(daemon: DaemonProcess, request: pytest.FixtureRequest) -> str:
    """A queue of this test's own, with two items."""
    made = "".join(each for each in request.node.name if each.isalnum())
    put(daemon, made, b"one", b"two")
    return made


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("use", USES)
def test_nothing_is_left_of_a_worker(
    daemon: DaemonProcess, name: str, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items: list[LeasedItem] = []
    made = WorkerItem.__init__

    def note(item: WorkerItem, *more: Any) -> None:
        made(item, *more)
        items.append(item)

    monkeypatch.setattr(WorkerItem, "__init__", note)
    worker = worker_of(daemon, name, lease=LEASE)
    USES[use](worker)
    worker.close()
    threads_over(worker)
    assert left_over(worker) == []
    assert [each for each in items if each._calls] == []

    if not worker._stopped:
        put(daemon, name, b"more")
        take(worker).confirm()
        worker.close()
        threads_over(worker)
        assert left_over(worker) == []


# -- a worker for asyncio ---------------------------------------------------------------------


async def fetched(worker: AsyncWorker) -> AsyncItem:
    item = await worker.fetch()
    assert item is not None
    return item


async def ended(worker: AsyncWorker, end: Callable[[AsyncItem], Awaitable[object]]) -> None:
    await end(await fetched(worker))


async def end_the_async_loop(worker: AsyncWorker) -> None:
    items = aiter(worker)
    await anext(items)
    await items.aclose()  # type: ignore[attr-defined]  # it is a generator, as `async for` ends it


async def stop_in_the_async_loop(worker: AsyncWorker) -> None:
    async for _ in worker:
        worker.stop()


async def stop_in_an_async_handler(worker: AsyncWorker, *bury: type[Exception]) -> None:
    async def handle(item: AsyncItem) -> None:
        worker.stop()
        fail(item)

    await worker.run(handle, bury=bury)


async def end_and_raise_later(worker: AsyncWorker) -> None:
    async def handle(item: AsyncItem) -> None:
        await item.defer()
        worker.stop()
        fail(item)

    await worker.run(handle)


async def cancel_run(worker: AsyncWorker) -> None:
    """All of `run` is called off while both items are handled."""
    both = asyncio.Semaphore(0)

    async def handle(_: AsyncItem) -> None:
        both.release()
        await asyncio.Event().wait()

    running = asyncio.create_task(worker.run(handle))
    await both.acquire()
    await both.acquire()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def stop_during_an_async_wait(worker: AsyncWorker) -> None:
    await (await fetched(worker)).confirm()
    await (await fetched(worker)).confirm()
    waiting = asyncio.create_task(worker.fetch())
    while not worker._fetching._waiting:
        await asyncio.sleep(0)
    worker.stop()
    assert await waiting is None


async def cancel_a_wait(worker: AsyncWorker) -> None:
    await (await fetched(worker)).confirm()
    await (await fetched(worker)).confirm()
    waiting = asyncio.create_task(worker.fetch())
    while not worker._fetching._waiting:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def lose_later(worker: AsyncWorker) -> None:
    item = await fetched(worker)
    await worker._ending.ask(f"get {worker.queue}/defer/token={item.token}")
    with pytest.raises(LeaseLost):
        await item.confirm()


async def be_asked_to_stop_later(worker: AsyncWorker) -> None:
    calls: list[str] = []
    item = await fetched(worker)
    item.when_stop(lambda: calls.append("stop"))
    item._limit_at = time.monotonic()
    assert worker._renewing is not None
    await worker._renewing
    assert (item.is_lost, calls) == (True, ["stop"])


async def break_off_later(worker: AsyncWorker) -> None:
    first, second = await fetched(worker), await fetched(worker)
    await first.confirm()
    for connection in (worker._fetching, worker._ending):
        assert connection._writer is not None
        connection._writer.transport.abort()
    await second.confirm()


async def confirm_with_a_call_later(worker: AsyncWorker) -> None:
    item = await fetched(worker)
    item.when_stop(lambda: fail(None))
    await item.confirm()


async def give_up_a_second_async_end(worker: AsyncWorker) -> None:
    item = await fetched(worker)
    await item.confirm()
    with pytest.raises(ValueError, match="already"):
        await item.abort()


ASYNC_USES: dict[str, Callable[[AsyncWorker], Awaitable[object]]] = {
    "nothing": lambda worker: asyncio.sleep(0),
    "confirmed": lambda worker: ended(worker, AsyncItem.confirm),
    "confirmed with a call of when_stop": confirm_with_a_call_later,
    "given back": lambda worker: ended(worker, AsyncItem.abort),
    "given back for a while": lambda worker: ended(worker, lambda item: item.abort(delay=60)),
    "deferred": lambda worker: ended(worker, AsyncItem.defer),
    "buried": lambda worker: ended(worker, lambda item: item.bury("why")),
    "failed": lambda worker: ended(worker, lambda item: worker.fail(item, "why")),
    "its number was asked for": lambda worker: ended(worker, lambda item: item.number),
    "closed with an item": fetched,
    "the loop ends": end_the_async_loop,
    "stopped in the loop": stop_in_the_async_loop,
    "stopped in a handler": stop_in_an_async_handler,
    "buried by run": lambda worker: stop_in_an_async_handler(worker, Failed),
    "ended by a handler that fails": end_and_raise_later,
    "run is cancelled": cancel_run,
    "stopped during a wait": stop_during_an_async_wait,
    "a wait is cancelled": cancel_a_wait,
    "lost": lose_later,
    "asked to stop": be_asked_to_stop_later,
    "a connection breaks": break_off_later,
    "a second end": give_up_a_second_async_end,
}


@pytest.mark.parametrize("use", ASYNC_USES)
async def test_nothing_is_left_of_a_worker_for_asyncio(
    daemon: DaemonProcess, name: str, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.all_tasks()
    items: list[LeasedItem] = []
    made = AsyncItem.__init__

    def note(item: AsyncItem, *more: Any) -> None:
        made(item, *more)
        items.append(item)

    monkeypatch.setattr(AsyncItem, "__init__", note)
    worker = AsyncWorker(
        name, ("127.0.0.1", daemon.port), items=2, wait="10s", lease=LEASE
    )
    await ASYNC_USES[use](worker)
    await assert_rests(worker, items, before)

    if not worker._stopping.is_set():
        put(daemon, name, b"more")
        await (await fetched(worker)).confirm()
        await assert_rests(worker, items, before)


async def assert_rests(
    worker: AsyncWorker, items: list[LeasedItem], before: set[asyncio.Task[Any]]
) -> None:
    """After a close nothing is left, and no task goes on."""
    await worker.close()
    await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
    assert left_over(worker) == []
    assert [each for each in items if each._calls] == []


def test_the_look_meets_every_class_of_a_client_that_stays() -> None:
    walk = Walk()
    walk.run(Worker("jobs"), AsyncWorker("jobs"))
    assert walk.complaints == []
    assert {each for each in MAY_HOLD if each.startswith(("client.", "wire."))} <= walk.classes
