"""A slice that asks its router, in place of which a server of the test answers or is silent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kestrelpy.server.mail import router_watch
from kestrelpy.server.mail.router_watch import HANGS, RouterWatch

ENOUGH = 20  # questions


class Server(asyncio.Protocol):
    """It answers as a router does, until it is silent or hangs up."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_silent = self.hangs_up = False
        self.has_answered = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.asked += data.count(b"mn\r\n")
        if not self.is_silent:
            self.transport.write(b"MN\r\n")
        if self.hangs_up:
            self.transport.abort()
        if self.asked >= ENOUGH:
            self.has_answered.set()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_watch, "BEAT_SECONDS", 0.01)


async def serving(folder: Path, server: Server) -> str:
    path = str(folder / "mail")
    await asyncio.get_running_loop().create_unix_server(lambda: server, path)
    return path


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_a_router_that_answers_is_asked_on_and_on(tmp_path: Path, hangs_up: bool) -> None:
    server, ended = Server(), list[str]()
    server.hangs_up = hangs_up
    path = await serving(tmp_path, server)
    running = asyncio.create_task(RouterWatch(path, 60.0, ended.append).run())
    await server.has_answered.wait()
    running.cancel()
    assert not ended


async def test_a_slice_whose_router_is_silent_ends(tmp_path: Path) -> None:
    server, ended = Server(), list[str]()
    server.is_silent = True
    await RouterWatch(await serving(tmp_path, server), 0.1, ended.append).run()
    assert ended == [HANGS]
    assert server.asked > 1


async def test_a_slice_whose_router_cannot_be_reached_ends(tmp_path: Path) -> None:
    ended = list[str]()
    await RouterWatch(str(tmp_path / "nothing"), 0.1, ended.append).run()
    assert ended == [HANGS]
