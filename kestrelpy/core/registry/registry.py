"""The queues of a server by name, and the lists that they leave for the shell.

One rule: the registry never calls out. It lists served waiters in `to_resume`, deleted queues in
`deleted`, and subscriptions that need items read back from the log in `to_read`. The shell collects
the three lists once per turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from journal.errors import JournalFailed
from journal.sets import IdCounts, IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.counters import ServerCounters
from kestrelpy.core.index import DeadLetters, Leases, MarkerIndex, MemoryBudget, Waiter, Waiters
from kestrelpy.core.log import Log, MemoryLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue import AnyQueue, ChildQueue, Queue
from kestrelpy.core.registry.stand_in import StandIn
from kestrelpy.core.registry.token_floor import TokenFloor
from kestrelpy.core.subscription import Subscription
from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import Trash
from kestrelpy.errors import ServerError


def _nowhere(name: bytes, word: bytes) -> int:
    return 0


class Registry:
    """The queues of one server by name, and deleted queues whose children have items."""

    def __init__(
        self,
        policy_of: Callable[[bytes, bytes], Policy],
        make_log: Callable[[Queue], Log],
        clock: ClockOffset,
        queues_max: int,
    ) -> None:
        """`policy_of` makes a queue's policy from its name and its declared settings."""
        self.queues: dict[bytes, AnyQueue] = {}
        self.clock = clock
        self.counters = ServerCounters()
        self.to_resume: list[Waiter] = []
        self.deleted: list[Queue] = []
        self.to_read: list[Subscription] = []
        self._timers: Timers[Any] = Timers()
        self.memory = MemoryBudget(Trash(self._timers))
        self.policy_of = policy_of
        self.queues_max = queues_max
        self.aliases: dict[bytes, tuple[bytes, ...]] = {}  # names of several queues each
        self.server_id = b""
        self.refusal = ""  # why no queue stores or hands out anything any more
        self.no_new_queue = ""  # why no new queue with a journal can be made now; "": one can
        self.tokens = TokenFloor()
        self._make_log = make_log
        self._absent: dict[bytes, Waiters] = {}
        self._absent_children: dict[bytes, dict[bytes, None]] = {}  # of `_absent`, by parent
        self.generation_deleted = 0  # no deleted queue had a higher one
        self._stand_in = StandIn(clock)
        self.tombstones: list[Queue] = []  # deleted queues that stay for their children
        self.ending: dict[Queue, None] = {}  # deleted queues whose files are not gone yet
        # Returns the number of the server where an item of a queue belongs, by its key or its id
        # (b"": it has none); 0: in this one.
        self.elsewhere: Callable[[bytes, bytes], int] = _nowhere

    @property
    def is_full(self) -> bool:
        """True if the number of queues, including children, is at its limit."""
        return len(self.queues) >= self.queues_max

    def refuse_more(self, count: int = 1) -> None:
        """Raise ServerError if `count` more queues would exceed the limit."""
        if len(self.queues) + count > self.queues_max:
            raise ServerError(f"too many queues (limit {self.queues_max})")

    def fresh(
        self, name: bytes, generation: int, now_ms: int, declared: bytes = b""
    ) -> Queue:
        """Return a queue that is not registered yet, for `create` or for recovery to fill."""
        policy = self.policy_of(name, declared)
        created_ms = min(generation * 1000 - self.clock.offset_ms, now_ms)
        queue = Queue(
            name, generation, policy, MemoryLog(), self.clock, self.to_resume, self._timers,
            created_ms, self.memory, self.to_read, declared,
        )  # fmt: skip
        queue.server_id = self.server_id
        return queue

    def declared_of(self, name: bytes) -> bytes:
        """Return the declared settings of this queue; empty: none, or there is no such queue."""
        queue = self.queues.get(name)
        return queue.declared if queue is not None else b""

    def with_log(self, name: bytes) -> Queue | None:
        """Return the queue of this name, which is no child's; None: there is none."""
        queue = self.queues.get(name)
        assert queue is None or queue.child is None, "a child has no log of its own"
        return queue.files if queue is not None else None

    @property
    def logged(self) -> list[Queue]:
        """All queues with a log of their own: tombstones included, children not."""
        own = [queue.files for queue in self.queues.values() if queue.child is None]
        return own + self.tombstones

    def all_named(self, name: bytes) -> Iterator[AnyQueue]:
        """Yield the queue or child of this name, and children of this name in tombstones."""
        if name in self.queues:
            yield self.queues[name]
        for queue in self.tombstones:
            yield from (child for child in ChildQueue.all_of(queue) if child.name == name)

    def empty(self, reader: Subscription) -> None:
        """Empty a subscription that is gone: end its leases, answer its waiters, drop its items."""
        trash = self.memory.trash
        reader.leases.drop(reader.token_holder, trash)
        reader.leases = Leases()
        for waiter in reader.waiters.take_all():
            self._answer_nothing(waiter)
        # A reference that outlives the subscription (an overdue lease) must not keep its items.
        reader.ready_items.clear()
        reader.delays.clear(trash)
        reader.markers = MarkerIndex()
        reader.key_gate.in_flight = 0
        reader.key_gate.clear(IdSet())
        reader.dead.drop(trash)
        reader.dead, reader.live, reader.outgoing = DeadLetters(), IdSet(), []
        reader.live_bytes, reader.attempts = 0, IdCounts()
        reader.out_of_order.discard_range(1, reader.out_of_order.last)
        reader.residency.release()

    def fail(self, failure: JournalFailed) -> None:
        """Let no queue store or hand out anything any more, for this reason; answer all waiters."""
        self.refusal = str(failure)
        for queue in self.logged:
            queue.log.fail(failure)
        lines = [queue.reader.waiters for queue in self.queues.values()]
        lines += [waiting for name in list(self._absent) if (waiting := self.take_absent(name))]
        for line in lines:
            for waiter in line.take_all():
                waiter.refused = self.refusal
                self._answer_nothing(waiter)

    def end(self, queue: Queue) -> None:
        """Let go of a queue that is gone, with its files: nothing uses it any more."""
        if not queue.stays:
            self.ending.pop(queue, None)
        self._stand_in.replace_queue(queue)

    def take_absent(self, name: bytes) -> Waiters | None:
        """Remove and return the waiters for a queue or child of this name that did not exist."""
        waiting = self._absent.pop(name, None)
        parent, plus, _ = name.partition(b"+")
        if plus and waiting is not None:
            del self._absent_children[parent][name]
            if not self._absent_children[parent]:
                del self._absent_children[parent]
        return waiting

    def absent_children(self, parent: bytes) -> list[bytes]:
        """Return the children of this queue that do not exist and have waiters."""
        return list(self._absent_children.get(parent, ()))

    def is_awaited(self, name: bytes) -> bool:
        """True if a client waits for a queue or child of this name that does not exist."""
        return name in self._absent

    def take_to_read(self) -> list[Subscription]:
        """Return the subscriptions that need a read since the last call."""
        to_read = self.to_read[:]
        self.to_read.clear()
        for reader in to_read:
            reader.needs_read = False
        return to_read

    def take_to_resume(self) -> list[Waiter]:
        """Return the waiters answered since the last call, and cancel their timers."""
        to_resume = self.to_resume[:]
        self.to_resume.clear()
        for waiter in to_resume:
            if waiter.timer is not None:
                self._timers.cancel(waiter.timer)
        return to_resume

    def _answer_nothing(self, waiter: Waiter) -> None:
        waiter.done = True
        self.to_resume.append(waiter)

    @property
    def has_peers(self) -> bool:
        """True if other servers send items to this one, and take items of it."""
        return self.elsewhere is not _nowhere

    def call_later(self, due_ms: int, thing: object) -> None:
        """Have `tick` handle `thing` at `due_ms`."""
        self._timers.push(due_ms, thing)
