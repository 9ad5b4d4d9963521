"""A queue that is written outside of a daemon is absent until it is whole."""

from __future__ import annotations

import pytest

from journal.errors import JournalFailed
from journal.format import Kind
from journal.recovery import Recovery
from kestrelpy.cli.journals import queue_writer
from kestrelpy.cli.journals.queue_writer import QueueWriter
from tests.support.journals import TIME_MS
from tests.support.memory_disk import Fault, MemoryDisk

NOTE = ("note", b"made by a test")


def writer(disk: MemoryDisk) -> QueueWriter:
    return QueueWriter(disk, "/data", b"q", 7, b"server", 1000, TIME_MS)


def test_a_queue_has_its_name_only_when_it_is_whole() -> None:
    disk = MemoryDisk()
    made = writer(disk)
    made.add(b"one", 5, 0, 0)
    made.add(b"two", 6, TIME_MS * 2, 0)
    assert disk.names("/data") == ["q.7~removed"]

    made.finish(NOTE)

    assert disk.names("/data") == ["q.7"]
    assert disk.read("/data/q.7/note") == b"made by a test"
    recovery = Recovery(disk, "/data/q.7")
    puts = [r for r in recovery.records() if r.kind == Kind.PUT]
    assert [(r.item, r.body, r.time_ms) for r in puts] == [(1, b"one", 5), (2, b"two", 6)]
    assert recovery.clean


def test_an_abandoned_queue_leaves_nothing() -> None:
    disk = MemoryDisk()
    made = writer(disk)
    made.add(b"one", 5, 0, 0)

    made.abandon()

    assert disk.names("/data") == []


def test_what_a_kill_left_behind_is_replaced() -> None:
    disk = MemoryDisk()
    writer(disk).add(b"half", 5, 0, 0)
    made = writer(disk)
    made.add(b"whole", 5, 0, 0)

    made.finish(NOTE)

    records = Recovery(disk, "/data/q.7").records()
    assert [r.body for r in records if r.kind == Kind.PUT] == [b"whole"]


def test_a_queue_of_children_alone_is_not_empty() -> None:
    made = writer(MemoryDisk())
    assert made.is_empty
    assert (made.name_child(b"a"), made.name_child(b"b")) == (1, 2)
    assert not made.is_empty


def test_bodies_do_not_pile_up_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_writer, "_WRITE_BYTES", 1000)
    monkeypatch.setattr(queue_writer, "_SYNC_BYTES", 5000)
    disk = MemoryDisk()
    made = writer(disk)
    for _ in range(200):
        made.add(bytes(100), 5, 0, 0)
        assert len(made._journal._pending) < 11

    assert made._journal.commit.lsn_durable > 100
    made.finish(NOTE)


def test_a_disk_that_refuses_a_write_makes_no_queue() -> None:
    disk = MemoryDisk([Fault("write", "*.segment")])
    made = writer(disk)
    made.add(b"one", 5, 0, 0)

    with pytest.raises(JournalFailed, match="writing failed"):
        made.finish(NOTE)

    assert disk.names("/data") == ["q.7~removed"]
