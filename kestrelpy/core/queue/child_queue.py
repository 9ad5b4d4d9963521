"""A fan-out child as whoever names it sees it: a queue, whose items come from another one's log.

    set orders+audit   stored in the log of `orders`, for this reader alone
    get orders+audit   this reader's line

It has its own name, policy and line; numbers, generation, clock and log are its parent's.

One rule: whatever a queue does to its own line this does to the child's, and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from journal.format.checkpoint import Checkpoint
from journal.format.transfer import Origin
from journal.sets.id_set import IdSet
from journal.store import State
from kestrelpy.core.index.dedupe import Ids
from kestrelpy.core.index.memory_budget import UNLIMITED
from kestrelpy.core.index.versions import Versions
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.outbox import AT_ONCE_MS, send_on

if TYPE_CHECKING:
    from kestrelpy.core.fanout.child import Child
    from kestrelpy.core.log.log import Log
    from kestrelpy.core.subscription.subscription import Reader


class Branch(Queue):
    """A child as a queue. `parent` is the queue whose log it reads, `child` its line as it is.

    `reader` is the same line once it has caught up: what looks goes there.
    """

    __slots__ = ("child", "parent")

    def __init__(self, parent: Queue, child: Child) -> None:
        # Not as a queue is made: it has no log of its own.
        self.parent = parent
        self.child = child
        self.name = child.name
        self.own_number = child.number
        self.policy = parent.policy
        self.wall = parent.wall
        self.alarm = parent.alarm
        self.memory = parent.memory
        self.created_ms = parent.created_ms
        self.deleted = False
        self.is_gone = False
        self.is_remnant = False
        self.passes_on = False
        self.children = {}
        self.eager = []
        self.missed = None
        self.epochs = {}
        self.put_bytes = 0
        self.retained = None
        self.readers_named = 0
        self.idle = parent.idle
        self.fresh = parent.fresh
        self.to_come = parent.to_come
        self._complained_ms = parent._complained_ms

    @property
    def is_child(self) -> bool:
        return True

    @property
    def reader(self) -> Reader:
        self.child.catch_up()
        return self.child

    @reader.setter
    def reader(self, reader: Reader) -> None:
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
        parent.pass_number(number - 1)
        if parent.retained is not None:  # observers of the parent see nothing of what is put here
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
    def ids(self) -> Ids:
        return self.parent.ids

    @ids.setter
    def ids(self, ids: Ids) -> None:
        raise AttributeError("ids are the parent's to remember")

    @property
    def versions(self) -> Versions:
        return self.parent.versions

    @versions.setter
    def versions(self, versions: Versions) -> None:
        raise AttributeError("versions are the parent's to count")

    @property
    def tended_ms(self) -> int:
        return self.parent.tended_ms

    @tended_ms.setter
    def tended_ms(self, due_ms: int) -> None:
        self.parent.tended_ms = due_ms

    def set_policy(self, policy: Policy, now_ms: int) -> None:
        """Other limits and rules from now on; what is the log's stays its parent's."""
        before, child, of = self.policy, self.child, self.parent.policy
        policy = replace(policy, keys=of.keys, sync_ms=of.sync_ms, durable=of.durable)
        child.keyed.keys.matches_any = policy.keys.matches_any
        self.policy = child.policy = policy
        in_memory = child.log.backlog is None
        child.residency.limit(UNLIMITED if in_memory else policy.max_memory_bytes)
        if (before.expire_to, before.dead_letter_to) != (policy.expire_to, policy.dead_letter_to):
            send_on(child, child.dead.deaths)
        if before.max_age_ms != policy.max_age_ms:
            self.parent.idle.know_nothing()  # it holds for what nobody has looked at
        self.parent.idle.know(policy.max_age_ms)
        self.watch()
        if child.waiters:
            self.reader.serve(now_ms)

    def flush(self, now_ms: int) -> int:
        lsn = super().flush(now_ms)
        self.note_less()
        return lsn

    def note_less(self) -> None:
        if self.parent.is_remnant:
            self.alarm.need(AT_ONCE_MS)

    def kept_now(self) -> IdSet:
        return self.parent.kept_now()

    def watch(self) -> None:
        """Somebody waits for it, or its limits changed: is it given each item from now on?"""
        child, eager = self.child, self.parent.eager
        if child.wants_each and child not in eager:
            child.catch_up()
            eager.append(child)

    def release(self, id_: int, size: int, now_ms: int) -> int:
        return self.parent.release_shared(self.child, id_, size, now_ms)

    @property
    def is_empty(self) -> bool:
        return not (self.reader.live or self.child.waiters)

    def is_too_old(self, now_ms: int) -> bool:
        """It is there until somebody deletes it: what is put for it must not be missed."""
        return False

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
