"""The periodic look: a body that comes on is left alone, an abandoned child is logged once.

Promise: slices.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from kestrelpy.core.fanout.child import ABANDONED_MS
from kestrelpy.protocol.log_limit import LogLimit
from kestrelpy.server import clock
from kestrelpy.server.connections import sweep as sweep_module
from kestrelpy.server.connections.connection import Connection
from kestrelpy.server.connections.memory import ConnectionMemory
from kestrelpy.server.connections.sweep import BODY_MS, CLOSED_MAX, TRIM_BYTES, ConnectionSweep
from tests.support.running import running
from tests.support.server_harness import ServerHarness


async def test_a_body_that_is_on_its_way_is_waited_for(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        assert server.daemon is not None
        peer = await server.client()
        assert await peer.ask(b"version\r\n")
        peer.writer.write(b"set jobs 0 0 10\r\nabc")
        [connection] = server.daemon._connections
        while connection.conversation is None or not connection.conversation.parser.is_in_body:
            await asyncio.sleep(0.001)

        await server.daemon._sweep().close_idle(clock.now_ms(), None)

        assert await peer.ask(b"defghij\r\n") == b"STORED\r\n"


async def test_a_body_that_comes_no_further_ends_its_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        assert server.daemon is not None
        peer, silent = await server.client(), await server.client()
        assert await silent.ask(b"version\r\n")
        peer.writer.write(b"set jobs 0 0 10\r\nabc")
        while not any(
            each.conversation is not None and each.conversation.parser.is_in_body
            for each in server.daemon._connections
        ):
            await asyncio.sleep(0.001)

        await server.daemon._sweep().close_idle(clock.now_ms() + BODY_MS + 1, None)

        assert await peer.closed()
        assert await silent.ask(b"get jobs\r\n") == b"END\r\n"


class Silent:
    """A connection without a request for long, and its conversation."""

    moved_ms = heard_ms = last_command_ms = 0
    is_idle, is_in_body = True, False

    def __init__(self, closed: list[Silent]) -> None:
        self._closed = closed
        self.conversation = self.parser = self.holder = self
        self.name = "peer"

    def close_idle(self) -> None:
        self._closed.append(self)


async def test_thousands_of_idle_connections_close_some_in_each_turn() -> None:
    closed = list[Silent]()
    silent = [Silent(closed) for _ in range(10 * CLOSED_MAX + 1)]
    sweep = ConnectionSweep(
        ServerHarness().broker, ConnectionMemory(0), cast("list[Connection]", silent),
        lambda: None, LogLimit(),
    )  # fmt: skip
    sweeping, before = asyncio.ensure_future(sweep.close_idle(10_000, 1000)), 0
    while not sweeping.done():
        await asyncio.sleep(0)
        assert len(closed) - before <= CLOSED_MAX
        before = len(closed)
    assert closed == silent


async def test_the_lag_of_the_loop_is_how_late_each_look_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late_s, now_s = [0.25, 0.5], 100.0

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        if not late_s:
            raise asyncio.CancelledError
        now_s += seconds + late_s.pop(0)

    monkeypatch.setattr(clock, "elapsed", lambda: now_s)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    broker = ServerHarness().broker
    sweep = ConnectionSweep(broker, ConnectionMemory(0), [], lambda: None, LogLimit())

    with pytest.raises(asyncio.CancelledError):
        await sweep.run()

    lag = broker.counters.loop_lag_us
    assert (lag.count, lag.counts[-1]) == (2, 750_000)


async def test_memory_is_given_back_once_after_a_crowd_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trims, looks = [], asyncio.Semaphore(0)
    monkeypatch.setattr(sweep_module, "trim_memory", lambda: trims.append(memory.peak))
    memory = ConnectionMemory(1 << 30)

    def timeout_ms() -> int:  # asked at the begin of each round
        looks.release()
        return 1

    async def look() -> None:
        for _ in range(2):  # the second one begins when the round of the first one is over
            await looks.acquire()

    sweep = ConnectionSweep(ServerHarness().broker, memory, [], timeout_ms, LogLimit())
    memory.used = memory.peak = TRIM_BYTES
    task = asyncio.ensure_future(sweep.run())
    await look()
    assert trims == [], "the crowd is still there"

    memory.used = TRIM_BYTES // 4
    await look()
    await look()
    assert trims == [TRIM_BYTES // 4]

    memory.peak = TRIM_BYTES
    await look()
    assert trims == [TRIM_BYTES // 4], "not again so soon"
    task.cancel()


async def test_an_abandoned_child_is_logged_once_and_again_after_a_request_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = ServerHarness()
    sweep = ConnectionSweep(stage.broker, ConnectionMemory(0), [], lambda: None, LogLimit())
    stage.say("a", b"get orders+audit/peek", b"get orders+empty/peek", b"set orders 0 0 1", b"1")
    stage.say("a", b"get orders+empty")

    await sweep.name_abandoned(stage.now_ms + ABANDONED_MS - 1)
    assert caplog.messages == []
    for _ in range(3):
        stage.now_ms += ABANDONED_MS
        await sweep.name_abandoned(stage.now_ms)
    first = (
        "queue orders+audit: nobody asked for 24 hours, and 1 items wait: read them, or delete "
        "orders+audit"
    )
    assert caplog.messages == [first]

    stage.say("a", b"get orders+audit/peek")
    await sweep.name_abandoned(stage.now_ms)
    await sweep.name_abandoned(stage.now_ms + ABANDONED_MS)
    assert [message.partition(":")[0] for message in caplog.messages] == ["queue orders+audit"] * 2


async def test_thousands_of_abandoned_children_are_logged_some_in_each_turn(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_module, "NAMED_MAX", 3)
    stage = ServerHarness()
    sweep = ConnectionSweep(stage.broker, ConnectionMemory(0), [], lambda: None, LogLimit())
    for number in range(20):
        stage.say("a", b"get orders+%d/peek" % number)
    stage.say("a", b"set orders 0 0 1", b"1")
    now_ms = stage.now_ms + ABANDONED_MS
    for count in (20, 20):  # each once
        naming, before = asyncio.ensure_future(sweep.name_abandoned(now_ms)), len(caplog.messages)
        while not naming.done():
            await asyncio.sleep(0)
            assert len(caplog.messages) - before <= 3
            before = len(caplog.messages)
        assert len(caplog.messages) == len(set(caplog.messages)) == count
