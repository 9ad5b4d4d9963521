"""The listening sockets, and that none is left after the end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from kestrelpy.protocol import Wire
from kestrelpy.server.connections.listeners import CannotListen, Listeners


def silent(wire: Wire) -> asyncio.Protocol:
    return asyncio.Protocol()


async def test_a_closed_listener_accepts_no_connection_on_port_or_socket(
    tmp_path: Path,
) -> None:
    listeners = Listeners(silent, 5)
    path = tmp_path / "socket"
    lines = await listeners.listen("127.0.0.1", 0, path)
    port = int(lines[0].rpartition(":")[2])
    for each in (asyncio.open_connection("127.0.0.1", port), asyncio.open_unix_connection(path)):
        _, writer = await each
        writer.close()

    listeners.close()
    await asyncio.sleep(0)

    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        await asyncio.open_unix_connection(path)


async def test_a_socket_of_another_process_is_left_alone(tmp_path: Path) -> None:
    first, second = Listeners(silent, 5), Listeners(silent, 5)
    path = tmp_path / "socket"
    await first.listen("127.0.0.1", 0, path)

    with pytest.raises(CannotListen, match="another process answers there"):
        await second.listen("127.0.0.1", 0, path)

    assert path.is_socket()
    first.close()
    second.close()
    third = Listeners(silent, 5)
    await asyncio.sleep(0)
    await third.listen("127.0.0.1", 0, path)  # a file left by a killed daemon does not matter
    third.close()


async def test_a_socket_whose_owner_hangs_is_left_to_him(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with contextlib.ExitStack() as opened:
        owner = opened.enter_context(socket.socket(socket.AF_UNIX))
        owner.bind(str(path))
        owner.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:  # as many as may wait until they are accepted
                waiting = opened.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))
        listeners = Listeners(silent, 5)

        with pytest.raises(CannotListen, match="another process answers there"):
            await listeners.listen("127.0.0.1", 0, path)

        assert path.is_socket()
        listeners.close()
