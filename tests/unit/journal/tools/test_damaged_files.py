"""Whole files of a small journal that are shorter, in each other's place or without their headers,
and damage whose items only a child needs.

The rule is that of `test_damaged_blocks`: each item that is lost is named, all others are served.

Promise: bodies-known.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES
from journal.tools.backup import copy_journal
from journal.tools.verify import check_journal
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.child_queue import ChildQueue
from tests.support.disk_harness import NAME, DiskHarness
from tests.support.memory_disk import MemoryDisk
from tests.unit.journal.tools.test_damaged_blocks import COPY, SIZES, Made, check, hit, made

BOTH = pytest.mark.parametrize("snapshot", [True, False], ids=["snapshot", "no snapshot"])


def write(disk: MemoryDisk, path: str, data: bytes) -> None:
    """Another file in the place of this one."""
    disk.remove(path)
    disk.create(path, data, len(data)).close()


def segments(one: Made) -> list[str]:
    return [name for name in one.names if name.endswith(".segment") and one.frames(name)]


def puts(one: Made, name: str, start: int = 0) -> dict[int, int]:
    """The live items put in a segment that end after this byte, with the lsns of their puts."""
    return {
        r.item: r.lsn
        for r in one.frames(name)
        if r.kind == Kind.PUT and r.item in one.live
        and r.offset + HEADER_BYTES + len(r.meta) + len(r.body) > start
    }  # fmt: skip


@BOTH
@pytest.mark.parametrize("recycled", [True, False], ids=["recycled", "first life"])
def test_a_file_that_is_shorter_costs_only_what_it_has_not(recycled: bool, snapshot: bool) -> None:
    one = made(recycled, snapshot)
    for name in segments(one):
        path = f"{one.folder}/{name}"
        data = one.disk.read(path)
        for size in (0, 30, FOOTER_SPACE_BYTES, len(data) // 2, len(data) - FOOTER_SPACE_BYTES):
            if name == one.last or (one.is_compacted(name) and size < FILE_HEADER_BYTES):
                continue  # the end of the log; and a place that nothing tells
            disk = one.disk.kill_clone()
            write(disk, path, data[:size])
            check(one, disk, puts(one, name, size), f"{name} of {size} bytes")


def test_a_backup_of_a_last_file_that_is_shorter_names_it_as_well() -> None:
    one = made(True, True)
    path = f"{one.folder}/{one.last}"
    for size in (0, 30, FOOTER_SPACE_BYTES):
        disk = one.disk.kill_clone()
        write(disk, path, one.disk.read(path)[:size])
        copied = copy_journal(disk, one.folder, COPY)
        assert check_journal(disk, one.folder).damages
        assert copied is not None and copied.damages, size


def test_a_file_without_a_header_that_was_cut_does_not_count_a_million_items() -> None:
    one = made(True, False)
    disk = one.disk.kill_clone()
    write(disk, f"{one.folder}/{one.last}", b"")
    report = check_journal(disk, one.folder)
    assert any("items from" in damage.sentence() for damage in report.damages)
    assert len(report.unreadable) == 0, "their number is unknown"


@BOTH
def test_two_files_in_each_others_place_are_both_lost_and_named(snapshot: bool) -> None:
    one = made(True, snapshot)
    for name, other in pairwise(n for n in segments(one) if n != one.last):
        if not snapshot and (one.is_compacted(name) or one.is_compacted(other)):
            continue  # nothing tells what they held
        first, second = f"{one.folder}/{name}", f"{one.folder}/{other}"
        disk = one.disk.kill_clone()
        write(disk, first, one.disk.read(second))
        write(disk, second, one.disk.read(first))
        check(one, disk, puts(one, name) | puts(one, other), f"{name} and {other}")


@BOTH
def test_a_compacted_file_without_its_front_hides_no_other_one(snapshot: bool) -> None:
    one = made(True, snapshot)
    (name,) = (n for n in segments(one) if one.is_compacted(n))
    path = f"{one.folder}/{name}"
    for size in (FILE_HEADER_BYTES, one.disk.size(path) // 2):
        for other in (n for n in segments(one) if n not in (name, one.last)):
            disk = one.disk.kill_clone()
            disk.damage(path, 0, bytes(size))
            disk.damage(f"{one.folder}/{other}", 512, b"\xff" * 512)
            broken = [*hit(one, name, 0, bytes(size)), *hit(one, other, 512, b"\xff" * 512)]
            lost = {r.item: r.lsn for r in broken if r.kind == Kind.PUT and r.item in one.live}
            check(one, disk, lost, f"{name} without {size} bytes, and {other}")


def test_lost_items_that_only_a_child_needs_are_named_without_a_snapshot() -> None:
    h = DiskHarness(Policy(), SIZES)
    folder = h.directory.folder(h.jobs)
    h.broker.mention(b"jobs+audit", h.now_ms, 1)
    for n in range(60):
        h.put(b"item %d " % n * 30)
        h.commit()
    while (lease := h.open()) is not None:
        h.reader.confirm(lease, h.now_ms)
    h.commit()
    h.do_all()
    h.log.journal.close(h.unix_ms)
    disk = h.disk.kill_clone()
    for name in disk.names(folder):
        if name.endswith(".snapshot"):
            disk.remove(f"{folder}/{name}")
    disk.damage(f"{folder}/0000000002.segment", 4096, bytes(4096))

    later = DiskHarness(Policy(), SIZES, disk.kill_clone())

    reader = ChildQueue.of(later.jobs.children[b"audit"]).reader
    lost = set(reader.unreadable)
    assert lost and set(later.log.store.unreadable) == lost
    assert set(check_journal(disk, folder).unreadable) == lost
    assert later.broker.queues[NAME].is_empty
