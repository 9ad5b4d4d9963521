"""The reports of the periodic look at the data directory.

Promise: no-new-queue.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from journal.files import Disk, Handle
from journal.store import Sizes
from kestrelpy.core import Broker, JournalLog
from kestrelpy.server.directory import DataDirectory, DirectoryWatch
from tests.support.memory_disk import MemoryDisk
from tests.support.running import running


class Watched:
    """A watch over one file of one queue, and what it reports."""

    def __init__(self, tmp_path: Path) -> None:
        self.data = tmp_path / "data"
        self.directory = DataDirectory(Disk(), str(self.data), Sizes())
        self.directory.lock()
        files = self.directory.files
        files.make_folder(str(self.data / "jobs.1"))
        self.path = self.data / "jobs.1" / "1.segment"
        self.handle: Handle = files.create(str(self.path), b"", 1)
        self.active = SimpleNamespace(handle=self.handle)
        self.target = cast(JournalLog, SimpleNamespace(
            journal=SimpleNamespace(active=self.active)
        ))  # fmt: skip
        self.lost, self.displaced = list[str](), list[str]()
        broker = cast(Broker, SimpleNamespace(no_new_queue=""))
        self.watch = DirectoryWatch(
            self.directory, broker, lambda most: [], self.lost.append,
            lambda target, path: self.displaced.append(path),
        )  # fmt: skip

    def look(self) -> None:
        written = [(self.target, self.handle)]
        _, missing, _ = self.watch.look(written)
        self.watch.judge(written, missing)


def test_a_file_that_two_looks_do_not_find_is_reported(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.look()
    watched.path.unlink()
    watched.look()
    assert not watched.displaced
    watched.look()
    assert watched.displaced == [str(watched.path)]


def test_a_file_that_is_back_or_not_written_any_more_is_not_reported(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    other = watched.path.with_name("other")
    watched.path.rename(other)
    watched.look()
    other.rename(watched.path)
    watched.look()
    watched.path.unlink()
    watched.look()
    watched.active.handle = None  # the queue went on in the next segment
    watched.look()
    assert not watched.displaced


async def test_a_directory_that_is_gone_is_reported_once_and_the_watch_ends(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    watched.data.rename(tmp_path / "elsewhere")
    await watched.watch.run()
    [sentence] = watched.lost
    assert sentence == f"{watched.data}: it was removed, renamed, replaced or unmounted"


def test_a_full_disk_refuses_new_queues_and_lets_go_when_there_is_room() -> None:
    disk = MemoryDisk()
    directory = DataDirectory(disk, "/data", Sizes(segment_min=4096))
    disk.make_folder("/data")
    assert not directory.why_no_queue()

    disk.disk_bytes = 4095
    assert directory.why_no_queue() == "disk full: no room for a new queue"
    disk.disk_bytes = 4096
    assert not directory.why_no_queue()
    directory.reserve_bytes = 1
    said = directory.why_no_queue()
    assert said == "disk full: no room for a new queue beside min_disk_free (1 bytes)"


async def test_the_first_put_of_a_queue_is_refused_where_its_segment_would_leave_no_room(
    tmp_path: Path,
) -> None:
    """The server had held such a put until there was room, however long that took."""
    async with running(tmp_path, config='[server]\nmin_disk_free = "100000GiB"\n') as server:
        assert server.daemon is not None
        while not server.daemon.broker.no_new_queue:
            await asyncio.sleep(0)
        client = await server.client()
        for name in (b"a", b"a", b"b", b"c/declare"):
            said = await client.ask(b"set %b 0 0 0\r\n\r\n" % name)
            assert said.startswith(b"SERVER_ERROR disk full: no room for a new queue"), said
        assert not server.daemon.broker.queues
