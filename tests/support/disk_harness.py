"""A server with the one queue `jobs`, whose jobs off the loop are done one by one, by hand.

It stands for a queue whose items do not fit into memory: `put`, `open`, `peek` and `take_all` call
the core, and `do_some` does one read, snapshot or rewriting that was ordered.
Real: all that is real in a `ServerHarness`, and the `JournalJobs`.
Replaced: the conversations by these calls, the threads by `JobsByHand`.

One rule: nothing is written, synced or read but in `commit`, `do_some` and `do_all`, and in a
fetch that waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar, cast
from unittest.mock import patch

from journal.compaction import reclaim
from journal.errors import Damage
from journal.write.segment_file import Sizes
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Holder, Lease
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import NOT_STORED, Queue
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.errors import NoRoomYet
from kestrelpy.server.journals.idle_journals import IdleJournals
from kestrelpy.server.journals.journal_jobs import JournalJobs
from tests.support.journals import TINY
from tests.support.memory_disk import MemoryDisk
from tests.support.server_harness import WALL_MS, ServerHarness

__all__ = ["NAME", "WALL_MS", "DiskHarness", "HandLoop"]

T = TypeVar("T")
NAME = b"jobs"
_ROUNDS_MAX = 3000
_SECONDS_MAX = 40


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """In place of a thread."""

    async def run(*args: Any, executor: object = None) -> Any:
        return function(*args)

    return run


class HandTimer:
    """The result of `call_later`."""

    def __init__(self, loop: HandLoop, entry: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
        self._loop, self._entry = loop, entry

    def cancel(self) -> None:
        if self._entry in self._loop.soon:
            self._loop.soon.remove(self._entry)


class HandLoop:
    """Collects calls, for a test to make."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.seconds = 0.0

    def time(self) -> float:
        return self.seconds

    def call_soon(self, call: Callable[..., Any], *args: Any) -> None:
        self.soon.append((call, args))

    def call_later(self, _: float, call: Callable[..., Any], *args: Any) -> HandTimer:
        self.soon.append((call, args))
        return HandTimer(self, self.soon[-1])


async def no_sleep(_: float) -> None:
    """Time is nothing in the hand."""


class JobsByHand(JournalJobs):
    """Collects the work for threads."""

    def __init__(self, harness: DiskHarness) -> None:
        self.harness = harness
        self.loop = HandLoop()
        super().__init__(
            harness.disk, cast("Any", self.loop), harness.read_back, harness.settled,
            harness.remove, lambda talk: None,
        )  # fmt: skip
        self.clock = HandLoop()  # of idle journals: its timers ring in `pass_second` alone
        self.idle = IdleJournals(
            harness.disk, cast("Any", self.clock), lambda _: bool(self.work), self._start,
            harness.settled, lambda: harness.unix_ms,
        )  # fmt: skip
        self.work: list[Coroutine[object, object, None]] = []
        self._sleep = no_sleep

    def _start(self, target: JournalLog, work: Coroutine[object, object, None]) -> None:
        self.work.append(work)

    def _name(self, reader: Subscription, target: JournalLog) -> None:
        backlog = target.store.read_ahead
        self.harness.damages += backlog.damages + reader.damages
        backlog.damages, reader.damages = [], []

    def do_one(self, nth: int = 0) -> bool:
        """Do one job; return False if there is none."""
        if self.loop.soon:
            call, args = self.loop.soon.pop(0)
            call(*args)
            return True
        return self.do_work(nth)

    def do_work(self, nth: int = 0) -> bool:
        """Do one job of a thread; return False if there is none."""
        if not self.work:
            return False
        work = self.work.pop(nth % len(self.work))
        try:
            with (
                patch("kestrelpy.server.journals.journal_jobs.wrap", at_once),
                patch("kestrelpy.server.journals.idle_journals.wrap", at_once),
            ):
                work.send(None)
        except StopIteration:
            return True
        raise AssertionError("nothing is waited for in the hand")

    def __del__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Close all work off the loop, as the end of the process does."""
        for work in self.work:
            work.close()
        self.work = []


class DiskHarness(ServerHarness):
    """A server with the queue `jobs`."""

    first_ms = 0

    def __init__(
        self, policy: Policy, sizes: Sizes = TINY, disk: MemoryDisk | None = None, now_ms: int = 0
    ) -> None:
        self.policy = policy
        super().__init__(disk, now_ms, sizes)

    def _start(self) -> None:
        super()._start()
        self.damages: list[Damage] = [*self.found.damages]
        self.holders: dict[str, Holder] = {}
        self.waiting_reads: list[Subscription] = []
        self.background = JobsByHand(self)
        if NAME not in self.broker.queues:
            self.broker.create(NAME, self.now_ms)

    def _come_back(self) -> None:
        self.background.forget()
        super()._come_back()

    def policy_of(self, name: bytes, declared: bytes) -> Policy:
        return self.policy

    @property
    def jobs(self) -> Queue:
        return self.broker.queues[NAME]

    @property
    def reader(self) -> Subscription:
        return self.jobs.reader

    @property
    def log(self) -> JournalLog:
        assert isinstance(self.jobs.log, JournalLog)
        return self.jobs.log

    def work(self) -> None:
        """Only what is due is done."""
        due = self.broker.next_due()
        if due is not None and due <= self.now_ms:
            self.broker.tick(self.now_ms)

    # -- off the loop -----------------------------------------------------------------------

    def read_back(self, reader: Subscription) -> None:
        reader.ready_items.refill(self.unix_ms)
        if reader.waiters:
            reader.serve(self.now_ms)

    def settled(self, target: JournalLog) -> None:
        self.remove(target, target.take_dead())

    def remove(self, _: JournalLog, paths: list[str]) -> None:
        with suppress(OSError):  # those of a journal strictly in order; a server has a line for it
            for path in paths:
                self.disk.remove(path)

    def end_turn(self) -> None:
        """Do the work at the end of a turn."""
        to_read = dict.fromkeys(self.waiting_reads + self.broker.take_to_read())
        self.waiting_reads = [r for r in to_read if not self.background.schedule_read(r)]

    def do_some(self, nth: int = 0) -> bool:
        """Do one turn, and one job off the loop."""
        self.end_turn()
        return self.background.do_one(nth)

    def do_all(self) -> None:
        """Turns until nothing comes of them."""
        for _ in range(_ROUNDS_MAX):
            if not self.do_some():
                return
        raise AssertionError("it does not come to rest")

    def commit(self) -> None:
        """Write and sync everything."""
        while self.write():
            pass
        if self.log.store.maintenance.wants_snapshot:
            self.background.snapshot(self.log, self.unix_ms)
        self.sync()
        self.background.log_advanced(self.log)
        self.settled(self.log)

    def rest(self) -> None:
        """Let the journal free unneeded disk space, while no client asks for anything."""
        idle = self.background.idle
        self.commit()
        self.do_all()
        idle.watch(self.log)
        self.background.clock.seconds += reclaim.IDLE_MS / 1000
        for _ in range(_SECONDS_MAX):
            self.pass_second()
            if not idle.has_round(self.log):
                return

    def pass_second(self) -> None:
        """Let the timers of idle journals ring, and do the work that follows."""
        clock = self.background.clock
        clock.seconds += 1
        rings, clock.soon = clock.soon, []
        for call, args in rings:
            call(*args)
        for _ in range(2):
            while self.background.do_work():
                pass
            self.commit()

    # -- a client ---------------------------------------------------------------------------

    def who(self, name: str) -> Holder:
        return self.holders.setdefault(name, Holder(name))

    def put(
        self, body: bytes, expires_ms: int = 0, delay: Delay | None = None, key: bytes = NO_KEY
    ) -> bool:
        while True:
            try:
                return self.jobs.put(
                    body, 0, expires_ms, self.now_ms, key, delay=delay
                ) != NOT_STORED
            except NoRoomYet:  # as a connection that waits
                self.write()

    def add(self, body: bytes) -> int:
        while True:
            try:
                return self.jobs.add(body, 0, 0, self.now_ms)
            except NoRoomYet:
                self.write()

    def open(self, who: str = "anna", dead: bool = False, lease_ms: int = 0) -> Lease | None:
        return self._waited(
            lambda: self.reader.open(self.who(who), self.now_ms, dead, lease_ms), dead
        )

    def peek(self, dead: bool = False) -> bytes | None:
        item = self._waited(lambda: self.reader.first(self.now_ms, dead), dead, False)
        return item.body if item is not None else None

    def _waited(
        self, look: Callable[[], T | None], dead: bool, leases: bool = True
    ) -> T | None:
        """Wait for items that have to be read back, as a get does."""
        for _ in range(_ROUNDS_MAX):
            found = look()
            if found is not None or not self.reader.is_busy(self.now_ms, dead, leases):
                return found
            if not self.do_some():
                self.commit()
            if not self.reader.is_busy(self.now_ms, dead, leases):
                return look()
        raise AssertionError("whoever fetches waits for good")

    def take_all(self) -> list[bytes]:
        """Take and confirm everything that is ready; return the bodies."""
        bodies = []
        while (lease := self.open()) is not None:
            bodies.append(lease.item.body)
            self.reader.confirm(lease, self.now_ms)
        return bodies

    def wait(self, who: str, want: Want = Want.OPEN, wait_ms: int = 1000) -> None:
        self.broker.wait(want, NAME, self.who(who), False, who, self.now_ms + wait_ms)
        self.reader.serve(self.now_ms)
