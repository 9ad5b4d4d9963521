"""One socket: a client that does not read, one that hangs up, one that is half closed.

Promises: fair-share, connection-memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from kestrelpy.protocol import Conversation
from kestrelpy.server.connections.connection import AHEAD_BYTES_MAX, PROGRESS_BYTES, Connection
from tests.support.running import Running, running


async def test_a_hang_up_gives_the_item_back_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        holder, other = await server.client(), await server.client()
        await holder.ask(b"set jobs 0 0 1\r\na\r\n")
        await holder.ask(b"get jobs/open\r\n")
        holder.writer.close()
        assert await other.ask(b"get jobs/open/t=20s\r\n") == b"VALUE jobs/open/t=20s 0 1\r\n"


async def test_a_half_closed_client_gets_its_answers(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        peer.writer.write(b"set jobs 0 0 1\r\na\r\nget jobs/open\r\nget jobs/close\r\n")
        peer.writer.write_eof()
        data = await asyncio.wait_for(peer.reader.read(), 20)
        assert data == b"STORED\r\nVALUE jobs/open 0 1\r\na\r\nEND\r\nEND\r\n"


async def test_half_a_body_stores_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        half, other = await server.client(), await server.client()
        half.writer.write(b"set jobs 0 0 1000\r\nabc")
        half.writer.write_eof()
        assert await half.closed()
        assert await other.ask(b"get jobs\r\n") == b"END\r\n"


async def test_a_client_that_never_reads_holds_up_only_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        other = await server.client()
        body = b"x" * 100_000
        await other.ask(b"set jobs 0 0 100000\r\n" + body + b"\r\n")
        deaf = socket.create_connection(("127.0.0.1", server.port))
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):  # 5 GB are asked for, and none of it is read
            await asyncio.wait_for(loop.sock_sendall(deaf, b"get jobs/peek\r\n" * 50_000), 2)
        assert (await other.ask(b"version\r\n")).startswith(b"VERSION")
        assert server.daemon is not None
        assert server.daemon.broker.counters.bytes_written < 20_000_000
        deaf.close()


class Overheard:
    """A transport that records its writes."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_a_hand_off_and_the_open_behind_it_are_answered_in_one_write(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        for body in (b"a", b"b"):
            assert await peer.ask(b"set jobs 0 0 1\r\n" + body + b"\r\n") == b"STORED\r\n"
        peer.writer.write(b"get jobs/open\r\n")
        assert [await peer.line() for _ in range(3)][1] == b"a\r\n"
        assert server.daemon is not None
        (connection,) = server.daemon._connections
        overheard = Overheard(connection._transport)
        connection._transport = cast(Any, overheard)
        peer.writer.write(b"set next/confirm 0 0 1\r\na\r\nget jobs/open\r\n")
        assert [await peer.line() for _ in range(4)][2] == b"b\r\n"
        assert overheard.writes == [b"STORED\r\nVALUE jobs/open 0 1\r\nb\r\nEND\r\n"]


FLOODS = {
    "quiet touches": b"touch a 1 noreply\r\n",
    "quiet sets that are refused": b"set a/nosuch 0 0 1 noreply\r\nx\r\n",
    "gets that are refused": b"get a/open/peek\r\n",
    "unknown verbs": b"frobnicate\r\n",
}


@pytest.mark.parametrize("name", list(FLOODS))
async def test_a_flood_is_not_carried_out_ahead_of_a_small_request(
    name: str, tmp_path: Path
) -> None:
    line = FLOODS[name]
    lines = (4 << 20) // len(line)
    async with running(tmp_path) as server:
        other, flood = await server.client(), await server.client()
        assert server.daemon is not None
        reading = asyncio.create_task(flood.reader.read(-1))
        before = server.daemon.broker.counters.bytes_read
        flood.writer.write(line * lines)
        answered = 0
        while server.daemon.broker.counters.bytes_read - before < len(line) * lines // 2:
            assert (await other.ask(b"version\r\n")).startswith(b"VERSION")
            answered += 1

        most_at_once = 256 << 10  # as much as is read from a socket before it is executed
        assert answered >= len(line) * lines // 2 // most_at_once
        flood.writer.close()
        reading.cancel()


async def one_connection(server: Running) -> tuple[Connection, Conversation]:
    """The only connection of this server, after its first answer."""
    await (await server.client()).ask(b"version\r\n")
    assert server.daemon is not None
    [connection] = server.daemon._connections
    assert connection.conversation is not None
    return connection, connection.conversation


async def test_a_connection_is_flushed_when_a_reply_waits_for_a_log_that_failed_before(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        connection, talk = await one_connection(server)
        connection.data_received(b"half a ")
        assert not talk.is_touched, "nothing can leave"

        talk.replies.has_failed = True
        connection.data_received(b"line")

        assert talk.is_touched


@pytest.mark.parametrize(
    ("name", "value"), [("is_lined_up", True), ("heavy_until_ms", 1 << 60), ("stream", iter(()))]
)
async def test_what_a_heavy_connection_sends_waits_for_its_turn(
    tmp_path: Path, name: str, value: object
) -> None:
    async with running(tmp_path) as server:
        connection, talk = await one_connection(server)
        light = talk.commands
        connection.data_received(b"version\r\n")
        assert talk.commands == light + 1

        setattr(talk if name == "stream" else connection, name, value)
        connection.data_received(b"version\r\n")

        assert talk.commands == light + 1
        assert talk.is_behind


async def test_a_connection_that_has_sent_more_than_its_share_is_not_read_from(
    tmp_path: Path,
) -> None:
    at_once = 256 << 10  # as much as is read from a socket
    async with running(tmp_path) as server:
        flood = await server.client()
        assert server.daemon is not None
        (connection,) = server.daemon._connections
        assert connection.conversation is not None
        conversation = connection.conversation
        flood.writer.write(FLOODS["quiet touches"] * 200_000 + b"quit\r\n")
        most = 0
        while not conversation.is_finished:
            most = max(most, conversation.parser.buffered)
            await asyncio.sleep(0)

        assert AHEAD_BYTES_MAX < most <= AHEAD_BYTES_MAX + at_once


async def test_a_client_that_sent_much_and_hangs_up_in_a_wait_is_given_nothing(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        gone, other = await server.client(), await server.client()
        gone.writer.write(b"version\r\n" * 1000 + b"get jobs/t=10m\r\n")
        for _ in range(1000):
            assert (await gone.line()).startswith(b"VERSION")
        gone.writer.close()
        assert server.daemon is not None
        while server.daemon.broker.counters.connections > 1:
            await asyncio.sleep(0.005)

        assert await other.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        assert await other.ask(b"get jobs\r\n") == b"VALUE jobs 0 1\r\n"


async def test_many_clients_that_wait_at_once_are_all_heard_when_they_hang_up(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        peers = [await server.client() for _ in range(100)]
        for peer in peers:
            peer.writer.write(b"get jobs/t=10m\r\n")
        assert server.daemon is not None
        while server.daemon.broker.counters.cmd_get < 100:
            await asyncio.sleep(0.005)
        for peer in peers:
            peer.writer.close()

        while server.daemon.broker.counters.connections:
            await asyncio.sleep(0.005)


async def test_waits_for_large_items_are_answered_some_in_each_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.turn.DIRECT_SECONDS", 0.0)
    async with running(tmp_path) as server:
        peers = [await server.client() for _ in range(10)]
        for peer in peers:
            peer.writer.write(b"get jobs/peek/t=10m\r\n")
        assert server.daemon is not None
        while server.daemon.broker.counters.cmd_peek < 10:
            await asyncio.sleep(0.005)
        producer = await server.client()
        assert await producer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"

        for peer in peers:
            assert (await peer.line()).startswith(b"VALUE jobs/peek")


async def test_a_client_that_has_read_enough_since_the_last_look_has_moved(tmp_path: Path) -> None:
    class Unsent:
        size = 0

        def get_write_buffer_size(self) -> int:
            return self.size

    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"version\r\n")
        assert server.daemon is not None
        (connection,) = server.daemon._connections
        real, unsent = connection._transport, Unsent()
        connection._transport, connection.moved_ms = cast(Any, unsent), 0
        looks = [
            (3 * PROGRESS_BYTES, 0),  # the mark
            (2 * PROGRESS_BYTES + 1, 0),  # a byte is missing
            (4 * PROGRESS_BYTES, 0),  # more to send is no progress, but a new mark
            (3 * PROGRESS_BYTES, 4),
            (3 * PROGRESS_BYTES, 4),
            (0, 6),  # all of it
        ]
        for now_ms, (size, moved_ms) in enumerate(looks, 1):
            unsent.size = size
            connection.look_at_memory(now_ms)
            assert connection.moved_ms == moved_ms, f"look {now_ms}"
        connection._transport = real


async def test_what_could_not_be_sent_at_once_is_counted_once(tmp_path: Path) -> None:
    """A transport says within `write` that it has more than it may hold."""

    class Full:
        def __init__(self) -> None:
            self.size = 0

        def write(self, data: bytes) -> None:
            self.size += len(data)
            connection.pause_writing()

        def get_write_buffer_size(self) -> int:
            return self.size

    async with running(tmp_path) as server:
        connection, conversation = await one_connection(server)
        real, transport = connection._transport, Full()
        connection._transport = cast(Any, transport)
        conversation.replies.say(b"x" * 100_000)
        connection.flush_output(0)
        connection._transport = real
        assert connection.held_bytes == transport.size == 100_000


@pytest.mark.parametrize("request_", [b"get jobs/peek\r\n", b"gets jobs/peek/after=0/n=5\r\n"])
async def test_the_room_for_a_reply_is_free_again_when_the_reply_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: bytes
) -> None:
    reserved, reserve = list[int](), Connection.reserve

    def note(connection: Connection, size: int) -> bool:
        reserved.append(size)
        return reserve(connection, size)

    monkeypatch.setattr(Connection, "reserve", note)
    async with running(tmp_path) as server:
        assert server.daemon is not None
        memory = server.daemon.memory
        peer = await server.client()
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        memory.is_short = True  # a small reply reserves its room as well
        assert (await peer.ask(request_)).startswith(b"VALUE jobs/peek")
        assert reserved
        assert memory.used == 0


async def test_a_client_that_is_ahead_is_stopped_each_time_and_then_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noting:
        def __init__(self, real: Any) -> None:
            self.real, self.said = real, list[str]()

        def pause_reading(self) -> None:
            self.said.append("stop")

        def resume_reading(self) -> None:
            self.said.append("go on")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    async with running(tmp_path) as server:
        connection, _ = await one_connection(server)
        transport = Noting(connection._transport)
        connection._transport = cast(Any, transport)
        for _ in range(2):
            monkeypatch.setattr(Connection, "_is_ahead", lambda *_: True)
            connection.data_received(b"version\r\n")
            monkeypatch.setattr(Connection, "_is_ahead", lambda *_: False)
            connection.flush_output(0)
        connection._transport = transport.real
        assert transport.said == ["stop", "go on", "stop", "go on"]
