"""A fan-out child as its clients see it: a queue with items from the log of another queue.

    set orders+audit   stored in the log of `orders`, for this child alone
    get orders+audit   this child's ready list

A child has its own name, policy and ready list; numbers, generation, clock and log are its
parent's.

One rule: what a queue does to its own subscription, a child queue does to the child's alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from journal.format import Checkpoint, Origin
from journal.sets import IdSet
from journal.store import State
from kestrelpy.core.fanout import Child, Unseen
from kestrelpy.core.index import UNLIMITED
from kestrelpy.core.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.dedupe_window import DedupeWindow
from kestrelpy.core.queue.fanout import FanOut
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription import AT_ONCE_MS, Subscription

# The log names a child after this time in which no client asked it for an item.
ABANDONED_MS: Final = 24 * 60 * 60 * 1000


class ChildQueue(Queue):
    """A child as a queue. `parent` is the queue whose log it reads, `child` its subscription as it
    is.

    `reader` is the same subscription after it has caught up: calls that look at items use that.
    """

    __slots__ = ("child", "parent")

    def __init__(self, parent: Queue, child: Child) -> None:
        # This does not call `Queue.__init__`: a child has no log of its own.
        self.parent = parent
        self.child = child
        self.name = child.name
        self.own_number = child.number
        self.policy = parent.policy
        self.clock = parent.clock
        self.alarm = parent.alarm
        self.memory = parent.memory
        self.created_ms = parent.created_ms
        self.deleted = False
        self.deleted_lsn = 0
        self.is_gone = False
        self.stays = False
        self.is_tombstone = False
        self.passes_on = False
        self.children = {}
        self.eager = []
        self.unseen = None
        self.watermarks = {}
        self.put_bytes = 0
        self.retained = None
        self.readers_named = 0
        self.idle_sweep = parent.idle_sweep
        self.fanout = FanOut(self, parent.idle_sweep)
        self.reserve = parent.reserve
        self._complained_ms = parent._complained_ms

    @classmethod
    def named(cls, queue: Queue, number: int, part: bytes, floor: int) -> ChildQueue:
        """Make the child of this name, which does not see items up to `floor`."""
        if queue.unseen is None:
            queue.unseen = Unseen()
            queue.reader.delays.shared = queue.unseen.due
        child = Child(queue, number, part, floor)
        child.queue = made = cls(queue, child)
        if not queue.children:
            queue.reader.needs = queue
            queue.unseen.forget(queue.last_number)
        queue.children[part] = child
        queue.readers_named = max(queue.readers_named, number)
        return made

    @classmethod
    def of(cls, child: Child) -> ChildQueue:
        """Return this child as a queue."""
        assert isinstance(child.queue, cls)
        return child.queue

    @classmethod
    def all_of(cls, queue: Queue) -> list[ChildQueue]:
        """Return the children of a queue, each as a queue."""
        return [cls.of(child) for child in queue.children.values()]

    @property
    def is_child(self) -> bool:
        return True

    @property
    def files(self) -> Queue:
        """The queue whose journal has its items."""
        return self.parent

    @property
    def reader(self) -> Subscription:
        self.child.catch_up()
        return self.child

    @reader.setter
    def reader(self, reader: Subscription) -> None:
        raise AttributeError("a child's line is always its own")

    @property
    def log(self) -> Log:
        return self.child.log

    @log.setter
    def log(self, log: Log) -> None:
        raise AttributeError("a child writes into its parent's log")

    @property
    def next_number(self) -> int:
        return self.parent.next_number

    @next_number.setter
    def next_number(self, number: int) -> None:
        parent = self.parent
        parent.fanout.pass_number(number - 1)
        if parent.retained is not None:  # observers of the parent do not see items put here
            parent.retained.skip(number - 1)
        parent.next_number = number
        self.child.catch_up()

    @property
    def total_items(self) -> int:
        self.child.catch_up()
        return self.child.total_items

    @total_items.setter
    def total_items(self, count: int) -> None:
        self.child.total_items = count

    @property
    def generation(self) -> int:
        return self.parent.generation

    @generation.setter
    def generation(self, generation: int) -> None:
        raise AttributeError("a child's generation is its parent's")

    @property
    def declared(self) -> bytes:
        return self.parent.declared

    @declared.setter
    def declared(self, declared: bytes) -> None:
        raise AttributeError("what is declared for a queue holds for its children")

    @property
    def metadata(self) -> bytes:
        return self.parent.metadata

    @metadata.setter
    def metadata(self, metadata: bytes) -> None:
        raise AttributeError("metadata are the parent's")

    @property
    def server_id(self) -> bytes:
        return self.parent.server_id

    @server_id.setter
    def server_id(self, server_id: bytes) -> None:
        raise AttributeError("a child is on its parent's server")

    @property
    def origins(self) -> dict[int, Origin]:
        return self.parent.origins

    @origins.setter
    def origins(self, origins: dict[int, Origin]) -> None:
        raise AttributeError("origins are the parent's to know")

    @property
    def dedupe(self) -> DedupeWindow:
        return self.parent.dedupe

    @dedupe.setter
    def dedupe(self, dedupe: DedupeWindow) -> None:
        raise AttributeError("ids and versions are the parent's to remember")

    def set_policy(self, policy: Policy, now_ms: int) -> None:
        """Apply other limits and rules from now on; the settings of the log stay the parent's."""
        before, child, of = self.policy, self.child, self.parent.policy
        policy = replace(policy, keys=of.keys, sync_ms=of.sync_ms, durable=of.durable)
        child.key_gate.keys.matches_any = policy.keys.matches_any
        self.policy = child.policy = policy
        in_memory = child.log.read_ahead is None
        child.residency.limit(UNLIMITED if in_memory else policy.max_memory_bytes)
        if (before.expire_to, before.dead_letter_to) != (policy.expire_to, policy.dead_letter_to):
            child.outbox.send_on(child.dead.deaths)
        if before.max_age_ms != policy.max_age_ms:
            self.parent.idle_sweep.know_nothing()  # it holds for items not yet looked at as well
        self.parent.idle_sweep.know(policy.max_age_ms)
        self.watch()
        if child.waiters:
            self.reader.serve(now_ms)

    def flush(self, now_ms: int) -> int:
        lsn = super().flush(now_ms)
        self.note_less()
        return lsn

    def note_less(self) -> None:
        if self.parent.is_tombstone:
            self.alarm.need(AT_ONCE_MS)

    def needed_now(self) -> IdSet:
        return self.parent.needed_now()

    def watch(self) -> None:
        """Give the child each item as it comes from now on, if its waiters or limits need that."""
        child, eager = self.child, self.parent.eager
        if child.wants_each and child not in eager:
            child.catch_up()
            eager.append(child)

    def release(self, id_: int, size: int, now_ms: int) -> int:
        return self.parent.due.release_shared(self.child, id_, size, now_ms)

    @property
    def is_empty(self) -> bool:
        return not (self.reader.live or self.child.waiters)

    def is_too_old(self, now_ms: int) -> bool:
        """Return False: a child stays until a client deletes it, so that it misses no item."""
        return False

    def is_abandoned(self, now_ms: int) -> bool:
        """True if the child has items, and no client asked for one for a day.

        The day begins anew at a start.
        """
        if now_ms - self.child.asked_ms < ABANDONED_MS:
            return False
        reader = self.reader
        return bool(reader.ready.count or reader.delays.count) and not reader.leases

    def why_abandoned(self, now_ms: int) -> str:
        """Return the line for the log about an abandoned child."""
        hours = (now_ms - self.child.asked_ms) // 3_600_000
        return (
            f"nobody asked for {hours} hours, and {self.reader.ready.count} items wait: read them, "
            f"or delete {self.name.decode('ascii')}"
        )

    def checkpoint(self) -> Checkpoint:
        return self.parent.checkpoint()

    def state(self) -> State:
        return self.parent.state()

    def _apply_put(self, id_: int, body_bytes: int) -> None:
        self.next_number = id_ + 1
        self.child._apply_put(id_, body_bytes)
        self.child.total_items += 1

    def _apply_opened(self, id_: int, origin: Origin) -> None:
        self.parent._apply_opened(id_, origin)

    def _apply_settled(self, id_: int) -> None:
        self.parent._apply_settled(id_)
