"""Which of the items that a snapshot names have a body that can be read, and which do not.

Promise: bodies-known.
"""

from __future__ import annotations

import pytest

from journal.recovery.bodies import NO_SEGMENT, BodyCheck, lost_items_text, runs
from journal.recovery.recovery import Recovery
from journal.sets.id_set import IdSet
from tests.support.journals import FOLDER, path_of
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.snapshots import LIVE, laid


def checked(disk: MemoryDisk, *more: int) -> BodyCheck:
    """Check the live items of the journal on this disk, and `more`."""
    recovery = Recovery(disk, FOLDER)
    list(recovery.records())
    bodies = recovery.bodies(IdSet.of([*LIVE, *more]))
    bodies.run(disk, recovery.damages)
    return bodies


def test_of_a_whole_journal_every_body_can_be_read() -> None:
    bodies = checked(laid().disk)
    assert not bodies.unreadable
    assert bodies.damages == []


def test_zeros_in_a_settled_segment_are_named_with_the_items_put_there() -> None:
    disk = laid().disk
    disk.damage(path_of(3), 512, bytes(disk.size(path_of(3)) - 512))
    bodies = checked(disk)
    (damage,) = bodies.damages
    assert [*bodies.unreadable] == [8]
    assert damage.path == path_of(3)
    assert (damage.id_first, damage.id_last) == (8, 8)


@pytest.mark.parametrize(("most", "wanted"), [(1 << 20, False), (1, True)])
def test_a_check_pauses_after_a_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch, most: int, wanted: bool
) -> None:
    monkeypatch.setattr("journal.recovery.bodies.PAUSE_BYTES", most)
    disk = laid().disk
    recovery = Recovery(disk, FOLDER)
    list(recovery.records())
    pauses = list[bool]()
    recovery.bodies(IdSet.of(LIVE)).run(disk, pause=lambda: pauses.append(True))
    assert bool(pauses) is wanted


def test_an_item_that_no_segment_holds_is_named() -> None:
    bodies = checked(laid().disk, 3)
    assert [*bodies.unreadable] == [3]
    assert [each.reason for each in bodies.damages] == [NO_SEGMENT]


def test_bytes_that_the_disk_does_not_give_hold_no_item() -> None:
    disk = laid().disk
    recovery = Recovery(disk, FOLDER)
    list(recovery.records())
    bodies = recovery.bodies(IdSet.of(LIVE))
    disk.faults.append(Fault("read", path_of(3), times=1000))
    bodies.run(disk)
    assert [*bodies.unreadable] == [8]


def test_a_file_that_a_daemon_removes_meanwhile_is_no_loss() -> None:
    disk = laid().disk
    recovery = Recovery(disk, FOLDER)
    list(recovery.records())
    bodies = recovery.bodies(IdSet.of(LIVE))
    disk.remove(path_of(3))
    bodies.run(disk)
    assert not bodies.unreadable


def test_items_that_were_seen_already_are_not_looked_for() -> None:
    disk = laid().disk
    recovery = Recovery(disk, FOLDER)
    list(recovery.records())
    bodies = recovery.bodies(IdSet.of(LIVE))
    assert bodies.bytes
    for item in LIVE:
        bodies.see(item)
    before = len(disk.trace)
    bodies.run(disk)
    assert not bodies.unreadable
    assert len(disk.trace) == before


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([7], "1 item cannot be read: 7"),
        ([1, 2, 3], "3 items cannot be read: 1 to 3"),
        ([1, 2, 5], "3 items cannot be read: 1 to 2, 5"),
        ([*range(1, 40, 2)], "20 items cannot be read: 1, 3, 5, 7, 9, 11, 13, 15, "
                             "and others up to 39"),
    ],
)  # fmt: skip
def test_items_are_written_as_runs(items: list[int], text: str) -> None:
    assert lost_items_text(IdSet.of(items)) == text
    assert sum(last - first + 1 for first, last in runs(IdSet.of(items))) == len(items)
