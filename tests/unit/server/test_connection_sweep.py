"""Connections that are looked at now and then: a body that comes on is left alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kestrelpy.server import clock
from kestrelpy.server.connection_sweep import BODY_MS
from tests.support.running import running


async def test_a_body_that_is_on_its_way_is_waited_for(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        assert server.daemon is not None
        peer = await server.client()
        assert await peer.ask(b"version\r\n")
        peer.writer.write(b"set jobs 0 0 10\r\nabc")
        [connection] = server.daemon._connections
        while connection.conversation is None or not connection.conversation.parser.is_in_body:
            await asyncio.sleep(0.001)

        server.daemon._sweep().close_idle(clock.now_ms(), None)

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

        server.daemon._sweep().close_idle(clock.now_ms() + BODY_MS + 1, None)

        assert await peer.closed()
        assert await silent.ask(b"get jobs\r\n") == b"END\r\n"
