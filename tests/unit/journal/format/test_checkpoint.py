"""The small state a segment opens with."""

from __future__ import annotations

from dataclasses import replace

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, decode, encode
from journal.recovery.recovery import Recovery
from journal.write.segment_file import CHECKPOINT_BYTES_MAX
from tests.support.journals import FOLDER, TIME_MS, fresh, path_of, start
from tests.support.memory_disk import MemoryDisk

FULL = Checkpoint(
    b"jobs", next_item=9, next_place=11, tokens=5, total_items=8, live_items=3, generation=2,
    server=b"s1",
)  # fmt: skip


def test_a_checkpoint_comes_back_as_it_was_written() -> None:
    pieces: list[bytes] = []
    encode(FULL.draft(TIME_MS, as_of=77), 5, 1, 1, 64, pieces)
    record = decode(bytes(64) + b"".join(pieces), 64, 1, 1)

    assert record is not None
    assert (record.kind, record.lsn, record.time_ms) == (Kind.CHECKPOINT, 5, TIME_MS)
    assert Checkpoint.from_record(record) == replace(FULL, as_of=77)


def test_the_longest_names_fit_into_what_is_reserved_for_a_checkpoint() -> None:
    longest = replace(FULL, name=b"q" * 128, server=b"s" * 255)

    assert HEADER_BYTES + len(longest.draft(TIME_MS, 1).meta) < CHECKPOINT_BYTES_MAX


def test_every_segment_opens_with_the_state_of_that_moment() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(*[b"x" * 300] * 6)
    for number in [s.number for s in writer.journal.segments]:
        data = disk.read(path_of(number))
        opening = decode(data, 64, writer.journal.short_identity, number)
        assert opening is not None
        found = Checkpoint.from_record(opening)
        assert found.name == b"jobs"
        assert found.next_item == found.as_of + 1 == opening.lsn + 1


def test_recovery_gives_the_newest_and_with_its_loss_the_one_before() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(*[b"x" * 300] * 6)
    writer.close()
    first, last = (s.number for s in writer.journal.segments)

    assert checkpoint_of(disk.kill_clone()) == last

    disk.damage(path_of(last), 64 + 8, b"\xff")
    assert checkpoint_of(disk.kill_clone()) == first


def test_with_the_newest_checkpoint_lost_no_item_is_lost_and_no_number_is_reused() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(*[b"x" * 300] * 6)
    writer.close()
    disk.damage(path_of(writer.journal.segments[-1].number), 64 + 8, b"\xff")

    again = start(disk.kill_clone())

    assert [r.item for r in again.records] == [1, 2, 3, 4, 5, 6]
    assert again.queue.next_item == 7
    (damage,) = again.recovery.damages
    assert damage.sentence().endswith("no record is missing")


def checkpoint_of(disk: MemoryDisk) -> int:
    recovery = Recovery(disk, FOLDER)
    list(recovery.records())
    assert recovery.checkpoint is not None
    return recovery.checkpoint.segment
