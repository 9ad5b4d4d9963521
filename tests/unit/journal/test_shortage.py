"""No descriptor or memory for the moment: nothing has failed, nothing is damaged, it goes on.

Promise shortage: each of these from every open and read, on a memory disk; an idle crowd that holds
    every descriptor of the real process.
Promise: failed-sync.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from journal.compaction.compaction import CompactionJob
from journal.errors import JournalFailed
from journal.files import SHORTAGE_ERRORS
from journal.patience import TRIES_MAX, patient_files
from journal.recovery.recovery import Recovery
from journal.sets.hash_table import ID
from journal.sets.id_set import IdSet
from journal.snapshot.dedupe_load import read_chunks
from journal.snapshot.dedupe_pending import PendingEntries
from tests.support.journals import FOLDER, TIME_MS, TINY, Writer, bodies, fresh, start
from tests.support.memory_disk import Fault, MemoryDisk
from tests.unit.journal.compaction.test_maintenance import ROOMY, state_of


def resting(disk: MemoryDisk, *bodies: bytes) -> Writer:
    """A journal that holds no descriptor."""
    writer = fresh(disk, TINY)
    writer.put_all(*bodies)
    assert writer.journal.is_resting
    writer.journal.rest(TIME_MS)
    return writer


def short(verb: str, path: str = "*.segment", times: int = 1, error: int = errno.EMFILE) -> Fault:
    return Fault(verb, path, times=times, error=error)


@pytest.mark.parametrize("error", sorted(SHORTAGE_ERRORS))
def test_a_segment_that_cannot_be_opened_now_is_written_to_later(error: int) -> None:
    disk = MemoryDisk()
    writer = resting(disk, b"first")
    fault = short("open", times=3, error=error)
    disk.faults = [fault]
    writer.put(b"second")
    for _ in range(3):
        writer.journal.write(TIME_MS)
        assert writer.journal.shortage is not None
        assert writer.journal.shortage.errno == error
        assert writer.journal.has_pending
        assert not writer.journal.can_write, "not in the next turn: after a pause"
        assert writer.journal.begin_sync() is None
    writer.commit()
    assert writer.journal.shortage is None
    assert writer.journal.commit.lsn_durable == writer.journal.commit.lsn_appended
    assert writer.journal.segment_list.numbered(1) is not None
    assert sum(s.live for s in writer.journal.segments) == 2, "nothing was counted twice"
    assert bodies(start(disk.kill_clone()).records) == [b"first", b"second"]


def test_no_segment_is_prepared_beside_one_that_cannot_be_opened_now() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    writer.put_all(b"first")
    writer.journal.turns = True
    writer.put(b"second")
    writer.journal.write(TIME_MS)
    assert writer.journal.is_stalled
    assert writer.prepare()
    assert writer.journal.active is not None
    writer.journal.active.handle = None
    disk.faults = [short("open")]

    writer.journal.write(TIME_MS)

    assert writer.journal.shortage is not None
    assert not writer.journal.wants_preallocation
    writer.commit()
    assert bodies(start(disk.kill_clone()).records) == [b"first", b"second"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOENT, errno.EACCES])
def test_any_other_error_of_an_open_ends_the_journal(error: int) -> None:
    disk = MemoryDisk()
    writer = resting(disk, b"first")
    disk.faults = [short("open", error=error)]
    writer.put(b"second")
    writer.journal.write(TIME_MS)
    assert writer.journal.commit.failure is not None


@pytest.mark.parametrize("error", sorted(SHORTAGE_ERRORS))
@pytest.mark.parametrize("verb", ["write", "sync"])
def test_a_write_or_a_sync_that_failed_is_final_whatever_it_says(verb: str, error: int) -> None:
    disk = MemoryDisk()
    writer = resting(disk, b"first")
    disk.faults = [short(verb, error=error)]
    writer.put(b"second")
    writer.journal.write(TIME_MS)
    writer.sync()
    assert writer.journal.commit.failure is not None


@pytest.mark.parametrize("nth", [1, 2])
def test_a_segment_is_sealed_only_when_the_next_one_is_open_too(nth: int) -> None:
    disk = MemoryDisk()
    writer, filling = fresh(disk, TINY), [b"w" * 300, b"x" * 300, b"y" * 300]
    writer.put_all(*filling)
    assert len(writer.journal.segments) == 1
    assert writer.journal.preallocation.waiting
    writer.journal.rest(TIME_MS)
    writes = sum("write" in each for each in disk.trace)
    disk.faults = [Fault("open", "*.segment", nth=nth, error=errno.EMFILE)]
    writer.put(b"z" * 300)
    writer.journal.write(TIME_MS)
    assert writer.journal.shortage is not None
    assert sum("write" in each for each in disk.trace) == writes, "nothing of either was written"
    writer.commit()
    assert len(writer.journal.segments) == 2
    again = start(disk.kill_clone())
    assert bodies(again.records) == [*filling, b"z" * 300]
    assert again.recovery.damages == []


def test_a_failed_preallocation_keeps_the_file_that_it_was_to_take() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(b"x" * 300)
    journal = writer.journal
    disk.create(f"{FOLDER}/0000000001.segment.recycled", b"", 2048).close()
    journal.preallocation.recycled = [(f"{FOLDER}/0000000001.segment.recycled", 2048)]
    order = journal.begin_preallocation(TIME_MS)
    assert order.recycle
    disk.faults = [short("read", "*.recycled")]
    with pytest.raises(OSError, match="Too many open files") as caught:
        order.prepare(disk)
    journal.preallocation_failed(order, caught.value)
    assert journal.preallocation.recycled == [(order.recycle, 2048)]
    assert not journal.preallocation.is_short, "no room is taken that the confirms need"
    assert journal.begin_preallocation(TIME_MS).header.segment == order.header.segment


def test_what_cannot_be_read_back_now_is_neither_passed_over_nor_named() -> None:
    disk = MemoryDisk()
    writer = resting(disk, *(b"%d" % n * 100 for n in range(9)))
    backlog = writer.store.read_ahead
    disk.faults = [short("read", times=2)]
    taken: list[bytes] = []
    failures = 0
    for _ in range(100):
        made = backlog.next_read(len(taken) + 1)
        if made is not None:
            life, order = made
            try:
                backlog.arrived(life, *order.run(disk))
            except OSError as error:
                backlog.failed(life, error)
                failures += 1
        taken += [record.body for record in backlog.take(len(taken) + 1, 100)]
    assert failures == 2
    assert taken == [b"%d" % n * 100 for n in range(9)]
    assert backlog.damages == []


def test_items_read_by_their_numbers_are_read_again_after_a_shortage() -> None:
    disk = MemoryDisk()
    writer = resting(disk, *(b"%d" % n * 100 for n in range(9)))
    some = writer.store.some(range(1, 10))
    disk.faults = [Fault("read", "*.segment", nth=2, error=errno.ENFILE)]
    found = some.run(disk)
    assert found.shortage is not None
    assert found.reasons == {}, "nothing is known to be unreadable"
    again = some.run(disk)
    assert again.shortage is None
    assert list(again.records) == list(range(1, 10))


@pytest.mark.parametrize("nth", range(1, 4))
def test_a_snapshot_that_a_shortage_stops_is_written_by_the_next_attempt(nth: int) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, ROOMY)
    writer.put_all(b"a", b"b")
    job = writer.store.maintenance.begin_snapshot(state_of(writer), TIME_MS)
    job.batch = PendingEntries(ids=bytearray(b"i" * ID.size))
    disk.faults = [Fault("create", nth=nth, error=errno.EMFILE)]
    for attempt in range(2):
        try:
            job.run(disk)
        except OSError:
            assert attempt == 0
            continue
        break
    assert len(job.snapshot.chunks) == 1, "what is remembered is in one file"
    recovery = Recovery(disk, FOLDER)
    list(recovery.records())
    assert recovery.snapshot is not None and recovery.damages == []
    chunks = read_chunks(
        disk, FOLDER, recovery.identity, recovery.snapshot.chunks, lambda frame: None
    )
    assert chunks.damages == []


def test_a_rewriting_that_a_shortage_stops_has_changed_nothing_and_is_done_again() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for n in range(12):
        writer.put_all(b"%d" % n * 150)
    for item in range(2, 12):
        writer.done(item)
    writer.commit()
    journal = writer.journal
    live = IdSet()
    for item in sorted(writer.queue.live):
        live.add(item)
    chosen = journal.segments[:3]
    maintenance = writer.store.maintenance
    job: CompactionJob = maintenance.begin_compaction(chosen, live, lambda: None, TIME_MS)
    before = disk.names(FOLDER)
    for verb in ("read", "create"):
        disk.faults = [short(verb, "*")]
        with pytest.raises(OSError, match="Too many open files"):
            job.run(disk)
        assert disk.names(FOLDER) == before
    compacted = job.run(disk)
    assert compacted is not None
    assert compacted.puts == sum(1 for item in live if item <= chosen[-1].item_last)


def test_a_close_waits_out_a_shortage() -> None:
    disk = MemoryDisk()
    writer = resting(disk, b"first")
    disk.faults = [short("open", times=3)]
    writer.put(b"second")
    pauses: list[int] = []
    writer.journal.close(TIME_MS, lambda: pauses.append(1))
    assert len(pauses) == 3
    assert bodies(start(disk.kill_clone()).records) == [b"first", b"second"]


def test_a_close_that_a_shortage_outlasts_says_so() -> None:
    writer = resting(disk := MemoryDisk(), b"first")
    disk.faults = [short("open", times=1 << 20)]
    writer.put(b"second")
    with pytest.raises(JournalFailed, match="Too many open files"):
        writer.journal.close(TIME_MS)


VERBS: list[Callable[[MemoryDisk], Fault]] = [
    lambda disk: short("names", "*", 2),
    lambda disk: short("size", "*", 2),
    lambda disk: short("read", "*", 2),
    lambda disk: short("create", "*", 2),
    lambda disk: short("make_folder", "*", 2),
    lambda disk: short("remove", "*", 2),
]


@pytest.mark.parametrize("fault", VERBS)
def test_a_start_waits_out_a_shortage_and_takes_it_for_no_damage(
    fault: Callable[[MemoryDisk], Fault],
) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(*(b"%d" % n * 100 for n in range(9)))
    writer.put(b"written, not synced")
    writer.write()
    killed = disk.kill_clone()
    killed.faults = [made := fault(killed)]
    pauses: list[int] = []
    again = start(patient_files(killed, lambda: pauses.append(1)))
    assert len(pauses) == made.fired
    assert [d for d in again.recovery.damages if d.kind != "torn"] == []
    assert len(bodies(again.records)) == 10


def test_a_start_that_a_shortage_outlasts_is_refused_with_that_error() -> None:
    disk = MemoryDisk()
    fresh(disk, TINY).put_all(b"x")
    killed = disk.kill_clone()
    killed.faults = [short("read", "*", 1 << 20)]
    pauses: list[int] = []
    with pytest.raises(OSError, match="Too many open files"):
        start(patient_files(killed, lambda: pauses.append(1)))
    assert len(pauses) == TRIES_MAX - 1


def test_patience_is_for_shortages_alone() -> None:
    disk = MemoryDisk([short("read", "*", 9, errno.EIO)])
    with pytest.raises(OSError, match="no such file"):
        patient_files(disk).size("nothing")
    pauses: list[int] = []
    with pytest.raises(OSError, match="Input/output"):
        patient_files(disk, lambda: pauses.append(1)).read("nothing")
    assert pauses == []
