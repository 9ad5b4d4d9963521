"""Places in a segment are found with few reads, whatever stands between the puts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.format.kinds import Kind
from journal.format.record import Draft, Record
from journal.read import cursor as cursors
from journal.read.frames import Frames
from journal.read.seek import Extent
from journal.write.segment_file import Sizes
from tests.support.journals import TIME_MS, Writer, fresh
from tests.support.memory_disk import MemoryDisk

LARGE = Sizes(segment_min=1 << 20, segment_max=1 << 20, batch_max=1 << 20)
BEFORE = 600
BEHIND = 20
BETWEEN = 4000


def released(writer: Writer, item: int) -> None:
    """A record that gives a number and is no put."""
    place = writer.queue.next_item
    writer.queue.next_item += 1
    writer.journal.append(Draft(Kind.RELEASED, item, place, 0, TIME_MS, b"", b"", 0, 0))


def returned(writer: Writer, item: int) -> None:
    """A record that gives none."""
    writer.journal.append(Draft(Kind.RETURNED, item, 0, 1, TIME_MS, b"", b"", 0, 0))


def with_records_between(between: Callable[[Writer, int], None]) -> tuple[Writer, list[int]]:
    """Write puts, many other records and some more puts; return also the ids of all puts."""
    writer, ids = fresh(MemoryDisk(), LARGE), list[int]()
    for part in (BEFORE, BEHIND):
        for _ in range(part):
            ids.append(writer.queue.next_item)
            writer.put(b"%d" % writer.queue.next_item)
        if part == BEFORE:
            for n in range(BETWEEN):
                between(writer, ids[n % BEFORE])
        writer.commit()
    assert len(writer.journal.segments) == 1
    return writer, ids


@pytest.mark.parametrize("between", [released, returned])
@pytest.mark.parametrize("window", [128, 1 << 10, 16 << 10])
def test_puts_are_found_on_both_sides_of_a_stretch_without_any(
    between: Callable[[Writer, int], None], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much longer it is than what is looked through at once."""
    monkeypatch.setattr("journal.read.seek._WINDOW_BYTES", window)
    monkeypatch.setattr("journal.read.seek._WINDOW_BYTES_MAX", window)
    monkeypatch.setattr("journal.read.lookup.NEAR_BYTES", window)
    writer, ids = with_records_between(between)
    for id_ in (*ids[:3], *ids[BEFORE - 3 : BEFORE + 3], *ids[-3:]):
        found = writer.store.some([id_]).run(writer.journal.files)
        assert [record.body for record in found.records.values()] == [b"%d" % id_]


@pytest.mark.parametrize(("between", "reads"), [(released, 6), (returned, 24)])
def test_a_put_before_many_other_records_is_found_with_little_reading_and_few_of_them_decoded(
    between: Callable[[Writer, int], None], reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records without a new number are read at most twice; none of them is decoded."""
    writer, ids = with_records_between(between)
    counts = {"bytes": 0, "decoded": 0}
    disk, decode = writer.journal.files, cursors.decode
    read = disk.read

    def counted_read(path: str, offset: int = 0, size: int = -1) -> bytes:
        data = read(path, offset, size)
        counts["bytes"] += len(data)
        return data

    def counted_decode(*args: int) -> Record | None:
        counts["decoded"] += 1
        return decode(*args)

    monkeypatch.setattr(disk, "read", counted_read)
    monkeypatch.setattr(cursors, "decode", counted_decode)
    extent = writer.store.some([ids[BEFORE - 1]]).parts[0][0]
    at = extent.seek_item(disk, ids[BEFORE - 1], 16 << 10)
    assert counts["bytes"] <= reads * (16 << 10)
    assert counts["decoded"] <= 10
    put = extent.put_after(disk, at, extent.stop)
    assert put is not None
    assert put.item <= ids[BEFORE - 1]


def test_a_put_that_is_larger_than_what_is_looked_through_is_found_whole() -> None:
    writer = fresh(MemoryDisk(), LARGE)
    for n in range(8):
        writer.put(bytes([n]) * 100_000)
    writer.commit()
    found = writer.store.some(range(1, 9)).run(writer.journal.files)
    assert {id_: record.body[0] for id_, record in found.records.items()} == {
        n + 1: n for n in range(8)
    }


@pytest.mark.parametrize("near", [1 << 10, 4 << 10])
def test_a_place_is_found_close_before_its_put(near: int) -> None:
    writer, ids = with_records_between(released)
    journal = writer.journal
    (segment,) = journal.segments
    extent = Extent.of(journal, segment)
    records = [r for r in Frames(journal.files, segment.path).walk() if isinstance(r, Record)]
    offsets = {record.item: record.offset for record in records if record.kind == Kind.PUT}
    for id_ in ids[::50]:
        place = extent.seek_item(journal.files, id_, near)
        assert 0 <= offsets[id_] - place <= 2 * near
