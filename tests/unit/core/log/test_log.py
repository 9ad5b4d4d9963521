"""The records that a queue writes, and the record up to which replies are true."""

from __future__ import annotations

import pytest

from journal.errors import JournalFailed
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta, ended_bytes
from kestrelpy.core.item import Item
from kestrelpy.core.log import records
from kestrelpy.core.log.log import JournalLog
from tests.support.core_harness import WALL_MS, make_queue
from tests.support.journals import Writer, fresh
from tests.support.memory_disk import MemoryDisk

ITEM = Item(1, 1, b"body", 7, WALL_MS, 0)


def log_of(writer: Writer) -> JournalLog:
    return JournalLog(writer.store, [], 0, make_queue().queue.state)


def test_the_life_of_an_item_is_in_its_records() -> None:
    q = make_queue(lease_ms=1000, max_attempts=3)
    q.put(b"one")
    q.abort(q.open("anna"))
    q.defer(q.open("anna"))
    q.open("bert")
    q.hang_up("bert")
    q.open("carl")
    q.pass_time(1000)
    q.close(q.open("dora", dead=True))
    assert q.story == (
        "put 1 one, returned 1 attempts 1 abort, returned 1 attempts 1 defer, "
        "returned 1 attempts 2 hangup, dead 1 attempts 3 lease bytes=3, done 1"
    )


def test_the_record_that_ends_a_delivery_says_when_it_began_and_which_it_was() -> None:
    q = make_queue()
    q.put(b"one")
    q.pass_time(100)
    lease = q.open()
    q.pass_time(50)
    q.abort(lease)
    lease = q.open()
    q.pass_time(25)
    q.close(lease)
    _, _, returned, done = q.records
    assert (returned.number, returned.small, returned.time_ms) == (WALL_MS + 100, 1, WALL_MS + 150)
    assert (done.number, done.small & 0xFF, done.time_ms) == (WALL_MS + 150, 2, WALL_MS + 175)
    assert ended_bytes(done.small, done.meta) == len(b"one")


def test_a_put_carries_place_flags_time_and_expiry() -> None:
    q = make_queue()
    q.queue.put(b"one", 42, WALL_MS + 5000, 10)
    put = q.records[0]
    assert (put.kind, put.item, put.number, put.small) == (Kind.PUT, 1, 1, 42)
    assert (put.time_ms, put.body) == (WALL_MS + 10, b"one")
    assert decode_meta(put.meta) == {Tag.EXPIRES_MS: WALL_MS + 5000}


def test_a_queue_is_dirty_once_until_it_was_cleaned() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    log = q.dirty[0]
    assert q.dirty == [log]
    q.dirty.clear()
    log.cleaned()
    q.flush()
    assert q.dirty == [log]


def test_each_request_that_waited_for_room_resumes_once() -> None:
    log = log_of(fresh(MemoryDisk()))
    log.waiting_room["anna"] = None
    assert log.wants_room, "also when it is not a lack of bytes that anna waits for"
    assert log.take_waiting_room() == ["anna"]
    assert not log.wants_room
    assert log.end_waiting_room() == []


def test_stored_is_true_when_it_is_synced_and_closes_when_they_are_written() -> None:
    writer = fresh(MemoryDisk())
    log = log_of(writer)
    lsn = log.append(records.put(ITEM))
    assert log.lsn_written < lsn
    writer.write()
    log.advance()
    assert log.lsn_stored < lsn <= log.lsn_written
    writer.sync()
    log.advance()
    assert log.lsn_stored == lsn == log.lsn_appended


def test_with_sync_other_than_always_stored_waits_for_the_write_alone() -> None:
    writer = fresh(MemoryDisk())
    log = log_of(writer)
    lsn = log.append(records.put(ITEM))
    writer.write()
    log.set_sync(-1)
    assert log.lsn_stored == lsn
    log.set_sync(0)
    assert log.lsn_stored < lsn


def test_a_failure_of_the_journal_is_taken_over() -> None:
    writer = fresh(MemoryDisk())
    log = log_of(writer)
    assert log.failure is None
    writer.journal.commit.fail(JournalFailed("disk on fire"))
    log.advance()
    assert str(log.failure) == "disk on fire"


def test_a_log_that_goes_on_in_an_old_journal_calls_what_is_there_true() -> None:
    writer = fresh(MemoryDisk())
    writer.put_all(b"1", b"2")
    log = log_of(writer)
    assert log.lsn_written == log.lsn_stored == log.lsn_appended == 2
    assert log.disk_bytes() == writer.journal.disk_bytes() > 0
    assert log.journal is writer.journal


@pytest.mark.parametrize(
    ("sync_ms", "waits_for", "awaits"),
    [
        (0, "a sync", True), (0, "a write", False), (0, "", False),
        (400, "a sync", False), (-1, "a sync", False), (400, "a write", False),
    ],
)  # fmt: skip
def test_a_sync_is_awaited_where_sets_wait_for_it(
    sync_ms: int, waits_for: str, awaits: bool
) -> None:
    log = log_of(fresh(MemoryDisk()))
    log.set_sync(sync_ms)
    if waits_for == "a sync":
        log.waiting_stored.add(object())
    elif waits_for == "a write":
        log.waiting_written.add(object())

    assert log.awaits_sync == awaits


def test_where_the_journal_is_not_local_what_is_written_is_true_when_it_is_synced() -> None:
    disk = MemoryDisk()
    disk.is_local = False
    writer = fresh(disk)
    log = log_of(writer)
    log.set_sync(400)
    assert log.sync_ms == 0
    lsn = log.append(records.put(ITEM))
    log.waiting_written.add(object())
    assert log.awaits_sync

    writer.write()
    log.advance()
    assert log.lsn_written < lsn
    writer.sync()
    log.advance()
    assert log.lsn_written == lsn == log.lsn_stored
