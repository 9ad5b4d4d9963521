"""The journal against a model written from the spec, on a disk that fails at any step.

The model is the list of appended records, in order, with two marks: up to where an answer said
*synced*, and up to where *written*. A restart may keep more than was promised, but always a
beginning of that list; and its live items are those that were put and not confirmed.

Promise rewritten: a failed sync then a restart, a power cut during recovery.
Promise: stored.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from journal.errors import JournalFailed
from journal.files import Handle
from journal.format.kinds import Kind
from journal.format.record import Record
from journal.recovery.recovery import Recovery
from journal.recovery.reopen import recovered_journal
from journal.sets.id_set import IdSet
from journal.write.group_commit import SyncJob
from journal.write.segment_file import PreallocationJob, Sizes
from tests.support.journals import FOLDER, TIME_MS, Queue, Writer, start
from tests.support.machines import run, run_for_long
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut
from tests.support.soak import Soak

SIZES = Sizes(segment_min=2048, segment_max=8192, batch_max=1500)
FAULTY_VERBS = ("write", "sync", "create", "create:rename", "create:names", "remove")
RESTARTS_CUT_MAX = 3

Said = tuple[int, int, bytes]  # what a record said: kind, item, body


def alive(said: Iterable[Said]) -> dict[int, bytes]:
    """The items put and not confirmed."""
    items: dict[int, bytes] = {}
    for kind, item, body in said:
        if kind == Kind.PUT:
            assert item not in items, f"item {item} was put twice"
            items[item] = body
        else:
            items.pop(item, None)
    return items


def ids(items: Iterable[int]) -> IdSet:
    """These, as a set of ids."""
    found = IdSet()
    for item in sorted(items):
        found.add(item)
    return found


class JournalMachine(RuleBasedStateMachine):
    """One journal through many lives."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.log: dict[int, Said] = {}  # by lsn
        self.synced = 0  # an answer that waits for the sync may have been given up to here
        self.written = 0  # the same for the write alone; holds after kill -9, not after power loss
        self.serial = 0
        self.stopped_at: tuple[int, int] | None = None
        self.stuck = False  # a segment could not be removed: those behind it stay until a restart
        self.job: SyncJob | None = None
        self.preallocation: PreallocationJob | None = None
        self.writer: Writer = start(self.disk, SIZES)

    # -- doing ------------------------------------------------------------------------------

    def put(self, size: int) -> None:
        self.serial += 1
        body = (b"item %d " % self.serial).ljust(size, b".")
        item = self.writer.queue.next_item
        self.log[self.writer.put(body)] = (Kind.PUT, item, body)

    def confirm(self, nth: int) -> None:
        live = self.writer.queue.live
        if live:
            item = sorted(live)[nth % len(live)]
            self.log[self.writer.done(item)] = (Kind.DONE, item, b"")

    @rule(
        puts=st.lists(st.sampled_from([0, 1, 30, 100, 600, 1400, 3000, 9000]), max_size=5),
        confirms=st.lists(st.sampled_from([0, 0, 0, 1, 2, 7]), max_size=5),
        then=st.sampled_from(["append", "write", "write", "commit", "commit"]),
    )
    def work(self, puts: list[int], confirms: list[int], then: str) -> None:
        for size in puts:
            self.put(size)
        for nth in confirms:
            self.confirm(nth)
        if then == "commit" and self.job is None and self.preallocation is None:
            self.attempt(self.writer.commit)
        elif then != "append" and self.preallocation is None:
            self.attempt(self.writer.write)

    @rule(bodies=st.integers(1, 8), then=st.sampled_from(["write", "commit"]))
    def fill_and_empty(self, bodies: int, then: str) -> None:
        """So that whole segments die, be it that nobody knows yet."""
        for _ in range(bodies):
            self.put(400)
        self.work([], [0] * (bodies + 2), then)
        self.drop_dead()

    @rule(puts=st.lists(st.sampled_from([1, 100, 1400]), min_size=1, max_size=3))
    def write_during_a_sync(self, puts: list[int]) -> None:
        if self.job is None:
            self.begin_sync()
            self.work(puts, [], "write")
            if self.job is not None:
                self.finish_sync()

    @precondition(lambda self: self.job is None)
    @rule()
    def begin_sync(self) -> None:
        self.job = self.writer.journal.begin_sync()

    @precondition(lambda self: self.job is not None)
    @rule()
    def finish_sync(self) -> None:
        job, self.job = self.job, None
        assert job is not None

        def run() -> None:
            try:
                job.run()
            except OSError as error:
                self.writer.journal.finish_sync(error)
            else:
                self.writer.journal.finish_sync(None)

        self.attempt(run)

    @precondition(
        lambda self: self.preallocation is None and self.writer.journal.wants_preallocation
    )
    @rule()
    def begin_preallocation(self) -> None:
        self.preallocation = self.writer.journal.begin_preallocation(TIME_MS)

    @precondition(lambda self: self.preallocation is not None)
    @rule()
    def preallocate(self) -> None:
        preallocation, self.preallocation = self.preallocation, None
        assert preallocation is not None

        def run() -> None:
            try:
                handle: Handle = preallocation.prepare(self.disk)
            except OSError:
                self.writer.journal.preallocation_failed(preallocation)
            else:
                self.writer.journal.finish_preallocation(preallocation, handle)

        self.attempt(run)

    @rule()
    def drop_dead(self) -> None:
        def run() -> None:
            for path in self.writer.store.take_dead():
                if not self.stuck:
                    try:
                        self.disk.remove(path)
                    except OSError:
                        self.stuck = True

        self.attempt(run)

    # -- trouble ----------------------------------------------------------------------------

    @rule(
        verb=st.sampled_from(FAULTY_VERBS),
        nth=st.integers(1, 4),
        error=st.sampled_from([errno.EIO, errno.ENOSPC]),
        keep_sectors=st.sampled_from([0, 0, 1, 2]),
    )
    def fault(self, verb: str, nth: int, error: int, keep_sectors: int) -> None:
        self.disk.faults = [Fault(verb, "*", nth, error=error, keep_sectors=keep_sectors)]

    @rule(step=st.integers(1, 12))
    def power_cut_soon(self, step: int) -> None:
        self.disk.cut_power_at(step)

    @rule(seed=st.integers(0, 1 << 30), cuts=st.lists(st.integers(1, 30), max_size=2))
    def power_loss(self, seed: int, cuts: list[int]) -> None:
        self.restart(self.disk.crash_clone(Random(seed)), 0, seed, cuts)

    @rule(seed=st.integers(0, 1 << 30), cuts=st.lists(st.integers(1, 30), max_size=2))
    def kill_9(self, seed: int, cuts: list[int]) -> None:
        self.restart(self.disk.kill_clone(), self.written, seed, cuts)

    @precondition(lambda self: self.job is None)
    @rule(seed=st.integers(0, 1 << 30), kill=st.booleans())
    def stop_and_start(self, seed: int, kill: bool) -> None:
        def run() -> None:
            try:
                self.writer.close()
            except JournalFailed:
                return
            self.synced = self.written = self.writer.journal.commit.lsn_appended

        if self.attempt(run):
            disk = self.disk.kill_clone() if kill else self.disk.crash_clone(Random(seed))
            self.restart(disk, self.written if kill else 0, seed, [])

    def attempt(self, action: Callable[[], object]) -> bool:
        """Do it; a power cut in the middle ends this life. What was answered counts."""
        try:
            action()
        except PowerCut:
            self.answered()
            self.restart(self.disk.crash_clone(Random(self.disk.steps)), 0, self.disk.steps, [])
            return False
        self.answered()
        return True

    def answered(self) -> None:
        commit = self.writer.journal.commit
        self.synced = max(self.synced, commit.lsn_durable)
        self.written = max(self.written, commit.lsn_written)

    # -- starting again ---------------------------------------------------------------------

    def restart(self, disk: MemoryDisk, written: int, seed: int, cuts: list[int]) -> None:
        """The next life on `disk`; with `cuts`, the power goes while it recovers, too."""
        self.job = self.preallocation = self.stopped_at = None
        self.stuck = False
        promised = max(self.synced, written)
        for step in cuts:
            disk.cut_power_at(step)
            try:
                self.recover(disk, promised)
            except PowerCut:
                if (seed + step) % 3 == 0:
                    disk = disk.kill_clone()
                else:
                    disk = disk.crash_clone(Random(seed + step))
                    promised = self.synced
            else:
                disk.cut_power_at(1 << 30)
                return
        self.recover(disk, promised)

    def recover(self, disk: MemoryDisk, promised: int) -> None:
        recovery = Recovery(disk, FOLDER)
        records = list(recovery.records())
        last = self.check(records, recovery, promised)
        queue = Queue(1 + max((item for _, item, _ in self.log.values()), default=0))
        lsns = {r.item: r.lsn for r in records if r.kind == Kind.PUT}
        said = [(r.kind, r.item, r.body) for r in records]
        queue.live = {item: lsns[item] for item in alive(said)}
        store = recovered_journal(recovery, SIZES, queue.checkpoint, TIME_MS)
        journal = store.writer
        journal.segment_list.adopt(ids(queue.live), 0)
        assert journal.commit.lsn_durable == journal.commit.lsn_written == last
        self.log = {lsn: said for lsn, said in self.log.items() if lsn <= last}
        # "Rewritten and synced before the first answer": whatever was found is now promised.
        self.synced = self.written = last
        self.disk = disk
        self.writer = Writer(store, queue, recovery, records)

    def check(self, records: list[Record], recovery: Recovery, promised: int) -> int:
        """What a start may find; returns the last lsn that is kept."""
        last = recovery.lsn_next - 1
        assert last >= promised, f"{promised} was promised, the log ends at {last}"
        if records:
            lsns = [r.lsn for r in records]
            assert lsns == list(range(lsns[0], last + 1)), "in order, without holes, each once"
        for record in records:
            said = (record.kind, record.item, record.body)
            assert said == self.log.get(record.lsn), "nothing is there that was never appended"
        kept = [said for lsn, said in sorted(self.log.items()) if lsn <= last]
        found = [(r.kind, r.item, r.body) for r in records]
        assert alive(found) == alive(kept), "what was put and not confirmed, and nothing else"
        for damage in recovery.damages:
            assert damage.kind == "torn", f"a crash is no damage: {damage.sentence()}"
            assert damage.lsn_first > promised
        return last

    # -- always -----------------------------------------------------------------------------

    @invariant()
    def nothing_is_durable_that_is_not_written_nor_written_that_is_not_appended(self) -> None:
        commit = self.writer.journal.commit
        assert commit.lsn_durable <= commit.lsn_written <= commit.lsn_appended

    @invariant()
    def after_a_failure_nothing_more_is_acknowledged(self) -> None:
        commit = self.writer.journal.commit
        if commit.failure is not None:
            now = (commit.lsn_durable, commit.lsn_written)
            self.stopped_at = self.stopped_at or now
            assert now == self.stopped_at

    @invariant()
    def no_sync_is_retried(self) -> None:
        assert not self.disk.retried_syncs


@pytest.mark.slow
def test_whatever_fails_what_was_acknowledged_is_there_and_nothing_else() -> None:
    run(JournalMachine, 400)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(JournalMachine, soak)
