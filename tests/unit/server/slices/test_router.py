"""The router between its clients, its slices and the other members."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from journal.engine import Member
from kestrelpy.config import Config
from kestrelpy.server.slices.connections import ClientConnection
from kestrelpy.server.slices.router import SliceRouter


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


async def test_a_connection_that_has_gone_is_held_by_nothing(tmp_path: Path) -> None:
    config = Config.model_validate({"server": {"data_dir": tmp_path}, "fleet": {"slices": 2}})
    router = SliceRouter(config, None, lambda: config, lambda line: None)
    router._connections_max = 9
    for is_slice, is_member in ((False, False), (True, False), (False, True)):
        each = cast(ClientConnection, Connection(is_slice))
        assert router.admit(each)
        if is_member:
            router.note_member(each)
        assert len(router._connections) + len(router._mails) + len(router._members) == 1
        router.dismiss(each)
        assert not (router._connections or router._mails or router._members)
        assert router.counts.connections == 0
