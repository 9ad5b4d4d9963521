"""All queues by name: create, delete, wait, and the one clock hand for everything that comes due.

One rule: the broker calls nobody. Waiters that were served stand in `woken`, queues that were
deleted in `deleted`, readers whose items have to be read back in `hungry`; the shell sweeps them
once per turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from journal.sets.id_set import IdSet
from kestrelpy.core.clock import Wall
from kestrelpy.core.counters import ServerCounters
from kestrelpy.core.index.dead_letters import DeadLine
from kestrelpy.core.index.leases import Holder, Leases
from kestrelpy.core.index.markers import Marks
from kestrelpy.core.index.memory_budget import Memory
from kestrelpy.core.index.token_range import TokenFloor
from kestrelpy.core.index.trash import Trash
from kestrelpy.core.index.waiters import Waiter, Waiters, Want
from kestrelpy.core.log.log import Log
from kestrelpy.core.log.memory_log import NullLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.child_queue import Branch
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.registry import remnants
from kestrelpy.core.registry.lifecycle import Later, drop, enroll, enroll_all
from kestrelpy.core.subscription.outbox import AT_ONCE_MS, send_on
from kestrelpy.core.subscription.serving import latest_marker
from kestrelpy.core.subscription.subscription import HUNG_UP, Reader
from kestrelpy.core.subscription.token_leases import resume
from kestrelpy.core.timers import Timers
from kestrelpy.core.transfer.request import Order
from kestrelpy.core.transfer.transfers import Moves
from kestrelpy.errors import ServerError

# Items released or expired, leases ended and waits timed out in one tick: 2 to 5 ms of work, and as
# much to write what they say, so that the loop is never held up for long; the rest is due at once
# in the next turn.
TICK_STEPS_MAX: Final = 500
BUSY_MS: Final = 2  # until one looks again whether what is at the front is known


class Broker:
    """The queues of one server."""

    def __init__(
        self,
        policy_of: Callable[[bytes, bytes], Policy],
        make_log: Callable[[Queue], Log],
        wall: Wall,
        queues_max: int,
    ) -> None:
        """`policy_of` makes a queue's rules of its name and of what was declared for it."""
        self.queues: dict[bytes, Queue] = {}
        self.wall = wall
        self.counters = ServerCounters()
        self.woken: list[Waiter] = []
        self.deleted: list[Queue] = []
        self.hungry: list[Reader] = []
        self._timers: Timers[Any] = Timers()
        self.memory = Memory(Trash(self._timers))
        self.policy_of = policy_of
        self.queues_max = queues_max
        self.aliases: dict[bytes, tuple[bytes, ...]] = {}  # names of several queues each
        self.server_id = b""
        self.tokens = TokenFloor()
        self._make_log = make_log
        self._absent: dict[bytes, Waiters] = {}
        self._absent_children: dict[bytes, dict[bytes, None]] = {}  # of these, by their parent
        self.later = Later(self._timers)
        self.moves = Moves(self)
        self.generation_deleted = 0  # no deleted queue had a higher one
        self.remnants: list[Queue] = []  # deleted, and there for the sake of their children

    # -- queues -----------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Are there as many queues, children among them, as there may be?"""
        return len(self.queues) >= self.queues_max

    def refuse_more(self, count: int = 1) -> None:
        """Raises ServerError where so many further queues would be too many."""
        if len(self.queues) + count > self.queues_max:
            raise ServerError(f"too many queues (limit {self.queues_max})")

    def create(self, name: bytes, now_ms: int, declared: bytes = b"") -> Queue:
        """A new queue, empty; whoever waits for it waits in it from now on.

        Raises ServerError where there may be none.
        """
        if name in self.aliases:
            raise ServerError(f"{name.decode('ascii')} is an alias of several queues, and none")
        self.refuse_more()
        # The second it was made in, and higher than that of any deleted one, restarts or not.
        made = (now_ms + self.wall.offset_ms) // 1000
        generation = max(made, self.generation_deleted + 1)
        queue = self.fresh(name, generation, now_ms, declared)
        queue.created_ms = now_ms
        queue.attach(self._make_log(queue))
        self.tokens.begin(queue, now_ms)
        self.adopt(queue, now_ms)
        self.counters.queue_creates += 1
        return queue

    def fresh(
        self, name: bytes, generation: int, now_ms: int, declared: bytes = b""
    ) -> Queue:
        """A queue that is not yet in the books: for `create`, and for recovery to fill."""
        policy = self.policy_of(name, declared)
        created_ms = min(generation * 1000 - self.wall.offset_ms, now_ms)
        queue = Queue(
            name, generation, policy, NullLog(), self.wall, self.woken, self._timers, created_ms,
            self.memory, self.hungry, declared,
        )  # fmt: skip
        queue.server_id = self.server_id
        return queue

    def declared_of(self, name: bytes) -> bytes:
        """What a client declared for this queue; empty: nothing, or there is no such queue."""
        queue = self.queues.get(name)
        return queue.declared if queue is not None else b""

    def adopt(self, queue: Queue, now_ms: int) -> None:
        """Into the books, with whoever waits for it; its leases by token go on."""
        name = queue.name
        if queue.is_remnant:
            self.generation_deleted = max(self.generation_deleted, queue.generation)
            for child in queue.children.values():
                if child.branch is not None:
                    enroll(self, child.branch, now_ms)
            remnants.keep(self, queue, now_ms)
            return
        self.queues[name] = queue
        resume(queue.reader, now_ms)
        send_on(queue.reader, queue.reader.dead.deaths)
        waiting = self.take_absent(name)
        if waiting is not None:
            queue.reader.waiters = waiting
        queue.set_passing(queue.policy.fanout_only, now_ms)
        enroll_all(self, queue, now_ms)
        queue.alarm.need(queue.next_due(now_ms))

    def delete(self, name: bytes, now_ms: int) -> Queue | None:
        """Out of the books: its leases end, its waiters are answered; None: there is none."""
        queue = self.queues.pop(name, None)
        if queue is None:
            return None
        queue.deleted = True
        self.generation_deleted = max(self.generation_deleted, queue.generation)
        self.tokens.passed(queue)
        queue.alarm.silence()
        self.empty(queue.reader)
        queue.retained = None
        self.counters.queue_deletes += 1
        if any(branch.reader.live for branch in queue.branches):
            remnants.leave(self, queue, now_ms)
        else:
            for branch in queue.branches:
                drop(self, branch)
            self.deleted.append(queue)
        return queue

    @property
    def logged(self) -> list[Queue]:
        """All queues that have a log of their own: remnants too, no children."""
        own = [queue for queue in self.queues.values() if not queue.is_child]
        return own + self.remnants

    def all_named(self, name: bytes) -> Iterator[Queue]:
        """The queue or child of this name, and those that remnants still have."""
        if name in self.queues:
            yield self.queues[name]
        for queue in self.remnants:
            yield from (branch for branch in queue.branches if branch.name == name)

    def empty(self, reader: Reader) -> None:
        """It is gone: its leases end, its waiters are answered, it holds nothing."""
        trash = self.memory.trash
        reader.leases.drop(reader.token_holder, trash)
        reader.leases = Leases()
        for waiter in reader.waiters.take_all():
            self._answer_nothing(waiter)
        # Whoever still has a mark of this reader (an overdue lease) does not keep its items.
        reader.line.clear()
        reader.delays.clear(trash)
        reader.marks = Marks()
        reader.keyed.in_flight = 0
        reader.keyed.clear(IdSet())
        reader.dead.drop(trash)
        reader.dead, reader.live, reader.outgoing = DeadLine(), IdSet(), []
        reader.residency.release()

    # -- waiting ----------------------------------------------------------------------------

    def wait(
        self, want: Want, name: bytes, holder: Holder, dead: bool, conversation: object,
        due_ms: int, after: int = 0, lease_ms: int = 0,
    ) -> Waiter:  # fmt: skip
        """Stand in line for an item of `name`, or observe what is behind `after`, till `due_ms`."""
        waiter = Waiter(want, name, holder, dead, conversation, after, lease_ms)
        queue = self.queues.get(name)
        if queue is not None:
            line = queue.reader.waiters
        else:
            line = self._absent.setdefault(name, Waiters())
            parent, plus, _ = name.partition(b"+")
            if plus:
                self._absent_children.setdefault(parent, {})[name] = None
        waiter.line = line
        line.add(waiter)
        if isinstance(queue, Branch):
            queue.watch()
        waiter.timer = self._timers.push(due_ms, waiter)
        return waiter

    def take_absent(self, name: bytes) -> Waiters | None:
        """Those who wait for a queue, or child, of this name since before it was there."""
        waiting = self._absent.pop(name, None)
        parent, plus, _ = name.partition(b"+")
        if plus and waiting is not None:
            del self._absent_children[parent][name]
            if not self._absent_children[parent]:
                del self._absent_children[parent]
        return waiting

    def absent_children(self, parent: bytes) -> list[bytes]:
        """The children of this queue that are not there, and for which somebody waits."""
        return list(self._absent_children.get(parent, ()))

    def is_awaited(self, name: bytes) -> bool:
        """Does somebody wait for a queue, or child, of this name that is not there?"""
        return name in self._absent

    def give_up(self, waiter: Waiter) -> None:
        """It waits no more and will not be answered."""
        if waiter.timer is not None:
            self._timers.cancel(waiter.timer)
        if waiter.line is not None:
            waiter.line.finish(waiter)
            if not waiter.line.count and self._absent.get(waiter.name) is waiter.line:
                self.take_absent(waiter.name)
            queue = self.queues.get(waiter.name)
            if queue is not None and waiter.line and (
                queue.reader.paused or queue.policy.max_leased is not None
            ):
                # It may have been held up by that, and a peek behind it by its turn alone.
                queue.alarm.need(AT_ONCE_MS)

    def take_hungry(self) -> list[Reader]:
        """Who needs something read back since the last time."""
        hungry = self.hungry[:]
        self.hungry.clear()
        for reader in hungry:
            reader.is_hungry = False
        return hungry

    def take_woken(self) -> list[Waiter]:
        """Who was answered since the last time."""
        woken = self.woken[:]
        self.woken.clear()
        for waiter in woken:
            if waiter.timer is not None:
                self._timers.cancel(waiter.timer)
        return woken

    def _answer_nothing(self, waiter: Waiter) -> None:
        waiter.done = True
        self.woken.append(waiter)

    def _time_out(self, waiter: Waiter, now_ms: int) -> None:
        if waiter.done:
            return  # served in this very turn
        queue = self.queues.get(waiter.name)
        if waiter.want is Want.OBSERVE:
            self.give_up(waiter)
            if queue is not None and waiter.after < latest_marker(queue.reader):
                waiter.owner = queue.reader  # it was its turn to be told, soon
            self._answer_nothing(waiter)
            return
        lends = waiter.want is not Want.PEEK
        if queue is not None and queue.reader.is_busy(now_ms, waiter.dead, lends):
            # What stands at the front is to be cleared away or read back: there may be an item
            # behind it, so "nothing" would not be true yet.
            queue.reader.first(now_ms, waiter.dead)
            queue.reader.serve(now_ms)
            if waiter.done:
                return
            if not queue.reader.unread and queue.reader.is_busy(now_ms, waiter.dead, lends):
                waiter.timer = self._timers.push(now_ms + BUSY_MS, waiter)
                return
        self.give_up(waiter)
        if queue is not None and waiter.want is Want.PEEK:
            # It may only have been its turn that was missing: what it waited behind is held up.
            waiter.item, waiter.owner = queue.reader.first(now_ms, waiter.dead), queue.reader
        self._answer_nothing(waiter)

    # -- holders ----------------------------------------------------------------------------

    def hang_up(self, holder: Holder, now_ms: int) -> None:
        """Everything lent to `holder` goes back, in its original order."""
        owners = []
        for lease in list(holder.leases):
            owner = lease.owner
            assert isinstance(owner, Reader)
            owner.take_back(lease, now_ms, HUNG_UP)
            owners.append(owner)
        for owner in owners:
            if owner.waiters:
                owner.serve(now_ms)

    # -- time -------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """When `tick` has something to do; None: nothing."""
        return self._timers.next_due()

    def tick(self, now_ms: int) -> None:
        """Do what is due, in bounded steps."""
        steps = TICK_STEPS_MAX
        while steps > 0:
            thing = self._timers.pop_due(now_ms)
            if thing is None:
                return
            steps -= 1
            if isinstance(thing, Queue):
                steps -= thing.tick(now_ms, steps)
                for each in (thing, *thing.branches):
                    line = each.child if isinstance(each, Branch) else each.reader
                    if line.outgoing:
                        self.moves.send(each)
                if thing.is_remnant and thing in self.remnants:
                    remnants.clear_away(self, thing, now_ms)
                elif thing.is_too_old(now_ms):
                    self.delete(thing.name, now_ms)
                    self.counters.queue_expires += 1
            elif isinstance(thing, Order):
                self.moves.wake(thing)
            elif isinstance(thing, Trash):
                thing.free(now_ms)
            elif isinstance(thing, Later):
                thing.make(self, now_ms)
            else:
                self._time_out(thing, now_ms)

    def call_later(self, due_ms: int, order: Order) -> None:
        """This order goes on at `due_ms`."""
        self._timers.push(due_ms, order)

    def step_wall(self, offset_ms: int) -> None:
        """The wall clock was set, or drifted: dates are due at other times now."""
        self.wall.offset_ms = offset_ms
        for queue in (*self.queues.values(), *self.remnants):
            queue.alarm.need(queue.reader.next_due())
            if queue.missed is not None:
                queue.alarm.need(queue.missed.due.next_due(offset_ms))
