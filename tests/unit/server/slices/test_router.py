"""The router between its clients, its slices and the other members."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from journal.engine import Member
from journal.files import Disk
from kestrelpy.config import Config
from kestrelpy.protocol import MEMCACHE
from kestrelpy.server.daemon import StartError
from kestrelpy.server.slices.connections import ClientConnection
from kestrelpy.server.slices.doors import Key, WantedSlice
from kestrelpy.server.slices.member_slices import MemberSlices
from kestrelpy.server.slices.router import SliceRouter
from kestrelpy.server.slices.slice_set import SliceSet


class Connection:
    """A connection of a client, or of a slice that sends messages to others."""

    def __init__(self, is_slice: bool) -> None:
        self.is_slice = is_slice
        self.told: list[tuple[int, Member]] = []

    def note_owner(self, number: int, owner: Member) -> None:
        self.told.append((number, owner))


async def test_slices_as_well_as_clients_hear_who_has_a_slice_now(tmp_path: Path) -> None:
    config = Config.model_validate({"server": {"data_dir": tmp_path}, "fleet": {"slices": 2}})
    router = SliceRouter(config, None, lambda: config, lambda line: None)
    router._connections_max = 9
    client, slice_, gone = Connection(False), Connection(True), Connection(True)
    for each in (client, slice_, gone):
        assert router.admit(cast(ClientConnection, each))
    router.dismiss(cast(ClientConnection, gone))

    router._note_owner(1, Member("b"))

    assert client.told == slice_.told == [(1, Member("b"))]
    assert gone.told == []
    assert router.counts.connections == 1


def slice_set(folder: Path) -> SliceSet:
    config = Config.model_validate({"server": {"data_dir": folder}, "fleet": {"slices": 2}})
    return SliceSet(config, None, folder / "sockets", lambda why: None)


async def test_no_slice_starts_while_queues_move_to_other_slices(tmp_path: Path) -> None:
    with closing(Disk().lock(str(tmp_path / "lock"))):  # as `fleet reslice` has it
        slices = slice_set(tmp_path)
        with pytest.raises(StartError, match="another kestrelpy is using"):
            await slices.start()
    assert slices.processes == {}


async def test_no_slice_starts_when_queues_have_moved_since_the_first_look(tmp_path: Path) -> None:
    (tmp_path / "slices-8" / "1").mkdir(parents=True)
    slices = slice_set(tmp_path)
    with pytest.raises(StartError, match="its queues are in 8 slices"):
        await slices.start()
    assert slices.processes == {}
    assert not (tmp_path / "slices-2").exists()
    await slices.stop()
    Disk().lock(str(tmp_path / "lock")).close()


class Fleet(MemberSlices):
    """The slices of a member: the first one has its socket here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.key = Key("3f6a", "")  # anybody may say that it is a member

    def socket_of(self, wanted: WantedSlice) -> Path | None:
        return self._path

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


class Peer:
    """One end of a connection to the router."""

    @classmethod
    async def to(cls, server: asyncio.Server) -> Peer:
        made = cls()
        address = server.sockets[0].getsockname()
        made.reader, made.writer = await asyncio.open_connection(*address[:2])
        return made

    async def ask(self, line: bytes) -> bytes:
        self.writer.write(line)
        return await self.reader.readline()


async def test_members_take_no_place_of_clients_and_clients_none_of_members(
    tmp_path: Path,
) -> None:
    config = Config.model_validate({"server": {"data_dir": tmp_path}, "fleet": {"slices": 2}})
    router = SliceRouter(config, None, lambda: config, lambda line: None)
    router._slices = fleet = Fleet(tmp_path / "1")
    router._connections_max = router._members_max = 1
    slice_ = await asyncio.start_unix_server(lambda *_: asyncio.sleep(0), tmp_path / "1")
    server = await asyncio.get_running_loop().create_server(
        lambda: router._new_connection(MEMCACHE), "127.0.0.1", 0
    )
    line = fleet.key.line(WantedSlice(1))
    peers = [await Peer.to(server) for _ in range(5)]
    client, other, member, more, silent = peers

    assert (await client.ask(b"version\r\n")).startswith(b"VERSION")
    assert await other.ask(b"version\r\n") == b"SERVER_ERROR too many connections\r\n"
    assert await member.ask(line) == b"OK\r\n", "clients have all their places"
    assert await more.ask(line) == (
        b"SERVER_ERROR this member has too many connections of other members\r\n"
    )
    assert router.counts.connections == 1
    router._waiting.close()
    assert await silent.reader.readline() == b"SERVER_ERROR too many connections\r\n"
    client.writer.close()
    while router._connections:
        await asyncio.sleep(0)
    assert router.counts.connections == 0
    for each in (server, slice_, *(peer.writer for peer in peers)):
        each.close()

async def test_a_connection_that_has_gone_is_held_by_nothing(tmp_path: Path) -> None:
    config = Config.model_validate({"server": {"data_dir": tmp_path}, "fleet": {"slices": 2}})
    router = SliceRouter(config, None, lambda: config, lambda line: None)
    router._connections_max = router._members_max = 9
    for is_slice, is_member in ((False, False), (True, False), (False, True)):
        each = cast(ClientConnection, Connection(is_slice))
        assert router.admit(each)
        if is_member:
            assert router.admit_member(each)
        assert len(router._connections) + len(router._mails) + len(router._members) == 1
        router.dismiss(each)
        assert not (router._connections or router._mails or router._members)
        assert router.counts.connections == 0
