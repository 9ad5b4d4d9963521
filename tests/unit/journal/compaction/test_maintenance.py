"""Snapshots: when one is due, its contents, and the end of older ones.

Promises: segment-goes, full-disk.
"""

from __future__ import annotations

import dataclasses
import errno
from dataclasses import replace
from random import Random

import pytest

from journal.compaction import maintenance as maintenance_module
from journal.format.checkpoint import Checkpoint
from journal.format.declared import declared_draft
from journal.format.lease import LeaseEntry
from journal.sets.hash_table import ID
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.dedupe_file import chunk_range
from journal.snapshot.dedupe_pending import Fresh
from journal.snapshot.job import QueueCopy, RememberedIds
from journal.snapshot.snapshot import SNAPSHOTS_RETAINED, Snapshot, snapshot_lsn
from journal.write.segment_file import Sizes
from kestrelpy.core.policy import Policy
from tests.support.disk_harness import DiskHarness
from tests.support.journals import FOLDER, TIME_MS, TINY, Writer, fresh
from tests.support.memory_disk import Fate, Fault, MemoryDisk, PowerCut

ROOMY = Sizes(segment_min=64 << 10, segment_max=64 << 10, batch_max=1 << 20)


def state_of(writer: Writer) -> QueueCopy:
    live = IdSet()
    for item in sorted(writer.queue.live):
        live.add(item)
    checkpoint: Checkpoint = writer.queue.checkpoint()
    return QueueCopy(checkpoint, live, len(live), IdCounts(), [])


def snapshots(disk: MemoryDisk) -> list[int]:
    return [lsn for name in disk.names(FOLDER) if (lsn := snapshot_lsn(name)) is not None]


def take_one(writer: Writer, disk: MemoryDisk) -> None:
    """Take a snapshot as the server does."""
    job = writer.store.maintenance.begin_snapshot(state_of(writer), TIME_MS)
    writer.sync()
    job.run(disk)
    for path in writer.store.maintenance.finish_snapshot(job, True):
        disk.remove(path)


def test_a_snapshot_is_due_after_a_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.snapshot.cadence.RECORDS_MAX", 10)
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    maintenance = writer.store.maintenance
    for _ in range(9):
        writer.put_all(b"x")
    assert not maintenance.wants_snapshot
    writer.put(b"x")
    assert not maintenance.wants_snapshot, "something is pending"
    writer.commit()
    assert maintenance.wants_snapshot
    take_one(writer, disk)
    assert not maintenance.wants_snapshot
    assert snapshots(disk) == [10]


def test_a_snapshot_is_due_when_there_are_segments_that_it_could_let_go() -> None:
    writer = fresh(MemoryDisk(), TINY)
    maintenance = writer.store.maintenance
    seen = []
    for _ in range(12):
        writer.put_all(b"x" * 300)
        seen.append((len(writer.journal.segments), maintenance.wants_snapshot))
    assert {wants for count, wants in seen if count <= 2} == {False}
    assert {wants for count, wants in seen if count > 2} == {True}


def test_on_an_engine_a_snapshot_is_due_after_a_number_of_bytes() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, replace(TINY, snapshot_bytes=20_000))
    maintenance = writer.store.maintenance
    for _ in range(2):
        put = 0
        while not maintenance.wants_snapshot:
            writer.put_all(b"x" * 300)
            put += 1
            assert put < 100
        assert 15_000 < put * 400 < 30_000, "over several segments, which are counted as well"
        assert len(writer.journal.segments) > 2
        take_one(writer, disk)
        assert not maintenance.wants_snapshot


def test_a_long_snapshot_comes_after_as_many_bytes_of_records() -> None:
    writer = fresh(MemoryDisk(), replace(TINY, snapshot_bytes=2000))
    maintenance = writer.store.maintenance
    writer.put_all(b"x" * 300)
    job = maintenance.begin_snapshot(state_of(writer), TIME_MS)
    job.file_bytes = 50_000
    writer.sync()
    maintenance.finish_snapshot(job, True)
    put = 0
    while not maintenance.wants_snapshot:
        writer.put_all(b"x" * 300)
        put += 1
    assert 30_000 < put * 400 < 60_000


def test_the_bytes_after_a_snapshot_count_over_a_restart() -> None:
    sizes = replace(ROOMY, snapshot_bytes=10_000)
    life = DiskHarness(Policy(), sizes)

    def put(count: int) -> None:
        for _ in range(count):
            life.put(b"x" * 300)
            life.write()
        life.sync()

    put(30)
    snapshot_of(life)
    put(20)
    life = DiskHarness(life.policy, sizes, life.disk.crash_clone(Random(0), "kept"))
    assert not life.log.store.maintenance.wants_snapshot
    put(10)
    assert life.log.store.maintenance.wants_snapshot


def test_one_at_a_time_and_another_try_after_one_that_failed() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for _ in range(12):
        writer.put_all(b"x" * 300)
    maintenance = writer.store.maintenance
    job = maintenance.begin_snapshot(state_of(writer), TIME_MS)
    writer.put_all(*[b"x" * 300] * 6)
    assert not maintenance.wants_snapshot
    disk.faults = [Fault("create", "*.snapshot", error=errno.EIO)]
    with pytest.raises(OSError, match="Input/output"):
        job.run(disk)
    assert maintenance.finish_snapshot(job, False) == []
    assert maintenance.wants_snapshot
    take_one(writer, disk)
    assert len(snapshots(disk)) == 1


def test_one_more_of_the_same_moment_lets_no_other_go() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    for _ in range(2):
        writer.put_all(b"x")
        take_one(writer, disk)
    assert snapshots(disk) == [1, 2]
    for _ in range(3):
        take_one(writer, disk)
        assert snapshots(disk) == writer.store.maintenance.snapshots == [1, 2]


def full() -> list[Fault]:
    """No room for another snapshot."""
    return [Fault("create", "*.snapshot", times=1000, error=errno.ENOSPC)]


def with_snapshots(count: int) -> DiskHarness:
    """Return a queue of some segments with `count` snapshots."""
    life = DiskHarness(Policy(), TINY)
    for number in range(14):
        life.put(b"%02d" % number * 150)
        assert life.write()
        life.sync()
    for _ in range(count):
        life.put(b"x")
        life.write()
        snapshot_of(life)
    return life


def snapshot_of(life: DiskHarness) -> None:
    life.background.snapshot(life.log, life.unix_ms)
    life.sync()
    life.background.log_advanced(life.log)
    life.do_all()


def lsns_on_disk(life: DiskHarness) -> list[int]:
    names = life.disk.names(life.directory.folder(life.jobs))
    return [lsn for name in names if (lsn := snapshot_lsn(name)) is not None]


def confirm(life: DiskHarness, count: int) -> None:
    for _ in range(count):
        lease = life.open()
        assert lease is not None
        life.reader.confirm(lease, 0)
    life.write()


@pytest.mark.parametrize("count", [1, 2])
def test_on_a_full_disk_it_is_written_over_the_older_one_or_the_only_one(count: int) -> None:
    life = with_snapshots(count)
    maintenance = life.log.store.maintenance
    life.disk.faults = full()
    for _ in range(3):
        confirm(life, 1)
        for _ in range(2):  # the second time nothing is new
            snapshot_of(life)
            assert lsns_on_disk(life) == maintenance.snapshots
            assert maintenance.snapshots[-1] == life.log.lsn_durable
        assert 1 <= len(maintenance.snapshots) <= count
    life.disk.faults = []
    for _ in range(2):
        confirm(life, 1)
        snapshot_of(life)
    assert len(lsns_on_disk(life)) == SNAPSHOTS_RETAINED


@pytest.mark.parametrize("count", [1, 2])
def test_a_full_disk_asks_for_the_snapshot_that_lets_a_finished_segment_go(count: int) -> None:
    """It is the last sealed segment: no snapshot would be due before the next one is sealed."""
    life = with_snapshots(count)
    maintenance, journal = life.log.store.maintenance, life.log.journal
    sealed = journal.segments[-2]
    assert not maintenance.wants_snapshot
    maintenance.snapshots[0] = sealed.lsn_last - 1
    journal.has_rotated, sealed.live = False, 0
    confirm(life, 1)
    assert not maintenance.wants_snapshot
    journal.preallocation.is_short = True
    assert maintenance.wants_snapshot

    job = maintenance.begin_snapshot(life.log.state(), life.unix_ms)
    maintenance.finish_snapshot(job, done=False)
    assert not maintenance.wants_snapshot, "it would say the same"
    confirm(life, 1)
    assert maintenance.wants_snapshot
    maintenance.snapshots[0], journal.has_rotated = journal.segments[-2].lsn_last, False
    assert not maintenance.wants_snapshot, "nothing is held back"


@pytest.mark.parametrize("verb", ["create_over", "create_over:sync"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("count", [1, 2])
def test_one_that_is_lost_while_another_is_written_over_it_counts_no_more(
    count: int, error: int, verb: str
) -> None:
    """A file system that copies on write may have no room for that either."""
    life = with_snapshots(count)
    maintenance, before = life.log.store.maintenance, lsns_on_disk(life)
    life.disk.faults = [*full(), Fault(verb, "*.snapshot*", error=error)]
    confirm(life, 1)
    snapshot_of(life)
    assert lsns_on_disk(life) == before[1:] == maintenance.snapshots
    assert not [name for name in life.disk.names(life.directory.folder(life.jobs)) if "new" in name]
    assert life.log.journal.segment_list.covered_lsn == 0

    confirm(life, 1)
    life.commit()
    items = len(life.reader.live)
    life.kill()
    assert len(life.reader.live) == items
    life.disk.faults = []
    for _ in range(2):
        confirm(life, 1)
        snapshot_of(life)
    assert lsns_on_disk(life) == life.log.store.maintenance.snapshots
    assert len(lsns_on_disk(life)) == SNAPSHOTS_RETAINED


def test_one_that_found_no_room_is_tried_again_when_a_segment_finds_some() -> None:
    life = with_snapshots(2)
    maintenance, journal = life.log.store.maintenance, life.log.journal
    confirm(life, 1)
    job = maintenance.begin_snapshot(life.log.state(), life.unix_ms)
    maintenance.finish_snapshot(job, done=False)
    assert not maintenance.wants_snapshot
    for recycle, wants in (("a.recycled", False), ("", True)):
        segment = journal.begin_preallocation(life.unix_ms)
        segment = dataclasses.replace(segment, recycle="")
        handle = segment.prepare(life.disk)
        journal.finish_preallocation(dataclasses.replace(segment, recycle=recycle), handle)
        assert maintenance.wants_snapshot is wants
    job = maintenance.begin_snapshot(life.log.state(), life.unix_ms)
    maintenance.finish_snapshot(job, done=True)
    assert not maintenance.wants_snapshot


def test_on_a_full_disk_the_only_one_stays_where_the_log_needs_it() -> None:
    life = with_snapshots(2)
    life.log.store.maintenance.snapshots = [lsns_on_disk(life)[-1]]  # the other is damaged
    del life.log.journal.segments[1]
    before = lsns_on_disk(life)
    life.disk.faults = full()
    confirm(life, 1)
    snapshot_of(life)
    assert lsns_on_disk(life) == before


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("fate", ["lost", "kept", "random"])
def test_a_power_cut_while_one_is_written_over_loses_nothing(count: int, fate: Fate) -> None:
    for step in range(1, 100):
        life = with_snapshots(count)
        confirm(life, 6)
        life.sync()
        life.settled(life.log)
        alive = list(life.reader.live)
        life.disk.faults = full()
        life.disk.cut_power_at(step)
        try:
            snapshot_of(life)
        except PowerCut:
            after = DiskHarness(life.policy, TINY, life.disk.crash_clone(Random(step), fate))
            assert list(after.reader.live) == alive
            assert after.found.damages == []
        else:
            assert step > 3
            return
    raise AssertionError("it does not end")


def test_a_snapshot_that_is_broken_off_leaves_nothing() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(b"x")
    job = writer.store.maintenance.begin_snapshot(state_of(writer), TIME_MS)

    def ends() -> None:
        raise InterruptedError(errno.EINTR, "the daemon ends")

    with pytest.raises(InterruptedError):
        job.run(disk, ends)
    assert snapshots(disk) == []


def test_with_many_leases_by_token_it_is_due_after_as_many_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else most of what a server with many leases does would be to write them down again."""
    monkeypatch.setattr("journal.snapshot.cadence.RECORDS_MAX", 10)
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    maintenance = writer.store.maintenance
    writer.put_all(*[b"x"] * 25)
    state = replace(state_of(writer), leased=[LeaseEntry(1, 1, 1, 1, 1, 1, 1)] * 25)
    job = maintenance.begin_snapshot(state, TIME_MS)
    writer.sync()
    job.run(disk)
    maintenance.finish_snapshot(job, True)
    writer.put_all(*[b"x"] * 24)
    assert not maintenance.wants_snapshot
    writer.put_all(b"x")
    assert maintenance.wants_snapshot


def test_a_snapshot_has_the_metadata_of_the_queue() -> None:
    writer = fresh(MemoryDisk(), ROOMY)
    writer.put_all(b"x")
    declared = declared_draft(b"a = 1", b"{}", TIME_MS)
    state = replace(state_of(writer), standing=[declared])
    snapshot = writer.store.maintenance.begin_snapshot(state, TIME_MS).snapshot
    again = Snapshot.decode(snapshot.encode(7, bytes(16), TIME_MS), "x")
    assert again.standing == [declared]


def test_a_snapshot_says_what_was_there_when_it_was_begun() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for n in range(8):
        writer.put_all(b"%d" % n * 200)
    journal = writer.journal
    active = journal.active
    assert active is not None
    at, number, lsn = active.at, active.number, journal.commit.lsn_written
    job = writer.store.maintenance.begin_snapshot(state_of(writer), TIME_MS)
    writer.done(1)
    writer.put_all(*[b"later" * 100] * 4)
    job.run(disk)
    (name,) = (n for n in disk.names(FOLDER) if n.endswith(".snapshot"))
    found = Snapshot.decode(disk.read(f"{FOLDER}/{name}"), f"{FOLDER}/{name}")
    assert (found.lsn, found.segment, found.offset) == (lsn, number, at)
    assert list(found.live) == list(range(1, 9))
    assert [s.number for s in found.segments] == list(range(1, number))
    assert found.checkpoint.next_item == 9


def test_the_newest_two_stay() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for _ in range(5):
        writer.put_all(b"x")
        take_one(writer, disk)
    assert len(snapshots(disk)) == SNAPSHOTS_RETAINED
    assert snapshots(disk) == writer.store.maintenance.snapshots == [4, 5]


def test_a_chunk_of_which_nothing_is_remembered_goes_with_the_last_snapshot_that_lists_it() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    seen = Fresh()
    seen.add_id(ID.pack(bytes(16), TIME_MS, 1, 0))
    there = []
    for time_ms in (TIME_MS, *[TIME_MS + 1000] * 3):
        writer.put_all(b"x")
        state = replace(state_of(writer), memory=RememberedIds(seen, [], 0, 1000, None))
        job = writer.store.maintenance.begin_snapshot(state, time_ms)
        writer.sync()
        job.run(disk)
        for path in writer.store.maintenance.finish_snapshot(job, True):
            disk.remove(path)
        there.append(len([name for name in disk.names(FOLDER) if chunk_range(name) is not None]))
    assert there == [1, 1, 0, 0]


def test_after_a_merge_there_may_be_another_and_chunks_go_again(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_module, "choose_merge", lambda chunks, keys: chunks[:1])
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    maintenance = writer.store.maintenance
    seen = Fresh()
    seen.add_id(ID.pack(bytes(16), TIME_MS, 1, 0))
    memory = RememberedIds(seen, [], 0, 1000, None)
    writer.put_all(b"x")
    job = maintenance.begin_snapshot(replace(state_of(writer), memory=memory), TIME_MS)
    writer.sync()
    job.run(disk)
    maintenance.finish_snapshot(job, True)

    for _ in range(2):
        merge = maintenance.begin_merge(job, lambda: None)
        assert merge is not None
        assert maintenance.begin_merge(job, lambda: None) is None, "one at a time"
        assert maintenance.finish_merge(merge, None) == []

    writer.put_all(b"x")
    maintenance.begin_snapshot(replace(state_of(writer), memory=memory), TIME_MS + 1000)
    assert maintenance.chunks == []


def test_after_a_failure_nothing_is_due() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for _ in range(12):
        writer.put_all(b"x" * 300)
    writer.journal.fail("writing", FOLDER, OSError(errno.EIO, "disk on fire"))
    assert not writer.store.maintenance.wants_snapshot
    assert writer.store.maintenance.choose(writer.journal.commit.lsn_written) == []


def test_what_was_put_after_the_moment_of_the_living_is_not_rewritten() -> None:
    """Else it would be taken for dead: two snapshots may come while one rewriting goes on."""
    disk = MemoryDisk()
    writer = fresh(disk, Sizes(8192, 8192, 1 << 20))
    writer.put_all(*[b"x"] * 6)
    take_one(writer, disk)
    live_lsn = writer.journal.commit.lsn_written
    for _ in range(200):
        writer.put_all(b"y")
    for item in range(7, 207):
        if item != 130:
            writer.done(item)
    writer.commit()
    for _ in range(2):
        writer.put_all(b"z")
        take_one(writer, disk)
    maintenance = writer.store.maintenance
    chosen = maintenance.choose(maintenance.snapshots[-1])
    assert [s.live for s in chosen if s.item_first <= 130 <= s.item_last] == [1]
    assert all(segment.item_last <= 6 for segment in maintenance.choose(live_lsn))


def test_a_segment_is_not_rewritten_as_empty_before_its_last_confirm_is_durable() -> None:
    """A power cut may take the confirm away, and then its item is needed again."""
    disk = MemoryDisk()
    writer = fresh(disk, Sizes(8192, 8192, 1 << 20))
    for _ in range(200):
        writer.put_all(b"x")
    segments = writer.journal.segments
    first, middle, last = segments[1:4]
    stay = {first.item_first, middle.item_first, last.item_first}
    for item in range(1, 201):
        if item not in stay:
            writer.done(item)
    writer.commit()
    for _ in range(2):
        writer.put_all(b"z")
        take_one(writer, disk)
    maintenance = writer.store.maintenance
    lsn = maintenance.snapshots[-1]
    run = maintenance.choose(lsn)
    assert run[:3] == [first, middle, last]
    assert [segment.live for segment in run[:3]] == [1, 1, 1]

    writer.done(middle.item_first)
    writer.write()
    assert middle.live == 0
    assert maintenance.choose(lsn) == []

    writer.sync()
    assert maintenance.choose(lsn)[:3] == [first, middle, last]


def test_by_the_living_of_before_nothing_is_rewritten_that_is_needed_again() -> None:
    """A new child may begin at items that all others have confirmed: a rewriting that does not know
    of it would leave them out."""
    disk = MemoryDisk()
    writer = fresh(disk, Sizes(8192, 8192, 1 << 20))
    for _ in range(200):
        writer.put_all(b"x")
    segments, segment_list = writer.journal.segments, writer.journal.segment_list
    chosen = segments[1:4]
    stay = {segment.item_first for segment in chosen}
    for item in range(1, 201):
        if item not in stay:
            writer.done(item)
    writer.commit()
    for _ in range(2):
        writer.put_all(b"z")
        take_one(writer, disk)
    maintenance = writer.store.maintenance
    before = maintenance.snapshots[-1]
    assert maintenance.choose(before)[:3] == chosen
    needed = IdSet.of(writer.queue.live)

    segment_list.recount(needed, writer.journal.commit.lsn_appended)
    assert maintenance.choose(before)[:3] == chosen, "nothing was needed again"
    needed.add(chosen[1].item_last)
    writer.put_all(b"a child that begins there")
    since = writer.journal.commit.lsn_appended
    segment_list.recount(needed, since)

    assert chosen[1].live == 2
    assert maintenance.choose(before) == []
    assert maintenance.choose(since)[:3] == chosen


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_snapshot_written_twice_without_a_record_between_counts_once(earlier: int) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    maintenance = writer.store.maintenance
    lsns = []
    for number in range(earlier + 1):
        writer.put_all(b"item %d" % number)
        for _ in range(2 if number == earlier else 1):
            job = maintenance.begin_snapshot(state_of(writer), TIME_MS)
            writer.sync()
            job.run(disk)
            assert maintenance.finish_snapshot(job, True) == []
        lsns.append(job.snapshot.lsn)
    assert maintenance.snapshots == lsns
