"""Reading in bulk finds what reading record by record finds, whatever is wrong with the bytes.

Every truncation and every flipped bit, one at a time: the same records with the same contents,
and the same lsns named as lost. In the ordinary run one bit is flipped of each third byte that says
something (of the larger journals each seventh), and few of the others, and files are cut where
frames meet and at few other places; in `make sweep` each bit, and everywhere.

Promise spark-bulk: truncations and flipped bits throughout small journals, compacted segments,
    recycled segments, journals of earlier versions.
"""

from __future__ import annotations

import pytest

from journal.errors import Damage, JournalError
from journal.format.segment import FILE_HEADER_BYTES, segment_number
from journal.recovery.recovery import Recovery
from tests.support.bulk import expected, in_bulk, own
from tests.support.journals import FOLDER, path_of, segments
from tests.support.memory_disk import MemoryDisk
from tests.unit.journal.tools.test_every_damage import every_file, hit_by, journal, snapshotted


def named(damages: list[Damage], whole: list[int]) -> set[int]:
    """Which of the lsns that were there these may have cost."""
    lost = [d for d in damages if d.kind in ("corrupt", "truncated")]
    return {lsn for lsn in whole if any(d.lsn_first <= lsn <= d.lsn_last for d in lost)}


def check(disk: MemoryDisk, whole: list[int]) -> None:
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


def lsns(disk: MemoryDisk) -> list[int]:
    """Return the lsns of all records."""
    return [record.lsn for record in Recovery(disk, FOLDER, whole=True).records()]


def flipped(disk: MemoryDisk, bits: int, others: int, each: int = 1) -> None:
    """Flip `bits` bits of each `each`-th byte with a meaning, and of each `others`-th other one."""
    whole = lsns(disk)
    for path, data, parts in every_file(disk):
        for offset in range(len(data)):
            says = offset < FILE_HEADER_BYTES or any(hit_by(f, offset) for f in parts)
            if offset % (each if says else others):
                continue
            for bit in range(offset % 8, offset % 8 + bits):
                disk.damage(path, offset, bytes([data[offset] ^ 1 << bit % 8]))
                try:
                    check(disk, whole)
                except AssertionError as error:
                    raise AssertionError(f"{path} byte {offset} bit {bit % 8}") from error
            disk.damage(path, offset, data[offset : offset + 1])


def truncated(disk: MemoryDisk, others: int) -> None:
    """Cut each file at every length where a frame ends or begins, and at each `others`-th other."""
    whole = lsns(disk)
    for path, data, parts in every_file(disk):
        edges = {at + d for f in parts for at in (f.offset, f.end) for d in (-1, 0, 1)}
        for size in range(len(data)):
            if size % others and size not in edges:
                continue
            cut = disk.kill_clone()
            cut.truncate(path, size)
            try:
                check(cut, whole)
            except AssertionError as error:
                raise AssertionError(f"{path} cut to {size} bytes") from error


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_flipped_bit_reads_the_same_in_bulk(closed: bool) -> None:
    disk, _ = journal(closed)
    flipped(disk.kill_clone(), bits=1, others=31, each=3)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_truncation_reads_the_same_in_bulk(closed: bool) -> None:
    disk, _ = journal(closed)
    truncated(disk, others=13)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_compacted_and_recycled_segments_read_the_same_under_every_flip(
    closed: bool,
) -> None:
    disk, _, _ = snapshotted(closed)
    flipped(disk.kill_clone(), bits=1, others=61, each=7)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_compacted_and_recycled_segments_read_the_same_cut_anywhere(
    closed: bool,
) -> None:
    disk, _, _ = snapshotted(closed)
    truncated(disk, others=31)


@pytest.mark.sweep
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_flipped_bit_without_exception_reads_the_same_in_bulk(closed: bool) -> None:
    disk, _ = journal(closed)
    flipped(disk.kill_clone(), bits=8, others=1)
    disk, _, _ = snapshotted(closed)
    flipped(disk.kill_clone(), bits=8, others=1)


@pytest.mark.sweep
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_length_without_exception_reads_the_same_in_bulk(closed: bool) -> None:
    truncated(journal(closed)[0], others=1)
    truncated(snapshotted(closed)[0], others=1)


def test_the_journals_have_several_segments_to_be_hit() -> None:
    disk, _ = journal(True)
    assert len(segments(disk)) == 3
    assert disk.size(path_of(1)) == 2048
    disk, _, _ = snapshotted(True)
    assert sum(segment_number(name) is not None for name in disk.names(FOLDER)) == 5
