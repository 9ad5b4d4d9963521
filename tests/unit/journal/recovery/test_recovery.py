"""From a folder to records in order: torn, corrupt, truncated, foreign; and crashes meanwhile.

Promise damage-named: every truncation of the last segment, bit flips, missing, foreign and
    duplicated segments.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from journal.errors import ITEM_MAX, Damage, NewerFormat
from journal.format.kinds import VERSION, Kind
from journal.format.record import Draft, Record, encode
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, SegmentHeader
from journal.recovery.recovery import Recovery
from journal.recovery.reopen import SET_ASIDE_FOLDER
from tests.support.journals import (
    FOLDER,
    IDENTITY,
    TIME_MS,
    Writer,
    bodies,
    disk_with,
    fresh,
    path_of,
    segments,
    start,
)
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut

SEEDS = range(60)
SHORT = int.from_bytes(IDENTITY[:4], "little")


def recovered(disk: MemoryDisk) -> tuple[list[Record], Recovery]:
    recovery = Recovery(disk, FOLDER)
    return list(recovery.records()), recovery


def three_segments(closed: bool = True) -> tuple[MemoryDisk, Writer]:
    """Nine items of 200 bytes in three segments."""
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(*[b"%d" % n * 200 for n in range(1, 10)])
    if closed:
        writer.close()
    assert [s.number for s in writer.journal.segments] == [1, 2, 3]
    return disk.kill_clone(), writer


def numbers(records: list[Record]) -> list[int]:
    return [r.item for r in records]


def in_segment(records: list[Record], number: int) -> list[Record]:
    return [r for r in records if r.segment == number]


def wreck(disk: MemoryDisk, record: Record) -> None:
    """Damage one byte of a record's body."""
    disk.damage(path_of(record.segment), record.end - 9, b"\xff")


# -- a clean end, and an unclean one -----------------------------------------------------------


def test_a_folder_that_does_not_exist_is_an_empty_journal() -> None:
    records, recovery = recovered(MemoryDisk())

    assert records == []
    assert recovery.clean
    assert recovery.lsn_next == 1


def test_recovery_reads_and_changes_nothing() -> None:
    disk, _ = three_segments(closed=False)
    before = len(disk.trace)
    recovered(disk)

    assert {entry.split()[0] for entry in disk.trace[before:]} == {"names", "read", "size"}


def test_after_an_unclean_end_the_fresh_segment_is_synced_before_anything_else() -> None:
    disk = disk_with([b"a"], [b"b", b"c"])
    start(disk)

    assert len(segments(disk)) == 2, "the prepared segment gave way to it"
    for seed in SEEDS:
        again = start(disk.crash_clone(Random(seed)))
        assert bodies(again.records) == [b"a", b"b", b"c"]
        assert again.recovery.lsn_synced == 3, "the fresh segment says so of itself"
        assert again.recovery.clean


def test_a_crash_during_recovery_leaves_everything_to_the_next() -> None:
    disk = disk_with([b"a" * 300], [b"b" * 300, b"c" * 300], [b"d"], [b"e" * 300])
    disk.damage(path_of(1), 1000, b"\xff")
    whole = bodies(start(disk.kill_clone()).records)
    for step in range(1, 200):
        cut = disk.kill_clone()
        cut.cut_power_at(step)
        try:
            start(cut)
        except PowerCut:
            pass
        else:
            break
        for found in (cut.kill_clone(), *(cut.crash_clone(Random(s)) for s in range(12))):
            found.cut_power_at(step)  # and a second time
            try:
                again = start(found)
            except PowerCut:
                found = found.kill_clone()
                again = start(found)
            assert bodies(again.records) == whole
            assert bodies(start(found.kill_clone()).records) == whole
    else:
        raise AssertionError("the power never stayed on to the end")


def test_restarts_without_work_are_idempotent() -> None:
    disk, _ = three_segments(closed=False)
    records = start(disk).records
    there, size = segments(disk), start(disk).journal.disk_bytes()
    for _ in range(3):
        disk = disk.kill_clone()
        again = start(disk)
        assert [(r.lsn, r.item) for r in again.records] == [(r.lsn, r.item) for r in records]
        assert segments(disk) == there
        assert again.journal.disk_bytes() == size


def test_a_kill_before_the_fresh_segment_s_name_is_sure_loses_nothing_to_the_power_cut_after() -> (
    None
):
    disk = disk_with([b"a", b"b"])
    disk.faults.append(Fault("create:names"))
    with pytest.raises(OSError, match="Input/output"):
        start(disk)
    found = disk.kill_clone()  # shows the name, which is not on the disk
    assert segments(found) == [1, 2]
    for step in range(1, 40):
        cut = found.kill_clone()
        cut.cut_power_at(step)
        try:
            start(cut)
        except PowerCut:
            pass
        else:
            break
        for seed in SEEDS:
            assert bodies(start(cut.crash_clone(Random(seed))).records) == [b"a", b"b"]


def test_a_crash_between_removing_what_is_outdated_never_looks_like_a_lost_beginning() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"a" * 300, b"b" * 300)
    writer.done(1)
    writer.done(2)
    for body in (b"c" * 300, b"d" * 300, b"e" * 300):
        writer.put(body)
    writer.commit()
    writer.drop_dead()
    assert segments(disk) == [2, 3]
    for step in range(1, 60):
        cut = disk.kill_clone()
        cut.cut_power_at(step)
        try:
            start(cut)
        except PowerCut:
            pass
        else:
            break
        cut_again = []
        for second in range(1, 30):
            found = cut.kill_clone()
            found.cut_power_at(second)
            with suppress(PowerCut):
                start(found)
            cut_again.append(found.crash_clone(Random(second), "kept"))
        for found in (*cut_again, *(cut.crash_clone(Random(s)) for s in SEEDS)):
            again = start(found)
            assert list(again.queue.live) == [3, 4, 5]
            assert again.recovery.damages == []


def test_a_cut_segment_without_a_whole_record_is_no_damage_at_the_next_start() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"a" * 300, b"b" * 300)
    writer.done(1)
    writer.done(2)
    for body in (b"c" * 300, b"d" * 300, b"e" * 300):
        writer.put(body)
    writer.commit()  # fills a segment with one batch
    writer.drop_dead()
    writer.put(b"f" * 300)
    writer.write()
    disk = disk.kill_clone()
    readable, torn = segments(disk)[:2]
    assert [s.number for s in writer.journal.segments] == [readable, torn]
    disk.damage(path_of(torn), FILE_HEADER_BYTES, Random(5).randbytes(1000))
    kept = bodies(start(disk.kill_clone()).records)
    for first in range(1, 80):
        cut = disk.kill_clone()
        cut.cut_power_at(first)
        with suppress(PowerCut):
            start(cut)
        for second in range(1, 40):
            found = cut.kill_clone()
            found.cut_power_at(second)
            with suppress(PowerCut):
                start(found)
            again = start(found.crash_clone(Random(second), "kept"))
            assert bodies(again.records) == kept
            assert {d.kind for d in again.recovery.damages} <= {"torn"}


def test_a_preallocated_segment_that_was_never_used_is_removed_and_is_no_damage() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"a", b"b" * 900)
    writer.close()
    assert segments(disk) == [1, 2]

    again = start(disk)

    assert again.recovery.clean
    assert segments(disk) == [1]
    assert bodies(again.records) == [b"a", b"b" * 900]


def test_what_a_create_left_behind_is_removed() -> None:
    disk = disk_with([b"a"])
    disk.cut_power_at(2)
    with pytest.raises(PowerCut):
        disk.create(path_of(9), b"half", 100)
    disk = disk.kill_clone()
    assert f"{9:010d}.segment.new" in disk.names(FOLDER)
    start(disk)

    assert [n for n in disk.names(FOLDER) if n.endswith(".new")] == []


def test_what_is_written_again_is_not_looked_for_where_it_stood_before() -> None:
    writer = fresh(MemoryDisk())
    writer.put_all(b"a", b"b")
    writer.put(b"c")
    writer.put(b"d")
    writer.write()
    assert isinstance(writer.journal.files, MemoryDisk)
    again = start(writer.journal.files.kill_clone())

    assert [(s.item_first, s.item_last, s.puts, s.live) for s in again.journal.segments] == [
        (1, 2, 2, 2), (3, 4, 2, 2)
    ]  # fmt: skip
    assert again.journal.segments[0].lsn_last == 2


# -- torn --------------------------------------------------------------------------------------


def test_a_torn_tail_is_cut_set_aside_and_named() -> None:
    disk = disk_with([b"a"], [b"b"], [b"c"])
    records, _ = recovered(disk)
    wreck(disk, records[-1])
    again = start(disk)

    assert bodies(again.records) == [b"a", b"b"]
    (damage,) = again.recovery.damages
    assert (damage.kind, damage.path, damage.offset) == ("torn", path_of(1), records[-1].offset)
    assert (damage.lsn_first, damage.lsn_last) == (3, 3)
    assert (damage.id_first, damage.id_last) == (3, 3)
    (copy,) = disk.names(f"{FOLDER}/{SET_ASIDE_FOLDER}")
    assert disk.read(f"{FOLDER}/{SET_ASIDE_FOLDER}/{copy}")[64:65] == b"c"


def test_the_record_numbers_of_a_cut_tail_are_used_again_those_of_synced_records_never() -> None:
    disk = disk_with([b"a"], [b"b"], [b"c"])
    wreck(disk, recovered(disk)[0][-1])

    assert start(disk).put(b"new") == 3


def test_whole_records_behind_a_torn_one_are_cut_with_it_and_named() -> None:
    disk = disk_with([b"a"], [b"b", b"c", b"d", b"e"])
    records, _ = recovered(disk)
    wreck(disk, records[2])
    again = start(disk)

    assert bodies(again.records) == [b"a", b"b"]
    (damage,) = again.recovery.damages
    assert (damage.lsn_first, damage.lsn_last) == (3, 5)
    assert (damage.id_first, damage.id_last) == (3, 5)
    assert (damage.offset, damage.end) == (records[2].offset, records[4].end)
    again.put_all(b"new")
    assert bodies(start(disk.kill_clone()).records) == [b"a", b"b", b"new"]


def test_damage_before_the_last_known_sync_is_never_called_torn() -> None:
    disk = disk_with([b"a", b"b", b"c"], [b"d"])
    wreck(disk, recovered(disk)[0][1])
    again = start(disk)

    assert bodies(again.records) == [b"a", b"c", b"d"]
    assert [d.kind for d in again.recovery.damages] == ["corrupt"]


def test_a_batch_record_lost_behind_the_last_sync_costs_no_item() -> None:
    disk = disk_with([b"a"], [b"b", b"c"])
    second = recovered(disk)[0][1]
    disk.damage(path_of(1), second.offset - 64 + 20, b"\xff")
    again = start(disk)

    assert bodies(again.records) == [b"a", b"b", b"c"]
    (damage,) = again.recovery.damages
    assert damage.sentence().endswith("cut and kept aside: no record is missing")
    assert start(disk.kill_clone()).recovery.damages == []


def test_a_cut_reaches_into_the_next_segments_and_each_is_set_aside() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"first")
    for n in range(1, 10):
        writer.put(b"%d" % n * 200)
    writer.write()
    disk = disk.kill_clone()
    wreck(disk, recovered(disk)[0][2])
    again = start(disk)

    assert numbers(again.records) == [1, 2]
    assert {d.kind for d in again.recovery.damages} == {"torn"}
    assert [d.path for d in again.recovery.damages] == [path_of(1), path_of(2), path_of(3)]
    assert [(d.lsn_first, d.lsn_last) for d in again.recovery.damages][-1][1] == 10
    assert len(disk.names(f"{FOLDER}/{SET_ASIDE_FOLDER}")) == 3
    assert segments(disk) == [1, 5] or len(segments(disk)) <= 2
    again.put_all(b"new")
    assert bodies(start(disk.kill_clone()).records) == [b"first", b"1" * 200, b"new"]


def test_when_the_first_segment_lost_everything_what_a_later_one_has_is_cut() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    for n in range(1, 10):
        writer.put(b"%d" % n * 200)
    writer.write()
    disk = disk.kill_clone()
    size = disk.size(path_of(1))
    disk.damage(path_of(1), FILE_HEADER_BYTES, bytes(size - FILE_HEADER_BYTES))
    for step in (*range(1, 60), 10_000):  # a cut during the recovery changes nothing
        found = disk.kill_clone()
        found.cut_power_at(step)
        try:
            start(found)
        except PowerCut:
            found = found.crash_clone(Random(step))
        again = start(found.kill_clone())
        assert again.records == []
        assert again.journal.commit.lsn_durable == 0
        assert all(d.kind == "torn" for d in again.recovery.damages)
        again.put_all(b"new")
        assert bodies(start(again.journal.files).records) == [b"new"]


def test_a_durable_number_is_not_used_again_behind_a_corrupt_and_a_torn_end() -> None:
    disk, _ = three_segments(closed=False)
    records, recovery = recovered(disk)
    lost = in_segment(records, 2)
    for record in lost:
        wreck(disk, record)
    last = in_segment(records, 3)
    wreck(disk, last[0])
    again = start(disk)

    assert again.journal.commit.lsn_durable >= recovery.lsn_synced
    assert again.put(b"new") > recovery.lsn_synced


# -- corrupt -----------------------------------------------------------------------------------


def test_a_corrupt_record_is_named_with_file_offset_and_item_and_all_others_are_served() -> None:
    disk, _ = three_segments()
    records, _ = recovered(disk)
    for hit in records[:-1]:
        hurt = disk.kill_clone()
        wreck(hurt, hit)
        again = start(hurt)
        assert numbers(again.records) == [n for n in range(1, 10) if n != hit.item]
        (damage,) = again.recovery.damages
        assert damage.sentence() == (
            f"{path_of(hit.segment)}: corrupt at byte {hit.offset} to {damage.end} "
            f"(not a whole record): may have held items {hit.item} to {hit.item}"
        )


def test_damage_is_named_at_every_start_and_set_aside_once() -> None:
    disk, _ = three_segments()
    wreck(disk, recovered(disk)[0][1])
    first = start(disk)
    first.close()
    there = segments(disk)
    for _ in range(3):
        disk = disk.kill_clone()
        again = start(disk)
        assert not [entry for entry in disk.trace if entry.startswith("create")]
        assert again.recovery.damages == first.recovery.damages
        assert again.recovery.clean, "damage in an older segment is no reason for a fresh one"
        assert len(disk.names(f"{FOLDER}/{SET_ASIDE_FOLDER}")) == 1
        assert segments(disk) == there
        again.close()


def test_a_lost_confirm_lets_its_item_come_back_and_says_so() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"a", b"b")
    writer.done(1)
    writer.commit()
    writer.put_all(b"c")
    writer.close()
    disk.damage(path_of(1), recovered(disk)[0][2].offset + 30, b"\xff")
    again = start(disk.kill_clone())

    assert sorted(again.queue.live) == [1, 2, 3]
    (damage,) = again.recovery.damages
    assert damage.sentence().endswith(
        "held no new item; a confirm lost there lets its item come back"
    )


def test_the_items_named_reach_over_records_written_after_the_checkpoint_counted_them() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    for n in range(1, 8):
        writer.put(b"%d" % n)
    writer.commit()  # the first checkpoint says next_item 8 before any of them is written
    writer.close()
    hit = recovered(disk)[0][3]
    wreck(disk, hit)
    (damage,) = start(disk.kill_clone()).recovery.damages

    assert (damage.id_first, damage.id_last) == (4, 4)


def test_behind_one_loss_the_next_may_be_of_any_item_the_first_left_open() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"a", b"b")
    writer.done(1)
    writer.commit()
    writer.put_all(b"c")
    writer.close()
    records, _ = recovered(disk)
    wreck(disk, records[1])
    wreck(disk, records[3])
    damages = start(disk.kill_clone()).recovery.damages

    assert [(d.id_first, d.id_last) for d in damages] == [(2, 2), (2, 3)]


def test_a_damaged_footer_costs_nothing_and_is_named() -> None:
    for closed in (True, False):
        disk, _ = three_segments(closed)
        for number in (1, 2):
            hurt = disk.kill_clone()
            at = hurt.size(path_of(number)) - FOOTER_SPACE_BYTES
            hurt.damage(path_of(number), at + 40, b"\xff")
            again = start(hurt)
            assert numbers(again.records) == list(range(1, 10))
            (damage,) = again.recovery.damages
            assert (damage.kind, damage.offset) == ("corrupt", at)
            assert damage.sentence().endswith("no record is missing")


def test_with_the_file_header_lost_every_record_is_still_served() -> None:
    disk, _ = three_segments()
    for number in (1, 2, 3):
        hurt = disk.kill_clone()
        hurt.damage(path_of(number), 20, b"\xff\xff")
        again = start(hurt)
        assert numbers(again.records) == list(range(1, 10))
        (damage,) = again.recovery.damages
        assert (damage.kind, damage.offset, damage.end) == ("corrupt", 0, FILE_HEADER_BYTES)
        again.put_all(b"new")
        assert bodies(start(hurt.kill_clone()).records)[-1] == b"new"


def test_with_the_only_file_header_lost_the_records_still_say_whose_they_are() -> None:
    disk = disk_with([b"a"], [b"b"])
    disk.damage(path_of(1), 0, bytes(FILE_HEADER_BYTES))
    again = start(disk)

    assert bodies(again.records) == [b"a", b"b"]
    assert again.journal.short_identity == SHORT
    again.put_all(b"c")
    assert bodies(start(disk.kill_clone()).records) == [b"a", b"b", b"c"]


def test_zeros_where_records_were_are_named() -> None:
    disk, _ = three_segments()
    hit = recovered(disk)[0][1]
    disk.damage(path_of(1), hit.offset, bytes(hit.end - hit.offset))
    (damage,) = start(disk).recovery.damages

    assert damage.reason == "zeros among records"
    assert (damage.id_first, damage.id_last) == (2, 2)


def test_a_whole_segment_of_garbage_is_named_with_every_item_it_held() -> None:
    disk, _ = three_segments()
    records, _ = recovered(disk)
    lost = numbers(in_segment(records, 2))
    size = disk.size(path_of(2))
    disk.damage(path_of(2), 0, Random(1).randbytes(size))
    again = start(disk)

    assert numbers(again.records) == [n for n in range(1, 10) if n not in lost]
    damage = again.recovery.damages[-1]
    assert (damage.id_first, damage.id_last) == (lost[0], lost[-1])
    for item in list(again.queue.live):
        again.done(item)
    again.put_all(b"new")
    again.drop_dead()
    assert 2 not in segments(disk), "it goes in its turn; the copy stays"
    assert disk.names(f"{FOLDER}/{SET_ASIDE_FOLDER}")


# -- truncated, missing ------------------------------------------------------------------------


def test_a_segment_missing_in_the_middle_is_named_with_its_items_and_the_rest_is_served() -> None:
    disk, _ = three_segments()
    records, _ = recovered(disk)
    lost = numbers(in_segment(records, 2))
    disk.remove(path_of(2))
    again = start(disk)

    assert numbers(again.records) == [n for n in range(1, 10) if n not in lost]
    (damage,) = again.recovery.damages
    assert damage.kind == "truncated"
    assert (damage.id_first, damage.id_last) == (lost[0], lost[-1])


def test_a_segment_cut_short_is_named_once_with_the_items_it_held() -> None:
    disk, _ = three_segments()
    records, _ = recovered(disk)
    mine = in_segment(records, 2)
    disk.truncate(path_of(2), mine[1].offset + 20)
    again = start(disk)

    (damage,) = again.recovery.damages
    assert damage.kind == "truncated"
    assert (damage.offset, damage.end) == (mine[1].offset, 2048)
    assert (damage.id_first, damage.id_last) == (mine[1].item, mine[-1].item)


def test_the_last_segment_cut_short_at_the_end_of_a_record_may_have_held_more() -> None:
    disk, _ = three_segments()
    last = in_segment(recovered(disk)[0], 3)[-1]
    disk.truncate(path_of(3), last.end)
    again = start(disk)

    assert numbers(again.records) == list(range(1, 10))
    (damage,) = again.recovery.damages
    assert damage.kind == "truncated"
    assert damage.id_first == 10
    assert damage.id_last >= 10
    again.put_all(b"new")
    assert bodies(start(disk.kill_clone()).records)[-1] == b"new"


def test_a_segment_cut_short_behind_its_records_lost_none() -> None:
    disk, _ = three_segments(closed=False)
    disk.truncate(path_of(3), 1900)
    again = start(disk)

    (damage,) = again.recovery.damages
    assert damage.sentence().endswith("(shorter than it was made): no record is missing")


def test_a_file_without_a_byte_may_have_held_anything() -> None:
    disk, _ = three_segments()
    disk.truncate(path_of(3), 0)
    records, recovery = recovered(disk)

    assert numbers(records) == [n for n in range(1, 10) if n <= records[-1].item]
    (damage,) = recovery.damages
    assert damage.kind == "truncated"
    assert damage.id_last == ITEM_MAX
    assert damage.sentence().endswith(f"may have held items from {records[-1].item + 1} on")


# -- foreign -----------------------------------------------------------------------------------


def test_an_older_copy_of_a_segment_put_in_its_place_is_noticed_by_what_follows() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"1" * 200)
    older = disk.read(path_of(1))
    writer.put_all(*[b"%d" % n * 200 for n in range(2, 10)])
    writer.close()
    disk = disk.kill_clone()
    lost = numbers(in_segment(recovered(disk)[0], 1))[1:]
    disk.damage(path_of(1), 0, older)
    again = start(disk)

    assert numbers(again.records) == [n for n in range(1, 10) if n not in lost]
    (damage,) = again.recovery.damages
    assert damage.kind == "truncated"
    assert (damage.id_first, damage.id_last) == (lost[0], lost[-1])


def test_a_segment_copied_to_another_number_is_foreign_and_left_alone() -> None:
    disk, _ = three_segments()
    copied = disk.read(path_of(2))
    disk.create(path_of(7), copied, len(copied))
    for _ in range(2):
        again = start(disk)
        assert numbers(again.records) == list(range(1, 10))
        (damage,) = again.recovery.damages
        assert damage.kind == "foreign"
        assert damage.sentence().endswith("left alone")
        again.close()
    assert disk.read(path_of(7)) == copied
    assert disk.names(f"{FOLDER}/{SET_ASIDE_FOLDER}") == []


def test_a_segment_of_another_journal_in_place_of_ours_is_foreign_and_ours_is_named_lost() -> None:
    disk, _ = three_segments()
    lost = numbers(in_segment(recovered(disk)[0], 2))
    other = MemoryDisk()
    stranger = start(other)
    stranger.put_all(*[b"s" * 200] * 9)
    disk.create(path_of(2), other.read(path_of(2)), 2048)
    again = start(disk)

    assert numbers(again.records) == [n for n in range(1, 10) if n not in lost]
    assert [d.kind for d in again.recovery.damages] == ["foreign", "truncated"]
    assert (again.recovery.damages[1].id_first, again.recovery.damages[1].id_last) == (
        lost[0], lost[-1],
    )  # fmt: skip


def test_blocks_of_another_segment_written_into_ours_never_parse() -> None:
    disk, _ = three_segments()
    records, _ = recovered(disk)
    hit = in_segment(records, 2)[1]
    block = disk.read(path_of(1), hit.offset, hit.end - hit.offset)
    disk.damage(path_of(2), hit.offset, block)
    again = start(disk)

    assert numbers(again.records) == [n for n in range(1, 10) if n != hit.item]
    assert [d.kind for d in again.recovery.damages] == ["corrupt"]


def test_a_newer_format_is_refused_and_nothing_is_touched() -> None:
    disk, _ = three_segments()
    whole = disk.read(path_of(3))
    raw = bytearray(whole[:FILE_HEADER_BYTES])
    raw[8] = VERSION + 1
    raw[60:] = __import__("zlib").crc32(bytes(raw[:60])).to_bytes(4, "little")
    disk.damage(path_of(3), 0, bytes(raw))

    with pytest.raises(NewerFormat, match=f"format {VERSION + 1}, .* up to {VERSION}"):
        recovered(disk)


# -- with intent -------------------------------------------------------------------------------


def forged(offset: int, lsn: int) -> bytes:
    """A frame that is right in every field for its place in segment 1."""
    pieces: list[bytes] = []
    evil = Draft(Kind.PUT, 666, 666, 0, TIME_MS, b"", b"evil", 0, 0)
    encode(evil, lsn, SHORT, 1, offset, pieces)
    return b"".join(pieces)


def disk_with_forged_body(lsn: int) -> tuple[MemoryDisk, list[Record]]:
    """Return a disk on which the body of the second item holds a frame that fits its place."""
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"a")
    body_at = writer.journal.segments[-1].at + 64 + 64
    writer.put_all(b"pad pad " + forged(body_at + 8, lsn) + b"more", b"c", b"d")
    writer.close()
    disk = disk.kill_clone()
    return disk, recovered(disk)[0]


@pytest.mark.parametrize("lsn", [2, 3, 4, 1_000_000])
def test_a_body_that_holds_a_frame_of_this_journal_is_a_body(lsn: int) -> None:
    disk, records = disk_with_forged_body(lsn)
    assert len(records) == 4

    for offset in range(20, 64):  # where the frame says who it is and how long
        hurt = disk.kill_clone()
        hurt.damage(path_of(1), records[1].offset + offset, b"\xf7")
        again = start(hurt)
        assert 666 not in numbers(again.records)
        assert numbers(again.records) in ([1, 3, 4], [1, 2, 3, 4])


def test_a_segment_stored_as_an_item_is_an_item() -> None:
    disk, _ = three_segments()
    image = disk.read(path_of(1))
    writer = start(disk)
    writer.put_all(image, b"z")
    writer.close()
    again = start(disk.kill_clone())
    assert bodies(again.records)[-2:] == [image, b"z"]

    big = again.records[-2]
    disk.damage(path_of(big.segment), big.offset + 40, b"\xff\xff")
    assert bodies(start(disk.kill_clone()).records)[-1] == b"z"
    assert numbers(start(disk.kill_clone()).records) == [*range(1, 10), 11]


# -- what is said ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (Damage("torn", "f", 1, 2, "why", 5, 6, 3, 4),
         "f: torn at byte 1 to 2 (why): behind the last known sync; cut and kept aside: "
         "may have held items 3 to 4"),
        (Damage("corrupt", "f", 1, 2, "why", 5, 6, 3, 3),
         "f: corrupt at byte 1 to 2 (why): may have held items 3 to 3"),
        (Damage("corrupt", "f", 1, 2, "why", 5, 6),
         "f: corrupt at byte 1 to 2 (why): held no new item; "
         "a confirm lost there lets its item come back"),
        (Damage("corrupt", "f", 1, 2, "why", 5, 4),
         "f: corrupt at byte 1 to 2 (why): no record is missing"),
        (Damage("foreign", "f", 0, 9, "why", 1, 0),
         "f: foreign at byte 0 to 9 (why): left alone"),
    ],
)  # fmt: skip
def test_damage_says_where_what_and_what_it_may_have_cost(damage: Damage, says: str) -> None:
    assert damage.sentence() == says


def test_a_segment_header_says_where_it_belongs() -> None:
    disk, _ = three_segments()
    header = SegmentHeader.decode(disk.read(path_of(2), 0, FILE_HEADER_BYTES), "x")

    assert header is not None
    assert (header.identity, header.journal, header.segment) == (IDENTITY, SHORT, 2)


def test_a_torn_item_that_a_footer_counts_is_not_looked_for() -> None:
    writer = fresh(MemoryDisk())
    writer.put_all(b"a" * 300, b"b" * 300)
    writer.put(b"c" * 300)
    writer.write()
    writer.put(b"d" * 1200)  # and this goes to the next segment
    writer.write()
    assert isinstance(writer.journal.files, MemoryDisk)
    disk = writer.journal.files.kill_clone()
    [torn] = [r for r in start(disk.kill_clone()).records if r.body == b"c" * 300]
    disk.damage(path_of(1), torn.offset, bytes(torn.end - torn.offset))
    disk.remove(path_of(2))

    again = start(disk)

    assert again.queue.next_item == 3
    assert [s.item_last for s in again.journal.segments] == [2, 0]
