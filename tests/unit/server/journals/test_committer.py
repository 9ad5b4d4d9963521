"""A sync is reported once, on the loop's thread, and never tried again."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from journal.compaction.retire import recycled_path
from journal.files import Files
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.record import Draft
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.job import QueueCopy
from journal.store import LogStore
from journal.write.segment_file import Sizes
from journal.write.writer import Journal
from kestrelpy.core.log.log import JournalLog
from kestrelpy.server.journals.committer import Committer
from tests.support.disks import HeldDisk


def no_state() -> QueueCopy:
    return QueueCopy(Checkpoint(b"q"), IdSet(), 0, IdCounts(), [])


class Bench:
    """A committer over one journal, with its reports."""

    def __init__(self, folder: Path) -> None:
        self.disk = HeldDisk()
        self.reports: list[tuple[JournalLog, str]] = []
        self.prepared = asyncio.Event()
        self.journal = Journal(
            self.disk, str(folder / "q"), os.urandom(16), Sizes(), lambda: Checkpoint(b"q")
        )
        self.log = JournalLog(LogStore(self.journal), [], 0, no_state)
        self.committer = Committer(
            self.disk, asyncio.get_running_loop(), self._finished, lambda _: self.prepared.set()
        )

    def sync(self) -> None:
        self.committer.sync(self.log)
        self.committer.start()

    def _finished(self, target: JournalLog, took_s: float) -> None:
        self.reports.append((target, threading.current_thread().name))

    async def append_and_write(self) -> None:
        self.journal.append(Draft(Kind.PUT, 1, 1, 0, 1, b"", b"x", 0, 0))
        if self.journal.wants_preallocation:
            self.committer.preallocate(self.log, 1)
            await asyncio.wait_for(self.prepared.wait(), 20)
        self.journal.write(1)

    async def reported(self, count: int) -> None:
        while len(self.reports) < count:
            await asyncio.sleep(0.002)


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_sync_is_reported_on_the_loops_thread(bench: Bench) -> None:
    await bench.append_and_write()
    bench.sync()
    await bench.reported(1)
    assert bench.reports == [(bench.log, threading.current_thread().name)]
    assert bench.journal.commit.lsn_durable == 1


async def test_only_one_sync_of_a_journal_is_in_flight(bench: Bench) -> None:
    await bench.append_and_write()
    bench.disk.go.clear()
    syncs = bench.disk.syncs
    bench.sync()
    await bench.append_and_write()
    bench.sync()
    assert bench.committer.in_flight == 1
    assert bench.journal.commit.lsn_durable == 0
    bench.disk.go.set()
    await bench.reported(1)
    assert bench.journal.commit.lsn_durable == 1, "what was written meanwhile is not covered"
    assert bench.disk.syncs == syncs + 1


async def test_a_failed_sync_fails_the_journal_for_good(bench: Bench) -> None:
    await bench.append_and_write()
    bench.disk.fails = True
    bench.sync()
    await bench.reported(1)
    assert bench.journal.commit.failure is not None
    bench.disk.fails = False
    syncs = bench.disk.syncs
    await bench.append_and_write()
    bench.sync()
    assert bench.committer.in_flight == 0
    assert bench.disk.syncs == syncs
    assert bench.journal.commit.lsn_durable == 0


async def test_any_error_in_a_sync_counts_as_its_failure(bench: Bench) -> None:
    await bench.append_and_write()
    bench.journal.abandon()
    bench.sync()
    await bench.reported(1)
    assert bench.journal.commit.failure is not None


async def test_a_segment_is_prepared_again_until_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kestrelpy.server.journals.committer.PREALLOCATE_RETRY_SECONDS", 0.01)
    caplog.set_level("INFO")
    bench.disk.no_room = True
    bench.journal.append(Draft(Kind.PUT, 1, 1, 0, 1, b"", b"x", 0, 0))
    bench.committer.preallocate(bench.log, 1)
    while not bench.log.no_room:
        await asyncio.sleep(0.002)
    assert "disk full" in bench.log.no_room
    bench.disk.no_room = False
    await asyncio.wait_for(bench.prepared.wait(), 20)
    while bench.log.no_room:
        await asyncio.sleep(0.002)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2, "once when it begins, once when it is over"
    assert "no room for the next segment: No space left on device" in told[0]
    assert "there is room again" in told[1]


async def test_no_segment_is_prepared_for_a_log_that_nobody_uses_any_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kestrelpy.server.journals.committer.PREALLOCATE_RETRY_SECONDS", 0.01)
    caplog.set_level("INFO")
    bench.disk.no_room = True
    bench.journal.append(Draft(Kind.PUT, 1, 1, 0, 1, b"", b"x", 0, 0))
    bench.committer.preallocate(bench.log, 1)
    while bench.log not in bench.committer.without_room:
        await asyncio.sleep(0.002)
    bench.log.is_reported = True  # deleted, or failed

    async def is_over() -> None:
        while bench.log in bench.committer.without_room:
            await asyncio.sleep(0.002)

    await asyncio.wait_for(is_over(), 20)
    assert not bench.log.no_room
    assert not any("room again" in each for each in caplog.messages)
    assert not bench.journal.preallocation.waiting


async def test_drain_waits_for_the_syncs_in_flight(bench: Bench) -> None:
    await bench.append_and_write()
    bench.disk.go.clear()
    bench.sync()
    assert not await bench.committer.drain(0.02)
    bench.disk.go.set()
    assert await bench.committer.drain(20)


async def test_segments_go_one_after_the_other_and_none_after_one_that_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[str] = []
    stuck = {"2"}

    async def retire(
        _: Files, path: str, archive_path: str, recycled: str, least: int
    ) -> tuple[str, int]:
        await asyncio.sleep(0)
        if path in stuck:
            raise OSError(5, "Input/output error")
        gone.append(path)
        return "", 0

    monkeypatch.setattr(bench.committer, "_retire", retire)
    bench.committer.remove(bench.log, ["1", "2"])
    bench.committer.remove(bench.log, ["3"])
    for _ in range(20):
        await asyncio.sleep(0)
    assert gone == ["1"], "a segment went before an earlier one"

    stuck.clear()
    bench.committer.remove(bench.log, ["4"])
    for _ in range(20):
        await asyncio.sleep(0)
    assert gone == ["1", "2", "3", "4"]


async def test_a_reload_between_two_segments_decides_where_the_second_goes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived: list[str] = []
    reloads = ["/old", ""]  # what `archive_to` is after the first and the second segment

    async def retire(_: Files, path: str, archive_path: str, *rest: object) -> tuple[str, int]:
        archived.append(archive_path)
        bench.log.archive_to = reloads.pop(0) if reloads else ""
        return "", 0

    monkeypatch.setattr(bench.committer, "_retire", retire)
    bench.committer.remove(bench.log, ["q/1", "q/2", "q/3"])
    for _ in range(20):
        await asyncio.sleep(0)

    assert archived == ["", "/old/q.2", ""]


async def test_of_several_finished_segments_only_the_first_is_recycled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def retire(
        _: Files, path: str, archive_path: str, recycle_to: str, least: int
    ) -> tuple[str, int]:
        asked.append(recycle_to)
        return recycle_to, 4096 if recycle_to else 0

    monkeypatch.setattr(bench.committer, "_retire", retire)
    bench.committer.remove(bench.log, ["q/1", "q/2", "q/3"])
    for _ in range(20):
        await asyncio.sleep(0)

    assert asked == [recycled_path("q/1"), "", ""]
    assert bench.journal.preallocation.recycled == [(recycled_path("q/1"), 4096)]
