"""A segment read piece by piece holds what it holds when it is read whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from journal.files import Disk
from journal.format.kinds import Kind
from journal.format.record import Record
from journal.format.segment import COMPACTED, SegmentHeader, segment_name
from journal.read.frames import PIECE_BYTES, Frames, Hole, ordered_segments
from tests.golden.layout import SegmentBuilder, draft
from tests.support.journals import FOLDER, TINY, fresh, path_of
from tests.support.memory_disk import MemoryDisk


def big(folder: Path, capacity: int = 5 << 20) -> SegmentBuilder:
    """Bodies small and larger than a piece."""
    one = SegmentBuilder(1, capacity)
    chance = random.Random(3)
    for item in range(1, 40):
        size = PIECE_BYTES + 77 if item % 20 == 0 else chance.randint(0, 9000)
        one.batch(draft(Kind.PUT, item, item, 0, chance.randbytes(size)))
    one.write_to(folder)
    return one


def test_it_is_what_a_scan_of_the_whole_file_finds(tmp_path: Path) -> None:
    one = big(tmp_path)
    frames = Frames(Disk(), str(tmp_path / segment_name(1)))
    walked = [found for found in frames.walk() if isinstance(found, Record)]
    puts = [found for found in walked if found.kind == Kind.PUT]
    assert [put.item for put in puts] == list(range(1, 40))
    assert all(bytes(one.data).find(put.body) == put.end - _padded(put) for put in puts)
    assert walked[-1].end == one.at
    assert frames.footer is None


def _padded(put: Record) -> int:
    return (len(put.body) + 7) & ~7


def test_what_is_no_record_is_a_hole_up_to_the_next_one(tmp_path: Path) -> None:
    one = big(tmp_path)
    path = tmp_path / segment_name(1)
    frames = Frames(Disk(), str(path))
    whole = [found for found in frames.walk() if isinstance(found, Record)]
    for hit in (0, 17, 38, 39, len(whole) - 1):
        content = bytearray(one.data)
        content[whole[hit].offset + 30] ^= 0xFF
        path.write_bytes(content)
        found = list(Frames(Disk(), str(path)).walk())
        hole = found[hit]
        assert isinstance(hole, Hole)
        assert hole.offset == whole[hit].offset
        if hit < len(whole) - 1:
            assert hole.end == whole[hit].end
        assert [*found[:hit], *found[hit + 1 :]] == whole[:hit] + whole[hit + 1 :]


def test_a_reading_takes_little_memory(tmp_path: Path) -> None:
    big(tmp_path)
    sizes: list[int] = []

    class Watched(Disk):
        def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
            data = super().read(path, offset, size)
            sizes.append(len(data))
            return data

    list(Frames(Watched(), str(tmp_path / segment_name(1))).walk())
    assert max(sizes) < PIECE_BYTES + 200


def test_what_is_written_while_it_is_read_is_seen() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(b"one")
    walk = Frames(disk, path_of(1)).walk()
    for found in walk:
        if isinstance(found, Record) and found.kind == Kind.PUT:
            break
    writer.put_all(b"two")
    rest = list(walk)
    assert not any(isinstance(found, Hole) for found in rest)
    assert isinstance(rest[-1], Record)
    assert rest[-1].body == b"two"


@pytest.mark.parametrize("number", [1, 9])
def test_the_manifest_has_neither_foreign_nor_superseded_segments(number: int) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(*(b"item %d" % n * 20 for n in range(20)))
    before = [frames.path for frames, _ in ordered_segments(disk, FOLDER)]
    data = bytearray(disk.read(path_of(2)))
    header = SegmentHeader.decode(bytes(data), "")
    assert header is not None
    if number == 1:  # compacted from 1 and 2
        fresh_header = SegmentHeader(
            header.journal, header.identity, 9, header.capacity, 0, COMPACTED, 1, 2
        )
        other = SegmentBuilder(9, header.capacity, 1, identity=header.identity)
        other.batch(draft(Kind.PUT, 1, 1, 0, b"survivor"))
        data = other.data
        data[:64] = fresh_header.encode()
        expected = [path_of(9), *before[2:]]
    else:
        other = SegmentBuilder(9, header.capacity, 1)
        other.batch(draft(Kind.PUT, 1, 1, 0, b"foreign"))
        data = other.data
        expected = before
    disk.create(path_of(9), bytes(data), len(data))
    assert [frames.path for frames, _ in ordered_segments(disk, FOLDER)] == expected
