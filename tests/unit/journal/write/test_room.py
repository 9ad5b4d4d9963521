"""A full disk at any moment: whatever was accepted is written, and has room for its confirm.

Promise: full-disk.
"""

from __future__ import annotations

import errno
from random import Random

import pytest

from journal.write.room import Room, room_in
from journal.write.segment_file import Sizes
from tests.support.journals import TIME_MS, Writer, fresh
from tests.support.memory_disk import Fault, MemoryDisk

SIZES = Sizes(segment_min=8 << 10, segment_max=16 << 10, batch_max=4 << 10)
SEGMENTS_MAX = 8
BURST_MAX = 400


def accepted(writer: Writer, random: Random, largest: int) -> bool:
    """Put an item if there is room for it, as a queue does."""
    size = random.choice((0, 1, 30, random.randrange(largest)))
    if not writer.journal.room.has(size):
        return False
    writer.put(bytes(size))
    return True


def turn(writer: Writer) -> None:
    """Write, and prepare what is wanted; a dead segment's file is used again."""
    journal = writer.journal
    journal.write(TIME_MS)
    if journal.wants_preallocation:
        writer.prepare()
        journal.write(TIME_MS)
    while journal.can_write:
        journal.write(TIME_MS)
    writer.sync()
    for path in writer.store.take_dead():
        recycled = path + ".recycled"
        journal.files.rename(path, recycled)
        journal.preallocation.recycled.append((recycled, journal.files.size(recycled)))


@pytest.mark.parametrize("seed", range(60))
def test_a_burst_at_the_moment_at_which_the_disk_is_full_leaves_room_for_all_confirms(
    seed: int,
) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    writer = fresh(disk, SIZES)
    journal = writer.journal
    largest = random.choice((2, 40, 3000))
    left = random.randrange(1, SEGMENTS_MAX)  # segments that the disk has room for
    disk.faults.append(Fault("create", nth=left + 1, times=1 << 30, error=errno.ENOSPC))
    for _ in range(200):
        for _ in range(random.randrange(BURST_MAX)):
            if not accepted(writer, random, largest):
                break
        if writer.queue.live and random.random() < 0.3:
            writer.done(min(writer.queue.live))
        turn(writer)
        if journal.preallocation.is_short:
            break  # from here on items are refused
    turn(writer)
    assert journal.preallocation.is_short
    assert not journal.has_pending, "what was accepted is written"

    while writer.queue.live:
        for item in sorted(writer.queue.live)[: random.choice((1, 1, 1, 16))]:
            writer.done(item)
        turn(writer)
        assert not journal.has_pending, "each confirm has room"


def test_an_item_without_room_has_the_next_segment_prepared_for_it() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"first")
    journal = writer.journal
    assert not journal.wants_preallocation
    assert not journal.room.has(20_000)
    assert journal.wants_preallocation
    turn(writer)
    assert max(s.capacity for s in journal.preallocation.waiting) > 20_000
    while not journal.room.has(20_000):  # with room for the confirms that may come
        turn(writer)


@pytest.mark.parametrize(
    ("count", "size", "capacity"),
    [(1, 10, 64 << 10), (1, 5000, 64 << 10), (20, 1, 102 << 10), (145, 1, 776 << 10),
     (300, 100, 1 << 20)],
)  # fmt: skip
def test_the_first_segment_has_room_for_more_than_the_burst_that_began(
    count: int, size: int, capacity: int
) -> None:
    writer = fresh(MemoryDisk(), Sizes())
    for _ in range(count):
        writer.put(bytes(size))
    preallocation = writer.journal.preallocation
    job = preallocation.begin(TIME_MS, 0)
    assert job.header.capacity == capacity
    preallocation.failed(job, OSError(errno.ENOSPC, "full"))
    assert preallocation.begin(TIME_MS, 0).header.capacity <= max(capacity // 4, 64 << 10)


def test_a_small_journal_that_has_no_room_for_an_item_grows_twice_at_once() -> None:
    writer = fresh(MemoryDisk(), Sizes())
    writer.put_all(b"first")
    turn(writer)
    room = writer.journal.room
    while room.has(1000):
        writer.put(bytes(1000))
    job = writer.journal.preallocation.begin(TIME_MS, 0)
    assert job.header.capacity == 16 * (64 << 10)


def test_the_first_item_of_a_journal_has_room_whatever_its_size() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    assert writer.journal.room.has(1 << 20)
    writer.put(bytes(1 << 20))
    assert not writer.journal.room.has(0), "the next one waits for the first segment"
    writer.commit()
    assert not writer.journal.has_pending


def test_a_run_has_no_more_bytes_than_its_segment_has_for_all_of_it() -> None:
    writer = fresh(MemoryDisk(), SIZES)
    writer.put_all(b"first")
    room: Room = writer.journal.room
    most = room.run_bytes(16)
    assert 0 < most < room_in(8 << 10)
    for _ in range(16):
        assert room.has(most // 16)
        writer.put(bytes(most // 16))
    assert room.free >= 0
