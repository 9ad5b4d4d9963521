"""A repaired journal: nothing undamaged is lost, nothing is damaged any more, at any crash.

Promise verify: flipped bytes and truncations everywhere, load from several connections.
Promise repair: flipped bytes and truncations everywhere, missing and foreign files, a power cut at
    any verb.
"""

from __future__ import annotations

import errno
import functools
import os
import random
from dataclasses import replace

import pytest

from journal.errors import ITEM_MAX, Damage, JournalError
from journal.format.checkpoint import TOKENS_SKIPPED, Checkpoint
from journal.format.kinds import Kind
from journal.format.record import Record
from journal.read.frames import ordered_segments
from journal.recovery.live_set import LiveSet
from journal.recovery.recovery import MISSING_BEFORE, Recovery
from journal.sets.hash_table import ID
from journal.snapshot.dedupe_file import write_chunk
from journal.snapshot.dedupe_pending import Fresh
from journal.snapshot.snapshot import Snapshot
from journal.tools.repair import opening_behind, repair_of
from journal.tools.verify import check_journal
from tests.golden.layout import IDENTITY, SegmentBuilder, draft
from tests.support.journals import (
    FOLDER,
    TIME_MS,
    TINY,
    bodies,
    fresh,
    path_of,
    segments,
    start,
)
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut
from tests.support.snapshots import (
    LIVE,
    NEWEST,
    OLDER,
    Laid,
    laid,
    recovered,
    rewrite,
    snapshot_path,
)


@functools.cache
def journal(closed: bool = True) -> MemoryDisk:
    """Four segments: puts, confirms, batches of one and of many."""
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for number in range(1, 19):
        writer.put(b"item %d " % number * (number % 5 * 3 + 4))
        if number % 4 == 0:
            writer.done(number - 2)
        if number % 3 != 1:
            writer.commit()
    writer.commit()
    if closed:
        writer.close()
    assert len(segments(disk)) == 4
    return disk.kill_clone()


def replayed(disk: MemoryDisk) -> list[tuple[int, int, bytes]]:
    """Return the records that a start would replay, without those that change nothing."""
    records = Recovery(disk.kill_clone(), FOLDER).records()
    return [(r.lsn, r.item, r.body) for r in records if not says_nothing(r)]


def says_nothing(record: Record) -> bool:
    return record.kind == Kind.TOKENS and record.number > TOKENS_SKIPPED


def repaired(disk: MemoryDisk) -> None:
    """Repair it; then nothing is damaged, nothing else is lost, and once is enough."""
    before = replayed(disk)
    repair_of(disk, FOLDER).run(TIME_MS)
    report = check_journal(disk, FOLDER)
    assert not report.damages
    assert replayed(disk) == before
    assert not repair_of(disk, FOLDER).needed
    start(disk)


def flipped(disk: MemoryDisk, number: int, offset: int) -> None:
    path = path_of(number)
    disk.damage(path, offset, bytes([disk.read(path, offset, 1)[0] ^ 0x10]))


def test_a_whole_journal_needs_no_repair() -> None:
    disk = journal().kill_clone()
    assert not repair_of(disk, FOLDER).needed
    assert not repair_of(journal(closed=False).kill_clone(), FOLDER).needed


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.slow
def test_after_any_flipped_byte_everything_else_is_there(closed: bool) -> None:
    whole = journal(closed)
    for number in segments(whole):
        for offset in range(0, whole.size(path_of(number)), 11):
            disk = whole.kill_clone()
            flipped(disk, number, offset)
            if repair_of(disk, FOLDER).needed:
                repaired(disk)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.slow
def test_after_any_truncation_everything_else_is_there(closed: bool) -> None:
    whole = journal(closed)
    for number in segments(whole):
        for size in range(0, whole.size(path_of(number)), 23):
            disk = whole.kill_clone()
            disk.truncate(path_of(number), size)
            if repair_of(disk, FOLDER).needed:
                repaired(disk)


@pytest.mark.parametrize("missing", [(1,), (2,), (3,), (4,), (2, 3), (1, 3)])
def test_after_segments_went_missing_everything_else_is_there(missing: tuple[int, ...]) -> None:
    disk = journal().kill_clone()
    for number in missing:
        disk.remove(path_of(number))
    if repair_of(disk, FOLDER).needed:
        repaired(disk)


def test_a_foreign_file_stays_under_another_name() -> None:
    disk, other = journal().kill_clone(), MemoryDisk()
    writer = fresh(other, TINY)
    writer.journal.short_identity ^= 1
    writer.put_all(b"of another journal")
    data = other.read(path_of(1))
    disk.create(path_of(9), data, len(data))
    name = os.path.basename(path_of(9))
    assert f"  the whole file is kept as {name}.foreign" in repair_of(disk, FOLDER).sentences()
    repaired(disk)
    assert disk.read(path_of(9) + ".foreign") == data


@pytest.mark.parametrize("first_segment", [1, 6], ids=["none is gone", "earlier ones are gone"])
@pytest.mark.parametrize("before", [0, 1], ids=["the first", "one with another before it"])
def test_records_missing_between_two_segments_in_a_row_end_the_first_one(
    first_segment: int, before: int,
) -> None:  # fmt: skip
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    lsns = [*range(1, 1 + before), 1 + before, 10, 11]  # the last one goes on elsewhere
    for number, first in enumerate(lsns, first_segment):
        segment = SegmentBuilder(number, lsn=first, checkpoint=Checkpoint(b"jobs"))
        segment.batch(draft(Kind.PUT, first, first, 0, b"body"), synced=first - 1)
        if first <= before:
            segment.seal(live=1)
        data = bytes(segment.data)
        disk.create(path_of(number), data, len(data)).close()
    assert {each.reason for each in repair_of(disk, FOLDER).report.damages} == {MISSING_BEFORE}
    repaired(disk)
    assert [body for _, item, body in replayed(disk) if item] == [b"body"] * len(lsns)


def test_a_file_that_cannot_be_read_stays_under_another_name() -> None:
    disk = journal().kill_clone()
    size = disk.size(path_of(2))
    disk.damage(path_of(2), 0, b"\xff" * size)
    repaired(disk)
    aside = [name for name in disk.names(FOLDER) if name.endswith(".damaged")]
    copies = disk.names(FOLDER + "/set-aside")
    assert aside or copies


def test_nothing_is_written_over_while_the_disk_has_no_room_for_a_copy() -> None:
    disk = journal().kill_clone()
    disk.damage(path_of(2), 300, b"damaged!")
    before = {name: disk.read(f"{FOLDER}/{name}") for name in disk.names(FOLDER)}
    repair = repair_of(disk, FOLDER)
    disk.faults.append(Fault("create", f"{FOLDER}/set-aside/*", times=9, error=errno.ENOSPC))
    with pytest.raises(OSError, match="No space left on device"):
        repair.run(TIME_MS)
    assert {name: disk.read(f"{FOLDER}/{name}") for name in before} == before


def test_what_was_damaged_is_set_aside_before_it_is_written_over() -> None:
    disk = journal().kill_clone()
    flipped(disk, 2, 500)
    before = disk.read(path_of(2))
    damage = repair_of(disk, FOLDER).report.damages[0]
    repaired(disk)
    copy = f"{FOLDER}/set-aside/{path_of(2)[-18:]}.{damage.offset}-{damage.end}.corrupt"
    assert disk.read(copy) == before[damage.offset : damage.end]


def test_tokens_and_items_that_may_have_been_lost_are_not_given_again() -> None:
    disk = journal().kill_clone()
    writer = start(disk)
    writer.put(b"the very last")
    writer.commit()
    writer.close()
    path = next(p for p in map(path_of, segments(disk)) if b"the very last" in disk.read(p))
    disk.damage(path, disk.read(path).find(b"the very last"), b"!")
    repaired(disk)
    writer = start(disk)
    assert b"the very last" not in bodies(writer.records)
    opening = Recovery(disk, FOLDER)
    list(opening.records())
    assert opening.checkpoint is not None
    assert opening.checkpoint.item == 20, "item 19 is lost, not free"
    assert any(map(says_nothing, writer.records))


def test_nothing_changes_before_it_is_asked_for() -> None:
    disk = journal().kill_clone()
    flipped(disk, 2, 500)
    before = {name: disk.read(f"{FOLDER}/{name}") for name in disk.names(FOLDER)}
    list(repair_of(disk, FOLDER).sentences())
    assert {name: disk.read(f"{FOLDER}/{name}") for name in disk.names(FOLDER)} == before


@pytest.mark.slow
@pytest.mark.parametrize("hit", ["middle", "end", "header", "missing", "cut", "several"])
def test_a_crash_at_any_verb_loses_no_more_than_was_damaged(hit: str) -> None:
    damaged = journal().kill_clone()
    last = segments(damaged)[-1]
    if hit in {"middle", "several"}:
        flipped(damaged, 2, 500)
    if hit in {"end", "several"}:
        flipped(damaged, last, 300)
    if hit in {"header", "several"}:
        flipped(damaged, 1, 20)
    if hit == "missing":
        damaged.remove(path_of(2))
    if hit == "cut":
        damaged.truncate(path_of(3), 900)
    before = replayed(damaged)
    chance = random.Random(7)
    for step in range(1, 2000):
        disk = damaged.kill_clone()
        repair = repair_of(disk, FOLDER)
        disk.cut_power_at(step)
        try:
            repair.run(TIME_MS)
        except PowerCut:
            after = disk.crash_clone(chance)
            assert replayed(after) == before, f"crash at {disk.trace[-1]}"
            again = repair_of(after, FOLDER)
            if again.needed:
                again.run(TIME_MS)
            assert replayed(after) == before
            assert not check_journal(after, FOLDER).damages
        else:
            assert step > 10
            return
    raise AssertionError("it never ended")


# -- with snapshots, compacted and recycled segments ---------------------------------------------


def hit(built: Laid, number: int, offset: int) -> MemoryDisk:
    disk = built.disk.kill_clone()
    flipped(disk, number, offset)
    return disk


def readable(disk: MemoryDisk, items: set[int]) -> set[int]:
    """Return those of the items whose bodies a daemon can read back."""
    return {
        found.item
        for frames, _ in ordered_segments(disk, FOLDER)
        for found in frames.walk()
        if isinstance(found, Record) and found.kind == Kind.PUT and found.item in items
    }


def served(disk: MemoryDisk) -> set[int]:
    """Return the items that are alive for a start."""
    return recovered(disk)[1].live


@pytest.mark.parametrize("closed", [True, False])
def test_a_journal_with_snapshots_and_compacted_segments_is_whole(closed: bool) -> None:
    report = check_journal(laid(closed).disk, FOLDER)
    assert not report.damages
    assert report.items == len(LIVE)
    assert report.snapshots == 2


def test_a_check_tells_how_far_it_is_now_and_then_and_not_at_each_record() -> None:
    told: list[tuple[int, int]] = []
    writer = fresh(MemoryDisk())
    writer.put_all(*[b"x"] * 40)
    report = check_journal(writer.journal.files, FOLDER, lambda *far: told.append(far))
    assert told == [(report.bytes, report.bytes)], "of so few records only that it is done"


@pytest.mark.slow
def test_after_any_flipped_byte_a_start_takes_for_alive_what_can_be_read() -> None:
    built = laid()
    for number in built.segments:
        for offset in range(0, built.disk.size(path_of(number)), 11):
            disk = hit(built, number, offset)
            if not repair_of(disk, FOLDER).needed:
                assert served(disk) == set(LIVE)
                continue
            there = readable(disk, set(LIVE))
            try:
                repair_of(disk, FOLDER).run(TIME_MS)
            except JournalError as error:
                assert number == 6, error  # a compacted segment without a header
                continue
            assert not check_journal(disk, FOLDER).damages, f"{number} {offset}"
            assert readable(disk, set(LIVE)) >= there, f"{number} {offset}"
            assert served(disk) <= readable(disk, set(range(1, 20))), f"{number} {offset}"
            assert there <= served(disk), f"{number} {offset}"
            assert not repair_of(disk, FOLDER).needed


def test_numbers_go_on_behind_what_is_known_to_be_lost_and_only_behind_that() -> None:
    recovery, live_set = Recovery(journal(), FOLDER), LiveSet()
    for _ in live_set.follow(recovery):
        pass
    before = opening_behind(recovery, live_set, b"jobs", 1)
    lost = Damage("corrupt", path_of(4), 64, 128, "not whole", 1, 1, 1, before.next_item + 9)
    for no_number in (replace(lost, kind="torn"), replace(lost, id_last=ITEM_MAX)):
        recovery.damages = [no_number]
        assert opening_behind(recovery, live_set, b"jobs", 1) == before
    recovery.damages = [lost]
    opening = opening_behind(recovery, live_set, b"jobs", 1)
    assert opening.next_item == before.next_item + 10
    assert opening.next_place == before.next_place + 10


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_items_of_a_missing_segment_are_forgotten_by_snapshots(number: int) -> None:
    disk = laid().disk.kill_clone()
    disk.remove(path_of(number))
    assert repair_of(disk, FOLDER).needed
    there = readable(disk, set(LIVE))
    repaired_once(disk)
    assert there <= served(disk) <= readable(disk, set(range(1, 20)))


def test_a_damaged_snapshot_keeps_its_bytes_under_another_name() -> None:
    for lsn in (OLDER, NEWEST):
        disk = laid().disk.kill_clone()
        path = snapshot_path(lsn)
        disk.damage(path, 300, b"\xff")
        data = disk.read(path)
        repaired_once(disk)
        assert disk.read(path + ".damaged") == data
        assert served(disk) == set(LIVE)


def repaired_once(disk: MemoryDisk) -> None:
    repair_of(disk, FOLDER).run(TIME_MS)
    assert not check_journal(disk, FOLDER).damages
    assert not repair_of(disk, FOLDER).needed


def test_no_snapshot_lists_a_file_of_ids_that_was_damaged() -> None:
    disk = laid().disk.kill_clone()
    fresh_ids = Fresh()
    for number in range(3):
        fresh_ids.add_id(ID.pack(b"%016d" % number, TIME_MS, number, 0))
    chunk = write_chunk(disk, FOLDER, fresh_ids.take(), 1, 10, IDENTITY, TIME_MS)
    for lsn in (OLDER, NEWEST):
        rewrite(disk, lsn, chunks=[chunk])
    assert not check_journal(disk, FOLDER).damages
    disk.damage(f"{FOLDER}/{chunk.name}", chunk.size - 20, b"\xff")

    repaired_once(disk)

    for lsn in (OLDER, NEWEST):
        path = snapshot_path(lsn)
        assert Snapshot.decode(disk.read(path), path).chunks == []
    assert served(disk) == set(LIVE)


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 4, 5, 7])
def test_a_crash_at_any_verb_leaves_what_can_be_read(number: int) -> None:
    damaged = hit(laid(), number, 300)
    there = readable(damaged, set(LIVE))
    chance = random.Random(7)
    for step in range(1, 2000):
        disk = damaged.kill_clone()
        repair = repair_of(disk, FOLDER)
        disk.cut_power_at(step)
        try:
            repair.run(TIME_MS)
        except PowerCut:
            after = disk.crash_clone(chance)
            assert there <= served(after)
            assert there <= readable(after, set(LIVE))
            if repair_of(after, FOLDER).needed:
                repaired_once(after)
            assert there <= served(after) <= readable(after, set(range(1, 20)))
        else:
            return
    raise AssertionError("it never ended")


@pytest.mark.parametrize("number", [3, 4])
def test_no_snapshot_lists_a_missing_segment_whose_items_are_lost(number: int) -> None:
    disk = laid().disk.kill_clone()
    disk.remove(path_of(number))

    repaired_once(disk)

    for lsn in (OLDER, NEWEST):
        path = snapshot_path(lsn)
        listed = [each.number for each in Snapshot.decode(disk.read(path), path).segments]
        assert listed
        assert number not in listed
