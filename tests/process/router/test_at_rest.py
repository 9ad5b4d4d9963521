"""When its clients are gone nothing is left in a router, however they went."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.errors import SliceAway
from kestrelpy.placement import Placement
from kestrelpy.server.daemon import StartError
from kestrelpy.server.slices.connections import ClientConnection
from kestrelpy.server.slices.router import SliceRouter
from kestrelpy.server.slices.slice_process import SliceProcess
from kestrelpy.server.slices.slice_set import SliceSet
from tests.support.at_rest import left_over
from tests.unit.config.files import load

SLICES = 2
NAMES = (b"a", b"g")  # one in each slice


class Peer:
    """One client of a router."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes, end: bytes = b"\r\n") -> bytes:
        self.writer.write(request)
        async with asyncio.timeout(30):
            return await self.reader.readuntil(end)


class Running:
    """A router in this process, with the processes of its slices."""

    def __init__(self, folder: Path) -> None:
        file = folder / "kestrelpy.toml"
        file.write_text(f'[server]\nport = 0\nhttp_port = "off"\n[fleet]\nslices = {SLICES}\n')
        self.said: list[str] = []
        self.router = SliceRouter(load(file), file, lambda: load(file), self.said.append)

    @property
    def slice_set(self) -> SliceSet:
        assert self.router._slices is not None
        return self.router._slices

    @property
    def slices(self) -> dict[int, SliceProcess]:
        return self.slice_set.processes

    async def client(self) -> Peer:
        port = int(self.said[0].rpartition(":")[2])
        return Peer(*await asyncio.open_connection("127.0.0.1", port))


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    found = Running(tmp_path)
    task = asyncio.create_task(found.router.run())
    await until(lambda: (found.said[-1:] and found.said[-1].startswith("ready")) or task.done())
    yield found
    os.kill(os.getpid(), signal.SIGTERM)
    await task
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


async def work(running: Running) -> Peer:
    """Requests to each slice and to all; the last one waits."""
    peer = await running.client()
    for name in NAMES:
        assert await peer.ask(b"set %b 0 0 1\r\nx\r\n" % name) == b"STORED\r\n"
        assert await peer.ask(b"get %b/open\r\n" % name, b"END\r\n")
        assert await peer.ask(b"set %b 0 0 1 noreply\r\nx\r\nmn\r\n" % name) == b"MN\r\n"
    assert await peer.ask(b"stats\r\n", b"END\r\n")
    peer.writer.write(b"get nothing/t=60s\r\nversion\r\n")
    return peer


async def hang_up(running: Running, peer: Peer) -> None:
    peer.writer.close()


async def end_input(running: Running, peer: Peer) -> None:
    """What was sent is still answered; a wait ends at once."""
    peer.writer.write_eof()
    async with asyncio.timeout(30):
        assert (await peer.reader.read()).startswith(b"END\r\nVERSION")


async def lose_a_slice(running: Running, peer: Peer) -> None:
    placement = Placement(SLICES)
    process = running.slices[placement.slice_of(b"nothing")]._process
    assert process is not None
    process.kill()
    async with asyncio.timeout(30):
        assert await peer.reader.read() == b""
    await until(lambda: all(each.is_serving for each in running.slices.values()))


async def quit_at_once(running: Running, peer: Peer) -> None:
    other = await running.client()
    other.writer.write(b"version\r\nquit\r\nversion\r\n")
    async with asyncio.timeout(30):
        assert (await other.reader.read()).count(b"VERSION") == 1
    peer.writer.close()


@pytest.mark.parametrize("leave", [hang_up, end_input, lose_a_slice, quit_at_once])
async def test_nothing_is_left_of_clients_that_are_gone(
    running: Running, leave: Callable[[Running, Peer], object]
) -> None:
    peers = [await work(running) for _ in range(3)]
    assert running.router.counts.connections == 3
    for peer in peers:
        result = leave(running, peer)
        assert asyncio.iscoroutine(result)
        if leave is lose_a_slice and peer is not peers[0]:
            result.close()  # the same slice ended all of them
            continue
        await result
    await until(lambda: not running.router._connections)
    try:
        await until(lambda: not left_over(running.router))
    except TimeoutError:
        assert left_over(running.router) == []
    assert running.router.counts.connections == 0
    trunks = running.slice_set._trunks.values()
    await until(lambda: all(len(each._channels) <= 1 for each in trunks))  # that of the mail


async def all_said(running: Running, request: bytes) -> bytes:
    """All that a client hears that sends this and then its end."""
    peer = await running.client()
    peer.writer.write(request)
    peer.writer.write_eof()
    async with asyncio.timeout(30):
        return await peer.reader.read()


async def test_requests_before_the_end_of_the_input_keep_their_leases_and_answers(
    running: Running
) -> None:
    assert await all_said(running, b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
    for number in range(20):
        said = await all_said(
            running, b"get a/open\r\nset g 0 0 1\r\ny\r\nget a/close\r\nset a 0 0 1\r\nx\r\nmn\r\n"
        )
        assert said == b"VALUE a/open 0 1\r\nx\r\nEND\r\nSTORED\r\nEND\r\nSTORED\r\nMN\r\n", number
    assert await all_said(running, b"get a\r\nget a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\nEND\r\n"


async def test_a_lease_that_ended_with_a_wait_is_not_confirmed_in_appearance(
    running: Running
) -> None:
    assert await all_said(running, b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
    said = await all_said(
        running, b"get a/open\r\nget a+x/t=60s\r\nget g\r\nget a/close\r\nmn\r\n"
    )
    assert said == b"VALUE a/open 0 1\r\nx\r\nEND\r\nEND\r\nEND\r\n"
    assert await all_said(running, b"get a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"


async def test_a_slice_that_takes_nothing_stops_its_client(running: Running) -> None:
    number = Placement(SLICES).slice_of(b"a")
    process = running.slices[number]._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        peer = await running.client()
        peer.writer.write(b"set a 0 0 1000000 noreply\r\n%b\r\n" % (b"x" * 1_000_000))
        await until(lambda: any(each._slices for each in running.router._connections))
        (client,) = running.router._connections
        await until(lambda: client._slices[number]._transport is not None)
        await until(lambda: not client._reading)
    finally:
        process.send_signal(signal.SIGCONT)
    await until(lambda: client._reading)


async def test_a_reload_waits_for_a_slice_that_starts(running: Running) -> None:
    each = running.slices[1]
    began = each._process
    assert began is not None
    began.kill()
    await until(lambda: each._process is not began)
    starting = each._process
    running.router._heed(signal.SIGHUP)
    await until(lambda: each.status == "configuration reloaded")
    assert each._process is starting


async def test_a_slice_that_cannot_be_started_at_once_is_started_later(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    each, tried, create = running.slices[1], 0, asyncio.create_subprocess_exec

    async def first_fail(*words: str, **settings: Any) -> asyncio.subprocess.Process:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return await create(*words, **settings)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", first_fail)
    assert each._process is not None
    each._process.kill()
    await until(lambda: each.status == "cannot be started: Resource temporarily unavailable")
    await until(lambda: each.is_serving)


async def test_a_slice_that_stays_away_refuses_and_the_next_request_tries_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(number: int, make: Callable[[], asyncio.BaseProtocol]) -> None:
        raise SliceAway("ended with code 1")

    peer = await running.client()
    with monkeypatch.context() as patch:
        patch.setattr(running.router, "connect", away)
        for _ in range(2):
            said = await peer.ask(b"get a\r\nget g\r\n", b"1\r\n")
            assert said.startswith(b"SERVER_ERROR slice ")
    peer.writer.close()
    await until(lambda: not running.router._connections)
    other = await running.client()
    assert await other.ask(b"get a\r\n") == b"END\r\n"


async def test_more_clients_than_max_connections_are_refused(running: Running) -> None:
    running.router._connections_max = 1
    first = await running.client()
    assert (await first.ask(b"version\r\n")).startswith(b"VERSION")
    second = await running.client()
    assert await second.ask(b"") == b"SERVER_ERROR too many connections\r\n"
    assert (
        len([each for each in running.router._connections if isinstance(each, ClientConnection)])
        == 1
    )


async def test_a_slice_that_a_client_does_not_use_closes_its_connection_alone(
    running: Running,
) -> None:
    config = running.router._config.server.__dict__
    file = running.router._config_file
    assert file is not None
    file.write_text(file.read_text().replace("port = 0", 'port = 0\nidle_timeout = "200ms"'))
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: running.router._config.server.__dict__ != config)
    holder, silent, never = [await running.client() for _ in range(3)]
    assert await holder.ask(b"set a 0 0 1\r\nx\r\nget a/open\r\n", b"x\r\nEND\r\n")
    assert await silent.ask(b"get a\r\nget g\r\n", b"END\r\nEND\r\n")
    [held] = [each for each in running.router._connections if len(each._slices) == 1]
    async with asyncio.timeout(30):
        assert await silent.reader.read() == b""
        assert await never.reader.read() == b""
    assert await holder.ask(b"get g\r\n") == b"END\r\n"
    number = Placement(SLICES).slice_of(b"g")
    await until(lambda: number not in held._slices)  # the slice said that it is idle
    assert await holder.ask(b"get g\r\n") == b"END\r\n"
    assert await holder.ask(b"get a/close\r\nget a\r\n", b"END\r\nEND\r\n")
    holder.writer.close()


async def test_a_body_that_comes_no_further_ends_its_connection(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.slices.connections.BODY_MS", 100)
    peer, other = await running.client(), await running.client()
    assert (await other.ask(b"version\r\n")).startswith(b"VERSION")
    peer.writer.write(b"set a 0 0 10\r\nabc")
    async with asyncio.timeout(30):
        assert await peer.reader.read() == b""
    assert (await other.ask(b"version\r\n")).startswith(b"VERSION")


async def test_a_start_that_fails_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "slices-9").mkdir()
    with pytest.raises(StartError, match="its queues are in 9 slices"):
        await Running(tmp_path).router.run()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)
