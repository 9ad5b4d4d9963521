"""The store reads back what its writer wrote, and lets go what its snapshots do not need."""

from __future__ import annotations

from tests.support.journals import fresh
from tests.support.memory_disk import MemoryDisk


def test_an_item_is_read_back_by_its_id() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"first", b"second")

    one = writer.store.one(2)
    assert one is not None
    record = one.run(disk)
    assert record is not None
    assert record.body == b"second"
    assert writer.store.one(3) is None


def test_items_are_read_back_by_their_ids_and_unknown_ones_are_left_out() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"first", b"second", b"third")

    found = writer.store.some([1, 3, 99]).run(disk)
    assert {id_: record.body for id_, record in found.records.items()} == {
        1: b"first", 3: b"third",
    }  # fmt: skip


def test_another_reader_has_a_place_of_its_own() -> None:
    writer = fresh(MemoryDisk())
    writer.put_all(b"first")

    other = writer.store.another_read_ahead()
    assert writer.store.read_ahead.next_read(1) is not None
    assert not other.is_reading
    assert other.next_read(1) is not None


def test_a_segment_goes_when_nothing_in_it_is_alive() -> None:
    writer = fresh(MemoryDisk())
    for _ in range(12):
        writer.put_all(bytes(400))
    for item in range(1, 12):
        writer.done(item)
    writer.commit()

    first = writer.journal.segments[0].path
    assert first in writer.store.take_dead()
