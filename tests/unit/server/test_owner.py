"""A whole daemon that owns a slice of an engine in memory: how it starts, stops and archives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from journal.engine import EngineFiles, Member
from journal.files import Disk
from kestrelpy.config import Config
from kestrelpy.fleet.member import FleetMember
from kestrelpy.server import daemon as daemon_module
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.directory.joining import data_path
from tests.support.memory_engine import MemoryEngine, claimed
from tests.support.running import Running, running

SECONDS = 60.0
FLEET = '[fleet]\nengine = "postgresql://kestrel@nowhere/kestrel"\n'


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryEngine:
    """The engine of every daemon of the test."""
    made = MemoryEngine()

    def member_of(config: Config) -> FleetMember:
        files = EngineFiles(made, data_path(config), str(tmp_path / "cache"), 1 << 20, Disk())
        return FleetMember(made, files, Member("a"), 1.0)

    monkeypatch.setattr(daemon_module, "member_of", member_of)
    return made


async def until(true: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not true():
            await asyncio.sleep(0.005)


async def test_an_owner_that_is_fenced_while_it_stops_waits_for_no_answer(
    engine: MemoryEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "DRAIN_SECONDS", 10 * SECONDS)
    async with running(tmp_path, config=FLEET) as server:
        peer = await server.client()
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        engine.fate = lambda: "not done"
        peer.writer.write(b"set jobs 0 0 1\r\nb\r\n")
        assert server.daemon is not None
        queue = server.daemon.broker.queues[b"jobs"]
        await until(lambda: queue.log.lsn_appended > queue.log.lsn_stored)
        stopping = asyncio.create_task(server.daemon.stop())
        await asyncio.sleep(0)
        claimed(engine, "b")
        engine.fate = lambda: ""

        async with asyncio.timeout(SECONDS):
            assert await peer.closed()
            await stopping


async def test_an_owner_that_is_fenced_while_it_recovers_becomes_a_standby(
    engine: MemoryEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Running(tmp_path, config=FLEET)
    loop = asyncio.get_running_loop()

    def recover(directory: DataDirectory, *_: object) -> None:
        claim = claimed(engine, "b")
        assert server.daemon is not None
        asyncio.run_coroutine_threadsafe(
            until(lambda: server.daemon and server.daemon.membership.is_fenced), loop
        ).result(SECONDS)
        engine.commit(claim, [])
        raise OSError(5, "another process has claimed the slice", directory.path)

    monkeypatch.setattr(DataDirectory, "recover", recover)
    server.daemon = daemon_module.Daemon(server._load(), server._load, server.lines.append)

    await asyncio.wait_for(server.daemon.run(), SECONDS)

    assert server.daemon.membership.begins_again
    with pytest.raises(OSError, match="Connect call failed"):
        await server.client()


async def test_an_owner_copies_its_segments_to_the_archive(
    engine: MemoryEngine, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    config = (
        f'{FLEET}[queue_defaults]\narchive_to = "{archive}"\n'
        '[journal]\nsegment_min = "64KiB"\nsegment_max = "64KiB"\n'
    )
    body = b"x" * 30_000
    async with running(tmp_path, config=config) as server:
        peer = await server.client()
        for _ in range(8):
            assert await peer.ask(b"set jobs 0 0 30000\r\n%b\r\n" % body) == b"STORED\r\n"
        for _ in range(8):
            assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 0 30000\r\n"
            await peer.reader.readexactly(30_000 + len(b"\r\nEND\r\n"))
        await until(lambda: len([*archive.rglob("*.segment")]) >= 2)

    copies = sorted(archive.rglob("*.segment"))
    assert body in copies[0].read_bytes()
    assert not {path for path in engine.contents(1) if path.endswith(copies[0].name)}
