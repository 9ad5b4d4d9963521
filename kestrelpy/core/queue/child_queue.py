"""A fan-out child as its clients see it: a queue with items from the log of another queue.

    set orders+audit   stored in the log of `orders`, for this child alone
    get orders+audit   this child's ready list

A child has its own name, policy and ready list; numbers, generation, clock and log are its
parent's. The two kinds of queues that a name may stand for are `AnyQueue`.

One rule: what a queue does to its own subscription, a child queue does to the child's alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn, TypeAlias

from journal.format import ItemHeader, Watermark
from journal.sets import IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.fanout import Child, Unseen
from kestrelpy.core.index import UNLIMITED, Delay
from kestrelpy.core.item import Item
from kestrelpy.core.key_rule import NO_KEY, KeySettings
from kestrelpy.core.log import Log, records
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.dedupe_window import DedupeWindow
from kestrelpy.core.queue.queue import NOT_STORED, Queue
from kestrelpy.core.subscription import Subscription
from kestrelpy.errors import ClientError, NoRoomYet


class ChildQueue:
    """A child as a queue. `files` is the queue whose log it reads, `child` its subscription as it
    is.

    `reader` is the same subscription after it has caught up: calls that look at items use that.
    """

    __slots__ = ("child", "deleted", "files")

    # A child has no children, retains nothing for observers, and is nothing without its parent.
    children: Final[dict[bytes, Child]] = {}
    retained: Final = None
    passes_on: Final = False
    takes_runs: Final = False

    def __init__(self, queue: Queue, child: Child) -> None:
        self.files = queue
        self.child = child
        self.deleted = False

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

    # -- facts ------------------------------------------------------------------------------

    @property
    def reader(self) -> Subscription:
        self.child.catch_up()
        return self.child

    @property
    def name(self) -> bytes:
        return self.child.name

    @property
    def policy(self) -> Policy:
        return self.child.policy

    @property
    def total_items(self) -> int:
        self.child.catch_up()
        return self.child.total_items

    @property
    def readable(self) -> IdSet:
        return self.reader.live

    @property
    def is_going(self) -> bool:
        return self.deleted

    @property
    def log(self) -> Log:
        return self.files.log

    @property
    def clock(self) -> ClockOffset:
        return self.files.clock

    @property
    def dedupe(self) -> DedupeWindow:
        return self.files.dedupe

    @property
    def declared(self) -> bytes:
        return self.files.declared

    @property
    def metadata(self) -> bytes:
        return self.files.metadata

    @property
    def generation(self) -> int:
        return self.files.generation

    @property
    def next_number(self) -> int:
        return self.files.next_number

    @property
    def last_number(self) -> int:
        return self.files.last_number

    def is_too_old(self, now_ms: int) -> bool:
        """True if no client has used the child within the `max_queue_age` of its queue.

        A waiter or a lease is a use of now. A child that the configuration names stays.
        """
        child, age_ms = self.child, self.files.policy.max_queue_age_ms
        if child.waiters.count or child.leases or child.outgoing or child.paused:
            child.asked_ms = now_ms
        return (
            age_ms is not None
            and now_ms - child.asked_ms >= age_ms
            and child.part not in self.files.policy.children
            and child.log.failure is None
            and not child.log.no_room
        )

    # -- storing ----------------------------------------------------------------------------

    def put(
        self, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
        nominal: Watermark | None = None, delay: Delay | None = None,
        header: ItemHeader | None = None, expects: int | None = None,
    ) -> int:  # fmt: skip
        """Store an item for this child alone, as `Queue.put` does for all.

        It is no version of its key. Raise ClientError for an id and for a version.
        """
        queue, child, log, size = self.files, self.child, self.log, len(body)
        if log.failure is not None or log.no_room or size > child.policy.max_item_bytes:
            child.refuse_put(size)
        if not log.has_room(size + records.meta_most(header, key)):
            raise NoRoomYet(log.waiting_room, self.name)
        unix_ms = now_ms + queue.clock.offset_ms
        expires_ms = child.expiry(expires_ms, delay, unix_ms)
        if expects is not None or (header is not None and header.id):
            raise ClientError(
                f"{self.name.decode('ascii')} is a child: ids and versions are its parent's, name "
                "that instead"
            )
        if child.policy.bounded and not child.make_room(size, now_ms):
            if child.policy.never_fits(size):
                child.refuse_put(size)
            return NOT_STORED
        if delay is not None and delay.due_ms(unix_ms) <= unix_ms:
            delay = None
        number = self.take_place()
        marker = number if delay is None else 0
        item = Item(number, marker, body, flags, unix_ms, expires_ms, 0, key, header)
        child._apply_put(number, size)
        child.total_items += 1
        if delay is not None:
            child.markers.hide(number)
        due_ms = delay.due_ms(unix_ms) if delay is not None else 0
        runs_ms = delay.runs_ms(queue.clock, now_ms) if delay is not None else 0
        item.lsn = child.append(records.put(item, due_ms, nominal, runs_ms))
        if nominal is not None:
            queue._apply_nominal(nominal)
            log.stand(nominal.draft(unix_ms), item.lsn)
        if item.origin is not None:
            queue.open_origin(item, item.origin)
        if delay is not None:
            child.delay(item, delay, now_ms)
        else:
            child.ready_items.add(item)
            if child.waiters.count:
                child.serve(now_ms)
        return item.lsn

    def add(
        self, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
        delay: Delay | None = None, header: ItemHeader | None = None,
    ) -> int:  # fmt: skip
        """Store an item if none is ready, delayed or leased; an unreadable item counts as one."""
        if self.log.failure is not None or len(body) > self.policy.max_item_bytes:
            self.refuse_put(len(body))
        if self.reader.holds_any(now_ms):
            return NOT_STORED
        return self.put(body, flags, expires_ms, now_ms, key, delay=delay, header=header)

    def raise_failed(self) -> NoReturn:
        """Raise ServerError: the journal has failed."""
        self.child.raise_failed()

    def refuse_put(self, size: int) -> NoReturn:
        """Raise the error that says why nothing of this size is stored now."""
        self.child.refuse_put(size)

    def take_place(self) -> int:
        """Return the next number, as the place of an item that becomes available here alone."""
        place = self.files.take_place()
        self.child.catch_up()
        return place

    # -- the whole child --------------------------------------------------------------------

    def set_policy(self, policy: Policy, now_ms: int) -> None:
        """Apply other limits and rules from now on; the settings of the log stay the parent's."""
        child, of, lazy_sweep = self.child, self.files.policy, self.files.lazy_sweep
        before = child.policy
        policy = replace(policy, keys=of.keys, sync_ms=of.sync_ms, durable=of.durable)
        child.key_gate.keys.matches_any = policy.keys.matches_any
        child.policy = policy
        in_memory = child.log.read_ahead is None
        child.residency.limit(UNLIMITED if in_memory else policy.max_memory_bytes)
        if (before.expire_to, before.dead_letter_to) != (policy.expire_to, policy.dead_letter_to):
            child.outbox.send_on(child.dead.deaths)
        if before.max_age_ms != policy.max_age_ms:
            lazy_sweep.know_nothing()  # it holds for items not yet looked at as well
        lazy_sweep.know(policy.max_age_ms)
        child.follow()
        if child.waiters:
            self.reader.serve(now_ms)

    def set_keys(self, keys: KeySettings) -> None:
        """Apply other rules for keys from now on; there are no items."""
        self.reader.set_keys(keys)

    def flush(self, now_ms: int) -> int:
        """Remove everything ready or delayed; return the record to wait for.

        Raise ServerError when the journal has failed.
        """
        if self.log.failure is not None:
            self.raise_failed()
        return self.reader.flush(self.last_number, now_ms)

    def release(self, id_: int, size: int, now_ms: int) -> int:
        """Make a delayed item available; return the record to wait for."""
        return self.files.due.release_shared(self.child, id_, size, now_ms)


# A queue by its name.
AnyQueue: TypeAlias = Queue | ChildQueue
