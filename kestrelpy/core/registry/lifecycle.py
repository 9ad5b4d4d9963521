"""How queues and children are created and deleted.

    create ──▶ registered ──▶ delete ──▶ its files are removed
                   ▲            └─ it has children: a tombstone, in the log that they read
                   │                 │   └─ the last child is deleted: the files are removed
                   └──── create ─────┘       the same log goes on: the children get the new items

    first mention of a child ──▶ READER, synced before its answer ──▶ sees every later item
    from=<marker>            ──▶ the same record names the earlier items that it begins with
    delete                   ──▶ READER, takes no more items: items that it alone needed may go

Until its queue is made again, a child of a tombstone receives only the items that clients set on
it. Older versions gave the next queue of the name a log of its own: such a tombstone is *replaced*,
its children go when they are empty, and then a child of the next queue takes the name.

One rule: the log alone says which items a child has; a tombstone occupies nothing but the names of
its children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from journal.format import STOPS, TAKES, TOKENS_SKIPPED, named
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.fanout import Child
from kestrelpy.core.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue import ChildQueue, ChildStart, Queue
from kestrelpy.core.registry.registry import Registry
from kestrelpy.core.subscription import AT_ONCE_MS
from kestrelpy.core.timers import Alarm, Timers
from kestrelpy.errors import ClientError, ServerError

# A record has 16 bits for a subscription's number. After a restart the server may give the number
# of a removed child again.
READERS_MAX: Final = (1 << 16) - 1
# When the disk is full, wanted children are tried again after LATER_MS, for LATER_MAX queues.
LATER_MS: Final = 1000
LATER_MAX: Final = 100
# One tick removes this many unused children: each removal looks at all items still needed.
EXPIRED_MAX: Final = 16


class Later:
    """Queues with wanted children that found a full disk; they are tried until there is room."""

    def __init__(self, timers: Timers[Any]) -> None:
        self._queues: dict[Queue, None] = {}
        self._alarm: Alarm[Any] = Alarm(timers, self)

    def add(self, queue: Queue, now_ms: int) -> None:
        """Try the wanted children of `queue` again later."""
        self._queues[queue] = None
        self._alarm.need(now_ms + LATER_MS)

    def take(self) -> list[Queue]:
        """Remove and return some of the queues; one that is added again comes last."""
        self._alarm.silence()
        queues = list(islice(self._queues, LATER_MAX))
        for queue in queues:
            del self._queues[queue]
        return queues

    def go_on(self, now_ms: int) -> None:
        """Set the alarm again if queues are left."""
        if self._queues:
            self._alarm.need(now_ms + LATER_MS)


class Lifecycle(Registry):
    """The queues of one server, and how they are created and deleted."""

    def __init__(
        self,
        policy_of: Callable[[bytes, bytes], Policy],
        make_log: Callable[[Queue], Log],
        clock: ClockOffset,
        queues_max: int,
    ) -> None:
        super().__init__(policy_of, make_log, clock, queues_max)
        self.later = Later(self._timers)

    def create(self, name: bytes, now_ms: int, declared: bytes = b"") -> Queue:
        """Create and return an empty queue; clients that wait for its name wait in it from now on.

        Raise ClientError if the name is an alias, ServerError if there are too many queues.
        """
        if name in self.aliases:
            raise ClientError(f"{name.decode('ascii')} is an alias of several queues, and none")
        self.refuse_more()
        for tombstone in self.tombstones:
            if tombstone.name == name and not tombstone.is_replaced:
                return self._make_again(tombstone, now_ms, declared)
        # The second of its creation, and higher than that of any deleted queue, over restarts.
        made = (now_ms + self.clock.offset_ms) // 1000
        generation = max(made, self.generation_deleted + 1)
        queue = self.fresh(name, generation, now_ms, declared)
        queue.created_ms = now_ms
        queue.attach(self._make_log(queue))
        self.tokens.begin(queue, now_ms)
        self.adopt(queue, now_ms)
        self.counters.queue_creates += 1
        return queue

    def _make_again(self, queue: Queue, now_ms: int, declared: bytes) -> Queue:
        """Make a deleted queue again, in the log that its children have; return it."""
        if queue.log.failure is not None:
            queue.raise_failed()
        if queue.log.no_room:
            raise ServerError(queue.log.no_room)
        self.tombstones.remove(queue)
        deleted, before = queue.reader, queue.declared
        queue.make_again(declared, self.policy_of(queue.name, declared), now_ms)
        self._stand_in.replace_reader(deleted)
        self.counters.queue_creates += 1
        self.adopt(queue, now_ms)
        # What was declared before holds no more. There may be thousands of children.
        for child_queue in ChildQueue.all_of(queue) if declared != before else ():
            policy = self.policy_of(child_queue.name, child_queue.declared)
            child_queue.set_policy(policy, now_ms)
        return queue

    def adopt(self, queue: Queue, now_ms: int) -> None:
        """Register a queue, with the clients that wait for it; its leases by token go on."""
        name = queue.name
        self._continue_clock(queue, now_ms)
        for each in self.tombstones:
            if each.name == name and each.generation < queue.generation:
                each.is_replaced = True
                each.alarm.need(AT_ONCE_MS)
        if queue.is_tombstone:
            self.generation_deleted = max(self.generation_deleted, queue.generation)
            for child_queue in ChildQueue.all_of(queue):
                self._enroll(child_queue, now_ms)
            self._add_tombstone(queue, now_ms)
            return
        self.queues[name] = queue
        self.tokens.adopt(queue)
        queue.reader.finish_replay(now_ms)
        queue.reader.outbox.send_on(queue.reader.dead.deaths)
        waiting = self.take_absent(name)
        if waiting is not None:
            queue.reader.waiters = waiting
        queue.fanout.set_passing(queue.policy.fanout_only, now_ms)
        self._enroll_all(queue, now_ms)
        queue.alarm.need(queue.next_due(now_ms))

    def _continue_clock(self, queue: Queue, now_ms: int) -> None:
        """Continue the running clock after the times that a log says of it."""
        clock = queue.clock
        if not queue.heard_ms:
            return  # no duration is in it, or it was not rebuilt: it may have thousands of children
        clock.hear(queue.heard_ms, now_ms)
        queue.heard_ms = 0
        for reader in queue.readers:
            clock.note(reader.delays.runs_ms)
        if queue.unseen is not None:
            clock.note(queue.unseen.due.runs_ms)

    def delete(self, name: bytes, now_ms: int) -> Queue | None:
        """Delete and return a queue: end its leases, answer its waiters; None: there is none."""
        found = self.queues.pop(name, None)
        if found is None:
            return None
        queue = found.files
        queue.deleted = True
        self.generation_deleted = max(self.generation_deleted, queue.generation)
        self.tokens.passed(queue)
        queue.alarm.silence()
        self.empty(queue.reader)
        queue.retained = None
        self.counters.queue_deletes += 1
        if queue.children:
            self._leave(queue, now_ms)
        else:
            self._end_later(queue)
        return queue

    def _end_later(self, queue: Queue) -> None:
        self.deleted.append(queue)
        self.ending[queue] = None

    # -- children ---------------------------------------------------------------------------

    def mention(
        self, name: bytes, now_ms: int, begin: int | None = None, may_wait: bool = False
    ) -> ChildQueue | None:
        """Return the child of this full name, created if necessary; its `named_lsn` is the record
        to wait for.

        The child sees retained markers from `begin` on; None: items that are put from now on. A
        parent that does not exist is created as well, so that the child sees each of its items.
        Return None if naming a child does not create it. Raise ServerError if the journal has
        failed or has no room, or if there are too many queues (children that the configuration
        names are created in any case). `may_wait`: a shortage is no reason to refuse.
        """
        parent, _, part = name.partition(b"+")
        if not part or b"+" in part:
            return None
        queue = self.with_log(parent)
        policy = queue.policy if queue is not None else self.policy_of(parent, b"")
        if not (policy.fanout_create or part in policy.children):
            return None
        if queue is not None and part in queue.children:
            return ChildQueue.of(queue.children[part])
        if part not in policy.children:
            self.refuse_more(1 if queue is not None else 2)
        if queue is None:
            queue = self.create(parent, now_ms)
            if part in queue.children:
                return ChildQueue.of(queue.children[part])
        if queue.log.failure is not None:
            queue.raise_failed()
        if queue.log.is_full if may_wait else queue.log.no_room:
            raise ServerError(queue.log.no_room)
        if queue.readers_named >= READERS_MAX:
            raise ServerError(f"too many children were made of {parent.decode('ascii')}")
        start = ChildStart(queue)
        begins = start.beginning(begin) if begin is not None else None
        number, floor = queue.readers_named + 1, queue.last_number
        child_queue = ChildQueue.named(
            queue, number, part, floor if begins is None else max(begin or 0, 1) - 1
        )
        child = child_queue.child
        if begins is not None:
            start.fill(child, begins)
        unix_ms = now_ms + queue.clock.offset_ms
        draft = named(number, part, child.floor, TAKES, unix_ms, begins)
        if begins is None:  # no further item is needed
            child.named_lsn = queue.log.append(draft)
        else:
            child.named_lsn = queue.log.append_recounted(draft, queue.needed_now)
        queue.log.wait_durable(child.named_lsn)
        self._enroll(child_queue, now_ms)
        self.counters.queue_creates += 1
        return child_queue

    def _enroll(self, child_queue: ChildQueue, now_ms: int) -> None:
        """Register a child, with the clients that wait for it."""
        child = child_queue.child
        child.name = child_queue.files.name + b"+" + child.part
        there = self.queues.get(child.name)
        if there is child_queue:
            return  # its queue is made again
        child.alarm.need(child.next_due())
        if there is not None:
            return  # a tombstone's: it waits until that has gone
        self.queues[child_queue.name] = child_queue
        child_queue.child.asked_ms = now_ms
        child_queue.child.finish_replay(now_ms)
        child_queue.set_policy(self.policy_of(child_queue.name, child_queue.declared), now_ms)
        waiting = self.take_absent(child_queue.name)
        if waiting is not None:
            child_queue.child.waiters = waiting
        child_queue.child.outbox.send_on(child_queue.child.dead.deaths)
        child.follow()
        child.alarm.need(child.next_due())
        if child.policy.max_age_ms is not None:
            child.look_up_all(child.restored)
        if child_queue.child.ready.beyond or child_queue.child.delays.count:
            child_queue.files.lazy_sweep.know_nothing()

    def _enroll_all(self, queue: Queue, now_ms: int) -> None:
        """Register the children of a queue that was just registered, and make the wanted ones.

        Those are named in its settings, or clients waited for them before the queue existed.
        """
        for child_queue in ChildQueue.all_of(queue):
            self._enroll(child_queue, now_ms)
        self.make_wanted(queue, now_ms)

    def make_wanted(self, queue: Queue, now_ms: int) -> None:
        """Make the children that its settings name, or that a client waits for."""
        for name in self.wanted(queue):
            self.mention_wanted(queue, name, now_ms)

    def wanted(self, queue: Queue) -> list[bytes]:
        """Return the full names of the wanted children that do not exist."""
        named = [queue.name + b"+" + part for part in queue.policy.children]
        names = named + self.absent_children(queue.name)
        return [name for name in names if name not in self.queues]

    def mention_wanted(self, queue: Queue, name: bytes, now_ms: int) -> None:
        """Make one wanted child if it may be made now."""
        if name in self.queues or self.queues.get(queue.name) is not queue:
            return
        is_named = name[len(queue.name) + 1 :] in queue.policy.children
        may_be = is_named or (not self.is_full and self.is_awaited(name))
        if not may_be or queue.log.failure is not None:
            return
        if queue.log.is_full:
            self.later.add(queue, now_ms)
        else:
            self.mention(name, now_ms, may_wait=True)

    def remove_child(self, child: Child, now_ms: int) -> int:
        """Remove a child with all its items; return the record to wait for."""
        child_queue = ChildQueue.of(child)
        queue = child_queue.files
        self._drop(child_queue)
        del queue.children[child.part]
        if not queue.children:
            queue.reader.needs = None
        unix_ms = now_ms + queue.clock.offset_ms
        draft = named(child.number, child.part, child.floor, STOPS, unix_ms)
        lsn = queue.append_lessening(draft, now_ms)
        if queue.is_tombstone:
            queue.alarm.need(AT_ONCE_MS)  # it goes after its last child
            self._free_name(child_queue, now_ms)
        return lsn

    def expire_children(self, queue: Queue, now_ms: int) -> None:
        """Remove children that no client has used for long: look at some of them, and remove some.
        """
        looks, left = queue.age_round, EXPIRED_MAX
        if queue.policy.max_queue_age_ms is None:
            looks.end()
            return
        looks.begin(now_ms)
        while left and (child := looks.take()) is not None:
            child_queue = ChildQueue.of(child)
            if not child_queue.deleted and child_queue.is_too_old(now_ms):
                self.remove_child(child, now_ms)
                self.counters.queue_expires += 1
                left -= 1

    def _free_name(self, child_queue: ChildQueue, now_ms: int) -> None:
        """Pass on the name of a tombstone's child that is gone.

        It goes to the child of the next queue of the same name, which may be a tombstone itself.
        """
        name, part = child_queue.files.name, child_queue.child.part
        following = [queue for queue in self.tombstones if queue.name == name]
        if (latest := self.with_log(name)) is not None:
            following.append(latest)
        for queue in following:
            child = queue.children.get(part)
            if child is not None:
                self._enroll(ChildQueue.of(child), now_ms)
                return
        if latest is not None:
            self.make_wanted(latest, now_ms)

    def _drop(self, child_queue: ChildQueue) -> None:
        """Take a child off the register: end its leases, answer its waiters."""
        child = child_queue.child
        child_queue.deleted = True
        if self.queues.get(child_queue.name) is child_queue:
            del self.queues[child_queue.name]
        child_queue.files.eager.pop(child, None)
        child_queue.files.lagging.pop(child, None)
        child.stop()
        self.empty(child)
        self._stand_in.replace_child(child)

    # -- tombstones -------------------------------------------------------------------------

    def _leave(self, queue: Queue, now_ms: int) -> None:
        """Make a tombstone of a deleted, empty queue: its children go on."""
        queue.is_tombstone = True
        queue.tell_deleted(now_ms)
        self._add_tombstone(queue, now_ms)

    def _add_tombstone(self, queue: Queue, now_ms: int) -> None:
        """Add a tombstone, new or found by a start."""
        queue.deleted = True
        self.tombstones.append(queue)
        # Both generations take tokens from now on, and must never take the same one.
        floor = queue.reader.tokens_below + TOKENS_SKIPPED
        self.tokens.on_disk = max(self.tokens.on_disk, floor)
        if not self.clear_away(queue, now_ms):
            queue.alarm.need(queue.next_due(now_ms))

    def would_come_back(self, queue: Queue, going: Iterable[Queue]) -> bool:
        """True if, without this queue's files, a start would take an earlier queue for it.

        The files of the queues in `going` still exist; the record that makes a queue a tombstone
        may not be on disk.
        """
        said = (each for each in self.tombstones if each.log.lsn_stored < each.log.lsn_appended)
        earlier = (*going, *(each for each in said if each.log.failure is None))
        return any(
            each.name == queue.name and each.generation < queue.generation for each in earlier
        )

    def clear_away(self, queue: Queue, now_ms: int) -> bool:
        """Drop the tombstone if nothing needs it any more; True if it is dropped.

        The children of a tombstone that a later queue has replaced go when they are empty. Its
        files stay for the next start while the disk does not give one of them: that one may hold
        more items of children.
        """
        for child_queue in ChildQueue.all_of(queue) if queue.is_replaced else ():
            if child_queue.reader.live:
                continue
            self._drop(child_queue)
            del queue.children[child_queue.child.part]
            self._free_name(child_queue, now_ms)
        if queue.children or queue.log.is_unread:
            return False
        self.tombstones.remove(queue)
        queue.alarm.silence()
        self._end_later(queue)
        return True

    def make_later(self, now_ms: int) -> None:
        """Try again to make wanted children that found a full disk, for some of the queues."""
        for queue in self.later.take():
            if self.queues.get(queue.name) is queue:
                self.make_wanted(queue, now_ms)
        self.later.go_on(now_ms)
