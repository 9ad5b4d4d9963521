"""Where a recycled segment ends: its earlier life never parses, and is never damage.

Promise torn: every truncation of the last segment, bit flips, torn writes to recycled segments.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.format.checkpoint import Checkpoint
from journal.format.describe import sentence
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Record
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES
from journal.read.scan import FOOTER_LOST, Scan, no_footer, scan
from journal.recovery.recovery import Recovery
from tests.golden.layout import SHORT_IDENTITY, TIME_MS, SegmentBuilder, draft
from tests.support.journals import FOLDER, path_of
from tests.support.memory_disk import MemoryDisk

CAPACITY = 8192
OPENING = Checkpoint(name=b"jobs")


def earlier(seed: int = 1, sealed: bool = True) -> bytes:
    """A segment full of records of every size, as it was when it went."""
    random = Random(seed)
    one = SegmentBuilder(3, CAPACITY, 1, OPENING)
    item = 1
    while one.at + 1000 < CAPACITY - FOOTER_SPACE_BYTES:
        bodies = [random.randbytes(random.randint(0, 200)) for _ in range(random.randint(1, 3))]
        one.batch(*(draft(Kind.PUT, item + n, item + n, 0, b) for n, b in enumerate(bodies)))
        item += len(bodies)
    if sealed:
        one.seal(live=0)
    return bytes(one.data)


def again(batches: int, seed: int = 1, sealed: bool = True) -> SegmentBuilder:
    """Return the same file in its next life, as segment 9."""
    random = Random(seed + 100)
    one = SegmentBuilder(9, CAPACITY, 100, OPENING, life=earlier(seed, sealed))
    for n in range(batches):
        body = b"new" * random.randint(1, 60)
        one.batch(draft(Kind.PUT, 200 + n, 200 + n, 0, body), synced=99 + n)
    return one


def scanned(data: bytes | bytearray) -> Scan:
    return scan(bytes(data), "test", SHORT_IDENTITY, 9)


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("batches", [0, 1, 2, 5, 9])
def test_a_recycled_segment_ends_behind_its_own_records(batches: int, sealed: bool) -> None:
    for seed in range(20):
        one = again(batches, seed, sealed)
        found = scanned(one.data)
        assert [r.item for r in found.records] == [200 + n for n in range(batches)]
        assert found.gaps == []
        assert found.footer is None
        assert (found.end, found.dirty) == (one.at, True)


def test_a_recycled_segment_that_was_sealed_has_its_own_footer() -> None:
    one = again(4)
    one.seal(live=4)
    found = scanned(one.data)
    assert found.footer is not None
    assert sentence(found.footer).startswith("footer 4 records")
    assert found.gaps == []
    one.data[CAPACITY - FOOTER_SPACE_BYTES + 20] ^= 1
    (gap,) = scanned(one.data).gaps
    assert (gap.reason, gap.offset) == (FOOTER_LOST, CAPACITY - FOOTER_SPACE_BYTES)


def test_a_segment_written_for_the_first_time_is_not_dirty() -> None:
    one = SegmentBuilder(9, CAPACITY, 100, OPENING)
    one.batch(draft(Kind.PUT, 1, 1))
    assert not scanned(one.data).dirty


def test_a_recycled_segment_may_be_filled_until_there_is_no_room_for_its_end() -> None:
    for rest in range(0, 136, 8):
        one = again(1)
        room = CAPACITY - FOOTER_SPACE_BYTES - one.at - 2 * HEADER_BYTES
        one.batch(draft(Kind.PUT, 300, 300, 0, b"b" * (room - rest)))
        found = scanned(one.data)
        assert [r.item for r in found.records] == [200, 300]
        assert found.gaps == [], rest


def test_every_write_to_a_recycled_segment_torn_at_every_sector_is_torn_or_the_end() -> None:
    """A power cut leaves any mix of old and new sectors of the last batch."""
    for seed in range(30):
        random = Random(seed)
        one = again(3, seed)
        before = bytes(one.data)
        start = one.at
        bodies = [random.randbytes(random.randint(0, 700)) for _ in range(random.randint(1, 4))]
        one.batch(*(draft(Kind.PUT, 300 + n, 300 + n, 0, b) for n, b in enumerate(bodies)))
        after = bytes(one.data)
        sectors = range(start // 512 * 512, min(one.at + 64, CAPACITY - 512), 512)
        for _ in range(20):
            torn = bytearray(before)
            for at in sectors:
                if random.random() < 0.5:
                    torn[at : at + 512] = after[at : at + 512]
            found = scanned(torn)
            kept = [r.item for r in found.records]
            assert kept[:3] == [200, 201, 202]
            assert set(kept[3:]) <= set(range(300, 304))
            assert all(r.body == bodies[r.item - 300] for r in found.records[3:])
            assert all(gap.offset >= start for gap in found.gaps)
            # A whole record behind a hole never comes without the hole being named.
            if kept[3:] != list(range(300, 300 + len(kept) - 3)):
                assert found.gaps


def test_a_torn_end_of_a_recycled_segment_is_cut_before_the_earlier_life() -> None:
    one = again(3)
    start = one.at
    one.batch(draft(Kind.PUT, 300, 300, 0, b"torn" * 60))
    one.data[start + 70 : start + 80] = b"\xff" * 10
    (gap,) = scanned(one.data).gaps
    assert gap.offset <= start + 70 < gap.end
    older = CAPACITY - FOOTER_SPACE_BYTES
    assert gap.end < older, "what stood there before is not set aside with it"

    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    disk.create(path_of(9), bytes(one.data), CAPACITY)
    recovery = Recovery(disk, FOLDER)
    records: list[Record] = list(recovery.records())
    assert [r.item for r in records] == [200, 201, 202]
    (damage,) = recovery.damages
    assert (damage.kind, damage.lsn_first) == ("torn", 103)


def test_a_recycled_file_without_records_is_preallocated() -> None:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    eight = SegmentBuilder(8, CAPACITY, 1, OPENING)
    eight.batch(draft(Kind.PUT, 1, 1, time_ms=TIME_MS))
    eight.batch(synced=1)
    nine = SegmentBuilder(9, CAPACITY, 1, life=earlier())
    for one in (eight, nine):
        disk.create(path_of(one.number), bytes(one.data), CAPACITY)
    recovery = Recovery(disk, FOLDER)
    assert len(list(recovery.records())) == 1
    assert [s.number for s in recovery.preallocated] == [9]
    assert recovery.clean
    assert recovery.damages == []
    assert nine.at == FILE_HEADER_BYTES


def test_only_zeros_and_an_earlier_life_in_the_room_of_the_footer_say_that_there_is_none() -> None:
    at = CAPACITY - FOOTER_SPACE_BYTES
    zeros, older, own = bytes(FOOTER_SPACE_BYTES), earlier()[at:], again(1)
    own.seal(live=0)
    assert no_footer(zeros, at, SHORT_IDENTITY, 9)
    assert no_footer(older, at, SHORT_IDENTITY, 9)
    assert not no_footer(bytes(own.data)[at:], at, SHORT_IDENTITY, 9)
    assert not no_footer(b"\xff" * FOOTER_SPACE_BYTES, at, SHORT_IDENTITY, 9)
