"""Jobs off the loop: nothing is lost, begun twice, or awaited for ever."""

from __future__ import annotations

import errno
from dataclasses import replace
from threading import Event

import pytest

from journal.compaction.compaction import CompactionJob
from journal.compaction.maintenance import Maintenance
from journal.snapshot.dedupe_merge import MergeJob
from journal.write.segment_file import Sizes
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.subscription import ABORTED
from kestrelpy.server import clock
from kestrelpy.server.journals.journal_jobs import Pause
from tests.support.disk_harness import DiskHarness
from tests.support.memory_disk import Fault


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> DiskHarness:
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    return DiskHarness(Policy(max_memory_bytes=0), Sizes(2048, 2048, 1 << 20))


def fill(life: DiskHarness, count: int) -> None:
    for n in range(count):
        life.put(b"%d" % n * 100)
        life.commit()


def names(life: DiskHarness, suffix: str) -> list[str]:
    folder = life.directory.folder(life.jobs)
    return [name for name in life.disk.names(folder) if name.endswith(suffix)]


def test_a_reader_has_one_read_under_way(life: DiskHarness) -> None:
    life.put(b"1")
    life.commit()
    for _ in range(5):
        life.reader.first(0)
        life.end_turn()
    assert len(life.background.work) == 1
    life.do_all()
    assert life.reader.first(0) is not None


def test_a_read_of_unwritten_items_is_deferred(life: DiskHarness) -> None:
    life.put(b"1")
    life.wait("anna")
    life.end_turn()
    assert life.waiting_reads == [life.reader]
    assert life.background.work == []
    life.commit()
    life.do_all()
    assert [w.lease.item.body for w in life.broker.take_to_resume() if w.lease] == [b"1"]


def test_nothing_is_read_without_a_request(life: DiskHarness) -> None:
    fill(life, 3)
    life.reader.first(0)
    life.do_all()
    steps = life.disk.steps
    for _ in range(10):
        life.end_turn()
    assert life.disk.steps == steps
    assert not life.background.loop.soon


def test_a_snapshot_is_written_once_the_log_is_on_disk_up_to_it(life: DiskHarness) -> None:
    fill(life, 20)
    life.do_all()
    before = names(life, ".snapshot")
    life.put(b"x" * 100)
    journal = life.log.journal
    journal.write(0)
    life.background.snapshot(life.log, 0)
    life.background.log_advanced(life.log)
    assert life.background.work == [], "not before its records are durable"
    life.commit()
    life.do_all()
    assert names(life, ".snapshot") != before


def test_the_snapshot_of_a_failed_journal_is_dropped(life: DiskHarness) -> None:
    fill(life, 20)
    life.do_all()
    life.put(b"x" * 100)
    life.log.journal.write(0)
    life.background.snapshot(life.log, 0)
    life.background.let_go(life.log)
    life.commit()
    life.background.log_advanced(life.log)
    assert life.background.work == []
    assert not life.background._snapshots


def test_a_snapshot_that_finds_no_room_is_named_and_tried_again(
    life: DiskHarness, caplog: pytest.LogCaptureFixture
) -> None:
    life.disk.faults = [Fault("create", "*.snapshot", error=errno.ENOSPC)]
    fill(life, 30)
    life.do_all()
    assert len(names(life, ".snapshot")) <= 2
    assert "no snapshot: No space left on device" in caplog.text
    fill(life, 30)
    life.do_all()
    assert names(life, ".snapshot")


def test_segments_go_after_snapshots_and_live_items_are_in_compacted_ones(
    life: DiskHarness,
) -> None:
    fill(life, 60)
    keep = []
    for n in range(60):
        lease = life.open()
        assert lease is not None
        if n % 20:
            life.reader.confirm(lease, 0)
        else:
            keep.append(lease)
        if n % 5 == 0:
            life.commit()
            life.do_all()
    before = len(names(life, ".segment"))
    for _ in range(6):
        fill(life, 5)
        life.do_all()
        for _ in range(5):
            lease = life.open()
            assert lease is not None
            life.reader.confirm(lease, 0)
        life.commit()
        life.do_all()
    assert len(names(life, ".segment")) <= before
    life.kill()
    assert life.take_all() == [lease.item.body for lease in keep]
    assert life.damages == []


def test_a_dead_item_compacted_during_its_read_is_found_again(
    life: DiskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.index.dead_letters.MEMORY_BYTES_MAX", 0)
    life.jobs.set_policy(Policy(max_memory_bytes=0, max_attempts=1), 0)
    fill(life, 1)
    lease = life.open()
    assert lease is not None
    life.reader.ready_items.said(lease)
    life.reader.nack(lease, 0, ABORTED)
    life.commit()
    store = life.log.store
    there = store.one(lease.item.id)
    assert there is not None
    extent = replace(there.extent, path="gone.segment", number=99)
    before = [replace(there, extent=extent)]
    monkeypatch.setattr(type(store), "one", lambda *_: before.pop() if before else there)
    assert life.peek(dead=True) == b"0" * 100
    assert life.damages == []


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_rewriting_that_finds_no_room_is_worth_a_line_unless_the_journal_has_failed(
    life: DiskHarness,
    has_failed: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*_: object) -> None:
        if has_failed:
            life.log.journal.fail("writing", "x", OSError(errno.EIO, "Input/output error"))
            life.log.advance()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CompactionJob, "run", run)
    monkeypatch.setattr(Maintenance, "choose", lambda *_: life.log.journal.segments[:1])
    fill(life, 20)
    life.do_all()
    told = [text for text in caplog.messages if "not rewritten: No space left" in text]
    assert bool(told) is not has_failed
    assert (life.log.failure is not None) is has_failed, "it was tried"


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_merge_that_finds_no_room_is_worth_a_line_unless_the_journal_has_failed(
    life: DiskHarness,
    has_failed: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*_: object) -> None:
        if has_failed:
            life.log.journal.fail("writing", "x", OSError(errno.EIO, "Input/output error"))
            life.log.advance()
        raise OSError(errno.ENOSPC, "No space left on device")

    def begin(maintenance: Maintenance, *_: object) -> MergeJob | None:
        job = MergeJob("data/jobs.1", [], b"", {}, 0, 0, 0, lambda: None)
        return None if life.log.failure is not None else job

    monkeypatch.setattr(MergeJob, "run", run)
    monkeypatch.setattr(Maintenance, "begin_merge", begin)
    fill(life, 20)
    life.do_all()
    told = [text for text in caplog.messages if "chunks not merged: No space left" in text]
    assert bool(told) is not has_failed
    assert (life.log.failure is not None) is has_failed, "it was tried"


def test_a_rewriting_ends_when_the_daemon_does() -> None:
    ending = Event()
    pause = Pause(ending)
    pause.pause()
    ending.set()
    with pytest.raises(InterruptedError):
        pause.pause()


def test_an_item_that_came_back_ten_times_is_worth_a_line(
    life: DiskHarness, caplog: pytest.LogCaptureFixture
) -> None:
    life.put(b"1")
    life.commit()
    for _ in range(12):
        lease = life.open()
        assert lease is not None
        life.reader.nack(lease, life.now_ms, ABORTED)
        life.do_all()
    assert [r.getMessage() for r in caplog.records] == [
        "queue jobs: item 1 came back 10 times; at max_attempts = 100 it is dead"
    ]


def test_many_items_that_came_back_ten_times_are_a_line_a_second(
    life: DiskHarness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 5000
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms)
    life.reader.notes += [f"queue jobs: item {n} came back 10 times" for n in range(100)]
    life.background.schedule_read(life.reader)
    now_ms += 1000
    life.reader.notes.append("queue jobs: item 100 came back 10 times")
    life.background.schedule_read(life.reader)
    assert caplog.messages == [
        "queue jobs: item 0 came back 10 times",
        "queue jobs: item 100 came back 10 times (99 more like it were not logged)",
    ]
