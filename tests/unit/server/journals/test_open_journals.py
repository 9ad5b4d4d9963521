"""No more journals hold descriptors than may; the one that was written longest ago gives its up.

Promise: shortage.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.files import Disk, Handle
from kestrelpy.core.log.log import JournalLog
from tests.support.disks import HeldDisk
from tests.support.running import Running, running

QUEUES = 12


class CountedDisk(HeldDisk):
    """Counts the segments that are open for writing, and can be out of descriptors."""

    def __init__(self) -> None:
        super().__init__()
        self.is_short = False
        self.attempts = 0

    def open(self, path: str) -> Handle:
        self._try(path)
        return super().open(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._try(path)
        return super().read(path, offset, size)

    def _try(self, path: str) -> None:
        if self.is_short and path.endswith(".segment"):
            self.attempts += 1
            raise OSError(24, os.strerror(24), path)


@pytest.fixture
def disk() -> Iterator[CountedDisk]:
    yield CountedDisk()


def segments_open() -> int:
    """Descriptors of segments that this process has."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            count += os.readlink(each).endswith(".segment")
        except OSError:
            continue
    return count


async def test_no_more_journals_than_their_share_hold_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.turn.REST_SECONDS", 3600)
    before = segments_open()  # earlier tests of this process may have left some
    async with running(tmp_path, Disk()) as server:
        assert server.daemon is not None
        files = server.daemon.turn.files
        files.most = 3
        peer = await server.client()
        most = 0
        for turn in range(4):
            for q in range(QUEUES):
                assert await peer.ask(b"set q%d 0 0 1\r\n%d\r\n" % (q, turn)) == b"STORED\r\n"
                most = max(most, files.count)
        peer.writer.write(b"".join(b"set q%d 0 0 1\r\nx\r\n" % q for q in range(QUEUES)))
        assert [await peer.line() for _ in range(QUEUES)] == [b"STORED\r\n"] * QUEUES
        assert most <= 3
        assert files.count <= 3
        while segments_open() > before + 3 * 3:  # apart from one that is being prepared
            await asyncio.sleep(0.005)
        for q in range(QUEUES):
            for body in b"0123x":
                assert await peer.ask(b"get q%d\r\n" % q) == b"VALUE q%d 0 1\r\n" % q
                assert await peer.line() == b"%c\r\n" % body
                assert await peer.line() == b"END\r\n"


async def test_queues_that_are_never_synced_let_go_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.turn.REST_SECONDS", 3600)
    config = '[queue_defaults]\nsync = "never"\n'
    async with running(tmp_path, Disk(), config) as server:
        assert server.daemon is not None
        server.daemon.turn.files.most = 3
        peer = await server.client()
        for q in range(QUEUES):
            assert await peer.ask(b"set q%d 0 0 1\r\nx\r\n" % q) == b"STORED\r\n"
        assert server.daemon.turn.files.count <= 3


async def rest(server: Running) -> None:
    assert server.daemon is not None
    while server.daemon.turn.files.count:
        await asyncio.sleep(0.005)


async def stalled(server: Running, name: bytes) -> None:
    assert server.daemon is not None
    while not server.daemon.broker.queues[name].log.no_room:
        await asyncio.sleep(0.002)


async def test_a_shortage_refuses_new_items_and_is_over_by_itself(
    tmp_path: Path, disk: CountedDisk, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr("kestrelpy.server.turn.REST_SECONDS", 0.01)
    monkeypatch.setattr("kestrelpy.server.journals.shortage.OVER_SECONDS", 0.0)
    async with running(tmp_path, disk) as server:
        first, second = await server.client(), await server.client()
        for q in range(QUEUES):
            assert await first.ask(b"set q%d 0 0 1\r\na\r\n" % q) == b"STORED\r\n"
        await rest(server)
        disk.is_short = True
        first.writer.write(b"set q0 0 0 1\r\nb\r\n")
        await stalled(server, b"q0")
        answer = await second.ask(b"set q0 0 0 1\r\nd\r\n")
        assert answer.startswith(b"SERVER_ERROR nothing new is stored now: no file can be opened")
        second.writer.write(b"stats\r\n")
        told = {}
        while (line := await second.line()) != b"END\r\n":
            _, key, value = line.decode().split(" ", 2)
            told[key] = value.strip()
        assert told["health"] == told["queue_q0_state"] == "out_of_files"
        assert "Too_many_open_files" in told["queue_q0_reason"]
        assert told["queue_q1_state"] == "ok"
        assert first.has_heard_nothing(), "it is neither stored nor refused: it waits"
        disk.is_short = False
        assert await first.line() == b"STORED\r\n"
        for q in range(QUEUES):
            assert await second.ask(b"set q%d 0 0 1\r\ne\r\n" % q) == b"STORED\r\n"
        while len(caplog.records) < 2:
            await asyncio.sleep(0.005)
        assert server.daemon is not None
        assert not server.daemon.broker.queues[b"q0"].log.no_room
    told_of = [r.getMessage() for r in caplog.records if r.name == "kestrelpy.shortage"]
    assert len(told_of) == 2, told_of


@pytest.mark.slow
async def test_a_waiting_journal_is_tried_once_per_pause_and_not_in_every_turn(
    tmp_path: Path, disk: CountedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.turn.REST_SECONDS", 0.01)
    monkeypatch.setattr("kestrelpy.server.journals.shortage.PAUSE_SECONDS", 3600)
    monkeypatch.setattr("kestrelpy.server.journals.shortage.PAUSE_SECONDS_MAX", 3600)
    async with running(tmp_path, disk) as server:
        peer, other = await server.client(), await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        await rest(server)
        disk.is_short = True
        peer.writer.write(b"set jobs 0 0 1\r\nb\r\n")
        await stalled(server, b"jobs")
        for _ in range(50):
            await other.ask(b"set jobs 0 0 1\r\nc\r\n")
            await other.ask(b"version\r\n")
        assert disk.attempts <= 1
        disk.is_short = False


@pytest.mark.parametrize("is_full", [False, True])
async def test_a_queue_can_be_deleted_in_a_shortage(
    tmp_path: Path, disk: CountedDisk, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    monkeypatch.setattr("kestrelpy.server.turn.REST_SECONDS", 0.01)
    async with running(tmp_path, disk) as server:
        peer, other = await server.client(), await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        await rest(server)
        disk.is_short = True
        peer.writer.write(b"set jobs 0 0 1\r\nb\r\n")
        await stalled(server, b"jobs")
        assert server.daemon is not None
        log = server.daemon.broker.queues[b"jobs"].log
        assert isinstance(log, JournalLog)
        log.stall("preallocation", "disk full" if is_full else "")
        assert await other.ask(b"delete jobs\r\n") == b"DELETED\r\n"
        assert (await peer.line()).startswith(b"SERVER_ERROR")
        disk.is_short = False
        assert await other.ask(b"set jobs 0 0 1\r\nd\r\n") == b"STORED\r\n"
        while server.daemon.turn.files._waiting:
            await asyncio.sleep(0.005)
        await other.ask(b"version\r\n")
        assert server.daemon.turn.shortage.count == 0
