"""A start with a snapshot: the files read, the covered, the replaced and the missing ones."""

from __future__ import annotations

import errno
from random import Random

import pytest

from journal.errors import Damage
from journal.files import Handle
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.meta import decode_meta
from journal.format.record import Record
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, SUFFIX_RECYCLED, Tally
from journal.format.subscription_state import GONE, STOPS, named
from journal.read.scan import read_footer, scan
from journal.recovery.live_set import LiveSet
from journal.recovery.recovery import Recovery
from journal.recovery.reopen import COPY_BYTES, SET_ASIDE_FOLDER, recovered_journal, write_fresh
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import SegmentState, Snapshot
from journal.tools.verify import check_journal
from journal.write.segment_file import Sizes
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, TIME_MS, SegmentBuilder, draft
from tests.support.journals import FOLDER, TINY, path_of, segments
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut
from tests.support.snapshots import (
    LIVE,
    NEWEST,
    OLDER,
    Laid,
    State,
    laid,
    lay,
    opening,
    put,
    recovered,
    rewrite,
    snapshot,
    snapshot_path,
)

BEHIND = [18, 19, 20, 21, 22, 23]  # the lsns after the newest snapshot
FOREIGN = bytes(range(0xB0, 0xC0))


def lsns(records: list[Record]) -> list[int]:
    return [r.lsn for r in records]


def as_ever(disk: MemoryDisk) -> Recovery:
    """Check that a start finds the unchanged state on this disk; return the recovery."""
    _, state, recovery = recovered(disk)
    assert sorted(state.live) == LIVE
    assert state.attempts == {8: 3}
    assert state.dead == {10}
    return recovery


def only(recovery: Recovery) -> Damage:
    (damage,) = recovery.damages
    return damage


def spoil(disk: MemoryDisk, path: str, offset: int, size: int = 8) -> None:
    disk.damage(path, offset, bytes(b ^ 0xFF for b in disk.read(path, offset, size)))


def start_whole(disk: MemoryDisk) -> tuple[State, Recovery]:
    """Do a whole start, and abandon the journal after it."""
    _, state, recovery = recovered(disk)
    journal = recovered_journal(recovery, TINY, lambda: opening(15), TIME_MS).writer
    for path in journal.segment_list.replaced:
        disk.size(path)  # raises when the start has removed it: an archive would miss it
        disk.remove(path)
    journal.abandon()
    return state, recovery


def there(disk: MemoryDisk) -> list[int]:
    """Return the segments that are left after the start, which goes on in the last one."""
    return segments(disk)


class Counting:
    """A disk that counts the bytes read of each file."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.read_bytes: dict[str, int] = {}

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        data = self.disk.read(path, offset, size)
        self.read_bytes[path] = self.read_bytes.get(path, 0) + len(data)
        return data

    def __getattr__(self, name: str) -> object:
        return getattr(self.disk, name)


# -- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("tally", [True, False], ids=["tally", "no tally"])
def test_with_a_snapshot_only_what_lies_behind_it_comes_as_records(
    closed: bool, tally: bool
) -> None:
    one = laid(closed, tally)
    records, _, recovery = recovered(one.disk)

    assert lsns(records) == BEHIND
    assert records == one.records[-6:]
    as_ever(one.disk)
    assert recovery.damages == []
    assert recovery.clean == closed
    assert recovery.snapshot_lsns == [NEWEST, OLDER]
    assert recovery.snapshot is not None
    assert recovery.snapshot.lsn == NEWEST
    assert recovery.lsn_next == 24
    assert recovery.identity == IDENTITY


def test_without_a_snapshot_all_of_the_log_is_read_also_compacted_segments() -> None:
    one = laid()
    one.disk.remove(snapshot_path(NEWEST))
    one.disk.remove(snapshot_path(OLDER))
    records, _, recovery = recovered(one.disk)

    assert lsns(records) == [4, 6, *range(9, 24)]
    assert recovery.snapshot is None
    assert as_ever(one.disk).damages == []


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_what_a_newer_segment_says_again_is_not_missing_where_a_power_cut_took_it(
    with_snapshot: bool,
) -> None:
    disk, capacity = MemoryDisk(), 2048
    one = SegmentBuilder(1, capacity, 1, opening(1))
    one.batch(put(1), put(2))
    at = one.at
    one.batch(put(3), put(4), synced=2)
    one.seal(live=4)  # by chance the footer is on the disk, and the records that it counts are not
    one.data[at : capacity - FOOTER_SPACE_BYTES] = bytes(capacity - FOOTER_SPACE_BYTES - at)
    lay(disk, one)
    two = SegmentBuilder(2, capacity, 3, opening(3))
    two.batch(put(3), put(4), synced=2)
    snapshot_at = two.at
    two.batch(put(5), synced=4)
    lay(disk, two)
    if with_snapshot:
        listed, tally = [SegmentState(1, 1, 2, 2, 64)], Tally()
        tally.see_items(3, 4)
        tally.counts[Kind.PUT] = 2
        taken = snapshot(4, 2, snapshot_at, [1, 2, 3, 4], 5, listed, tally)
        data = taken.encode(SHORT_IDENTITY, IDENTITY, TIME_MS)
        disk.create(snapshot_path(4), data, len(data))
    _, state, recovery = recovered(disk)
    assert sorted(state.live) == [1, 2, 3, 4, 5]
    assert recovery.damages == []
    journal = recovered_journal(recovery, TINY, lambda: opening(6), TIME_MS).writer
    assert [s.item_first for s in journal.segments[:2]] == [1, 3]
    assert journal.segments[0].item_last == 2
    journal.abandon()
    assert check_journal(disk, FOLDER).damages == []


def test_a_settled_segment_is_read_at_its_front_and_its_footer_only() -> None:
    one = laid(capacity=1 << 20)
    files = Counting(one.disk)
    records, _, recovery = recovered(files)

    assert lsns(records) == BEHIND
    covered = [s for s in recovery.segments if s.is_covered]
    assert [s.number for s in covered] == [6, 3, 4]
    for segment in covered:
        assert files.read_bytes[segment.path] <= 4096, segment
    snapshot = recovery.snapshot
    assert snapshot is not None
    fronts = 4096
    assert files.read_bytes[path_of(5)] <= (1 << 20) - snapshot.offset + fronts


def test_what_a_start_reads_does_not_grow_with_history() -> None:
    read = []
    for count in (10, 400):
        disk, lsn = MemoryDisk(), 1
        states: list[SegmentState] = []
        for number in range(1, count + 1):
            one = SegmentBuilder(number, 16384, lsn, opening(number))
            one.batch(put(number), synced=lsn - 1)
            lsn = one.lsn
            one.seal(live=1)
            lay(disk, one)
            states.append(SegmentState(number, number, number, 1, 32))
        last = SegmentBuilder(count + 1, 16384, lsn, opening(lsn))
        at = last.at
        last.batch(put(lsn), synced=lsn - 1)
        last.batch(synced=lsn)
        lay(disk, last)
        live = IdSet()
        live.add_range(1, count)
        example = laid()
        path = snapshot_path(NEWEST)
        disk.create(path, example.disk.read(path), example.disk.size(path))
        rewrite(
            disk, NEWEST, lsn=count, segment=count + 1, offset=at, segments=states, live=live,
            checkpoint=opening(count + 1), tally=Tally(),
        )  # fmt: skip
        files = Counting(disk)
        recovery = Recovery(files, FOLDER)
        assert lsns(list(recovery.records())) == [count + 1]
        assert recovery.clean
        bodies = [s for s in recovery.segments if not s.is_covered]
        assert [s.number for s in bodies] == [count + 1]
        per_segment = max(files.read_bytes[s.path] for s in recovery.segments if s.is_covered)
        read.append((per_segment, files.read_bytes[path_of(count + 1)]))
    assert read[0] == read[1]


def test_a_segment_file_says_what_was_put_in_it() -> None:
    _, _, recovery = recovered(laid().disk)
    told = [
        (s.number, s.item_first, s.item_last, s.puts, s.lsn_first, s.lsn_last)
        for s in recovery.segments
    ]
    assert told == [
        (6, 4, 6, 2, 1, 8), (3, 7, 8, 2, 9, 12), (4, 9, 10, 2, 13, 16),
        (5, 11, 12, 2, 17, 20), (7, 13, 14, 2, 21, 23),
    ]  # fmt: skip


def test_after_a_clean_end_in_the_snapshot_s_segment_its_footer_counts_what_came_before_too() -> (
    None
):
    one = laid()
    disk = one.disk
    disk.remove(path_of(7))
    five = one.segments[5]
    five.data[-FOOTER_SPACE_BYTES:] = bytes(FOOTER_SPACE_BYTES)
    five.batch(synced=20)
    disk.remove(path_of(5))
    lay(disk, five)
    _, _, recovery = recovered(disk)
    assert recovery.clean
    journal = recovered_journal(recovery, TINY, lambda: opening(13), TIME_MS).writer
    for item in range(20, 40):
        journal.append(put(item)._replace(body=b"x" * 200))
        journal.write(TIME_MS)
        if journal.wants_preallocation:
            order = journal.begin_preallocation(TIME_MS)
            journal.finish_preallocation(order, order.prepare(disk))
    data = disk.read(path_of(5))
    found = scan(data, "five", SHORT_IDENTITY, 5)
    assert found.footer is not None
    tally = Tally()
    tally.see_all(found.records)
    assert Tally.from_footer(found.footer) == tally
    assert recovery.snapshot is not None
    assert recovery.snapshot.tally is not None
    assert recovery.snapshot.tally.counts[Kind.PUT] == 1, "and the snapshot is as it was"


def test_a_segment_of_the_snapshot_that_lost_its_records_is_cut_short_where_its_bytes_end() -> None:
    disk = laid().disk
    (first, *_) = scan(disk.read(path_of(5)), "five", SHORT_IDENTITY, 5).records
    disk.damage(path_of(5), first.offset, bytes(1990 - first.offset))
    disk.truncate(path_of(5), 1990)
    _, _, recovery = recovered(disk)
    found = [(each.path, each.offset, each.id_first, each.id_last) for each in recovery.damages]
    assert found == [(path_of(5), 1990, 11, 11), (path_of(7), FILE_HEADER_BYTES, 12, 12)]


def test_a_segment_that_was_never_sealed_is_settled_by_the_snapshot_that_lists_it() -> None:
    """An unclean start goes on in a fresh segment and leaves such a one."""
    one = laid(capacity=1 << 16)
    disk = one.disk
    for old in (bytes(FOOTER_SPACE_BYTES), None):
        four = one.segments[4]
        disk.damage(path_of(4), four.capacity - FOOTER_SPACE_BYTES, old or older_footer(four))
        files = Counting(disk)
        _, _, recovery = recovered(files)
        found = recovery.segments[2]
        assert (found.number, found.is_covered, found.lsn_last) == (4, True, 16)
        assert (found.item_first, found.item_last) == (9, 10)
        assert files.read_bytes[found.path] <= 4096
        assert as_ever(disk).damages == []


def older_footer(segment: SegmentBuilder) -> bytes:
    """Return the footer that sealed an earlier life of this file."""
    earlier = SegmentBuilder(1, segment.capacity, 1, opening(1))
    earlier.batch(put(1))
    earlier.seal(live=0)
    return bytes(earlier.data[-FOOTER_SPACE_BYTES:])


def test_a_journal_with_a_snapshot_and_no_segment_goes_on_behind_its_lsn() -> None:
    one = laid()
    one.remove(3, 4, 5, 6, 7)
    _, state, recovery = recovered(one.disk)

    assert state.live == {4, 6, 8, 9, 10, 11}
    assert recovery.lsn_next == NEWEST + 1
    assert recovery.identity == IDENTITY
    assert [(d.path, d.id_first, d.id_last) for d in recovery.damages] == [
        (path_of(6), 4, 6), (path_of(3), 7, 8), (path_of(4), 9, 10), (path_of(5), 11, 11),
    ]  # fmt: skip


# -- snapshots that cannot be read ---------------------------------------------------------------


def test_a_damaged_snapshot_is_named_and_the_older_one_is_used() -> None:
    one = laid()
    spoil(one.disk, snapshot_path(NEWEST), 300, 1)
    records, _, recovery = recovered(one.disk)

    assert lsns(records) == list(range(13, 24))
    as_ever(one.disk)
    damage = only(recovery)
    assert (damage.kind, damage.path) == ("corrupt", snapshot_path(NEWEST))
    assert damage.offset <= 300 < damage.end
    assert damage.sentence().endswith("no record is missing")
    assert recovery.clean, "the log is whole"
    assert recovery.snapshot_lsns == [OLDER]


def test_without_a_readable_snapshot_confirms_may_come_back_and_that_is_said() -> None:
    one = laid()
    for lsn in (NEWEST, OLDER):
        spoil(one.disk, snapshot_path(lsn), 100, 1)
    records, _, recovery = recovered(one.disk)

    assert lsns(records) == [4, 6, *range(9, 24)]
    assert recovery.snapshot is None
    assert [d.path for d in recovery.damages] == [snapshot_path(NEWEST), snapshot_path(OLDER)]
    for damage in recovery.damages:
        assert damage.sentence().endswith(
            "held no new item; a confirm lost there lets its item come back"
        )


def test_a_snapshot_of_another_journal_is_left_alone() -> None:
    one = laid()
    path = snapshot_path(99)
    data = one.disk.read(snapshot_path(NEWEST))
    one.disk.create(path, data, len(data))
    rewrite_as_foreign(one.disk, path)
    for _ in range(2):
        _, recovery = start_whole(one.disk)
        assert recovery.snapshot_lsns == [NEWEST, OLDER]
        damage = only(recovery)
        assert (damage.kind, damage.path) == ("foreign", path)
    assert one.disk.size(path) == len(data)


def rewrite_as_foreign(disk: MemoryDisk, path: str) -> None:
    other = Snapshot.decode(disk.read(path), "any")
    other.lsn = 99
    data = other.encode(int.from_bytes(FOREIGN[:4], "little"), FOREIGN, TIME_MS)
    disk.remove(path)
    disk.create(path, data, len(data))


def test_a_snapshot_that_the_disk_does_not_give_is_named_and_not_removed() -> None:
    one = laid()
    one.disk.faults.append(Fault("read", snapshot_path(NEWEST), times=9))
    state, recovery = start_whole(one.disk)

    assert sorted(state.live) == LIVE
    damage = only(recovery)
    assert damage.path == snapshot_path(NEWEST)
    assert damage.reason == "reading failed: Input/output error"
    assert one.disk.size(snapshot_path(NEWEST)) > 0


def test_an_error_that_is_not_the_medium_s_stops_the_start() -> None:
    one = laid()
    one.disk.faults.append(Fault("read", path_of(3), error=errno.EACCES))
    with pytest.raises(PermissionError):
        recovered(one.disk)


# -- compacted segments --------------------------------------------------------------------------


@pytest.mark.parametrize("snapshots", [True, False])
def test_segments_that_a_compacted_one_stands_for_are_replaced_and_removed(snapshots: bool) -> None:
    one = laid()
    one.put_back(1, 2)
    if not snapshots:
        one.disk.remove(snapshot_path(NEWEST))
        one.disk.remove(snapshot_path(OLDER))
    recovery = as_ever(one.disk)
    assert [s.number for s in recovery.segments] == [6, 3, 4, 5, 7]
    assert [s.number for s in recovery.replaced] == [1, 2]
    assert recovery.damages == []
    start_whole(one.disk)
    assert there(one.disk) == [3, 4, 5, 6, 7]
    as_ever(one.disk)


def test_a_segment_compacted_after_the_snapshot_stands_for_those_it_lists() -> None:
    one = laid()
    listed = [SegmentState(1, 1, 4, 1, 32), SegmentState(2, 5, 6, 1, 32),
              SegmentState(3, 7, 8, 2, 64), SegmentState(4, 9, 10, 2, 64)]  # fmt: skip
    rewrite(one.disk, NEWEST, segments=listed)
    assert as_ever(one.disk).damages == []


def test_a_segment_compacted_twice_stands_for_both() -> None:
    one = laid()
    eight = SegmentBuilder(8, 2048, 1, Checkpoint(b"jobs"), first=1, last=3)
    eight.batch(put(4), put(6), put(8), synced=12, lsns=(4, 6, 12))
    eight.lsn = 13
    eight.seal(live=3)
    lay(one.disk, eight)
    one.put_back(2)
    recovery = as_ever(one.disk)
    assert [s.number for s in recovery.segments] == [8, 4, 5, 7]
    assert sorted(s.number for s in recovery.replaced) == [2, 3, 6]
    start_whole(one.disk)
    assert there(one.disk) == [4, 5, 7, 8]
    assert as_ever(one.disk).damages == []


@pytest.mark.parametrize("hurt", ["body", "footer", "short", "unreadable"])
def test_a_compacted_segment_that_is_not_whole_replaces_nothing(hurt: str) -> None:
    one = laid()
    one.put_back(1, 2)
    path = path_of(6)
    if hurt == "body":
        spoil(one.disk, path, one.segments[6].at - 40)
    elif hurt == "footer":
        spoil(one.disk, path, 2048 - FOOTER_SPACE_BYTES)
    elif hurt == "short":
        one.disk.truncate(path, 1700)
    else:
        one.disk.faults.append(Fault("read", path, nth=2, times=99))
    recovery = as_ever(one.disk)
    damage = only(recovery)
    assert damage.path == path
    assert [s.number for s in recovery.segments] == [1, 2, 3, 4, 5, 7]
    start_whole(one.disk)
    assert there(one.disk) == [1, 2, 3, 4, 5, 6, 7], "they stay where they are"


def test_a_compacted_segment_without_a_header_supersedes_no_later_one() -> None:
    one = laid()
    spoil(one.disk, path_of(6), 20)
    recovery = as_ever(one.disk)

    assert [s.number for s in recovery.segments] == [6, 3, 4, 5, 7]
    assert {d.path for d in recovery.damages} == {path_of(6)}
    assert all(d.id_last < d.id_first for d in recovery.damages), "its holes are no damage"
    start_whole(one.disk)
    assert there(one.disk) == [3, 4, 5, 6, 7]


def test_a_compacted_segment_with_an_unreadable_front_supersedes_nothing() -> None:
    one = laid()
    one.disk.faults.append(Fault("read", path_of(6), nth=1, times=1))
    recovery = recovered(one.disk)[2]
    assert {d.path for d in recovery.damages} == {path_of(6)}
    assert [s.number for s in recovery.replaced] == []

    one.disk.faults.clear()
    start_whole(one.disk)
    assert as_ever(one.disk).damages == []


# -- missing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "ids"), [(6, (4, 6)), (3, (7, 8)), (4, (9, 10)), (5, (11, 11))]
)
def test_a_segment_that_is_missing_is_named_with_its_items(
    number: int, ids: tuple[int, int]
) -> None:
    one = laid()
    one.remove(number)
    _, _, recovery = recovered(one.disk)

    named = [d for d in recovery.damages if d.path == path_of(number)]
    if number == 5:
        # The log goes on in 7, where item 11 ended; the records of 5 after the snapshot are lost.
        assert named == []
        damage = only(recovery)
        assert (damage.kind, damage.path) == ("truncated", path_of(7))
        assert (damage.lsn_first, damage.lsn_last, damage.id_first, damage.id_last) == (
            18, 20, 12, 12,
        )  # fmt: skip
        return
    (damage,) = named
    assert (damage.kind, damage.reason) == ("truncated", "the segment is missing")
    assert (damage.id_first, damage.id_last) == ids
    assert lsns(recovered(one.disk)[0]) == BEHIND


def test_a_segment_that_was_removed_since_its_last_item_ended_is_not_missing() -> None:
    one = laid()
    states = [SegmentState(6, 4, 6, 2, 64), SegmentState(3, 7, 8, 2, 64),
              SegmentState(4, 9, 9, 1, 32)]  # fmt: skip
    rewrite(one.disk, NEWEST, segments=states)
    one.remove(4)
    assert recovered(one.disk)[2].damages == []


def test_an_item_that_a_flush_ended_is_not_missing_one_that_it_spared_is() -> None:
    one = laid()
    one.remove(6)
    seven = one.segments[7]
    flush = draft(Kind.FLUSHED, 14, body=(4).to_bytes(8, "little"), time_ms=TIME_MS)
    seven.batch(flush, synced=22)
    one.remove(7)
    lay(one.disk, seven)
    assert only(recovered(one.disk)[2]).path == path_of(6)

    seven.batch(draft(Kind.FLUSHED, 14), synced=22)
    one.remove(7)
    lay(one.disk, seven)
    assert recovered(one.disk)[2].damages == []


def test_what_a_deleted_queue_held_itself_is_not_missing_to_the_children_it_left() -> None:
    one = laid()
    one.remove(6)
    seven = one.segments[7]
    seven.batch(named(0, b"", 14, STOPS, TIME_MS), synced=22)  # it passes everything on: no end
    one.remove(7)
    lay(one.disk, seven)
    assert only(recovered(one.disk)[2]).path == path_of(6)

    seven.batch(named(0, b"", 14, GONE, TIME_MS), synced=22)
    one.remove(7)
    lay(one.disk, seven)
    assert recovered(one.disk)[2].damages == []
    live_set = LiveSet()
    list(live_set.follow(Recovery(one.disk, FOLDER)))
    assert list(live_set.items) == []


# -- damage around the snapshot's place ----------------------------------------------------------


def test_a_settled_body_is_not_looked_at_and_a_whole_reading_names_it() -> None:
    one = laid()
    spoil(one.disk, path_of(4), one.records[12].offset + 80)
    assert as_ever(one.disk).damages == []
    damage = only(recovered(one.disk, whole=True)[2])
    assert (damage.kind, damage.path) == ("corrupt", path_of(4))
    assert (damage.id_first, damage.id_last) == (9, 9)


def test_a_whole_reading_names_the_items_of_a_settled_segment_with_a_damaged_front() -> None:
    one = laid()
    spoil(one.disk, path_of(4), 64, one.records[12].end - 64)
    damage = only(recovered(one.disk, whole=True)[2])
    assert (damage.offset, damage.end) == (64, one.records[12].end)
    assert (damage.lsn_first, damage.lsn_last, damage.id_first, damage.id_last) == (13, 13, 9, 9)


def test_a_settled_segment_without_a_readable_footer_is_read_whole_and_named() -> None:
    one = laid()
    spoil(one.disk, path_of(4), 2048 - FOOTER_SPACE_BYTES)
    spoil(one.disk, path_of(4), one.records[12].offset + 80)
    recovery = as_ever(one.disk)
    assert {d.path for d in recovery.damages} == {path_of(4)}
    assert (9, 9) in [(d.id_first, d.id_last) for d in recovery.damages]
    assert recovery.clean


def test_a_settled_segment_cut_short_is_named_with_what_is_alive_in_it() -> None:
    one = laid()
    for number, ids in ((3, (8, 8)), (4, (9, 10)), (6, (4, 6))):
        disk = one.disk.kill_clone()
        disk.truncate(path_of(number), 300)
        recovery = as_ever(disk)
        damage = only(recovery)
        assert (damage.kind, damage.path) == ("truncated", path_of(number))
        assert (damage.id_first, damage.id_last) == ids


def test_damage_at_the_place_where_the_log_goes_on_is_damage_like_any_other() -> None:
    one = laid()
    records, _, _ = recovered(one.disk)
    spoil(one.disk, path_of(5), records[0].offset - 64, 130)  # the batch and the record
    found, _, recovery = recovered(one.disk)
    assert lsns(found) == BEHIND[1:]
    damage = only(recovery)
    assert (damage.lsn_first, damage.lsn_last, damage.id_first, damage.id_last) == (18, 18, 12, 12)


@pytest.mark.parametrize("offset", [0, 64, 72, 80, 1000, 2040, 2048, 9999, 1 << 40])
def test_a_snapshot_with_a_wrong_place_costs_a_longer_reading(offset: int) -> None:
    one = laid()
    rewrite(one.disk, NEWEST, offset=offset)
    assert as_ever(one.disk).damages == []


def test_a_snapshot_that_names_no_segment_that_is_there_is_used_by_its_lsn() -> None:
    one = laid()
    rewrite(one.disk, NEWEST, segment=77, tally=None)
    assert as_ever(one.disk).damages == []


def test_an_older_copy_of_the_segment_where_the_log_goes_on_is_noticed() -> None:
    one = laid()
    one.remove(7)
    before = one.records[16].offset - 64  # the batch of the record of lsn 17
    one.disk.damage(path_of(5), before, bytes(2048 - before))
    _, state, recovery = recovered(one.disk)
    assert state.live == {4, 6, 8, 9, 10, 11}
    damage = only(recovery)
    assert (damage.kind, damage.reason) == ("truncated", "records are missing at its end")
    assert (damage.id_first, damage.id_last) == (11, 11)
    assert not recovery.clean
    assert recovery.lsn_next == NEWEST + 1


def test_a_log_that_ends_before_the_snapshot_goes_on_behind_it() -> None:
    one = laid()
    one.remove(5, 7)
    state, recovery = start_whole(one.disk)
    assert recovery.lsn_next == NEWEST + 1
    assert recovery.lsn_synced == NEWEST
    assert not recovery.clean
    assert state.live == {4, 6, 8, 9, 10, 11}
    assert (11, 11) in [(d.id_first, d.id_last) for d in recovery.damages]
    again, _ = start_whole(one.disk.kill_clone())
    assert again.live == state.live


# -- a disk that does not give its bytes ---------------------------------------------------------


def test_a_settled_segment_that_the_disk_does_not_give_is_named_and_stays() -> None:
    for nth in (1, 2):
        one = laid()
        one.disk.faults.append(Fault("read", path_of(3), nth=nth, times=99))
        state, recovery = start_whole(one.disk)
        assert sorted(state.live) == LIVE
        damage = only(recovery)
        assert (damage.kind, damage.path, damage.id_first, damage.id_last) == (
            "corrupt", path_of(3), 7, 8,
        )  # fmt: skip
        assert 3 in segments(one.disk)
        one.disk.faults.clear()
        assert as_ever(one.disk).damages == []


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("nth", [1, 2])
def test_the_active_segment_s_records_are_back_when_the_disk_gives_them_again(
    closed: bool, nth: int
) -> None:
    one = laid(closed)
    one.disk.faults.append(Fault("read", path_of(7), nth=nth, times=99))
    state, recovery = start_whole(one.disk)
    assert state.live == {4, 6, 8, 10, 11, 12}
    damage = only(recovery)
    assert (damage.kind, damage.path, damage.id_first) == ("corrupt", path_of(7), 13)
    assert damage.id_last >= 14
    assert recovery.lsn_next > 24
    assert 7 in segments(one.disk)
    one.disk.faults.clear()
    assert only(as_ever(one.disk)).reason == "records are missing before this segment"


def test_a_compacted_segment_stays_that_seems_superseded_while_the_disk_does_not_give_it() -> None:
    """Without its header it is in the place of its number, among segments whose records a start
    has written again before it crashed."""
    one = laid(closed=False)
    _, _, recovery = recovered(one.disk)
    (fifth,) = (segment for segment in recovery.segments if segment.number == 5)
    recovery.tail = [record for record in one.records if record.lsn >= fifth.lsn_first]
    opened = opening(15).draft(TIME_MS, 0)
    write_fresh(recovery, 8, IDENTITY, SHORT_IDENTITY, opened, TINY.segment_min)
    one.disk.faults.append(Fault("read", path_of(6), times=99))
    start_whole(one.disk)
    assert 6 in segments(one.disk)

    one.disk.faults.clear()
    as_ever(one.disk)


def test_a_disk_that_gives_nothing_at_all_stops_the_start() -> None:
    one = laid()
    one.disk.faults.append(Fault("read", times=999))
    with pytest.raises(OSError, match="reading failed"):
        recovered(one.disk)


def test_every_file_may_be_unreadable_without_an_exception() -> None:
    for name in laid().disk.names(FOLDER):
        for nth in range(1, 5):
            one = laid()
            one.disk.faults.append(Fault("read", f"{FOLDER}/{name}", nth=nth, times=99))
            start_whole(one.disk)
            assert name in one.disk.names(FOLDER)


# -- going on ------------------------------------------------------------------------------------


def test_left_over_files_are_removed_after_damaged_bytes_are_set_aside() -> None:
    one = laid()
    disk = one.disk
    disk.create(f"{path_of(2)}{SUFFIX_RECYCLED}", b"old", 3)
    disk.create(snapshot_path(5), b"old", 3)
    spoil(disk, snapshot_path(NEWEST), 100)
    start_whole(disk)

    names = disk.names(FOLDER)
    assert [n for n in names if SUFFIX_RECYCLED in n] == []
    assert [n for n in names if n.endswith(".snapshot")] == [f"{OLDER:020d}.snapshot"]
    kept = disk.names(f"{FOLDER}/{SET_ASIDE_FOLDER}")
    assert any(n.startswith(f"{NEWEST:020d}.snapshot.") for n in kept)
    as_ever(disk)


def test_a_damaged_snapshot_stays_while_the_disk_has_no_room_for_a_copy() -> None:
    one = laid()
    spoil(one.disk, snapshot_path(NEWEST), 100)
    full = Fault("create", f"{FOLDER}/{SET_ASIDE_FOLDER}/*", times=99, error=errno.ENOSPC)
    one.disk.faults.append(full)
    start_whole(one.disk)
    assert full.fired
    assert f"{NEWEST:020d}.snapshot" in one.disk.names(FOLDER)

    one.disk.faults.clear()
    start_whole(one.disk)
    assert f"{NEWEST:020d}.snapshot" not in one.disk.names(FOLDER)
    as_ever(one.disk)


def test_a_crash_at_any_step_of_a_start_leaves_the_same_state() -> None:
    one = laid(closed=False)
    one.put_back(1, 2)
    one.disk.create(f"{path_of(1)}{SUFFIX_RECYCLED}", b"old", 3)
    one.disk.create(snapshot_path(5), b"old", 3)
    spoil(one.disk, snapshot_path(NEWEST), 100)
    for step in range(1, 200):
        cut = one.disk.kill_clone()
        cut.cut_power_at(step)
        try:
            start_whole(cut)
        except PowerCut:
            pass
        else:
            break
        for found in (cut.kill_clone(), *(cut.crash_clone(Random(s)) for s in range(8))):
            as_ever(found)
            start_whole(found)
            as_ever(found)
    else:
        raise AssertionError("the power never stayed on to the end")


def test_in_what_is_left_of_an_earlier_life_nothing_is_written_without_its_end() -> None:
    """The start goes on in a recycled segment: zeros follow whatever it writes."""
    one = laid()
    for turn in range(2):
        _, _, recovery = recovered(one.disk)
        assert recovery.clean
        assert recovery.append_dirty, turn
        journal = recovered_journal(recovery, TINY, lambda: opening(15), TIME_MS).writer
        assert journal.active is not None
        assert journal.active.number == 7
        assert journal.active.recycled
        journal.append(draft(Kind.DONE, 14))
        journal.close(TIME_MS)


def test_a_large_stretch_is_set_aside_in_parts() -> None:
    size = 3 * COPY_BYTES + 4096
    one = SegmentBuilder(1, size, 1, opening(1))
    one.batch(put(1))
    start = one.at
    one.batch(put(2)._replace(body=Random(3).randbytes(size - 2048)), synced=1)
    disk = MemoryDisk()
    lay(disk, one)
    disk.damage(path_of(1), start + 200, b"\xff\xfe\xfd")
    recovery = Recovery(disk, FOLDER)
    assert lsns(list(recovery.records())) == [1]
    files = Biggest(disk)
    recovery.files = files
    recovered_journal(recovery, Sizes(), lambda: opening(3), TIME_MS).writer.abandon()

    (copy,) = disk.names(f"{FOLDER}/{SET_ASIDE_FOLDER}")
    damage = only(recovery)
    aside = disk.read(f"{FOLDER}/{SET_ASIDE_FOLDER}/{copy}")
    assert len(aside) == damage.end - damage.offset
    assert aside[256:512] == bytes(one.data)[damage.offset + 256 : damage.offset + 512]
    assert files.biggest <= COPY_BYTES
    assert segments(disk) == [1, 2]


class Biggest(Counting):
    """A disk that knows the most bytes ever read or made at once."""

    biggest = 0

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        data = self.disk.read(path, offset, size)
        self.biggest = max(self.biggest, len(data))
        return data

    def create(self, path: str, data: bytes, size: int) -> Handle:
        self.biggest = max(self.biggest, len(data))
        return self.disk.create(path, data, size)


def test_the_footer_of_a_segment_is_read_without_the_rest_of_it() -> None:
    one: Laid = laid()
    four = one.segments[4]
    zone = bytes(four.data[-FOOTER_SPACE_BYTES:])
    at = four.capacity - FOOTER_SPACE_BYTES
    footer = read_footer(zone, at, SHORT_IDENTITY, 4)
    assert footer is not None
    whole = scan(bytes(four.data), "four", SHORT_IDENTITY, 4).footer
    assert footer == whole
    assert decode_meta(footer.meta)
    for wrong in ((zone, at + 512, 4), (zone, at, 5), (bytes(512), at, 4), (zone[:90], at, 4)):
        data, place, number = wrong
        assert read_footer(data, place, SHORT_IDENTITY, number) is None
    assert FILE_HEADER_BYTES == 64
