"""Blocks of a small journal that are something else: zeros, ones, the block before them, those of
another file of the journal, or what stood there before (a lost write).

The rule: `verify` names every record that is hit, and each item that cannot be read; a copy as a
backup makes it names them too, and counts the items that a start serves from it; a start names
each, and serves all the others.

    recycled    segments that took the files of earlier ones; else all have their first life
    snapshot    the newest knows most of the items; else there is none

Promise bodies-known: zeros, ones, repeated blocks, blocks of another file of the journal and of an
    older state of the file, of 512 bytes, 4 KiB, half and all of each segment, snapshot and chunk,
    with and without snapshots, in fresh and recycled files; files that are shorter, in each other's
    place or without a header; half and all of a segment of a real data directory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from journal.errors import Damage
from journal.format.item_header import ItemHeader
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Record, decode
from journal.format.segment import (
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    SegmentHeader,
    segment_number,
)
from journal.tools.backup import copy_journal
from journal.tools.verify import check_journal
from journal.write.segment_file import Sizes
from kestrelpy.core.policy import Policy
from tests.support.disk_harness import DiskHarness
from tests.support.memory_disk import MemoryDisk

SIZES = Sizes(8 << 10, 8 << 10, 1 << 20)
COPY = "/backup/jobs.1"
CONTENTS = ("zeros", "ones", "repeated", "another file", "older")


@dataclass
class Made:
    """A journal: what its items are, and what its files were before."""

    disk: MemoryDisk
    folder: str
    live: dict[int, bytes]  # by item, the body
    states: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return self.disk.names(self.folder)

    @property
    def last(self) -> str:
        """The segment in which the log ends."""
        segments = [name for name in self.names if name.endswith(".segment")]
        return max(n for n in segments if self.frames(n) and not self.is_compacted(n))

    def is_compacted(self, name: str) -> bool:
        header = SegmentHeader.decode(self.disk.read(f"{self.folder}/{name}"), name)
        return header is not None and header.role == COMPACTED

    def frames(self, name: str) -> list[Record]:
        """Every frame of a segment, in order."""
        data, number = self.disk.read(f"{self.folder}/{name}"), segment_number(name)
        assert number is not None
        owner, found, at = int.from_bytes(data[12:16], "little"), list[Record](), FILE_HEADER_BYTES
        while (record := decode(data, at, owner, number)) is not None:
            found.append(record)
            at = record.end
        footer = decode(data, len(data) - FOOTER_SPACE_BYTES, owner, number)
        return [*found, footer] if footer is not None else found


@functools.cache
def made(recycled: bool, snapshot: bool) -> Made:
    h = DiskHarness(Policy(), SIZES)
    folder = h.directory.folder(h.jobs)
    bodies, states = dict[int, bytes](), dict[str, list[bytes]]()

    def put(count: int) -> None:
        for _ in range(count):
            item = h.jobs.next_number
            bodies[item] = b"item %d " % item * 30
            if not h.log.has_room(2 * len(bodies[item])):  # as a connection that waits
                h.commit()
                h.do_all()
            h.jobs.put(bodies[item], 0, 0, h.now_ms, header=ItemHeader(id=b"%d" % item))
            h.commit()
        h.do_all()
        h.commit()
        for name in h.disk.names(folder):
            states.setdefault(name, []).append(h.disk.read(f"{folder}/{name}"))

    put(45)
    for number in range(40 if recycled else 10):
        lease = h.open()
        assert lease is not None
        if recycled or number % 3:
            h.reader.confirm(lease, h.now_ms)
        h.commit()
    h.do_all()
    put(30)
    put(12)
    h.log.journal.close(h.unix_ms)
    disk = h.disk.kill_clone()
    if not snapshot:
        for name in disk.names(folder):
            if name.endswith((".snapshot", ".chunk")):
                disk.remove(f"{folder}/{name}")
    live = {item: bodies[item] for item in h.reader.live}
    found = Made(disk, folder, live, states)
    assert check_journal(disk, folder).damages == []
    assert len([n for n in found.names if n.endswith(".segment")]) >= 3
    return found


def spans(size: int) -> Iterator[tuple[int, int]]:
    """512 bytes, 4 KiB, half and all of a file: in front, in the middle, at the end."""
    for length in (512, 4096, size // 2):
        for at in (0, (size - length) // 2 // 512 * 512, size - length):
            if at >= 0 and 0 < length < size:
                yield at, at + length
    yield 0, size


def contents(one: Made, name: str, kind: str, start: int, end: int) -> bytes:
    """Return the bytes that replace the block; empty: this kind of damage is not possible here."""
    data, count = one.disk.read(f"{one.folder}/{name}"), end - start
    if kind == "zeros":
        return bytes(count)
    if kind == "ones":
        return b"\xff" * count
    if kind == "repeated":
        before = data[max(start - count, 0) : start]
        return (before * (count // max(len(before), 1) + 1))[:count]
    if kind == "older":
        states = [s for s in one.states.get(name, []) if len(s) == len(data) and s != data]
        return states[0][start:end] if states else b""
    ending = name.rpartition(".")[2]
    others = (n for n in one.names if n != name and n.endswith(ending))
    found = (one.disk.read(f"{one.folder}/{other}")[start:end] for other in others)
    return next((each for each in found if len(each) == count), b"")


def hit(one: Made, name: str, start: int, new: bytes) -> list[Record]:
    """Return the records that were changed, except the one that says that all is synced."""
    old = one.disk.read(f"{one.folder}/{name}")[start : start + len(new)]
    found = []
    for each in one.frames(name):
        low = max(each.offset, start)
        high = min(each.offset + HEADER_BYTES + len(each.meta) + len(each.body), start + len(new))
        if low < high and old[low - start : high - start] != new[low - start : high - start]:
            found.append(each)
    return [r for r in found if r.kind != Kind.BATCH or r.small]


def names(damages: list[Damage], item: int) -> bool:
    return any(each.id_first <= item <= each.id_last for each in damages)


def check(one: Made, disk: MemoryDisk, puts: dict[int, int], where: str) -> None:
    """Check that `verify`, a copy and a start name each lost item, and that all others are served.
    `puts` are the lost items with the lsns of their puts; an item whose put comes after the last
    known sync need not be named."""
    report, copied = check_journal(disk, one.folder), copy_journal(disk, one.folder, COPY)
    lost = {item for item, lsn in puts.items() if not report.torn or lsn <= report.lsn_synced}
    assert report.damages or report.torn, f"{where}: verify says nothing"
    said = [*report.damages, *report.torn]
    assert all(names(said, item) for item in lost), f"{where}: {said}"
    assert copied is not None
    assert copied.damages or report.torn, f"{where}: the copy is clean"
    assert not lost & set(report.live_set.items), f"{where}: counted, and not there"
    h = DiskHarness(Policy(), SIZES, disk.kill_clone())
    assert all(names(h.damages, item) for item in lost), f"{where}: the start is silent"
    told = set(h.log.store.unreadable)
    if not report.torn:
        assert lost <= told, f"{where}: {lost - told}"
    unreadable = set(h.reader.unreadable)
    assert told & set(h.reader.live) <= unreadable <= told, f"{where}: not in the figures"
    assert report.torn or lost <= unreadable, f"{where}: health is ok"
    served = h.take_all()
    bodies = {body for item, body in one.live.items() if item not in puts}
    assert bodies <= set(served), f"{where}: {len(bodies - set(served))} are not served"
    if not report.torn:
        assert copied.items == len(served), f"{where}: the count of the copy"


def is_beyond_knowing(one: Made, name: str, kind: str, snapshot: bool, new: bytes) -> bool:
    """True for the two limits that `docs/limits.md` states: an older copy of the last segment looks
    like a shorter log; without a snapshot nothing tells which items a compacted segment held if it
    has no record left."""
    is_all = len(new) == one.disk.size(f"{one.folder}/{name}")
    is_survivor = one.is_compacted(name) and not snapshot and is_all
    return is_survivor or (name == one.last and kind == "older")


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("snapshot", [True, False], ids=["snapshot", "no snapshot"])
@pytest.mark.parametrize("recycled", [True, False], ids=["recycled", "first life"])
def test_damaged_blocks_are_named_and_cost_only_what_they_hit(
    recycled: bool, snapshot: bool, kind: str
) -> None:
    one, count = made(recycled, snapshot), 0
    for name in one.names:
        path = f"{one.folder}/{name}"
        if not name.endswith(".segment"):
            continue
        for start, end in spans(one.disk.size(path)):
            new = contents(one, name, kind, start, end)
            broken = hit(one, name, start, new) if new else []
            if not broken or is_beyond_knowing(one, name, kind, snapshot, new):
                continue
            lost = {r.item: r.lsn for r in broken if r.kind == Kind.PUT and r.item in one.live}
            disk = one.disk.kill_clone()
            disk.damage(path, start, new)
            check(one, disk, lost, f"{name} {start} to {end}")
            count += 1
    assert count or kind == "older"


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("ending", [".snapshot", ".chunk"])
def test_damaged_blocks_of_a_state_are_named_and_cost_no_item(ending: str, kind: str) -> None:
    one = made(True, True)
    for name in (n for n in one.names if n.endswith(ending)):
        path = f"{one.folder}/{name}"
        for start, end in spans(one.disk.size(path)):
            new = contents(one, name, kind, start, end)
            if not new or new == one.disk.read(path)[start:end]:
                continue
            disk = one.disk.kill_clone()
            disk.damage(path, start, new)
            check(one, disk, {}, f"{name} {start} to {end}")
