"""Reading in bulk finds what reading record by record finds, whatever is wrong with the bytes.

Every truncation and a flipped bit in every byte, one at a time: the same records with the same
contents, and the same lsns named as lost. In the ordinary run one bit of every byte is flipped;
under `soak` each.
"""

from __future__ import annotations

import pytest

from journal.errors import Damage, JournalError
from journal.recovery import Recovery
from journal.segment import segment_number
from tests.journal.test_every_damage import journal, snapshotted
from tests.support.bulk import expected, in_bulk, own
from tests.support.journals import FOLDER, path_of, segments
from tests.support.memory_disk import MemoryDisk


def named(damages: list[Damage], whole: int) -> set[int]:
    """The lsns that these may have cost, up to the last that there was."""
    lost: set[int] = set()
    for damage in damages:
        if damage.kind in ("corrupt", "truncated"):
            lost.update(range(damage.lsn_first, min(damage.lsn_last, whole) + 1))
    return lost


def check(disk: MemoryDisk, whole: int) -> None:
    """Both readers find the same, and name the same."""
    recovery = Recovery(disk, FOLDER, whole=True)
    records = list(recovery.records())
    try:
        bulk = in_bulk(disk, FOLDER)
    except JournalError:
        assert not records
        return
    assert [own(row) for row in bulk.rows] == [expected(r) for r in records]
    there = set(bulk.lsns)
    assert named(bulk.damages, whole) - there == named(recovery.damages, whole) - there


def flipped(disk: MemoryDisk, whole: int, bits: int, step: int = 1) -> None:
    for name in disk.names(FOLDER):
        path = f"{FOLDER}/{name}"
        data = disk.read(path)
        for offset in range(0, len(data), step):
            for bit in range(offset % 8, offset % 8 + bits):
                disk.damage(path, offset, bytes([data[offset] ^ 1 << bit % 8]))
                try:
                    check(disk, whole)
                except AssertionError as error:
                    raise AssertionError(f"{path} byte {offset} bit {bit % 8}") from error
            disk.damage(path, offset, data[offset : offset + 1])


def truncated(disk: MemoryDisk, whole: int) -> None:
    for name in disk.names(FOLDER):
        path = f"{FOLDER}/{name}"
        for size in range(disk.size(path)):
            cut = disk.kill_clone()
            cut.truncate(path, size)
            try:
                check(cut, whole)
            except AssertionError as error:
                raise AssertionError(f"{path} cut to {size} bytes") from error


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_flipped_bit_reads_the_same_in_bulk(closed: bool) -> None:
    disk, records = journal(closed)
    flipped(disk.kill_clone(), len(records), bits=1)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_truncation_reads_the_same_in_bulk(closed: bool) -> None:
    disk, records = journal(closed)
    truncated(disk, len(records))


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_survivors_snapshots_and_a_recycled_segment_read_the_same_under_every_flip(
    closed: bool,
) -> None:
    disk, written, _ = snapshotted(closed)
    flipped(disk.kill_clone(), len(written), bits=1)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_survivors_snapshots_and_a_recycled_segment_read_the_same_cut_anywhere(
    closed: bool,
) -> None:
    disk, written, _ = snapshotted(closed)
    truncated(disk, len(written))


@pytest.mark.soak
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_flipped_bit_without_exception_reads_the_same_in_bulk(closed: bool) -> None:
    disk, records = journal(closed)
    flipped(disk.kill_clone(), len(records), bits=8)
    disk, written, _ = snapshotted(closed)
    flipped(disk.kill_clone(), len(written), bits=8)


def test_the_journals_have_several_segments_to_be_hit() -> None:
    disk, _ = journal(True)
    assert len(segments(disk)) == 3
    assert disk.size(path_of(1)) == 2048
    disk, _, _ = snapshotted(True)
    assert sum(segment_number(name) is not None for name in disk.names(FOLDER)) == 5
