"""The writing side: append, write, sync, rotate, drop dead segments, close and go on.

Promise failed-sync: EIO and ENOSPC from a write or a sync, on a memory disk and in the real
    process.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from journal.errors import JournalFailed
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Draft, decode, padded
from journal.format.segment import FOOTER_SPACE_BYTES, usable_bytes
from journal.read.scan import scan
from journal.sets.id_set import IdSet
from journal.write.segment_file import Sizes, least_capacity
from tests.support.journals import (
    TIME_MS,
    TINY,
    Writer,
    bodies,
    fresh,
    path_of,
    segments,
    start,
    story,
)
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut

SEEDS = range(60)
# Room enough that no second segment is prepared.
ROOMY = replace(TINY, segment_min=16 << 10, segment_max=16 << 10)


def writer_on(disk: MemoryDisk, sizes: Sizes = TINY) -> Writer:
    return fresh(disk, sizes)


def found_after_power_loss(disk: MemoryDisk) -> list[list[bytes]]:
    """The bodies found, for many ways in which the power may fail now."""
    return [bodies(start(disk.crash_clone(Random(seed))).records) for seed in SEEDS]


# -- append, write, sync ------------------------------------------------------------------------


def test_a_batch_says_when_it_was_written() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put(b"a")
    writer.commit()
    (record,) = start(disk.kill_clone()).records
    batch = decode(disk.read(path_of(1)), record.offset - HEADER_BYTES, 0, 1)
    assert batch is not None
    assert (batch.kind, batch.time_ms) == (Kind.BATCH, TIME_MS)


def test_append_numbers_records_and_touches_no_disk() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)

    assert [writer.put(b"a"), writer.put(b"b")] == [1, 2]
    assert disk.trace == []
    assert writer.journal.has_pending


def test_nothing_is_written_before_there_is_a_segment_and_the_journal_says_so() -> None:
    writer = writer_on(MemoryDisk())
    writer.put(b"a")
    writer.journal.write(TIME_MS)

    assert writer.journal.commit.lsn_written == 0
    assert writer.journal.wants_preallocation
    assert not writer.journal.can_write


def test_a_journal_without_records_wants_no_segment() -> None:
    assert not writer_on(MemoryDisk()).journal.wants_preallocation


def test_what_was_synced_survives_any_power_loss() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a", b"b", b"c")

    assert found_after_power_loss(disk) == [[b"a", b"b", b"c"]] * len(SEEDS)


def test_what_was_written_survives_kill_9_and_after_a_power_loss_a_beginning_of_it() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a")
    for body in (b"b", b"c" * 600, b"d"):
        writer.put(body)
        writer.write()

    everything = [b"a", b"b", b"c" * 600, b"d"]
    assert bodies(start(disk.kill_clone()).records) == everything
    found = found_after_power_loss(disk)
    assert all(some == everything[: len(some)] and some for some in found)
    assert {len(some) for some in found} == {1, 2, 3, 4}


def test_records_of_one_turn_are_one_write_and_one_batch() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk, ROOMY)
    writer.put_all(b"a")
    before = len(disk.trace)
    for _ in range(5):
        writer.put(b"b")
    writer.commit()

    assert disk.trace[before:] == ["write 0000000001.segment", "sync 0000000001.segment"]
    found = scan(disk.read(path_of(1)), path_of(1), writer.journal.short_identity, 1)
    assert (found.batches, len(found.records)) == (2, 6)


def test_a_batch_says_up_to_where_the_journal_was_synced() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a", b"b")
    writer.put(b"c")
    writer.write()

    found = scan(disk.read(path_of(1)), path_of(1), writer.journal.short_identity, 1)
    assert found.lsn_synced == 2


def test_a_turn_writes_a_bounded_part_and_the_next_goes_on() -> None:
    writer = writer_on(MemoryDisk(), replace(TINY, segment_min=8192, batch_max=400))
    writer.put_all(b"a")
    for _ in range(10):
        writer.put(b"b" * 100)
    writer.journal.write(TIME_MS)

    assert 1 < writer.journal.commit.lsn_written < 11
    assert writer.journal.can_write
    writer.write()
    assert writer.journal.commit.lsn_written == 11


# -- rotating -----------------------------------------------------------------------------------


def test_a_full_segment_is_sealed_with_a_footer_and_the_log_goes_on_in_the_next() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(*[b"%d" % n * 200 for n in range(9)])

    sealed = [s.number for s in writer.journal.segments[:-1]]
    assert len(sealed) > 1
    for number in sealed:
        data = disk.read(path_of(number))
        at = len(data) - FOOTER_SPACE_BYTES
        footer = decode(data, at, writer.journal.short_identity, number)
        assert footer is not None
        held = scan(data, "", writer.journal.short_identity, number)
        assert footer.item == len(held.records)
        assert footer.lsn == held.records[-1].lsn + 1
        assert held.end <= usable_bytes(len(data))
    assert bodies(start(disk.kill_clone()).records) == [b"%d" % n * 200 for n in range(9)]


def test_the_next_segment_is_wanted_when_half_of_this_one_is_full() -> None:
    writer = writer_on(MemoryDisk())
    writer.put_all(b"a")
    assert not writer.journal.wants_preallocation
    writer.put_all(b"b" * 900)

    assert not writer.journal.wants_preallocation, "it was prepared"
    assert len(segments(writer.journal.files)) == 2


def test_without_a_next_segment_what_fits_is_written_and_the_rest_waits() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a")
    disk.faults.append(Fault("create", times=99, error=errno.ENOSPC))
    for _ in range(4):
        writer.put(b"b" * 300)
    writer.journal.write(TIME_MS)
    assert writer.journal.wants_preallocation
    assert not writer.prepare()

    assert 1 < writer.journal.commit.lsn_written < 5
    assert writer.journal.commit.failure is None, "a full disk is no failed write"
    assert not writer.journal.can_write

    disk.faults.clear()
    writer.commit()
    assert writer.journal.commit.lsn_durable == 5
    assert bodies(start(disk.kill_clone()).records) == [b"a"] + [b"b" * 300] * 4


def test_a_segment_that_could_not_be_prepared_is_tried_again_under_its_number() -> None:
    disk = MemoryDisk([Fault("create:names", nth=1)])
    writer = writer_on(disk)
    writer.put(b"a")
    assert not writer.prepare()
    writer.commit()

    assert segments(disk) == [1]
    assert bodies(start(disk.kill_clone()).records) == [b"a"]


@pytest.mark.parametrize("size", [2048, 3000, 10_000, 100_000])
def test_an_item_larger_than_a_segment_gets_a_segment_of_its_size(size: int) -> None:
    for before in ([], [b"a"], [b"a", b"b" * 900]):
        disk = MemoryDisk()
        writer = writer_on(disk)
        writer.put_all(*before)
        writer.put_all(b"L" * size, b"z")

        assert writer.journal.commit.lsn_durable == len(before) + 2
        assert bodies(start(disk.kill_clone()).records) == [*before, b"L" * size, b"z"]


@pytest.mark.parametrize("segment_min", [2048, 2049, 64 << 10])
def test_an_item_of_any_size_around_that_of_a_segment_is_stored_at_the_first_try(
    segment_min: int,
) -> None:
    sizes = replace(TINY, segment_min=segment_min, segment_max=segment_min)
    for size in range(segment_min - 2200, segment_min + 200, 37):
        body = b"L" * max(size, 0)
        disk = MemoryDisk()
        writer = writer_on(disk, sizes)
        writer.put(body)
        writer.commit()

        assert writer.journal.commit.lsn_durable == 1
        assert segments(disk) in ([1], [1, 2]), "no segment was prepared in vain"


def test_a_segment_too_small_for_a_large_item_is_passed_over_and_removed() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a", b"b" * 900)
    assert segments(disk) == [1, 2]
    writer.put_all(b"L" * 5000)

    assert writer.journal.segments[-1].number == 3
    assert writer.drop_dead() == [path_of(2)]
    for found in (disk.kill_clone(), *(disk.crash_clone(Random(seed)) for seed in SEEDS)):
        assert bodies(start(found).records) == [b"a", b"b" * 900, b"L" * 5000]


def test_a_passed_over_segment_that_was_not_removed_is_no_damage() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put(b"a" * 10)
    assert writer.prepare()
    writer.journal._pending.clear()
    writer.journal.commit.lsn_appended = 0
    writer.put_all(b"L" * 5000, b"z")

    again = start(disk.kill_clone())
    assert bodies(again.records) == [b"L" * 5000, b"z"]
    assert again.recovery.damages == []


def test_capacities_are_whole_sectors_and_large_enough() -> None:
    draft = Draft(Kind.PUT, 1, 1, 0, TIME_MS, b"", b"x" * 12_345, 0, 0)

    assert least_capacity(draft) % 512 == 0
    assert TINY.next_capacity(0, draft) == least_capacity(draft)
    assert Sizes().next_capacity(0, None) == 64 << 10
    assert Sizes().next_capacity(64 << 10, None) == 256 << 10
    assert Sizes().next_capacity(64 << 20, draft) == 64 << 20
    assert padded(HEADER_BYTES + 12_345) < least_capacity(draft)


def test_a_crash_between_sealing_and_the_first_write_into_the_next_loses_nothing() -> None:
    for step in range(1, 40):
        disk = MemoryDisk()
        writer = writer_on(disk)
        writer.put_all(b"a" * 300, b"b" * 300)
        disk.cut_power_at(step)
        try:
            writer.put_all(b"c" * 300, b"d" * 300)
        except PowerCut:
            pass
        else:
            break
        for found in (disk.kill_clone(), *(disk.crash_clone(Random(s)) for s in range(20))):
            again = start(found)
            kept = bodies(again.records)
            assert kept == [b"a" * 300, b"b" * 300, b"c" * 300, b"d" * 300][: len(kept)]
            assert len(kept) >= writer.journal.commit.lsn_durable
            assert all(d.kind == "torn" for d in again.recovery.damages)
            again.put_all(b"e")
            assert bodies(start(found.kill_clone()).records) == [*kept, b"e"]
    else:
        raise AssertionError("the power never stayed on to the end")


# -- failing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["write", "sync"])
def test_after_a_failed_write_or_sync_nothing_is_ever_acknowledged_again(verb: str) -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a")
    disk.faults.append(Fault(verb))
    writer.put_all(b"b", b"c")

    commit = writer.journal.commit
    assert commit.lsn_durable == 1
    assert str(commit.failure).endswith("failed: Input/output error")
    before = len(disk.trace)
    writer.put_all(b"d")
    assert not writer.journal.wants_preallocation
    assert not writer.journal.can_write
    assert disk.trace[before:] == [], "a sync is never retried, nothing is written"
    assert disk.retried_syncs == []
    with pytest.raises(JournalFailed, match=r"segment|jobs\.1"):
        writer.close()


def test_after_a_failed_sync_the_next_process_does_not_believe_the_page_cache() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a")
    disk.faults.append(Fault("sync"))
    writer.put_all(b"b")
    found = disk.kill_clone()

    again = start(found)

    assert bodies(again.records) == [b"a", b"b"], "the cache shows it"
    assert again.journal.commit.lsn_durable == 2
    assert found_after_power_loss(found) == [[b"a", b"b"]] * len(SEEDS), "now the disk has it"


def test_a_segment_whose_footer_could_not_be_written_ends_the_journal() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a" * 300, b"b" * 300)
    disk.faults.append(Fault("write", nth=2))
    writer.put_all(b"c" * 300, b"d" * 300)

    assert writer.journal.commit.failure is not None
    durable = writer.journal.commit.lsn_durable
    assert len(bodies(start(disk.kill_clone()).records)) >= durable >= 2


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_when_rotating_fails_no_segment_is_dropped_for_it(nth: int) -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a" * 300, b"b" * 300)
    writer.done(1)
    writer.done(2)
    writer.commit()
    disk.faults.append(Fault("write", nth=nth))  # the footer, the next checkpoint, its batch
    writer.put_all(b"c" * 300)

    assert writer.journal.commit.failure is not None
    assert writer.drop_dead() == []
    assert start(disk.kill_clone()).journal.commit.lsn_durable >= 4


@pytest.mark.parametrize("nth", [1, 2])
def test_when_a_turn_to_the_next_segment_fails_nothing_more_is_written(nth: int) -> None:
    disk = MemoryDisk()
    writer = writer_on(disk, Sizes(4096, 4096, 1 << 20))
    writer.put_all(b"a" * 300, b"b" * 100)
    assert writer.prepare()
    writer.journal.turns = True
    disk.faults.append(Fault("write", nth=nth))  # the footer, the next checkpoint
    writer.put_all(b"c")

    assert writer.journal.commit.failure is not None
    assert writer.journal.commit.lsn_written == 2
    assert bodies(start(disk.kill_clone()).records) == [b"a" * 300, b"b" * 100]


def test_a_turn_to_the_next_segment_writes_there_what_is_pending_in_the_same_step() -> None:
    writer = writer_on(MemoryDisk(), Sizes(4096, 4096, 1 << 20))
    writer.put_all(b"a" * 300, b"b" * 100)
    assert writer.prepare()
    writer.journal.turns = True
    before = len(writer.journal.segments)
    writer.put(b"c")

    writer.journal.write(TIME_MS)

    assert not writer.journal.has_pending
    assert len(writer.journal.segments) == before + 1
    assert not writer.journal.turns, "once is enough"


def test_a_confirm_takes_the_bytes_of_its_item_off_the_segment() -> None:
    writer = fresh(MemoryDisk(), ROOMY)
    writer.put_all(b"a" * 10, b"b" * 200, b"c")
    segment = writer.journal.active
    assert segment is not None
    assert (segment.live, segment.live_bytes) == (3, 3 * HEADER_BYTES + 211)

    lsn = writer.queue.live.pop(2)
    writer.journal.append(Draft(Kind.DONE, 2, 0, 200 << 8 | 1, TIME_MS, b"", b"", 0, lsn))
    writer.commit()

    assert (segment.live, segment.live_bytes) == (2, 2 * HEADER_BYTES + 11)


def test_a_turn_without_a_next_segment_waits_for_one() -> None:
    writer = fresh(MemoryDisk(), ROOMY)
    writer.put_all(b"a")
    writer.journal.turns = True
    writer.put(b"b")

    writer.journal.write(TIME_MS)

    assert writer.journal.is_stalled
    assert writer.journal.commit.lsn_written == 1
    assert writer.journal.turns

    writer.commit()

    assert not writer.journal.is_stalled
    assert writer.journal.commit.lsn_written > 1


# -- dropping -----------------------------------------------------------------------------------


def filled(disk: MemoryDisk, items: int = 9) -> Writer:
    writer = writer_on(disk)
    writer.put_all(*[b"%d" % n * 200 for n in range(1, items + 1)])
    return writer


def test_a_segment_goes_when_all_its_items_are_done_and_those_behind_it_stay() -> None:
    disk = MemoryDisk()
    writer = filled(disk)
    count = len(segments(disk))
    for item in (1, 2, 3, 4, 9):
        writer.done(item)
    writer.commit()
    gone = writer.drop_dead()

    assert gone == [path_of(1)]
    assert len(segments(disk)) == count - 1
    again = start(disk.kill_clone())
    assert sorted(again.queue.live) == [5, 6, 7, 8]
    assert again.recovery.damages == []


def test_a_segment_goes_only_after_the_records_that_emptied_it_are_durable() -> None:
    disk = MemoryDisk()
    writer = filled(disk)
    for item in range(1, 10):
        writer.done(item)
    writer.write()

    assert writer.drop_dead() == []
    for seed in SEEDS:
        again = start(disk.crash_clone(Random(seed)))
        kept = {r.item for r in again.records if r.kind == Kind.DONE}
        assert set(again.queue.live) == set(range(1, 10)) - kept
    writer.sync()
    assert len(writer.drop_dead()) >= 2


def test_the_active_segment_is_never_dropped() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a")
    writer.done(1)
    writer.commit()

    assert writer.drop_dead() == []
    assert story(start(disk.kill_clone()).records) == "put 1 a, done 1"


def test_a_live_item_keeps_its_segment_and_those_behind_it() -> None:
    disk = MemoryDisk()
    writer = filled(disk)
    for item in range(2, 10):
        writer.done(item)
    writer.commit()

    assert writer.drop_dead() == []
    writer.done(1)
    writer.commit()
    assert len(writer.drop_dead()) >= 2


def test_a_flush_ends_many_items_with_one_record() -> None:
    disk = MemoryDisk()
    writer = filled(disk)
    flushed = Draft(Kind.FLUSHED, 9, 0, 0, TIME_MS, b"", b"", 0, 0)
    writer.journal.append_flush(flushed, IdSet())
    writer.commit()

    assert len(writer.drop_dead()) >= 2


def test_after_a_restart_only_what_is_adopted_keeps_a_segment() -> None:
    disk = MemoryDisk()
    writer = filled(disk)
    for item in (1, 2, 3, 4, 5, 6):
        writer.done(item)
    writer.commit()
    again = start(disk.kill_clone())
    before = segments(again.journal.files)
    gone = again.drop_dead()

    assert gone
    assert len(segments(again.journal.files)) == len(before) - len(gone)
    assert sorted(start(again.journal.files).queue.live) == [7, 8, 9]


def test_a_removal_that_is_lost_brings_no_confirmed_item_back() -> None:
    disk = MemoryDisk()
    writer = filled(disk)
    for item in range(1, 10):
        writer.done(item)
    writer.commit()
    dead = writer.store.take_dead()
    assert len(dead) >= 2
    for step in range(1, 2 * len(dead) + 1):
        cut = disk.kill_clone()
        cut.cut_power_at(step)
        with pytest.raises(PowerCut):
            for path in dead:
                cut.remove(path)
        for seed in SEEDS:
            again = start(cut.crash_clone(Random(seed)))
            assert again.queue.live == {}
            assert again.recovery.damages == []


def test_disk_bytes_are_those_of_all_segments_also_preallocated_ones() -> None:
    disk = MemoryDisk()
    writer = filled(disk)

    assert writer.journal.disk_bytes() == sum(disk.size(path_of(n)) for n in segments(disk))


# -- closing ------------------------------------------------------------------------------------


def test_a_closed_journal_goes_on_in_the_same_segment() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk, ROOMY)
    writer.put_all(b"a")
    writer.put(b"b")
    writer.close()

    again = start(disk, ROOMY)
    assert again.recovery.clean
    assert again.recovery.tail == []
    assert segments(disk) == [1]
    again.put_all(b"c")
    assert segments(disk) == [1]
    assert bodies(start(disk.kill_clone()).records) == [b"a", b"b", b"c"]


def test_a_power_cut_takes_no_more_of_a_closed_journal_than_the_word_that_it_was_closed() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk, ROOMY)
    writer.put_all(b"a")
    writer.put(b"b")
    writer.close()

    for seed in SEEDS:
        again = start(disk.crash_clone(Random(seed)), ROOMY)
        assert bodies(again.records) == [b"a", b"b"]
        assert {damage.kind for damage in again.recovery.damages} <= {"torn"}


def test_a_file_is_not_synced_again_when_the_end_of_its_journal_failed() -> None:
    for nth in (1, 2):
        disk = MemoryDisk()
        writer = writer_on(disk, ROOMY)
        writer.put_all(b"a")
        writer.put(b"b")
        disk.faults = [Fault("sync", "*.segment", nth=nth, error=errno.EIO)]
        with suppress(JournalFailed):
            writer.close()
        disk.faults = []
        start(disk, ROOMY).put_all(b"c")
        assert disk.retried_syncs == []


def test_close_writes_what_is_pending_and_prepares_what_that_needs() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    for n in range(9):
        writer.put(b"%d" % n * 200)
    writer.close()

    assert len(bodies(start(disk.crash_clone(Random(0))).records)) == 9


def test_close_does_not_wait_for_a_segment_that_somebody_else_prepares() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put(b"a")
    writer.journal.begin_preallocation(TIME_MS)
    writer.close()

    assert bodies(start(disk.crash_clone(Random(0))).records) == [b"a"]


def test_close_on_a_full_disk_says_so() -> None:
    disk = MemoryDisk([Fault("create", times=99, error=errno.ENOSPC)])
    writer = writer_on(disk)
    writer.put(b"a")

    with pytest.raises(JournalFailed, match="preparing failed: No space left on device"):
        writer.close()


def test_closing_again_and_again_adds_nothing() -> None:
    disk = MemoryDisk()
    writer_on(disk).close()
    assert segments(disk) == []
    writer = writer_on(disk)
    writer.put_all(b"a")
    writer.close()
    image = disk.read(path_of(1))
    for _ in range(3):
        start(disk).close()

    assert disk.read(path_of(1)) == image
    assert segments(disk) == [1]


def test_whatever_happens_to_the_first_write_behind_a_clean_end_nothing_older_is_lost() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a", b"b")
    writer.close()
    again = start(disk)
    again.put(b"c" * 700)
    again.write()

    for seed in SEEDS:
        found = bodies(start(disk.crash_clone(Random(seed))).records)
        assert found in ([b"a", b"b"], [b"a", b"b", b"c" * 700])


def test_a_segment_sealed_by_a_process_that_died_is_not_written_to_again() -> None:
    disk = MemoryDisk()
    writer = writer_on(disk)
    writer.put_all(b"a" * 300, b"b" * 300)
    writer.close()
    again = start(disk)
    again.put(b"c" * 900)
    assert again.prepare()
    disk.cut_power_at(3)  # opened; the footer is written, the next segment's checkpoint is not
    with pytest.raises(PowerCut):
        again.journal.write(TIME_MS)
    found = disk.crash_clone(Random(0), "kept")
    there = segments(found)
    third = start(found)

    assert bodies(third.records) == [b"a" * 300, b"b" * 300]
    assert third.journal.segments[-1].number == there[-1] + 1
    third.put_all(b"d")
    assert bodies(start(found.kill_clone()).records) == [b"a" * 300, b"b" * 300, b"d"]


def test_a_wait_for_the_reserve_ends_when_it_is_there() -> None:
    writer = writer_on(MemoryDisk(), replace(TINY, segment_min=4096, segment_max=4096))
    for _ in range(20):
        for _ in range(20):
            writer.put(b"x")
        writer.commit()
        assert not writer.journal.is_stalled
        assert not writer.journal.wants_preallocation, "no segment is prepared for nothing"
