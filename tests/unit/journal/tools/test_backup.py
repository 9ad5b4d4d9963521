"""A copy is what a kill at one moment leaves, whatever the daemon does between two reads of it.

Promise backup: a daemon that writes, rotates and removes between any two reads; moves, hand-offs,
    dead letters and expired items before any verb of the backup, over chains of queues, back, and
    into new ones; load; power cut afterwards.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from journal.format.kinds import Kind
from journal.recovery.recovery import Recovery
from journal.tools.backup import copy_journal
from journal.tools.verify import check_journal
from tests.support.journals import FOLDER, TINY, Writer, bodies, fresh, path_of, segments, start
from tests.support.memory_disk import Fault, MemoryDisk, MemoryHandle

TARGET = "/backup/jobs.1"


class BusyDisk(MemoryDisk):
    """Before every verb of the copy, `between` may do something."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] = lambda: None
        self._busy = False

    def struck(self, verb: str, path: str) -> Fault | None:
        if not self._busy:
            self._busy = True
            self.between()
            self._busy = False
        return super().struck(verb, path)


class Daemon:
    """Puts, confirms, commits, rotates, removes dead segments: a step at a time."""

    def __init__(self, disk: MemoryDisk, chance: random.Random) -> None:
        self.writer: Writer = fresh(disk, TINY)
        self.chance = chance
        self.acknowledged: set[int] = set()
        self.done: set[int] = set()
        self.puts = 0

    def step(self) -> None:
        writer, chance = self.writer, self.chance
        for _ in range(chance.randint(0, 3)):
            writer.put(b"item %d " % writer.queue.next_item * chance.randint(1, 30))
            self.puts += 1
        if writer.queue.live and chance.random() < 0.6:
            item = min(writer.queue.live) if chance.random() < 0.8 else max(writer.queue.live)
            if item in self.acknowledged:
                self.done.add(item)
                writer.done(item)
        live = set(writer.queue.live)
        writer.commit()
        self.acknowledged |= live
        writer.drop_dead()


@pytest.mark.parametrize("seed", range(60))
def test_a_copy_under_way_is_one_moment(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.tools.backup._DAMAGED_MAX", 1)  # right at once, not in the end
    disk, chance = BusyDisk(), random.Random(seed)
    daemon = Daemon(disk, chance)
    for _ in range(chance.randint(1, 60)):
        daemon.step()
    stored, done_before = set(daemon.acknowledged), set(daemon.done)
    rate, steps, puts_max = chance.choice([0.1, 0.5, 1.0]), chance.choice([1, 8]), daemon.puts + 900

    def work() -> None:
        if chance.random() < rate and daemon.puts < puts_max:
            for _ in range(steps):
                daemon.step()

    disk.between = work
    copied = copy_journal(disk, FOLDER, TARGET)
    disk.between = lambda: None

    assert copied is not None
    assert not copied.damages
    recovery = Recovery(disk, TARGET)
    records = list(recovery.records())
    lsns = [r.lsn for r in records]
    assert lsns == list(range(lsns[0], lsns[-1] + 1))
    found = {r.item for r in records if r.kind == Kind.PUT}
    ended = {r.item for r in records if r.kind == Kind.DONE}
    assert stored - daemon.done <= found - ended
    assert not (found - ended) & done_before
    assert copied.items == len(found - ended)
    disk.kill_clone()
    start(disk, folder=TARGET)


def test_a_closed_journal_is_copied_whole_and_stays_closed() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(*(b"item %d" % n * 20 for n in range(20)))
    writer.close()
    copied = copy_journal(disk, FOLDER, TARGET)
    assert copied is not None
    assert copied.items == 20
    there = [n for n in segments(disk) if Recovery(disk, FOLDER)]
    for number in segments(disk, TARGET):
        assert disk.read(path_of(number, TARGET)) == disk.read(path_of(number))
    assert set(segments(disk, TARGET)) <= set(there)
    report = check_journal(disk, TARGET)
    assert report.ending == "clean"


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_half_a_batch_is_not_copied(attempts: int) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(b"first")
    writer.put(b"whole")
    writer.put(b"cut " * 99)
    disk.faults.append(Fault("write", keep_sectors=1))
    writer.write()
    gone = Fault("create", "/backup/*", times=attempts - 1, error=errno.ENOENT)
    disk.faults = [gone] if attempts > 1 else []
    copied = copy_journal(disk, FOLDER, TARGET)
    assert copied is not None
    assert bodies(list(Recovery(disk, TARGET).records())) == [b"first"]
    assert check_journal(disk, TARGET).torn == []


def test_a_power_cut_after_the_copy_takes_nothing_of_it() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for number in range(20):
        writer.put(b"item %d" % number * 20)
        writer.write()  # and no sync
    copied = copy_journal(disk, FOLDER, TARGET)
    assert copied is not None
    after = disk.crash_clone(random.Random(1), "lost")
    assert len(bodies(list(Recovery(after, TARGET).records()))) == 20


def test_without_links_everything_is_copied() -> None:
    disk = MemoryDisk([Fault("link", times=1000, error=18)])  # EXDEV
    writer = fresh(disk, TINY)
    writer.put_all(*(b"item %d" % n * 20 for n in range(20)))
    copied = copy_journal(disk, FOLDER, TARGET)
    assert copied is not None
    assert copied.items == 20
    assert len(bodies(list(Recovery(disk.crash_clone(random.Random(1), "lost"), TARGET)
                           .records()))) == 20  # fmt: skip


def test_nothing_of_a_deleted_queue_is_left() -> None:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    assert copy_journal(disk, FOLDER, TARGET) is None
    assert disk.names("/backup") == []


def test_a_handle_of_the_source_is_never_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    writer.put_all(*(b"item %d" % n * 20 for n in range(20)))
    written: list[str] = []
    real = MemoryHandle.write

    def write(handle: MemoryHandle, offset: int, data: bytes) -> None:
        written.append(handle.path)
        real(handle, offset, data)

    monkeypatch.setattr(MemoryHandle, "write", write)
    copy_journal(disk, FOLDER, TARGET)
    assert all(path.startswith(TARGET) for path in written)


def test_what_is_written_behind_the_copied_segment_is_another_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("journal.tools.backup._DAMAGED_MAX", 1)
    disk = BusyDisk()
    writer = fresh(disk, TINY)
    number = 0
    while len(segments(disk)) < 2:  # one active, one prepared
        number += 1
        writer.put_all(b"item %d " % number * 20)

    def write_on_once_it_is_copied() -> None:
        if any(name.endswith(".segment") for name in disk.names(TARGET)):
            disk.between = lambda: None
            writer.put_all(*(b"later %d " % n * 20 for n in range(9)))

    disk.between = write_on_once_it_is_copied
    copied = copy_journal(disk, FOLDER, TARGET)
    assert copied is not None
    assert not copied.damages
    assert [r.item for r in Recovery(disk, TARGET).records()] == list(range(1, number + 1))


@pytest.mark.parametrize("is_closed", [True, False])
def test_the_progress_is_every_byte_of_the_copy(is_closed: bool) -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for number in range(1, 19):
        writer.put_all(b"item %d " % number * 20)
    if is_closed:
        writer.close()
    copied: list[int] = []

    copy_journal(disk, FOLDER, TARGET, copied.append)

    there = sum(disk.size(f"{TARGET}/{name}") for name in disk.names(TARGET))
    assert sum(copied) == there
