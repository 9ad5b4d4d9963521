"""`AsyncWorker`: many items at a time on asyncio, at least once, and it says so.

Promise: worker.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kestrelpy.client import AsyncItem, AsyncWorker, LeaseLost, ServerRefusal
from tests.process.cli.command import counts
from tests.process.client.items import left, put
from tests.process.client.proxy import Proxy
from tests.support.daemon import DaemonProcess

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def worker_of(daemon: DaemonProcess, queue: str, **settings: Any) -> AsyncWorker:
    return AsyncWorker(queue, ("127.0.0.1", daemon.port), **{"wait": "10s", **settings})


async def take(worker: AsyncWorker) -> AsyncItem:
    item = await worker.fetch()
    assert item is not None
    return item


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_as_many_items_as_wanted_are_handled_at_a_time(
    daemon: DaemonProcess, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    queue = f"many-{new_loop.__module__}"
    put(daemon, queue, *(b"%d" % number for number in range(20)))
    together: list[int] = []
    seen: set[bytes] = set()

    async def main() -> None:
        worker = worker_of(daemon, queue, items=5)
        running = 0
        five = asyncio.Event()

        async def handle(item: AsyncItem) -> None:
            nonlocal running
            running += 1
            together.append(running)
            if running == 5:
                five.set()
            await five.wait()
            running -= 1
            seen.add(item.body)
            if len(seen) == 20:
                worker.stop()

        async with asyncio.timeout(30):
            await worker.run(handle)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())

    assert max(together) == 5
    assert len(seen) == 20
    assert (counts(daemon, queue)["items"], counts(daemon, queue)["open_transactions"]) == (0, 0)


async def test_all_items_share_two_connections(daemon: DaemonProcess) -> None:
    put(daemon, "shared", *(b"%d" % number for number in range(8)))
    before = int(daemon.client().stats()[b"total_connections"])
    async with worker_of(daemon, "shared", items=8) as worker:
        items = [await take(worker) for _ in range(8)]
        for item in items:
            await item.confirm()

        assert int(daemon.client().stats()[b"total_connections"]) == before + 3  # two and this one


async def test_a_loop_confirms_at_the_end_of_its_body(daemon: DaemonProcess, queue: str) -> None:
    worker = worker_of(daemon, queue)
    seen = []
    async for item in worker:
        seen.append(item.body)
        if len(seen) == 2:
            worker.stop()

    assert seen == [b"one", b"two"]
    assert left(daemon, queue) == []


async def test_an_item_in_a_loop_that_raises_is_given_back(
    daemon: DaemonProcess, queue: str
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with worker_of(daemon, queue) as worker:
            async for item in worker:
                assert item.body == b"one"
                _ = 1 // 0

    assert left(daemon, queue) == [b"one", b"two"]


async def test_stop_ends_a_wait(daemon: DaemonProcess) -> None:
    worker = worker_of(daemon, "nothing-here", wait="60s")
    put(daemon, "nothing-here", b"x")
    left(daemon, "nothing-here")

    async def handle(item: AsyncItem) -> None:
        raise AssertionError

    running = asyncio.create_task(worker.run(handle))
    await until(lambda: counts(daemon, "nothing-here")["waiters"] == 1)
    worker.stop()
    await asyncio.wait_for(running, 10)


async def test_stop_begins_no_wait_while_every_slot_is_taken(
    daemon: DaemonProcess, queue: str
) -> None:
    worker = worker_of(daemon, queue, items=2, wait="10m")
    handled = []
    stopped = asyncio.Event()

    async def handle(item: AsyncItem) -> None:
        handled.append(item.body)
        await stopped.wait()

    running = asyncio.create_task(worker.run(handle))
    await until(lambda: counts(daemon, queue)["leased"] == 2)
    worker.stop()
    stopped.set()
    await asyncio.wait_for(running, 30)

    assert handled == [b"one", b"two"]
    assert left(daemon, queue) == []


async def test_stop_begins_no_wait_while_the_worker_connects(daemon: DaemonProcess) -> None:
    put(daemon, "connecting", b"x")
    left(daemon, "connecting")
    worker = worker_of(daemon, "connecting", wait="10m")

    async def handle(item: AsyncItem) -> None:
        raise AssertionError

    running = asyncio.create_task(worker.run(handle))
    await asyncio.sleep(0)  # it has begun to connect
    worker.stop()
    await asyncio.wait_for(running, 30)


async def test_an_item_has_its_facts_and_ends_once(daemon: DaemonProcess) -> None:
    daemon.client().set("facts/key=a,b", b"\0\r\n\xff", flags=7)
    async with worker_of(daemon, "facts", lease=20) as worker:
        item = await take(worker)
        assert (item.queue, item.body, item.flags) == ("facts", b"\0\r\n\xff", 7)
        assert (item.attempts, item.key, await item.number) == (0, "a,b", 1)
        assert repr(item).startswith("<AsyncItem of facts: token=")
        await item.abort()
        with pytest.raises(ValueError, match="this item was given back already"):
            await item.confirm()
        again = await take(worker)
        assert again.attempts == 1
        await again.bury("no such account")

    [why] = [n for k, n in daemon.client().stats("facts/dead").items() if k.endswith(b"_reason")]
    assert why == b"no%20such%20account"


async def test_a_failed_item_waits_and_is_dead_after_max_attempts(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(daemon, queue, retry_delay="50ms", max_attempts=2)
    seen = []

    async def handle(item: AsyncItem) -> None:
        seen.append(item.body)
        if len(seen) == 3:
            worker.stop()
        if item.body == b"one":
            raise RuntimeError("not yet")

    with caplog.at_level(logging.WARNING):
        await asyncio.wait_for(worker.run(handle), 30)

    assert seen == [b"one", b"two", b"one"]
    assert f"{queue}: given back: not yet" in caplog.text
    assert f"{queue}: buried: not yet" in caplog.text
    assert counts(daemon, queue)["dead"] == 1


async def test_a_dead_letter_that_the_queue_made_is_named(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.client().set(f"{queue}/declare", b"max_attempts = 1")
    worker = worker_of(daemon, queue)

    async def handle(item: AsyncItem) -> None:
        worker.stop()
        raise RuntimeError("no such account")

    with caplog.at_level(logging.WARNING):
        await asyncio.wait_for(worker.run(handle), 30)

    assert f"{queue}: buried: no such account" in caplog.text


async def test_leases_are_renewed_while_items_are_handled(
    daemon: DaemonProcess, queue: str
) -> None:
    async with worker_of(daemon, queue, lease="1s") as worker:
        items = [await take(worker), await take(worker)]
        await asyncio.sleep(2.5)
        for item in items:
            await item.confirm()

    assert counts(daemon, queue)["lease_expired"] == 0


async def test_a_lost_lease_is_reported_and_its_confirm_is_refused(
    daemon: DaemonProcess, queue: str
) -> None:
    async with worker_of(daemon, queue, lease="1s") as worker:
        item = await take(worker)
        told = asyncio.Event()
        item.when_stop(told.set)
        daemon.client().get(f"{queue}/abort/token={item.token}")

        await asyncio.wait_for(told.wait(), 30)

        assert item.is_lost and item.should_stop
        with pytest.raises(LeaseLost):
            await item.confirm()


async def test_an_item_is_asked_to_stop_at_its_limit(daemon: DaemonProcess, queue: str) -> None:
    async with worker_of(daemon, queue, lease="1s", work_limit="1s") as worker:
        item = await take(worker)
        told = asyncio.Event()
        item.when_stop(told.set)

        await asyncio.wait_for(told.wait(), 30)
        assert item.should_stop and not item.is_lost
        await until(lambda: counts(daemon, queue)["items"] == 2)  # deferred
        assert item.is_lost


async def test_a_cancelled_run_gives_back_what_it_has(daemon: DaemonProcess, queue: str) -> None:
    worker, handled = worker_of(daemon, queue, items=2), list[bytes]()

    async def handle(item: AsyncItem) -> None:
        handled.append(item.body)
        await asyncio.sleep(60)

    running = asyncio.create_task(worker.run(handle))
    await until(lambda: len(handled) == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert left(daemon, queue) == [b"one", b"two"]


async def test_a_name_that_cannot_be_is_not_tried_again(daemon: DaemonProcess) -> None:
    with pytest.raises(ServerRefusal, match="a child has no children"):
        async for _ in worker_of(daemon, "a+b+c"):
            pass


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"items": 0}, "items must be at least 1"), ({"lease": "5"}, "lease: .* is not a duration")],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AsyncWorker("q", **settings)


async def test_through_cuts_and_kills_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    handled: Counter[bytes] = Counter()
    with DaemonProcess(tmp_path / "data") as daemon, Proxy(daemon.port) as wire:
        put(daemon, "q", *(b"%d" % number for number in range(600)))
        worker = AsyncWorker("q", wire.address, items=10, wait="1s", lease="3s")

        async def handle(item: AsyncItem) -> None:
            await asyncio.sleep(rng.random() / 50)
            handled[item.body] += 1

        with caplog.at_level(logging.WARNING):
            running = asyncio.create_task(worker.run(handle))
            for mark in range(50, 600, 100):
                await until(lambda mark=mark: len(handled) >= mark)
                if mark == 250:
                    await asyncio.to_thread(daemon.kill)
                    await asyncio.to_thread(daemon.start)
                else:
                    wire.cut()
            await until(lambda: len(handled) == 600)
            worker.stop()
            await asyncio.wait_for(running, 30)

        twice = sum(handled.values()) - 600
        assert twice <= caplog.text.count("may be handled again"), f"seed {seed}"
        assert counts(daemon, "q")["open_transactions"] == 0, f"seed {seed}"
