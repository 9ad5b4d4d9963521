"""Segments grow with use, have room for the record they were ordered for, and may be used again."""

from __future__ import annotations

import errno
from random import Random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.format.kinds import Kind
from journal.format.record import Draft, encode
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, SegmentHeader
from journal.read.scan import scan
from journal.write.segment_file import (
    OVERHEAD_BYTES,
    SECTOR_BYTES,
    PreallocationJob,
    Sizes,
    least_capacity,
    whole_sectors,
)
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut


def put(body_bytes: int) -> Draft:
    return Draft(Kind.PUT, 1, 1, 0, 1, b"", bytes(body_bytes), 0, 0)


def test_segments_start_small_and_grow_up_to_the_largest() -> None:
    sizes = Sizes(segment_min=64 << 10, segment_max=4 << 20)
    seen = []
    last = 0
    for _ in range(6):
        last = sizes.next_capacity(last, None)
        seen.append(last >> 10)
    assert seen == [64, 256, 1024, 4096, 4096, 4096]


@pytest.mark.parametrize("body_bytes", [0, 1, 100_000, 8 << 20])
def test_a_segment_holds_the_record_it_was_ordered_for(body_bytes: int) -> None:
    capacity = Sizes(segment_min=16 << 10, segment_max=16 << 10).next_capacity(0, put(body_bytes))
    assert capacity >= OVERHEAD_BYTES + body_bytes
    assert capacity >= least_capacity(put(body_bytes))


@given(st.integers(0, 1 << 30))
def test_capacities_are_whole_sectors_so_a_footer_is_written_whole(size: int) -> None:
    capacity = whole_sectors(size)
    assert capacity % SECTOR_BYTES == 0
    assert size <= capacity < size + SECTOR_BYTES
    assert (capacity - FOOTER_SPACE_BYTES) % SECTOR_BYTES == 0


# -- prepared: new, recycled, refused -------------------------------------------------------------

PATH = "/q/0000000007.segment"
RECYCLE = "/q/0000000003.segment.recycled"
CAPACITY = 4096


def header(number: int, journal: int = 5, capacity: int = CAPACITY) -> SegmentHeader:
    return SegmentHeader(journal, bytes(range(16)), number, capacity, 1)


def old_file(
    disk: MemoryDisk, number: int = 3, journal: int = 5, capacity: int = CAPACITY
) -> bytes:
    """A segment full of frames, out of use; returns its bytes."""
    pieces = [header(number, journal, capacity).encode()]
    at, lsn = FILE_HEADER_BYTES, 1
    while at < capacity - FOOTER_SPACE_BYTES:
        at += encode(put(20), lsn, journal, number, at, pieces)
        lsn += 1
    data = b"".join(pieces)[:capacity]
    disk.create(RECYCLE, data, capacity).close()
    return disk.read(RECYCLE)


def recycling_disk(number: int = 3, journal: int = 5, capacity: int = CAPACITY) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("/q")
    old_file(disk, number, journal, capacity)
    return disk


ORDER = PreallocationJob(PATH, header(7), recycle=RECYCLE)


def is_new(disk: MemoryDisk) -> bool:
    """True if the segment was written from scratch and the old file is gone."""
    fresh = header(7).encode() + bytes(CAPACITY - FILE_HEADER_BYTES)
    return disk.names("/q") == ["0000000007.segment"] and disk.read(PATH) == fresh


def test_a_preallocated_segment_is_zeros_after_its_header() -> None:
    disk = MemoryDisk()
    handle = PreallocationJob(PATH, header(7)).prepare(disk)

    assert is_new(disk)
    assert handle.path == PATH


def test_a_recycled_file_has_a_new_header_a_new_name_and_begins_with_zeros() -> None:
    disk = recycling_disk()
    before = disk.read(RECYCLE)
    disk.trace.clear()
    handle = ORDER.prepare(disk)

    assert disk.names("/q") == ["0000000007.segment"]
    assert disk.read(PATH) == header(7).encode() + bytes(64) + before[128:]
    assert handle.path == PATH
    assert not any(verb.startswith("create") for verb in disk.trace), "no zeros were written"


def test_a_recycled_file_takes_records_and_shows_none_of_its_earlier_life() -> None:
    disk = recycling_disk()
    handle = ORDER.prepare(disk)
    assert scan(disk.read(PATH), PATH, 5, 7).records == []

    out: list[bytes] = []
    encode(put(3), 100, 5, 7, FILE_HEADER_BYTES, out)
    handle.write(FILE_HEADER_BYTES, b"".join(out) + bytes(64))
    handle.sync()

    assert [r.lsn for r in scan(disk.read(PATH), PATH, 5, 7).records] == [100]


@pytest.mark.parametrize(
    ("what", "disk"),
    [
        ("it is not there", MemoryDisk()),
        ("it is shorter", recycling_disk(capacity=CAPACITY - 512)),
        ("it is longer", recycling_disk(capacity=CAPACITY + 512)),
        ("its frames have the number that is to be written", recycling_disk(number=7)),
        ("its frames have a higher number", recycling_disk(number=8)),
        ("it is another journal's", recycling_disk(journal=6)),
    ],
)
def test_what_cannot_be_recycled_is_removed_and_a_new_file_is_written(
    what: str, disk: MemoryDisk
) -> None:
    disk.make_folder("/q")
    ORDER.prepare(disk)

    assert is_new(disk), what


def test_a_file_whose_header_is_damaged_or_newer_is_not_recycled() -> None:
    newer = bytearray(header(3).encode())
    newer[8] = 99
    newer[60:] = crc32(newer[:60]).to_bytes(4, "little")
    for front in (bytes(64), bytes(newer)):
        disk = recycling_disk()
        disk.damage(RECYCLE, 0, front)
        ORDER.prepare(disk)

        assert is_new(disk)


def test_a_file_that_a_backup_shares_is_not_written_over() -> None:
    disk = recycling_disk()
    before = disk.read(RECYCLE)
    disk.make_folder("/backup")
    disk.link(RECYCLE, "/backup/3")
    ORDER.prepare(disk)

    assert is_new(disk)
    assert disk.read("/backup/3") == before


@pytest.mark.parametrize("verb", ["open", "write", "sync", "rename", "rename:names", "links"])
def test_trouble_with_the_old_file_ends_in_a_new_one(verb: str) -> None:
    disk = recycling_disk()
    disk.faults.append(Fault(verb, RECYCLE))
    ORDER.prepare(disk).write(0, b"")

    assert is_new(disk)
    assert disk.faults[0].fired
    assert not disk.retried_syncs


def test_after_any_power_cut_the_name_is_only_on_a_file_with_its_header() -> (
    None
):
    steps = 0
    while True:
        steps += 1
        disk = recycling_disk()
        disk.cut_power_at(steps)
        try:
            ORDER.prepare(disk)
        except PowerCut:
            pass
        else:
            break
        for seed in range(50):
            found = disk.crash_clone(Random(seed))
            names = found.names("/q")
            assert names in (["0000000007.segment"], ["0000000003.segment.recycled"])
            if found.names("/q") == ["0000000007.segment"]:
                assert found.read(PATH, 0, 128) == header(7).encode() + bytes(64)
    assert steps > 6
    assert disk.crash_clone(Random(1), "lost").names("/q") == ["0000000007.segment"]


def test_a_new_segment_leaves_min_disk_free_and_says_so() -> None:
    disk = MemoryDisk()
    disk.make_folder("/q")
    disk.disk_bytes = CAPACITY + 1000
    with pytest.raises(OSError, match=r"less than min_disk_free \(1001 bytes\)") as refused:
        PreallocationJob(PATH, header(7), reserve_bytes=1001).prepare(disk)
    assert refused.value.errno == errno.ENOSPC
    assert disk.names("/q") == []

    PreallocationJob(PATH, header(7), reserve_bytes=1000).prepare(disk)
    assert disk.names("/q") == ["0000000007.segment"]


def test_a_recycled_file_takes_no_room_and_none_is_asked_for() -> None:
    disk = recycling_disk()
    disk.disk_bytes = 0
    PreallocationJob(PATH, header(7), recycle=RECYCLE, reserve_bytes=1 << 30).prepare(disk)

    assert disk.names("/q") == ["0000000007.segment"]
