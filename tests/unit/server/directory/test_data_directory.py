"""Folders and names, the lock, and recovery of a whole data directory."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from journal.errors import DirectoryLocked
from journal.files import Disk
from journal.write.segment_file import Sizes
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.directory.removed import Removed
from tests.support.memory_disk import Fault
from tests.support.running import running
from tests.support.server_harness import ServerHarness


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    first = DataDirectory(Disk(), str(tmp_path / "data"), Sizes())
    first.lock()
    second = DataDirectory(Disk(), str(tmp_path / "data"), Sizes())
    with pytest.raises(DirectoryLocked, match="another kestrelpy"):
        second.lock()
    first.unlock()
    second.lock()
    assert second.server_id == first.server_id
    second.unlock()


async def test_a_deleted_queue_is_gone_after_a_restart_and_its_successor_is_not(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        await peer.ask(b"set mail 0 0 1\r\na\r\n")
        peer.writer.write(b"delete mail\r\ndelete jobs\r\nset jobs 0 0 1\r\nb\r\n")
        assert [await peer.line() for _ in range(3)] == [b"DELETED\r\n"] * 2 + [b"STORED\r\n"]
    async with running(tmp_path) as server:
        assert "1 queues, 1 items" in server.lines[-1]
        peer = await server.client()
        await peer.ask(b"get jobs\r\n")
        assert await peer.line() == b"b\r\n"


def test_a_delete_removes_earlier_generations_of_its_name_only() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"set mail 0 0 1", b"1")
    [mail] = [name for name in stage.disk.names("data") if name.startswith("mail.")]
    # folders that could not be removed, and foreign ones
    for folder in ("jobs.5", "jobs.6", "mail.5", "jobs"):
        stage.disk.make_folder(f"data/{folder}")
        stage.disk.create(f"data/{folder}/0000000001.segment", b"x", 1)

    assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"

    left = [name for name in stage.disk.names("data") if name.startswith(("jobs", "mail"))]
    assert sorted(left) == sorted(["jobs", "mail.5", mail])


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("first", ["earlier", "later"])
def test_of_two_queues_of_one_name_that_go_at_once_both_go_or_both_stay(
    first: str, fails: bool
) -> None:
    stage = ServerHarness()
    queues = [stage.broker.fresh(b"jobs", generation, 0) for generation in (5, 6)]
    for queue in queues:
        stage.disk.make_folder(stage.directory.folder(queue))
    if fails:
        stage.disk.faults.append(Fault("rename", "*/jobs.5", error=errno.EIO))
    removed = Removed()

    stage.directory.remove_queues(queues if first == "earlier" else queues[::-1], removed)

    left = [name for name in stage.disk.names("data") if name.startswith("jobs.")]
    assert sorted(left) == (["jobs.5", "jobs.6"] if fails else [])
    assert removed.errors.keys() == ({*queues} if fails else set())


def test_the_measure_of_a_sync_leaves_no_file(tmp_path: Path) -> None:
    assert DataDirectory(Disk(), str(tmp_path), Sizes(2048, 2048, 1 << 20)).measure_sync() > 0
    assert list(tmp_path.iterdir()) == []
