"""A whole daemon that owns a slice of an engine in memory: how it starts, stops and archives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from journal.engine import EngineFiles, Member, engine_files
from journal.files import Disk
from kestrelpy.config import Config
from kestrelpy.core import JournalLog
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
    closed = list[Any]()
    monkeypatch.setattr(daemon_module, "close_journals", lambda *_: closed.append(1))
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
        assert not closed, "the journals are another one's"


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

    monkeypatch.setattr(daemon_module, "recover", recover)
    server.daemon = daemon_module.Daemon(server._load(), server._load, server.lines.append)

    await asyncio.wait_for(server.daemon.run(), SECONDS)

    assert server.daemon.membership.begins_again
    with pytest.raises(OSError, match="Connect call failed"):
        await server.client()


@pytest.mark.parametrize("must_end", [False, True])
async def test_an_owner_that_releases_its_data_goes_on_unless_it_must_end(
    engine: MemoryEngine, tmp_path: Path, must_end: bool
) -> None:
    server = Running(tmp_path, config=FLEET)
    daemon = server.daemon = daemon_module.Daemon(server._load(), server._load, server.lines.append)
    life = asyncio.create_task(daemon.run())
    await until(lambda: any(line.startswith("ready: ") for line in server.lines))
    engine.ask_release(1)
    await until(lambda: daemon.membership.begins_again)
    if must_end:
        daemon._end_by("SIGTERM")
    await asyncio.wait_for(life, SECONDS)
    assert daemon.membership.begins_again is not must_end


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


async def test_what_waits_for_an_engine_is_bounded_and_stored_when_it_answers(
    engine: MemoryEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, body = 256 << 10, b"x" * 20_000
    monkeypatch.setattr(engine_files, "OUTBOX_BYTES_MAX", bound)
    queues = [b"q%d" % number for number in range(20)]
    async with running(tmp_path, config=FLEET) as server:
        peer = await server.client()
        assert server.daemon is not None
        for queue in queues:  # each has its first segment
            assert await peer.ask(b"set %b 0 0 1\r\na\r\n" % queue) == b"STORED\r\n"
        monkeypatch.setattr(server.daemon.membership._member, "_sure_s", 10 * SECONDS)
        engine.fate = lambda: "not done"
        logs = [server.daemon.broker.queues[queue].log for queue in queues]
        for _ in range(2):
            for queue in queues:
                peer.writer.write(b"set %b 0 0 20000 noreply\r\n%b\r\n" % (queue, body))
        await until(lambda: all(log.lsn_appended > 2 for log in logs))
        member = server.daemon.membership._member
        commits = member.commits if member is not None else None
        assert commits is not None
        for _ in range(20):
            await asyncio.sleep(0.005)
            assert commits.waiting_bytes < bound + 2 * len(body)
        assert sum(log.journal.has_pending for log in logs if isinstance(log, JournalLog)) > 4
        engine.fate = lambda: ""
        await until(lambda: all(log.lsn_stored == log.lsn_appended for log in logs))

    assert sum(data.count(body) for data in engine.contents(1).values()) == 2 * len(queues)
