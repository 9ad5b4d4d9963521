"""Recovery of a whole data directory: generations, leftovers, what a restart shows."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from journal.errors import JournalError
from journal.files import Files
from journal.format import folder_name, segment_name
from journal.format.kinds import VERSION
from journal.format.segment import FILE_HEADER_BYTES
from journal.write import Sizes
from kestrelpy.core import Queue
from kestrelpy.server.daemon import StartError
from kestrelpy.server.restart import recovery
from kestrelpy.server.restart.replayed import Replayed
from tests.support.memory_disk import Fault
from tests.support.running import running
from tests.support.server_harness import ServerHarness


@pytest.fixture(autouse=True)
def replays(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, str]]:
    """The folders that were replayed, each with the clock of its broker: no start replays one
    twice."""
    done = list[tuple[object, str]]()

    class Once(Replayed):
        def __init__(self, files: Files, path: str, queue: Queue) -> None:
            assert (queue.clock, path) not in done, f"{path} is replayed again"
            done.append((queue.clock, path))
            super().__init__(files, path, queue)

    monkeypatch.setattr(recovery, "Replayed", Once)
    return done


def newer_header(segment: bytes) -> bytes:
    """The file header of this segment, as a newer version of kestrelpy would write it."""
    header = bytearray(segment[:FILE_HEADER_BYTES])
    header[8:10] = (VERSION + 1).to_bytes(2, "little")
    header[-4:] = crc32(header[:-4]).to_bytes(4, "little")
    return bytes(header)


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


async def test_later_generations_without_a_record_go_and_an_earlier_one_stays(
    tmp_path: Path, replays: list[tuple[object, str]]
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
    (made,) = (tmp_path / "data").glob("jobs.*")
    later = [made.with_suffix(f".{int(made.suffix[1:]) + more}") for more in (1, 2)]
    for folder in later:
        folder.mkdir()
    replays.clear()
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"get jobs\r\n")
        assert await peer.line() == b"a\r\n"
        assert [*(tmp_path / "data").glob("jobs.*")] == [made]
    assert [Path(path).name for _, path in replays] == [
        folder.name for folder in (*later[::-1], made)
    ]


async def test_a_generation_that_cannot_be_read_is_not_taken_for_one_without_a_record(
    tmp_path: Path,
) -> None:
    """The start fails with a sentence that names it, before it removes an earlier one."""
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
    (made,) = (tmp_path / "data").glob("jobs.*")
    later = made.with_suffix(f".{int(made.suffix[1:]) + 1}")
    later.mkdir()
    header = newer_header(next(made.glob("*.segment")).read_bytes())
    (later / "0000000001.segment").write_bytes(header + bytes(4096))
    with pytest.raises(StartError, match=rf"{later.name}: .*journal format {VERSION + 1}"):
        async with running(tmp_path):
            pass
    assert made.exists()


# -- an earlier generation with a part that cannot be read ---------------------------------------

_EARLIER = "data/" + folder_name(b"jobs", 5)
_MIDDLE = f"{_EARLIER}/{segment_name(2)}"


def earlier_generation(last: bytes = b"") -> ServerHarness:
    """A server with two generations of a queue, which has never seen the earlier one: of that only
    the child jobs+audit needs an item, "kept", which is in the second of three segments. It needs
    the last item of the third one as well, if that is given."""
    sizes = Sizes(2048, 2048, 1 << 20)
    stage = ServerHarness(sizes=sizes)
    stage.say("a", b"get jobs+audit")
    queue = stage.queue("jobs")
    segments = queue.log.store.writer.segments
    while len(segments) < 2:
        stage.store(b"x" * 100)
        stage.say("a", b"get jobs+audit")
    stage.store(b"kept")
    kept = queue.last_number
    while len(segments) < 3:
        stage.store(b"y" * 100)
        stage.say("a", b"delete jobs+audit/item=%d" % queue.last_number)
    if last:
        stage.store(last)
    assert segments[1].item_first <= kept <= segments[1].item_last
    stage.say("a", b"delete jobs")
    made = stage.directory.folder(queue)
    stage.restart()
    stage.disk.rename(made, "data/aside")
    stage = ServerHarness(stage.disk.kill_clone(), sizes=sizes)
    stage.store(b"new")
    stage.restart()
    stage.disk.rename("data/aside", _EARLIER)
    return stage


def start_again(stage: ServerHarness) -> ServerHarness:
    """Another start, on what the server has written."""
    return ServerHarness(stage.disk.kill_clone(), sizes=stage.sizes)


def test_an_earlier_generation_stays_for_the_items_of_its_children() -> None:
    stage = start_again(earlier_generation())
    assert b"kept" in stage.say("a", b"get jobs+audit")
    assert b"new" in stage.say("a", b"get jobs")


def test_an_earlier_generation_of_a_newer_format_is_not_removed() -> None:
    """The start fails with a sentence that names it: its children may have items in it."""
    stage = earlier_generation()
    stage.disk.damage(_MIDDLE, 0, newer_header(stage.disk.read(_MIDDLE)))
    there = stage.disk.names(_EARLIER)
    with pytest.raises(JournalError, match=rf"{_EARLIER}: .*journal format {VERSION + 1}"):
        start_again(stage)
    assert stage.disk.names(_EARLIER) == there


def test_an_earlier_generation_stays_for_items_that_damage_may_have_held() -> None:
    """The child keeps such items, as any queue keeps damaged ones, until a client gives them up."""
    stage = earlier_generation()
    data = stage.disk.read(_MIDDLE)
    stage.disk.damage(_MIDDLE, data.index(b"kept"), b"KEPT")
    stage = start_again(stage)
    assert [each.path for each in stage.found.damages] == [_MIDDLE]
    assert _MIDDLE.rpartition("/")[2] in stage.disk.names(_EARLIER)
    assert stage.queue("jobs+audit").reader.live.count == 1


def test_an_earlier_generation_stays_while_the_disk_does_not_give_a_file_of_it() -> None:
    stage = earlier_generation()
    stage.disk = stage.disk.kill_clone()
    stage.disk.faults.append(Fault("read", _MIDDLE, times=1 << 30))
    for _ in range(2):
        stage = ServerHarness(stage.disk, sizes=stage.sizes)
        assert f"{_EARLIER}: an earlier generation, not removed: it cannot be read" in [
            f"data/{note}" for note in stage.found.notes
        ]
        assert [each.path for each in stage.found.damages] == [_MIDDLE]
        stage.directory.unlock()
    stage.disk.faults.clear()
    assert b"kept" in start_again(stage).say("a", b"get jobs+audit")


def test_an_earlier_generation_stays_unread_after_the_last_item_of_its_children() -> None:
    """The file that the disk did not give at the start may hold more of them."""
    stage = earlier_generation(last=b"last")
    stage.disk = stage.disk.kill_clone()
    stage.disk.faults.append(Fault("read", _MIDDLE, times=1 << 30))
    stage = ServerHarness(stage.disk, sizes=stage.sizes)
    assert b"last" in stage.say("a", b"get jobs+audit")
    assert stage.say("a", b"get jobs+audit") == b"END\r\n"
    stage.store(b"newer")
    assert b"newer" in stage.say("a", b"get jobs+audit")  # the child of the later queue
    stage.pass_time(60_000)
    stage.disk.faults.clear()
    assert b"kept" in start_again(stage).say("a", b"get jobs+audit")


def test_an_earlier_generation_stays_unread_when_a_client_deletes_the_later_one() -> None:
    """A deletion leaves the items of the children."""
    stage = earlier_generation()
    stage.disk = stage.disk.kill_clone()
    stage.disk.faults.append(Fault("read", _MIDDLE, times=1 << 30))
    stage = ServerHarness(stage.disk, sizes=stage.sizes)
    assert stage.say("a", b"delete jobs") == b"DELETED\r\n"
    stage.disk.faults.clear()
    stage = start_again(stage)
    assert stage.say("a", b"get jobs") == b"END\r\n"
    assert b"kept" in stage.say("a", b"get jobs+audit")
