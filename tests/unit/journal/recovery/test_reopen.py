"""A start on a full disk: the tail is written again where it stands, and no room is given back."""

from __future__ import annotations

import errno
from random import Random

import pytest

from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Draft, encode
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, SegmentHeader
from journal.write.room import CONFIRM_BYTES
from journal.write.segment_file import Sizes
from tests.support.journals import (
    FOLDER,
    TIME_MS,
    TINY,
    Writer,
    bodies,
    fresh,
    path_of,
    segments,
    start,
)
from tests.support.memory_disk import Fate, Fault, MemoryDisk

BODIES = [b"one", b"two", b"three", b"four"]
SEEDS = range(40)


def unclean(last: bytes = b"four") -> MemoryDisk:
    """Three items that were synced, and one that was only written, by a process that was killed."""
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(*BODIES[:3])
    writer.put(last)
    writer.write()
    return disk.kill_clone()


def start_without_room(disk: MemoryDisk, verb: str = "create") -> Writer:
    for name in disk.names("/data/jobs.1"):  # and no prepared segment whose room could be taken
        if name != "0000000001.segment":
            disk.remove(f"/data/jobs.1/{name}")
    disk.faults.append(Fault(verb, times=1000, error=errno.ENOSPC))
    writer = start(disk)
    disk.faults.clear()
    return writer


@pytest.mark.parametrize("verb", ["create", "create:rename", "create:names"])
def test_nothing_is_lost_and_the_log_goes_on_in_the_same_segment(verb: str) -> None:
    disk = unclean()
    again = start_without_room(disk, verb)
    assert bodies(again.records) == BODIES
    assert again.journal.active is not None
    assert again.journal.active.number == 1
    again.done(1)
    again.commit()

    last = start(disk.kill_clone())  # a fresh segment that did get its name says nothing more
    assert bodies(last.records) == BODIES
    assert 1 not in last.queue.live


@pytest.mark.parametrize("fate", ["lost", "random"])
def test_what_was_recovered_is_on_disk_before_the_first_answer(fate: Fate) -> None:
    for seed in SEEDS:
        disk = unclean()
        start_without_room(disk)
        after = disk.crash_clone(Random(seed), fate)
        assert bodies(start(after).records) == BODIES, f"seed {seed}"


def test_bytes_that_a_failed_sync_left_in_the_page_cache_are_written_again() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(*BODIES[:3])
    writer.put(BODIES[3])
    writer.write()
    disk.faults.append(Fault("sync"))
    assert not writer.sync()
    disk.faults.clear()

    killed = disk.kill_clone()
    start_without_room(killed)
    assert bodies(start(killed.crash_clone(Random(0), "lost")).records) == BODIES


def test_a_torn_end_is_cleared_so_that_nothing_behind_it_comes_back() -> None:
    disk = unclean(b"x" * 300)
    path = "/data/jobs.1/0000000001.segment"
    content = disk.read(path)
    at = content.index(b"x" * 300)
    disk.damage(path, at + 100, b"\xff\xfe")
    again = start_without_room(disk)
    assert bodies(again.records) == BODIES[:3]
    again.put(b"after")
    again.commit()
    assert bodies(start(disk.kill_clone()).records) == [*BODIES[:3], b"after"]


def test_what_stood_behind_a_torn_end_does_not_come_back_behind_one_of_its_size() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(*BODIES[:3])
    for body in (b"x" * 300, b"y" * 300):
        writer.put(body)
        writer.write()
    disk = disk.kill_clone()
    path = "/data/jobs.1/0000000001.segment"
    disk.damage(path, disk.read(path).index(b"x" * 300), b"?")
    again = start_without_room(disk)
    assert bodies(again.records) == BODIES[:3]

    again.put(b"z" * 300)
    again.commit()

    assert bodies(start(disk.kill_clone()).records) == [*BODIES[:3], b"z" * 300]


def test_old_frames_in_a_reused_file_are_no_damage_after_what_is_written_over_them() -> (
    None
):
    disk = unclean()
    header = SegmentHeader.decode(disk.read(path_of(2)), path_of(2))
    assert header is not None
    at = begins = FILE_HEADER_BYTES + HEADER_BYTES
    pieces: list[bytes] = []
    while at < header.capacity - FOOTER_SPACE_BYTES - 200:
        older = Draft(Kind.PUT, 1, 1, 0, TIME_MS, b"", b"o" * 100, 0, 0)
        at += encode(older, 1, header.journal, 1, at, pieces)
    disk.damage(path_of(2), begins, b"".join(pieces))
    disk.faults.append(Fault("create", times=1000, error=errno.ENOSPC))
    disk.faults.append(Fault("write", error=errno.EIO))  # the tail's own place
    again = start(disk)
    disk.faults.clear()
    assert again.journal.active is not None
    assert again.journal.active.number == 3, "none is left out: that would look like a loss"
    assert "0000000002.segment" not in disk.names("/data/jobs.1"), "it is written over"
    again.put(b"after")
    again.commit()

    last = start(disk.kill_clone())
    assert bodies(last.records) == [*BODIES, b"after"]
    assert last.recovery.damages == []


def test_after_a_kill_on_a_full_disk_the_confirms_have_the_room_that_they_had() -> None:
    """The tail takes none of it: neither a prepared segment nor the rest of its own."""
    disk = unclean()
    disk.faults.append(Fault("create", times=1000, error=errno.ENOSPC))
    for _ in range(3):
        again = start(disk)
        active, kept = again.journal.active, again.journal.preallocation.recycled
        assert active is not None
        assert active.number == 1
        assert [size for _, size in kept] == [2048]
        again.put(b"")
        again.write()
        disk = disk.kill_clone()
        disk.faults.append(Fault("create", times=1000, error=errno.ENOSPC))


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_files_of_prepared_segments_are_used_again(is_clean: bool) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(b"x")
    for _ in range(3):
        writer.prepare()
    prepared = [segment.path for segment in writer.journal.preallocation.waiting]
    assert len(prepared) >= 3
    if is_clean:
        writer.close()
    for _ in range(2):  # the second start finds what the first one left
        again = start(disk)
        kept = again.journal.preallocation.recycled
        assert sorted(kept) == [(f"{path}.recycled", 2048) for path in prepared]
    again.journal.files = disk
    disk.faults = [Fault("create", times=1000, error=errno.ENOSPC)]
    for _ in prepared:
        assert again.prepare(), "there is room for it"
    assert not again.prepare()
    assert again.journal.disk_bytes() == 2048 * len(segments(disk))


def test_a_start_reserves_room_for_the_confirms_of_all_sealed_segments() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for _ in range(40):
        writer.put(b"")
    writer.commit()
    writer.close()
    again = start(disk)
    again.put_all(b"")
    fullest = max(segment.live for segment in again.journal.segments[:-1])
    active, waiting = again.journal.active, again.journal.preallocation.waiting
    assert active is not None and fullest > active.live
    room = active.capacity - active.at + sum(segment.capacity for segment in waiting)
    assert room >= CONFIRM_BYTES * (fullest + active.live)


def test_a_file_of_a_size_that_no_segment_has_now_is_removed() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, Sizes(4096, 4096, 1 << 20))
    writer.put_all(b"x")
    writer.prepare()
    writer.close()
    assert start(disk).journal.preallocation.recycled == []
    assert [name for name in disk.names(FOLDER) if ".recycled" in name] == []


def test_a_power_cut_at_any_step_of_it_leaves_all_that_was_synced() -> None:
    for seed in SEEDS:
        disk = unclean()
        start_without_room(disk)
        cut = disk.crash_clone(Random(seed))
        found = bodies(start(cut).records)
        assert found[:3] == BODIES[:3], f"seed {seed}"


@pytest.mark.parametrize("fate", ["random", "kept", "lost"])
def test_a_tail_in_a_prepared_segment_is_on_disk_before_that_has_its_name(fate: Fate) -> None:
    disk = unclean()
    disk.faults.append(Fault("create", times=1000, error=errno.ENOSPC))
    disk.faults.append(Fault("write", error=errno.EIO))  # the tail's own place
    again = start(disk)
    assert again.journal.active is not None
    assert again.journal.active.number == 3
    for seed in SEEDS:
        last = start(disk.crash_clone(Random(seed), fate))
        assert bodies(last.records) == BODIES
