"""Folders and names, the lock, and recovery of a whole data directory."""

from __future__ import annotations

import errno
from pathlib import Path
from unittest.mock import Mock

import pytest

from journal.errors import DirectoryLocked
from journal.files import Disk
from journal.write.segment_file import Sizes
from kestrelpy.core import Broker
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


async def test_items_flags_sequence_and_attempts_are_there_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        for body in (b"a", b"b", b"c"):
            assert await peer.ask(b"set Jobs.v2 7 0 1\r\n" + body + b"\r\n") == b"STORED\r\n"
        await peer.ask(b"get Jobs.v2/open\r\n")
        await peer.line()
        await peer.line()
        assert await peer.ask(b"get Jobs.v2/abort\r\n") == b"END\r\n"
    async with running(tmp_path) as server:
        assert "1 queues, 3 items" in server.lines[-1]
        peer = await server.client()
        assert await peer.ask(b"gets Jobs.v2/open\r\n") == b"VALUE Jobs.v2/open 7 1 1048577\r\n"
        assert await peer.line() == b"a\r\n"
        await peer.line()
        peer.writer.write(b"stats Jobs.v2/open\r\n")
        lines = [await peer.line() for _ in range(9)]
        assert b"STAT queue_Jobs.v2_open_1_attempts 1\r\n" in lines


async def test_a_stop_counts_no_attempt(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        await peer.ask(b"get jobs/open\r\n")
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"get jobs/open\r\n")
        await peer.line()
        await peer.line()
        peer.writer.write(b"stats jobs/open\r\n")
        lines = [await peer.line() for _ in range(9)]
        assert b"STAT queue_jobs_open_1_attempts 0\r\n" in lines


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


async def test_later_generations_without_a_record_are_looked_at_once_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
    (made,) = (tmp_path / "data").glob("jobs.*")
    later = [made.with_suffix(f".{int(made.suffix[1:]) + more}") for more in (1, 2)]
    for folder in later:
        folder.mkdir()
    looked, was_written = list[str](), DataDirectory._was_written

    def look(directory: DataDirectory, broker: Broker, folder: str, now_ms: int) -> bool:
        assert folder not in looked
        looked.append(folder)
        return was_written(directory, broker, folder, now_ms)

    monkeypatch.setattr(DataDirectory, "_was_written", look)
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"get jobs\r\n")
        assert await peer.line() == b"a\r\n"
        assert [*(tmp_path / "data").glob("jobs.*")] == [made]
    assert looked == [folder.name for folder in later[::-1]]


async def test_of_two_generations_the_newer_one_stays(tmp_path: Path) -> None:
    for folder, body in (("old", b"a"), ("new", b"b")):
        async with running(tmp_path, config="") as server:
            peer = await server.client()
            await peer.ask(b"set jobs 0 0 1\r\n" + body + b"\r\n")
        data = tmp_path / "data"
        (made,) = [f for f in data.iterdir() if f.name.startswith("jobs.")]
        made.rename(tmp_path / folder)
    (tmp_path / "old").rename(tmp_path / "data" / "jobs.5")
    (tmp_path / "new").rename(tmp_path / "data" / "jobs.6")
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"get jobs\r\n")
        assert await peer.line() == b"b\r\n"
        assert not (tmp_path / "data" / "jobs.5").exists()


async def test_children_that_a_deleted_queue_left_have_their_names_before_those_of_its_successor(
    tmp_path: Path,
) -> None:
    """Older versions gave the successor a log of its own."""
    config = '[queues."jobs+audit"]\nmax_attempts = 7\n'
    async with running(tmp_path, config=config) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        assert await peer.ask(b"delete jobs\r\n") == b"DELETED\r\n"
        assert server.daemon is not None
        (tombstone,) = server.daemon.broker.tombstones
        tombstone.is_replaced = True
        assert await peer.ask(b"set jobs 0 0 1\r\nb\r\n") == b"STORED\r\n"
    assert len([*(tmp_path / "data").glob("jobs.*")]) == 2
    async with running(tmp_path, config=config) as server:
        peer = await server.client()
        for body in (b"a", b"c"):  # with the last one of the old child there is a new one
            await peer.ask(b"get jobs+audit\r\n")
            assert await peer.line() == body + b"\r\n"
            await peer.line()
            assert await peer.ask(b"get jobs+audit\r\n") == b"END\r\n"
            assert await peer.ask(b"set jobs 0 0 1\r\nc\r\n") == b"STORED\r\n"


async def test_leftovers_of_a_delete_and_strange_folders_do_no_harm(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "gone.3~removed").mkdir(parents=True)
    (data / "gone.3~removed" / "0000000001.segment").write_bytes(b"x")
    (data / "half.4").mkdir()
    (data / "lost+found").mkdir()
    async with running(tmp_path) as server:
        assert "0 queues, 0 items" in server.lines[-1]
    assert not (data / "gone.3~removed").exists()
    assert not (data / "half.4").exists()
    assert (data / "lost+found").exists()


async def test_a_queue_with_a_journal_keeps_it_though_it_is_now_said_to_be_in_memory(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
    async with running(tmp_path, config="[queue_defaults]\ndurable = false\n") as server:
        peer = await server.client()
        assert await peer.ask(b"get jobs/peek\r\n") == b"VALUE jobs/peek 0 1\r\n"
        await peer.line()
        await peer.line()
        assert await peer.ask(b"set fresh 0 0 1\r\na\r\n") == b"STORED\r\n"
    assert not [f for f in (tmp_path / "data").iterdir() if f.name.startswith("fresh.")]


async def test_tokens_that_a_damaged_record_may_have_covered_are_not_issued(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        first = await peer.ask(b"gets jobs/open\r\n")
        assert first == b"VALUE jobs/open 0 1 1\r\n"
    (folder,) = [f for f in (tmp_path / "data").iterdir() if f.name.startswith("jobs.")]
    (segment,) = folder.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[64 + 70] ^= 1  # in the checkpoint, the first record after the file's header
    segment.write_bytes(data)
    async with running(tmp_path) as server:
        peer = await server.client()
        answer = await peer.ask(b"gets jobs/open\r\n")
        assert int(answer.split()[4]) > 1 << 32


def test_files_of_remembered_ids_that_are_obsolete_are_removed(tmp_path: Path) -> None:
    directory = DataDirectory(Disk(), str(tmp_path), Sizes(2048, 2048, 1 << 20))
    used, obsolete = tmp_path / "used", tmp_path / "obsolete"
    for each in (used, obsolete):
        each.write_bytes(b"")
    chunks = Mock(obsolete=[str(obsolete)], used=[str(used)], damages=[])
    chunks.losses.return_value = []
    directory._remember(Mock(next_number=1), Mock(), Mock(snapshot=None), chunks, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["used"]


def test_the_measure_of_a_sync_leaves_no_file(tmp_path: Path) -> None:
    assert DataDirectory(Disk(), str(tmp_path), Sizes(2048, 2048, 1 << 20)).measure_sync() > 0
    assert list(tmp_path.iterdir()) == []
