"""Items in the log are read back in order, whatever the pieces; damage is passed over
and named.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from journal.errors import ITEM_MAX, Damage
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Draft, Record, encode
from journal.read.readahead import ReadAhead
from journal.write.segment_file import Sizes
from tests.support.journals import TIME_MS, Writer, filled, fresh, path_of, start
from tests.support.memory_disk import Fault, MemoryDisk

LARGER = Sizes(segment_min=16 << 10, segment_max=16 << 10, batch_max=1 << 20)


@pytest.fixture(params=[64, 200, 1000, 1 << 18])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Frames lie over the borders of pieces in any way."""
    monkeypatch.setattr("journal.read.readahead.PIECE_BYTES", request.param)
    monkeypatch.setattr("journal.read.seek.PIECE_BYTES", request.param)
    monkeypatch.setattr("journal.read.seek._WINDOW_BYTES", max(request.param, 128))
    return int(request.param)


def records_of(writer: Writer) -> list[Record]:
    return start(disk_of(writer).kill_clone()).records


def puts_of(writer: Writer) -> dict[int, bytes]:
    return {r.item: r.body for r in records_of(writer) if r.kind == Kind.PUT}


def read_all(
    read_ahead: ReadAhead, disk: MemoryDisk, item: int = 1, most: int = 3
) -> Iterator[tuple[int, bytes]]:
    """Read all items from this one on, as the server does."""
    for _ in range(100_000):
        for record in read_ahead.take(item, most):
            assert record.item >= item, "rising"
            item = record.item + 1
            yield record.item, record.body
        made = read_ahead.next_read(item)
        if made is not None:
            life, order = made
            try:
                start_at, data = order.run(disk)
            except OSError as error:
                read_ahead.failed(life, error)
            else:
                read_ahead.arrived(life, start_at, data)
        elif not read_ahead.has_more:
            lost = read_ahead.lost_up_to(item)
            assert lost, "it goes on, or it says that there is no more"
            read_ahead.give_up()
            if lost == ITEM_MAX:
                return
            item = lost + 1
    raise AssertionError("it does not come to an end")


def disk_of(writer: Writer) -> MemoryDisk:
    assert isinstance(writer.journal.files, MemoryDisk)
    return writer.journal.files


@pytest.mark.parametrize("seed", range(4))
def test_all_puts_come_in_sequence_from_any_item_on(piece: int, seed: int) -> None:
    writer = filled(40, seed)
    puts = puts_of(writer)
    for first in (1, 2, 7, 20, 39, 40):
        backlog = ReadAhead(writer.journal)
        found = list(read_all(backlog, disk_of(writer), first))
        assert found == [(i, puts[i]) for i in range(first, 41)]
        assert backlog.damages == []


@pytest.mark.parametrize("largest", [50, 3000, 12_000])
def test_the_place_to_begin_is_found_between_small_and_large_bodies(
    piece: int, largest: int
) -> None:
    writer = filled(150, 3, LARGER, largest)
    puts = puts_of(writer)
    for first in range(1, 151, 13):
        found = read_all(ReadAhead(writer.journal), disk_of(writer), first)
        assert next(found) == (first, puts[first])
    for item in range(1, 151, 7):
        one = writer.store.one(item)
        record = one.run(disk_of(writer)) if one is not None else None
        assert record is not None
        assert (record.item, record.body) == (item, puts[item])


def test_frames_of_this_journal_in_a_body_are_no_frames(piece: int) -> None:
    writer = fresh(MemoryDisk(), LARGER)
    frames: list[bytes] = []
    forged = Draft(Kind.PUT, 1, 1, 0, TIME_MS, b"", b"forged", 0, 0)
    for segment in range(1, 4):
        for offset in range(64, 800, 8):
            encode(forged, 1, writer.journal.short_identity, segment, offset, frames)
    for n in range(20):
        writer.put(b"real %d" % n + b"".join(frames)[n * 100 :][:4000])
    writer.commit()
    copied = b"".join(disk_of(writer).read(path_of(n), 0, 6000) for n in (1, 2))
    writer.put(copied)
    writer.commit()
    puts = puts_of(writer)
    for first in range(1, 22, 4):
        found = list(read_all(ReadAhead(writer.journal), disk_of(writer), first))
        assert found == [(i, puts[i]) for i in range(first, 22)]


def check_damaged(writer: Writer, disk: MemoryDisk, puts: dict[int, bytes]) -> list[Damage]:
    """Check that no item is wrong or read twice, and that each missing item is named."""
    backlog = writer.store.read_ahead
    backlog.reset()
    found = list(read_all(backlog, disk))
    assert all(puts[item] == body for item, body in found), "never a wrong item"
    ids = [item for item, _ in found]
    assert ids == sorted(set(ids))
    damages, backlog.damages = backlog.damages, []
    for item in set(puts) - set(ids):
        assert any(d.id_first <= item <= d.id_last for d in damages), f"item {item} is named"
    for damage in damages:
        assert damage.offset < damage.end
        assert damage.path.endswith(".segment")
    return damages


@pytest.mark.parametrize("seed", range(3))
def test_a_bit_that_flipped_costs_the_item_it_stood_in(piece: int, seed: int) -> None:
    random = Random(seed)
    writer = filled(25, seed)
    puts = puts_of(writer)
    for segment in writer.journal.segments:
        end = segment.at if segment is writer.journal.active else segment.capacity - 512
        for _ in range(12):
            disk = disk_of(writer).kill_clone()
            at = random.randrange(64, end)
            byte = disk.read(segment.path, at, 1)[0] ^ 1 << random.randrange(8)
            disk.damage(segment.path, at, bytes([byte]))
            backlog = writer.store.read_ahead
            backlog.reset()
            found = dict(read_all(backlog, disk))
            backlog.damages = []
            assert len(puts) - len(found) <= 1, "every undamaged item is still served"
            check_damaged(writer, disk, puts)


@pytest.mark.parametrize("fill", [b"\0", b"\xff", b"\x40"])
def test_bytes_that_were_written_over_cost_the_items_they_stood_in(piece: int, fill: bytes) -> None:
    writer = filled(40, 5)
    puts = puts_of(writer)
    for segment in writer.journal.segments[:4]:
        for offset, size in ((64, 64), (200, 400), (64, 1400), (700, 8), (1000, 536)):
            disk = disk_of(writer).kill_clone()
            disk.damage(segment.path, offset, fill * size)
            backlog = writer.store.read_ahead
            backlog.reset()
            found = {item for item, _ in read_all(backlog, disk)}
            backlog.damages = []
            for other in writer.journal.segments:
                if other is not segment and other.item_last:
                    assert found >= {
                        i for i in puts if other.item_first <= i <= other.item_last
                    }, "what stands in other segments is served"
            check_damaged(writer, disk, puts)


def test_zeros_among_records_do_not_end_a_segment(piece: int) -> None:
    writer = fresh(MemoryDisk(), LARGER)
    for n in range(12):
        writer.put(b"%d" % n * 300)
    writer.commit()
    third = next(r for r in records_of(writer) if r.item == 3)
    disk = disk_of(writer).kill_clone()
    size = third.end - third.offset
    disk.damage(path_of(third.segment), third.offset, bytes(size))
    backlog = ReadAhead(writer.journal)
    assert [i for i, _ in read_all(backlog, disk)] == [i for i in range(1, 13) if i != 3]
    (damage,) = backlog.damages
    assert (damage.offset, damage.end) == (third.offset, third.end)
    assert (damage.id_first, damage.id_last) == (3, 3)


def test_a_wrong_length_does_not_stop_the_reading(piece: int) -> None:
    writer = fresh(MemoryDisk(), LARGER)
    for n in range(12):
        writer.put(b"%d" % n * 300)
    writer.commit()
    for kind_of in (Kind.PUT, Kind.BATCH):
        for length in (0, 70, 5000, 1 << 20, 0xFFFFFFFF):
            disk = disk_of(writer).kill_clone()
            data = disk.read(path_of(1))
            records = [r for r in records_of(writer) if r.segment == 1]
            at = records[2].offset if kind_of == Kind.PUT else records[0].offset - HEADER_BYTES
            disk.damage(path_of(1), at + 4, length.to_bytes(4, "little"))
            assert disk.read(path_of(1)) != data
            backlog = ReadAhead(writer.journal)
            ids = [i for i, _ in read_all(backlog, disk)]
            missing = set(range(1, 13)) - set(ids)
            assert missing <= {3}, (kind_of, length)
            assert len(backlog.damages) == 1


@pytest.mark.parametrize("size", [0, 64, 65, 500, 1200])
def test_a_file_that_was_cut_short_costs_what_stood_behind(piece: int, size: int) -> None:
    writer = filled(40, 7)
    puts = puts_of(writer)
    for segment in writer.journal.segments[:3]:
        disk = disk_of(writer).kill_clone()
        disk.truncate(segment.path, size)
        damages = check_damaged(writer, disk, puts)
        assert {d.path for d in damages} <= {segment.path}


def test_a_read_that_fails_costs_the_rest_of_that_segment_and_the_next_is_read(piece: int) -> None:
    writer = filled(40, 8)
    puts = puts_of(writer)
    second = writer.journal.segments[1]
    disk = disk_of(writer).kill_clone()
    disk.faults = [Fault("read", second.path, 1, times=1 << 30, error=errno.EIO)]
    damages = check_damaged(writer, disk, puts)
    assert {d.path for d in damages} == {second.path}
    assert "Input/output error" in damages[0].sentence()


class BadSectors(MemoryDisk):
    """A disk with blocks of one file that it does not give."""

    path, blocks = "", range(0)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        data = super().read(path, offset, size)
        wanted = range(offset // 4096, (offset + max(len(data), 1) - 1) // 4096 + 1)
        if path == self.path and any(block in self.blocks for block in wanted):
            raise OSError(errno.EIO, "Input/output error", path)
        return data


@pytest.mark.parametrize("block", [0, 1, 2, 3])
def test_a_bad_sector_costs_the_items_on_it_and_nothing_else(block: int) -> None:
    writer = fresh(MemoryDisk(), LARGER)
    for n in range(60):
        writer.put(bytes([n]) * 400)
    writer.commit()
    puts = puts_of(writer)
    records = [r for r in records_of(writer) if r.kind == Kind.PUT]
    disk = BadSectors()
    disk._root = disk_of(writer).kill_clone()._root
    first = writer.journal.segments[0]
    disk.path, disk.blocks = first.path, range(block, block + 1)
    on_it = {
        r.item for r in records
        if r.segment == first.number and r.offset < (block + 1) * 4096 and r.end > block * 4096
    }  # fmt: skip
    assert on_it
    backlog = writer.store.read_ahead
    assert dict(read_all(backlog, disk)) == {i: b for i, b in puts.items() if i not in on_it}
    assert {d.path for d in backlog.damages} == {first.path}
    for item in puts:
        one = writer.store.one(item)
        assert one is not None
        with suppress(OSError):
            assert (one.run(disk) is not None) == (item not in on_it)
            continue
        assert item in on_it


def test_after_damage_at_the_end_of_the_log_what_comes_later_is_served(piece: int) -> None:
    writer = fresh(MemoryDisk(), LARGER)
    writer.put_all(b"1" * 100, b"2" * 100)
    disk = disk_of(writer)
    last = records_of(writer)[-1]
    disk.damage(path_of(1), last.offset + 70, b"?")
    backlog = writer.store.read_ahead
    assert [i for i, _ in read_all(backlog, disk)] == [1]
    assert [(d.id_first, d.id_last) for d in backlog.damages] == [(2, 2)]
    writer.put_all(b"3", b"4")
    assert [i for i, _ in read_all(backlog, disk, 3)] == [3, 4]


def test_what_a_start_cut_is_not_named_when_what_stands_before_it_is_read_back(
    piece: int,
) -> None:
    """The cut begins behind a number that no put gave: it was given to what was released."""
    writer = fresh(MemoryDisk(), LARGER)
    writer.put(b"1")
    writer.put(b"2")
    writer.journal.append(Draft(Kind.RELEASED, 1, 3, 0, TIME_MS, b"", b"", 0, 0))
    writer.commit()
    writer.queue.next_item = 4
    writer.put(b"4" * 300)
    writer.write()
    writer.put(b"5" * 300)
    writer.write()
    four = next(r for r in records_of(writer) if r.item == 4)
    disk_of(writer).damage(path_of(1), four.offset, bytes(HEADER_BYTES))

    later = start(disk_of(writer).kill_clone(), LARGER)
    assert [d.kind for d in later.recovery.damages] == ["torn"]
    assert [i for i, _ in read_all(later.store.read_ahead, disk_of(later))] == [1, 2]
    assert later.store.read_ahead.damages == []


def test_what_is_not_written_yet_is_neither_read_nor_lost() -> None:
    writer = fresh(MemoryDisk(), LARGER)
    writer.put(b"1")
    backlog = writer.store.read_ahead
    assert backlog.next_read(1) is None
    assert writer.store.one(1) is None
    assert backlog.lost_up_to(1) == 0
    writer.commit()
    assert list(read_all(backlog, disk_of(writer))) == [(1, b"1")]
    writer.put(b"2")
    assert backlog.next_read(2) is None
    assert backlog.lost_up_to(2) == 0
    writer.commit()
    assert list(read_all(backlog, disk_of(writer), 2)) == [(2, b"2")]


def test_a_segment_that_goes_while_it_is_read_is_not_damage(piece: int) -> None:
    writer = filled(40, 9)
    puts, disk = puts_of(writer), disk_of(writer)
    for segment in writer.journal.segments[:-1]:
        if not segment.item_last:
            continue
        backlog = ReadAhead(writer.journal)
        made = backlog.next_read(segment.item_first)
        assert made is not None
        life, _ = made
        kept = list(writer.journal.segment_list.segments)
        writer.journal.segment_list.segments.remove(segment)
        backlog.failed(life, OSError(errno.ENOENT, "No such file"))
        found = [i for i, _ in read_all(backlog, disk, segment.item_first)]
        there = [i for i in puts if i > segment.item_last]
        assert found == there
        assert backlog.damages == []
        writer.journal.segment_list.segments = kept


def test_what_was_ordered_before_a_reset_is_not_taken() -> None:
    writer = filled(10, 4)
    backlog = ReadAhead(writer.journal)
    made = backlog.next_read(1)
    assert made is not None
    life, order = made
    backlog.reset()
    backlog.arrived(life, *order.run(disk_of(writer)))
    assert not backlog.has_more
    assert backlog.take(1, 99) == []


def test_at_rest_it_keeps_its_place_and_no_bytes() -> None:
    writer = fresh(MemoryDisk(), LARGER)
    writer.put_all(b"1", b"2")
    backlog = writer.store.read_ahead
    made = backlog.next_read(1)
    assert made is not None
    backlog.arrived(made[0], *made[1].run(disk_of(writer)))
    assert [r.item for r in backlog.take(1, 9)] == [1, 2]
    backlog.rest()
    assert backlog._cursor is not None
    assert backlog._cursor.data == b""
    writer.put_all(b"3")
    assert [i for i, _ in read_all(backlog, disk_of(writer), 3)] == [3]


def test_of_a_record_larger_than_a_piece_just_the_rest_is_read_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("journal.read.readahead.PIECE_BYTES", 1000)
    writer = fresh(MemoryDisk(), LARGER)
    writer.put(b"large" * 800)
    writer.put(b"next" * 800)
    writer.commit()
    large = next(r for r in records_of(writer) if r.item == 1)
    backlog = ReadAhead(writer.journal)

    made = backlog.next_read(1)
    assert made is not None
    life, order = made
    backlog.arrived(life, *order.run(disk_of(writer)))
    assert backlog.take(1, 9) == []
    made = backlog.next_read(1)

    assert made is not None
    assert made[1].start + made[1].size == large.offset + HEADER_BYTES + len(large.body)
