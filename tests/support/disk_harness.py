"""A queue with a real journal on the memory disk, whose threads are moved by hand: what is ordered
off the loop (reads, snapshots, rewriting) is done one by one, whenever a test says so.

`wrap` of `kestrelpy.server.journals.journal_jobs` has to be replaced by `at_once`.

One rule: between two commands nothing happens that was not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar, cast

from journal.errors import Damage
from journal.write.segment_file import Sizes
from kestrelpy.core.broker import Broker
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Holder, Lease
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import NOT_STORED, Queue
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.journals.journal_jobs import JournalJobs
from tests.support.journals import TINY
from tests.support.memory_disk import MemoryDisk

T = TypeVar("T")
NAME = b"jobs"
WALL_MS = 1_700_000_000_000
_ROUNDS_MAX = 3000


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """In place of a thread."""

    async def run(*args: Any, executor: object = None) -> Any:
        return function(*args)

    return run


class HandTimer:
    """What `call_later` returns."""

    def __init__(self, loop: HandLoop, entry: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
        self._loop, self._entry = loop, entry

    def cancel(self) -> None:
        if self._entry in self._loop.soon:
            self._loop.soon.remove(self._entry)


class HandLoop:
    """Collects what is to be called."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def time(self) -> float:
        return 0.0

    def call_soon(self, call: Callable[..., Any], *args: Any) -> None:
        self.soon.append((call, args))

    def call_later(self, _: float, call: Callable[..., Any], *args: Any) -> HandTimer:
        self.soon.append((call, args))
        return HandTimer(self, self.soon[-1])


async def no_sleep(_: float) -> None:
    """Time is nothing in the hand."""


class HandBackground(JournalJobs):
    """Collects what is to be done on threads."""

    def __init__(self, life: DiskHarness) -> None:
        self.life = life
        self.loop = HandLoop()
        super().__init__(
            life.disk, cast("Any", self.loop), life.read_back, life.settled, life.remove,
            lambda talk: None,
        )
        self.work: list[Coroutine[object, object, None]] = []
        self._sleep = no_sleep

    def _start(self, target: JournalLog, work: Coroutine[object, object, None]) -> None:
        self.work.append(work)

    def _name(self, reader: Subscription, target: JournalLog) -> None:
        backlog = target.store.read_ahead
        self.life.damages += backlog.damages + reader.damages
        backlog.damages, reader.damages = [], []

    def do_one(self, nth: int = 0) -> bool:
        """One thing that is to be done; False: there is none."""
        if self.loop.soon:
            call, args = self.loop.soon.pop(0)
            call(*args)
            return True
        if not self.work:
            return False
        work = self.work.pop(nth % len(self.work))
        try:
            work.send(None)
        except StopIteration:
            return True
        raise AssertionError("nothing is waited for in the hand")


    def __del__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The process is gone."""
        for work in self.work:
            work.close()
        self.work = []


class DiskHarness:
    """One process with the queue `jobs`."""

    def __init__(
        self, policy: Policy, sizes: Sizes = TINY, disk: MemoryDisk | None = None, now_ms: int = 0
    ) -> None:
        self.policy, self.sizes, self.now_ms = policy, sizes, now_ms
        self.disk = disk or MemoryDisk()
        self.dirty: list[JournalLog] = []
        self.damages: list[Damage] = []
        self.holders: dict[str, Holder] = {}
        self.background = HandBackground(self)
        self.directory = DataDirectory(self.disk, "data", sizes)
        self.directory.lock()
        self.broker = Broker(
            lambda name, declared: self.policy, lambda q: self.directory.new_log(q, self.dirty),
            ClockOffset(WALL_MS), 9,
        )  # fmt: skip
        found = self.directory.recover(self.broker, self.dirty, now_ms, self.unix_ms)
        self.damages += found.damages
        self.notes = found.notes
        if NAME not in self.broker.queues:
            self.broker.create(NAME, now_ms)
        self.starving: list[Subscription] = []

    @property
    def unix_ms(self) -> int:
        return self.now_ms + WALL_MS

    @property
    def queue(self) -> Queue:
        return self.broker.queues[NAME]

    @property
    def reader(self) -> Subscription:
        return self.queue.reader

    @property
    def log(self) -> JournalLog:
        assert isinstance(self.queue.log, JournalLog)
        return self.queue.log

    # -- off the loop -----------------------------------------------------------------------

    def read_back(self, reader: Subscription) -> None:
        reader.ready_line.refill(self.unix_ms)
        if reader.waiters:
            reader.serve(self.now_ms)

    def settled(self, target: JournalLog) -> None:
        self.remove(target, target.take_dead())

    def remove(self, _: JournalLog, paths: list[str]) -> None:
        for path in paths:
            self.disk.remove(path)

    def feed(self) -> None:
        """The end of a turn."""
        hungry = dict.fromkeys(self.starving + self.broker.take_to_read())
        self.starving = [r for r in hungry if not self.background.schedule_read(r)]

    def do_some(self, nth: int = 0) -> bool:
        """One turn, and one thing that is to be done off the loop."""
        self.feed()
        return self.background.do_one(nth)

    def settle(self) -> None:
        """Turns until nothing comes of them."""
        for _ in range(_ROUNDS_MAX):
            if not self.do_some():
                return
        raise AssertionError("it does not come to rest")

    def commit(self) -> None:
        """Everything is written and synced."""
        journal = self.log.journal
        for log in self.dirty:
            log.cleaned()
        self.dirty.clear()
        for _ in range(_ROUNDS_MAX):
            journal.write(self.unix_ms)
            if journal.wants_preallocation:
                order = journal.begin_preallocation(self.unix_ms)
                journal.finish_preallocation(order, order.prepare(self.disk))
            elif not journal.has_pending or journal.commit.failure is not None:
                break
        if self.log.store.maintenance.wants_snapshot:
            self.background.snapshot(self.log, self.unix_ms)
        job = journal.begin_sync()
        if job is not None:
            job.run()
            journal.finish_sync(None)
        self.log.advance()
        self.background.log_advanced(self.log)
        self.settled(self.log)

    def killed(self) -> DiskHarness:
        """The next process after `kill -9`; all of it on the disk."""
        self.background.forget()
        return DiskHarness(self.policy, self.sizes, self.disk.kill_clone(), self.now_ms)

    def lost_power(self, seed: int) -> DiskHarness:
        """The next process after a power loss."""
        self.background.forget()
        return DiskHarness(
            self.policy, self.sizes, self.disk.crash_clone(Random(seed)), self.now_ms
        )

    # -- a client ---------------------------------------------------------------------------

    def who(self, name: str) -> Holder:
        return self.holders.setdefault(name, Holder(name))

    def put(
        self, body: bytes, expires_ms: int = 0, delay: Delay | None = None, key: bytes = NO_KEY
    ) -> bool:
        return self.queue.put(
            body, 0, expires_ms, self.now_ms, key, delay=delay
        ) != NOT_STORED

    def open(self, who: str = "anna", dead: bool = False, lease_ms: int = 0) -> Lease | None:
        return self._waited(
            lambda: self.reader.open(self.who(who), self.now_ms, dead, lease_ms), dead
        )

    def peek(self, dead: bool = False) -> bytes | None:
        item = self._waited(lambda: self.reader.first(self.now_ms, dead), dead, False)
        return item.body if item is not None else None

    def _waited(
        self, look: Callable[[], T | None], dead: bool, lends: bool = True
    ) -> T | None:
        """As a get does: what has to be read back is waited for."""
        for _ in range(_ROUNDS_MAX):
            found = look()
            if found is not None or not self.reader.is_busy(self.now_ms, dead, lends):
                return found
            if not self.do_some():
                self.commit()
            if not self.reader.is_busy(self.now_ms, dead, lends):
                return look()
        raise AssertionError("whoever fetches waits for good")

    def take_all(self) -> list[bytes]:
        """Everything that is ready, taken and confirmed."""
        bodies = []
        while (lease := self.open()) is not None:
            bodies.append(lease.item.body)
            self.reader.confirm(lease, self.now_ms)
        return bodies

    def wait(self, who: str, want: Want = Want.OPEN, wait_ms: int = 1000) -> None:
        self.broker.wait(want, NAME, self.who(who), False, who, self.now_ms + wait_ms)
        self.reader.serve(self.now_ms)

    def pass_time(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        for _ in range(_ROUNDS_MAX):
            due = self.broker.next_due()
            if due is None or due > until_ms:
                break
            self.now_ms = max(self.now_ms, due)
            self.broker.tick(self.now_ms)
        self.now_ms = until_ms
