"""A write goes out within the call, on either loop and with TLS as well.

Promise: takeover.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from kestrelpy.write_at_once import write_at_once
from tests.support.guarded import certificate

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
LIMIT_S = 20.0


class _Served(asyncio.Protocol):
    """The server's side of one connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_paused = False
        self.ready = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none, but have the same
        self.ready.set()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_a_write_is_there_before_the_call_is_over(
    new_loop: Callable[[], asyncio.AbstractEventLoop], has_tls: bool, tmp_path: Path
) -> None:
    async def served() -> None:
        connection, client = await _connected(has_tls, tmp_path)
        transport = connection.transport
        assert transport is not None
        write_at_once(transport)
        for number in range(3):  # between two of them the loop has turns, or has none
            transport.write(b"STORED\r\n")
            assert select.select([client], [], [], LIMIT_S)[0], "it waits for the loop"
            assert client.recv(100) == b"STORED\r\n"
            await asyncio.sleep(0.01 * (number % 2))
        assert not connection.is_paused

        sent = 0
        while not connection.is_paused:  # the client reads nothing
            transport.write(bytes(1 << 16))
            sent += 1 << 16
        assert len(await asyncio.to_thread(_read, client, sent)) == sent
        async with asyncio.timeout(LIMIT_S):
            while connection.is_paused:
                await asyncio.sleep(0.001)
        transport.abort()
        client.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(served())


async def _connected(has_tls: bool, folder: Path) -> tuple[_Served, socket.socket]:
    served, inside, outside = _Served(), None, None
    if has_tls:
        certificate(folder, "server")
        inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        inside.load_cert_chain(folder / "server.pem", folder / "server.key")
        outside = ssl.create_default_context(cafile=str(folder / "server.pem"))
    server = await asyncio.get_running_loop().create_server(
        lambda: served, "127.0.0.1", 0, ssl=inside
    )
    address = server.sockets[0].getsockname()

    def connect() -> socket.socket:
        client = socket.create_connection(address, LIMIT_S)
        return outside.wrap_socket(client, server_hostname="127.0.0.1") if outside else client

    client = await asyncio.to_thread(connect)
    await served.ready.wait()
    server.close()
    return served, client


def _read(client: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = client.recv(1 << 20)
        assert piece
        found += piece
    return bytes(found)
