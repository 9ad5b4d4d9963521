"""A small disk that other programs fill at any moment: every accepted item is confirmed on it.

A journal with the jobs that its server runs: preparations, removals, snapshots, rewrites. Each one
ends some turns after it began, with what the disk has by then.

Promise: full-disk.
"""

from __future__ import annotations

import errno
import os
from random import Random

import pytest

from journal.compaction import CompactionJob
from journal.compaction.retire import recycled_path, retire
from journal.sets import ID, IdCounts, IdSet
from journal.snapshot import Fresh, QueueCopy, RememberedIds, SnapshotJob
from journal.store import NONE_OPEN
from journal.write.segment_file import PreallocationJob, Segment, Sizes
from tests.support.journals import TIME_MS, fresh
from tests.support.memory_disk import MemoryDisk, MemoryHandle

TURNS_MAX = 60  # that a confirm waits
TURNS_ENDLESS = 1 << 30
IDS_BYTES = 16 << 10  # for a file of ids, and the snapshots that name it


class SmallDisk(MemoryDisk):
    """A disk in memory; other programs can take all of its free room."""

    taken = 0

    def free(self, path: str) -> int:
        return max(super().free(path) - self.taken, 0)

    def create(self, path: str, data: bytes, size: int) -> MemoryHandle:
        if max(size, len(data)) > self.free("/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().create(path, data, size)

    def fill(self, leave: int = 0) -> None:
        self.taken += max(self.free("/") - leave, 0)


class Shell:
    """The journal and its jobs; each with the turn in which it ends."""

    def __init__(self, seed: int, remembers: bool = False, late: bool = False) -> None:
        """With `remembers` the queue remembers an id of each item from some turn on; some of the
        items leave `late`, after all others."""
        self.random = random = Random(seed)
        least = random.choice((8, 16, 16)) << 10
        sizes = Sizes(least, least * random.choice((1, 2, 4)), random.choice((4 << 10, 1 << 20)))
        self.disk = SmallDisk()
        self.disk.make_folder("/data")
        self.disk.disk_bytes = random.randrange(3, 30) * least
        self.writer = fresh(self.disk, sizes)
        self.journal = self.writer.journal
        self.has_snapshots, self.compacts = random.random() < 0.7, random.random() < 0.5
        self.fresh, self.ids = Fresh(), 0
        self.remembers_from = random.choice((0, 20, 50)) if remembers else TURNS_ENDLESS
        if remembers:
            segments = self.journal.segment_list
            segments.remembers = lambda: self.ids > 0
            segments.first_open = lambda: 0 if self.ids else NONE_OPEN
        self.late: set[int] = set()
        self.late_part = random.choice((0.002, 0.02, 0.3)) if late else 0
        self.journal.preallocation.count_scattered = lambda: len(self.late)
        self.turns = 0
        self.no_room = False
        self.preparing: tuple[int, PreallocationJob] | None = None
        self.next_try = 0  # the turn in which a failed preparation is tried again; 0: none failed
        self.removals: list[str] = []
        self.removing: tuple[int, str, str] | None = None
        self.snapshot: tuple[int, SnapshotJob] | None = None
        self.rewriting: tuple[int, list[Segment], CompactionJob] | None = None

    def after(self, *turns: int) -> int:
        return self.turns + self.random.choice(turns)

    def state(self) -> QueueCopy:
        live = IdSet()
        for item in sorted(self.writer.queue.live):
            live.add(item)
        memory = RememberedIds(self.fresh, [], 0, None, None) if self.ids else None
        return QueueCopy(self.writer.queue.checkpoint(), live, 0, IdCounts(), [], memory=memory)

    def turn(self) -> None:
        self.turns += 1
        journal, maintenance = self.journal, self.writer.store.maintenance
        journal.write(TIME_MS)
        while journal.can_write:
            journal.write(TIME_MS)
        if journal.wants_preallocation:
            self.preparing = self.after(0, 0, 1, 3), journal.begin_preallocation(TIME_MS)
        if self.has_snapshots and self.snapshot is None and maintenance.wants_snapshot:
            begun = maintenance.begin_snapshot(self.state(), TIME_MS)
            self.snapshot = self.after(0, 1, 3), begun
        assert self.writer.sync()
        self.removals += self.writer.store.take_dead()
        self.prepare()
        self.remove()
        self.write_snapshot()
        self.rewrite()

    def prepare(self) -> None:
        preallocation = self.journal.preallocation
        if self.next_try and (preallocation.recycled or self.next_try <= self.turns):
            self.next_try = 0
            self.preparing = self.after(0, 1), self.journal.begin_preallocation(TIME_MS)
        if self.preparing is None or self.preparing[0] > self.turns:
            return
        job, self.preparing = self.preparing[1], None
        try:
            handle = job.prepare(self.disk)
        except OSError as error:
            self.no_room = True
            self.journal.preallocation_failed(job, error)
            preallocation.is_under_way = True
            self.next_try = self.after(3, 10)
        else:
            self.no_room = False
            self.journal.finish_preallocation(job, handle)

    def remove(self) -> None:
        preallocation = self.journal.preallocation
        if self.removing is not None and self.removing[0] <= self.turns:
            _, path, keep = self.removing
            self.removing = None
            if self.disk.size(path) < self.journal.sizes.recycled_min:
                keep = ""
            if kept := retire(self.disk, path, "", keep):
                preallocation.recycled.append((kept, self.disk.size(kept)))
        if self.removing is None and self.removals:
            path = self.removals.pop(0)
            keep = recycled_path(path) if preallocation.may_recycle else ""
            self.removing = self.after(0, 0, 1), path, keep

    def write_snapshot(self) -> None:
        maintenance, durable = self.writer.store.maintenance, self.journal.commit.lsn_durable
        if self.snapshot is None:
            return
        turn, job = self.snapshot
        if turn > self.turns or durable < job.snapshot.lsn:
            return
        self.snapshot = None
        try:
            job.run(self.disk)
        except OSError:
            maintenance.finish_snapshot(job, done=False)
            return
        for path in maintenance.finish_snapshot(job, done=True):
            self.disk.remove(path)
        chosen = maintenance.choose(job.snapshot.lsn, TIME_MS)
        if chosen and self.compacts and self.rewriting is None:
            begun = maintenance.begin_compaction(
                chosen, job.snapshot.needed(), lambda: None, TIME_MS
            )
            self.rewriting = self.after(0, 2), chosen, begun

    def rewrite(self) -> None:
        if self.rewriting is None or self.rewriting[0] > self.turns:
            return
        _, chosen, job = self.rewriting
        self.rewriting = None
        try:
            survivors = job.run(self.disk)
        except OSError:
            survivors = None
        maintenance = self.writer.store.maintenance
        self.removals += maintenance.finish_compaction(chosen, job, survivors)

    # -- clients --------------------------------------------------------------------------------

    def put(self, size: int) -> bool:
        """Put an item as a queue does, if it has room."""
        if self.no_room or not self.journal.room.has(size):
            return False
        remembers = self.turns >= self.remembers_from
        if remembers and not self.ids and not self.journal.preallocation.begin_to_hold():
            return False
        is_late = self.random.random() < self.late_part
        if is_late and not self.journal.preallocation.begin_to_hold(scatters=True):
            return False
        self.writer.put(bytes(size))
        if is_late:
            self.late.add(self.writer.queue.next_item - 1)
        if remembers:
            self.ids += 1
            self.fresh.add_id(self.ids.to_bytes(ID.size, "little"))
        return True

    def confirm(self) -> None:
        """Confirm one of the first items, as a few workers do."""
        live = self.writer.queue.live
        first = sorted(live, key=lambda item: (item in self.late, item))
        confirmed = first[: self.random.choice((1, 1, 1, 2, 5))][-1]
        self.late.discard(confirmed)
        self.writer.done(confirmed)

    def become_full(self, often: float) -> None:
        """Bursts, and confirms beside them, while other programs take what is free."""
        random, live = self.random, self.writer.queue.live
        largest = random.choice((2, 40, 40, 3000))
        burst, begin = random.choice((20, 200, 500)), random.randrange(60)
        confirms = random.choice((0, 0, 0.3, 0.9))
        for turn in range(300):
            for _ in range(random.randrange(burst)):
                if not self.put(random.choice((0, 1, 30, random.randrange(largest)))):
                    break
            if random.random() < confirms:
                for _ in range(min(random.randrange(burst), len(live))):
                    self.confirm()
            if turn >= begin and random.random() < often:
                self.disk.fill(random.choice((0, 0, 0, 20_000, 100_000)))
            self.turn()
            if turn >= begin and self.journal.preallocation.is_short and random.random() < 0.3:
                break

    def drain(self, often: float) -> None:
        """Confirm all; each has room before long."""
        random, live = self.random, self.writer.queue.live
        at_once, waited = random.choice((1, 1, 8, 50)), 0
        while live or self.journal.has_pending:
            if not waited:
                for _ in range(min(random.randrange(at_once) + 1, len(live))):
                    self.confirm()
            if random.random() < often:
                self.disk.fill()
            self.turn()
            waited = waited + 1 if self.journal.has_pending else 0
            assert waited < TURNS_MAX, f"confirms wait; {len(live)} items are left"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("seed", [*range(30), 125, 239, 1432])
def test_whatever_was_accepted_is_confirmed_on_the_full_disk(
    seed: int, remembers: bool, late: bool
) -> None:
    """With remembered ids there may be no room for their file, and so for no snapshot. An item that
    was delayed keeps its segment until it is confirmed, after those that came later."""
    shell = Shell(seed, remembers, late)
    often = shell.random.choice((0.02, 0.1, 0.5, 1))
    shell.become_full(often)
    shell.disk.fill()
    if shell.journal.active is None:
        return  # the disk had no room for the first segment
    shell.drain(often)
    assert not shell.journal.has_pending


@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("seed", [*range(30), 125, 239, 1432])
def test_storing_resumes_with_room_for_one_of_the_smallest_segments(
    seed: int, remembers: bool
) -> None:
    """Not for one as large as the last: the queue itself may hold most of the disk."""
    shell = Shell(seed, remembers)
    shell.has_snapshots = True
    shell.become_full(shell.random.choice((0.02, 0.1, 0.5, 1)))
    shell.disk.fill()
    if shell.journal.active is None:
        return
    shell.drain(0)
    shell.disk.fill()
    shell.disk.taken -= shell.journal.sizes.segment_min + IDS_BYTES
    for _ in range(TURNS_MAX):
        if shell.put(1):
            break
        shell.turn()
    else:
        pytest.fail("nothing is stored although there is room")
    shell.drain(1)


@pytest.mark.parametrize("seed", [*range(30), 125, 239, 1432])
def test_all_is_confirmed_while_no_snapshot_names_a_child_of_the_queue(seed: int) -> None:
    """Without the first segment a start would not know the child, so that segment stays."""
    shell = Shell(seed)
    shell.has_snapshots = False
    shell.journal.segment_list.first_open = lambda: 1
    shell.become_full(shell.random.choice((0.02, 0.1, 0.5, 1)))
    shell.disk.fill()
    if shell.journal.active is not None:
        shell.drain(1)
