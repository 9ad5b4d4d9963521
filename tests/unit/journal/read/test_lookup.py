"""Items that are asked for by number are found, wherever in the log they stand."""

from __future__ import annotations

import errno
from random import Random

import pytest

from journal.write.segment_file import Sizes
from tests.support.journals import Writer, fresh, path_of
from tests.support.memory_disk import Fault, MemoryDisk

LARGER = Sizes(segment_min=16 << 10, segment_max=16 << 10, batch_max=1 << 20)


def disk_of(writer: Writer) -> MemoryDisk:
    assert isinstance(writer.journal.files, MemoryDisk)
    return writer.journal.files


def a_log(count: int, seed: int = 0, largest: int = 300) -> tuple[Writer, dict[int, bytes]]:
    """Puts with holes between their numbers, and records that end others."""
    random, writer, bodies = Random(seed), fresh(MemoryDisk(), LARGER), dict[int, bytes]()
    for _ in range(count):
        writer.queue.next_item += random.randrange(3) // 2  # where a place was given
        body = random.randbytes(random.randrange(largest))
        bodies[writer.queue.next_item] = body
        writer.put(body)
        if random.random() < 0.1:
            writer.done(random.choice(sorted(writer.queue.live)))
        if random.random() < 0.2:
            writer.commit()
    writer.commit()
    return writer, bodies


@pytest.fixture(params=[(64, 1, 64), (200, 3, 200), (64 << 10, 128, 16 << 10)])
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames lie over the borders of pieces in any way, and some are walked to."""
    piece, items, size = request.param
    monkeypatch.setattr("journal.read.lookup.PIECE_BYTES", piece)
    monkeypatch.setattr("journal.read.lookup.NEAR_ITEMS", items)
    monkeypatch.setattr("journal.read.lookup.NEAR_BYTES", size)


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("seed", range(4))
def test_every_item_that_is_asked_for_is_found(seed: int) -> None:
    writer, bodies = a_log(400, seed)
    random = Random(seed)
    for count in (1, 2, 30, 200):
        ids = random.sample(sorted(bodies), count)
        found = writer.store.some(ids).run(disk_of(writer))
        assert {id_: r.body for id_, r in found.records.items()} == {i: bodies[i] for i in ids}
        assert found.reasons == {}


def test_items_that_stand_together_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, bodies = a_log(30, largest=60)
    disk, reads, read = disk_of(writer), list[int](), MemoryDisk.read

    def count(disk: MemoryDisk, path: str, offset: int = 0, size: int = -1) -> bytes:
        reads.append(offset)
        return read(disk, path, offset, size)

    some = writer.store.some(sorted(bodies))
    monkeypatch.setattr(MemoryDisk, "read", count)
    assert some.run(disk).records.keys() == bodies.keys()
    assert len(reads) == 1


@pytest.mark.usefixtures("near")
def test_what_is_not_there_is_not_found_and_hides_nothing() -> None:
    writer, bodies = a_log(200)
    holes = set(range(1, max(bodies))) - set(bodies)
    ids = sorted({*holes, *bodies})
    assert holes
    assert writer.store.some(ids).run(disk_of(writer)).records.keys() == bodies.keys()


def test_what_is_not_written_yet_is_left_out() -> None:
    writer = fresh(MemoryDisk(), LARGER)
    writer.put(b"one")
    writer.commit()
    writer.put(b"two")
    some = writer.store.some([1, 2])
    assert (some.number(1), some.number(2)) == (1, 0)
    assert list(some.run(disk_of(writer)).records) == [1]
    assert writer.store.some([2]).parts == ()


@pytest.mark.usefixtures("near")
def test_a_damaged_put_is_not_found_and_its_neighbours_are() -> None:
    writer, bodies = a_log(60, largest=60)
    disk, path = disk_of(writer), path_of(1)
    id_ = sorted(bodies)[20]
    lost = writer.store.some([id_]).run(disk).records[id_]
    for at in (lost.offset + 4, lost.offset + 30, lost.end - 9):
        torn = disk.kill_clone()
        torn.damage(path, at, b"\xff\xff")
        found = writer.store.some(sorted(bodies)).run(torn)
        assert bodies.keys() - found.records.keys() == {lost.item}, at


def test_a_disk_that_does_not_give_one_segment_gives_the_others() -> None:
    writer, bodies = a_log(400)
    disk = disk_of(writer)
    second = writer.journal.segments[1]
    disk.faults = [Fault("read", second.path, times=999, error=errno.EIO)]
    found = writer.store.some(sorted(bodies)).run(disk)
    lost = {i for i in bodies if second.item_first <= i <= second.item_last}
    assert found.reasons.keys() == lost
    assert set(found.reasons.values()) == {"Input/output error"}
    assert found.records.keys() == bodies.keys() - lost


def test_a_file_that_ends_early_ends_the_search() -> None:
    writer, bodies = a_log(100)
    disk = disk_of(writer)
    disk.truncate(path_of(1), 4096)
    found = writer.store.some(sorted(bodies)).run(disk)
    assert 0 < len(found.records) < len(bodies)
