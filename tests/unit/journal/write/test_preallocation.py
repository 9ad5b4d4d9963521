"""Spares: one is ready before it is needed, and there are enough for the confirms."""

from __future__ import annotations

import errno

import pytest

from journal.write.room import CONFIRM_BYTES
from journal.write.segment_file import Sizes
from tests.support.journals import TIME_MS, fresh
from tests.support.memory_disk import MemoryDisk

SIZES = Sizes(segment_min=64 << 10, segment_max=64 << 10, batch_max=1 << 20)


class NotingDisk(MemoryDisk):
    """Notes the folders that it is told to make."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def make_folder(self, folder: str) -> None:
        self.made.append(folder)
        super().make_folder(folder)


@pytest.mark.parametrize(
    ("size", "before", "then"),
    [(64 << 10, 10_000, 10_000), (1 << 20, 300_000, 60_000)],
    ids=["a small one when it is a quarter full", "a large one when it is a third full"],
)
def test_the_next_segment_is_wanted_when_a_part_of_the_active_one_is_written(
    size: int, before: int, then: int
) -> None:
    writer = fresh(MemoryDisk(), Sizes(segment_min=size, segment_max=size, batch_max=1 << 20))
    writer.put_all(b"x" * before)
    assert not writer.journal.wants_preallocation
    writer.put(b"x" * then)
    writer.journal.write(TIME_MS)
    assert writer.journal.wants_preallocation


@pytest.mark.parametrize("size", [64 << 10, 1 << 20, 4 << 20])
def test_it_is_wanted_on_half_of_the_way_to_where_items_wait_for_it(size: int) -> None:
    """No client fetches an item, so the room for their confirms is the larger part of the way."""
    writer = fresh(MemoryDisk(), Sizes(segment_min=size, segment_max=size, batch_max=1 << 20))
    writer.put_all(b"the first")
    journal = writer.journal
    wanted_at = items = 0
    while not journal.is_stalled:
        writer.put(b"x" * 100)
        journal.write(TIME_MS)
        items += 1
        if journal.wants_preallocation:
            wanted_at = wanted_at or items
    assert 0 < wanted_at <= items * 0.55


def test_a_crowd_gets_a_first_segment_with_room_for_its_next_requests() -> None:
    sizes = Sizes(segment_min=64 << 10, segment_max=1 << 20, batch_max=1 << 20)
    writer = fresh(MemoryDisk(), sizes)
    for _ in range(200):
        writer.put(b"x" * 200)
    job = writer.journal.begin_preallocation(TIME_MS)
    assert job.header.capacity >= 4 * 200 * 200

    quiet = fresh(MemoryDisk(), sizes)
    quiet.put(b"x" * 200)
    assert quiet.journal.begin_preallocation(TIME_MS).header.capacity == 64 << 10


def test_the_folder_is_made_for_the_first_segment_of_a_process_alone() -> None:
    disk = NotingDisk()
    writer = fresh(disk, SIZES)
    disk.made.clear()
    for _ in range(5):
        writer.put_all(b"x" * 30_000)
    assert len(writer.journal.segments) > 1
    assert disk.made == [writer.journal.folder]


def test_many_small_items_want_room_for_their_confirms_long_before_that() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    for _ in range(350):
        writer.put(b"")
    writer.journal.append((10, 0, 1, 0, TIME_MS, b"", b"", 0, 0))
    writer.commit()
    preallocation = writer.journal.preallocation
    active = writer.journal.active
    assert active is not None
    room = active.capacity - active.at + sum(s.capacity for s in preallocation.waiting)
    assert room >= 350 * CONFIRM_BYTES
    assert preallocation.waiting, "although it is not half full"
    assert active.at * 2 < active.capacity


def test_an_item_waits_for_the_room_of_its_confirm_until_it_is_clear_that_there_is_none() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"first")
    journal = writer.journal
    for _ in range(500):
        writer.put(b"")
    journal.write(TIME_MS)
    writer.put(b"last")
    journal.write(TIME_MS)
    assert journal.has_pending, "it waits"
    assert not journal.preallocation.may_accept
    assert journal.wants_preallocation

    order = journal.begin_preallocation(TIME_MS)
    journal.preallocation_failed(order)
    journal.write(TIME_MS)
    assert not journal.has_pending, "what was accepted is written from what room there is"


def test_a_confirm_does_not_wait_for_that_room() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"first")
    journal = writer.journal
    for _ in range(500):
        writer.put(b"")
    journal.write(TIME_MS)
    assert not journal.preallocation.may_accept
    writer.done(1)
    journal.write(TIME_MS)
    assert not journal.has_pending


def test_a_segment_that_could_not_be_prepared_keeps_its_number() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"x" * 40_000)
    journal = writer.journal
    journal.preallocation.waiting.clear()
    first = journal.begin_preallocation(TIME_MS)
    journal.preallocation_failed(first)
    journal.preallocation.number += 1  # a compacted segment took the next
    second = journal.begin_preallocation(TIME_MS)
    assert second.header.segment == first.header.segment
    journal.finish_preallocation(second, second.prepare(journal.files))
    third = journal.begin_preallocation(TIME_MS)
    assert third.header.segment == first.header.segment + 2


def test_after_one_that_could_be_prepared_the_next_is_as_large_as_ever() -> None:
    writer = fresh(MemoryDisk(), Sizes(1 << 12, 1 << 20))
    writer.put_all(b"x" * 40_000)
    journal = writer.journal
    journal.preallocation.waiting.clear()
    capacities = list[int]()
    for error in (OSError(errno.ENOSPC, "no room"), None, None):
        order = journal.begin_preallocation(TIME_MS)
        capacities.append(order.header.capacity)
        if error is not None:
            journal.preallocation_failed(order, error)
        else:
            journal.finish_preallocation(order, order.prepare(journal.files))
    refused, smaller, later = capacities
    assert smaller < refused <= later


def test_on_a_full_disk_a_far_too_large_file_is_taken_as_well() -> None:
    """After a kill the log goes on in a small segment, and the prepared one is a large file."""
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"x")
    preallocation = writer.journal.preallocation
    preallocation.recycled = [("/data/jobs.1/old", 64 << 20)]
    first = writer.journal.begin_preallocation(TIME_MS)
    assert not first.recycle
    writer.journal.preallocation_failed(first)
    assert writer.journal.begin_preallocation(TIME_MS).recycle == "/data/jobs.1/old"


def test_a_file_to_be_used_again_is_taken_if_it_is_large_enough_and_not_far_too_large() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"x")
    preallocation = writer.journal.preallocation
    for size, taken in ((32 << 10, True), (64 << 10, True), (1 << 20, False)):
        preallocation.recycled = [("/data/jobs.1/old", size)]
        order = writer.journal.begin_preallocation(TIME_MS)
        assert bool(order.recycle) == taken, size
        assert order.header.capacity == (size if taken else 64 << 10)
        preallocation.is_under_way = False


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("is_under_way", [False, True])
def test_files_stay_until_the_confirms_have_their_room(
    is_short: bool, is_under_way: bool
) -> None:
    """Beside a prepared one, another file, and a preparation that may fail."""
    writer = fresh(MemoryDisk(), SIZES)
    for _ in range(600):
        writer.put_all(b"")
    journal = writer.journal
    preallocation = journal.preallocation
    assert preallocation.waiting
    preallocation.is_short, preallocation.is_under_way = is_short, is_under_way
    preallocation.recycled = [("/data/jobs.1/one", 16 << 10)]
    preallocation.count()
    assert preallocation.room.free > 30_000
    assert not preallocation.may_recycle, "the disk has it back"

    preallocation.room.free = 0  # as after many confirms
    for count in range(2, 9):
        if not preallocation.may_recycle:
            break
        preallocation.recycled.append((f"/data/jobs.1/{count}", 16 << 10))
    assert 2 <= len(preallocation.recycled) < 8


def test_a_large_item_that_was_refused_keeps_no_file_from_being_used_for_confirms() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"x")
    preallocation = writer.journal.preallocation
    preallocation.recycled = [("/data/jobs.1/old", 64 << 10)]
    assert not preallocation.room.has(1 << 20)
    order = writer.journal.begin_preallocation(TIME_MS)
    assert not order.recycle and order.header.capacity > 1 << 20
    writer.journal.preallocation_failed(order, OSError(errno.ENOSPC, "no room"))
    again = writer.journal.begin_preallocation(TIME_MS)
    assert again.recycle == "/data/jobs.1/old"


def test_on_a_full_disk_a_file_of_any_size_is_used_again() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"x")
    preallocation = writer.journal.preallocation
    preallocation.recycled = [("/data/jobs.1/old", 8 << 20)]
    order = writer.journal.begin_preallocation(TIME_MS)
    assert not order.recycle, "while there is room it is far too large"
    writer.journal.preallocation_failed(order, OSError(errno.ENOSPC, "no room"))
    assert writer.journal.begin_preallocation(TIME_MS).recycle == "/data/jobs.1/old"
