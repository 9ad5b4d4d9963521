"""A small journal with all its parts: a compacted segment, two snapshots, a recycled segment.

    rank   1  2    3     4      5       7          (6 is the compacted one)
         [6: 4 6]  7 8  9 10  11 12   13 14        items put there
                 ^older    ^newest snapshot: lsn 17, in segment 5
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from journal.files import Files
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.meta import ended
from journal.format.record import Draft, Record
from journal.format.segment import Tally
from journal.format.subscription_state import DeadEntry
from journal.recovery.recovery import Recovery
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import SegmentState, Snapshot, snapshot_name
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, TIME_MS, SegmentBuilder, draft
from tests.support.journals import FOLDER, path_of
from tests.support.memory_disk import MemoryDisk

OLDER, NEWEST = 12, 17  # the lsns of the two snapshots
LIVE = [4, 6, 8, 10, 12, 13, 14]  # the live items at the end; 10 is dead
CAPACITY = 2048


def body(item: int) -> bytes:
    return b"item %d " % item * 4


def put(item: int) -> Draft:
    return draft(Kind.PUT, item, item, 0, body(item))


def done(item: int) -> Draft:
    return draft(Kind.DONE, item, TIME_MS, ended(1, len(body(item)))[0])


@dataclass
class State:
    """The state of a queue after a recovery: the live ids, and their attempts."""

    live: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)

    def see(self, record: Record) -> None:
        """Apply one record; the records come in the order of the log."""
        if record.kind == Kind.PUT:
            assert record.body == body(record.item)
            self.live.add(record.item)
        elif record.kind == Kind.DONE:
            self.live.discard(record.item)
            self.dead.discard(record.item)
            self.attempts.pop(record.item, None)
        elif record.kind == Kind.RETURNED:
            self.attempts[record.item] = record.small
        elif record.kind == Kind.DEAD:
            self.dead.add(record.item)


@dataclass
class Laid:
    """The journal on a disk, and what it holds."""

    disk: MemoryDisk
    segments: dict[int, SegmentBuilder]
    removed: dict[int, SegmentBuilder]  # those the compacted one stands for
    records: list[Record]  # all that were ever written

    def remove(self, *numbers: int) -> None:
        """Segments that are gone."""
        for number in numbers:
            self.disk.remove(path_of(number))

    def put_back(self, *numbers: int) -> None:
        """Put back segments that the compacted one has replaced."""
        for number in numbers:
            lay(self.disk, self.removed[number])


def lay(disk: MemoryDisk, one: SegmentBuilder) -> None:
    disk.make_folder(FOLDER)
    disk.create(path_of(one.number), bytes(one.data), one.capacity)


def snapshot_path(lsn: int) -> str:
    return f"{FOLDER}/{snapshot_name(lsn)}"


def opening(next_item: int) -> Checkpoint:
    return Checkpoint(b"jobs", next_item, next_item, total_items=next_item - 1, generation=1)


def snapshot(
    lsn: int, segment: int, offset: int, live: list[int], next_item: int,
    segments: list[SegmentState], tally: Tally | None,
    attempts: dict[int, int] | None = None, dead: list[DeadEntry] | None = None,
) -> Snapshot:  # fmt: skip
    ids, counts = IdSet(), IdCounts()
    for item in live:
        ids.add(item)
    for item, count in (attempts or {}).items():
        counts.set(item, count)
    return Snapshot(
        lsn, segment, offset, opening(next_item), ids, sum(len(body(i)) for i in live),
        counts, dead or [], segments, tally,
    )  # fmt: skip


def laid(closed: bool = True, tally: bool = True, capacity: int = CAPACITY) -> Laid:
    """The journal of the drawing."""
    one = SegmentBuilder(1, capacity, 1, opening(1))
    records = one.batch(*map(put, (1, 2, 3, 4)))
    one.seal(live=1)
    two = SegmentBuilder(2, capacity, 5, opening(5))
    records += two.batch(put(5), put(6), done(1), done(3), synced=4)
    two.seal(live=1)
    three = SegmentBuilder(3, capacity, 9, opening(7))
    records += three.batch(done(2), done(5), put(7), put(8), synced=8)
    three.seal(live=2)
    four = SegmentBuilder(4, capacity, 13, opening(9))
    older_at = four.at
    records += four.batch(put(9), put(10), synced=12)
    records += four.batch(done(7), draft(Kind.RETURNED, 8, TIME_MS, 3), synced=14)
    four.seal(live=2)
    five = SegmentBuilder(5, capacity, 17, opening(11))
    records += five.batch(put(11), synced=16)
    newest_at, newest_tally = five.at, Tally()
    newest_tally.see_all(records[-1:])
    records += five.batch(put(12), done(9), draft(Kind.DEAD, 10, TIME_MS, 2), synced=17)
    five.seal(live=2)
    six = SegmentBuilder(6, capacity, 1, Checkpoint(b"jobs", generation=1), first=1, last=2)
    six.batch(put(4), put(6), synced=8, lsns=(4, 6))
    six.lsn = 9
    six.seal(live=2)
    seven = SegmentBuilder(7, capacity, 21, opening(13), life=bytes(two.data))
    records += seven.batch(put(13), done(11), synced=20)
    records += seven.batch(put(14), synced=22)
    if closed:
        seven.batch(synced=23)
    states = {
        number: SegmentState(number, first, last, 2, 64)
        for number, first, last in ((1, 1, 4), (2, 5, 6), (3, 7, 8), (4, 9, 10), (6, 4, 6))
    }
    older = snapshot(
        OLDER, 4, older_at, [4, 6, 7, 8], 9, [states[n] for n in (6, 3)],
        Tally() if tally else None,
    )  # fmt: skip
    newest = snapshot(
        NEWEST, 5, newest_at, [4, 6, 8, 9, 10, 11], 12, [states[n] for n in (6, 3, 4)],
        newest_tally if tally else None, {8: 3},
    )  # fmt: skip
    disk = MemoryDisk()
    for each in (three, four, five, six, seven):
        lay(disk, each)
    for each_snapshot in (older, newest):
        data = each_snapshot.encode(SHORT_IDENTITY, IDENTITY, TIME_MS)
        disk.create(snapshot_path(each_snapshot.lsn), data, len(data))
    built = {s.number: s for s in (three, four, five, six, seven)}
    return Laid(disk.kill_clone(), built, {1: one, 2: two}, records)


def rewrite(disk: MemoryDisk, lsn: int, /, **changes: Any) -> None:
    """Write the snapshot of this lsn again, with something else in it."""
    path = snapshot_path(lsn)
    changed = replace(Snapshot.decode(disk.read(path), path), **changes)
    data = changed.encode(SHORT_IDENTITY, IDENTITY, TIME_MS)
    disk.remove(path)
    disk.create(snapshot_path(changed.lsn), data, len(data))


def recovered(disk: Files, whole: bool = False) -> tuple[list[Record], State, Recovery]:
    """The records, what a queue makes of them, and the recovery."""
    recovery = Recovery(disk, FOLDER, whole)
    records = list(recovery.records())
    state = State()
    if recovery.snapshot is not None and not whole:
        state.live = set(recovery.snapshot.live)
        state.attempts = dict(recovery.snapshot.attempts.items())
        state.dead = {d.item for d in recovery.snapshot.dead}
    for record in records:
        state.see(record)
    return records, state, recovery
