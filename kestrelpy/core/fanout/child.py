"""A fan-out child: a subscription to its parent's log, with a ready list, leases, attempts and dead
letters of its own.

    parent   1 2 3 4 5 6 7 8 9        next number 10
    child        floor 2   taken 6    live: 3 5 6, and 7 8 9, which it has not looked at yet

A put costs a lazy child nothing: the items that arrive after `taken` are put for all, without a
hole. The child takes them in at the next look (`catch_up`) and reads their bodies from the log. A
child with waiters, or with limits, or of a queue in memory is given each item as it comes.

One rule: each number between `taken` and the parent's latest is that of an item that was put for
all and available at once, or the parent's `unseen` has a note of it.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from journal.format import ReaderState
from journal.sets import IdCounts, IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.fanout.unseen import Arrivals, Digest, Unseen, disk_refs_of
from kestrelpy.core.index import Delay, Holder, Lease, MemoryBudget
from kestrelpy.core.item import Item
from kestrelpy.core.log import Log, records
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription import Needs, Placed, Subscription
from kestrelpy.core.timers import Alarm, PartAlarm, Timers

# The log names a child after this time in which no client asked it for an item.
ABANDONED_MS: Final = 24 * 60 * 60 * 1000
_LAST: Final = 1 << 63  # no item has this number
# Most of thousands of children have none of these: their copies share what stays empty.
_NO_COUNTS: Final = IdCounts()
_NO_IDS: Final = IdSet()
_NONE: Final[list[Any]] = []


class Parent(Needs, Protocol):
    """The part of a queue that its children need."""

    name: bytes
    policy: Policy
    clock: ClockOffset
    alarm: Alarm[Any]
    child_timers: Timers[Child]
    memory: MemoryBudget
    unseen: Unseen | None
    eager: dict[Child, None]
    lagging: dict[Child, None]
    is_tombstone: bool
    put_bytes: int

    @property
    def log(self) -> Log:
        """The log that its children read."""

    @property
    def reader(self) -> Subscription:
        """The subscription of its own consumers."""

    @property
    def next_number(self) -> int:
        """The number that the queue gives next."""

    def need_look(self, unix_ms: int) -> None:
        """Look at the children at `unix_ms` at the latest."""

    def count_anew(self) -> None:
        """Count anew the records that the log must have room for."""


class Child(Subscription):
    """One child of a queue. `part` is its name after the `+`; it does not see items up to `floor`.

    `named_lsn` is the record that named it (0: a snapshot did); `total_items` counts its arrivals.
    """

    __slots__ = (
        "asked_ms", "floor", "named_lsn", "parent", "part", "queue", "seen_bytes", "taken",
        "total_items",
    )  # fmt: skip

    def __init__(self, parent: Parent, number: int, part: bytes, floor: int) -> None:
        own = parent.reader
        super().__init__(
            parent.name + b"+" + part, parent.policy, parent.log,
            parent.clock, own.to_resume, PartAlarm(parent.child_timers, self, parent.alarm),
            parent.memory, own.to_read, number, own.tokens,
        )  # fmt: skip
        self.needs = self.parent = parent
        self.part = part
        self.floor = floor
        self.named_lsn = 0
        self.asked_ms = 0  # when a client last asked it for an item, or the server learned of it
        self.total_items = 0
        self.taken = parent.next_number - 1
        self.seen_bytes = parent.put_bytes
        self.queue: object = None  # itself as a queue: its `ChildQueue`
        if parent.unseen is not None:
            self.delays.shared = parent.unseen.due

    @property
    def wants_each(self) -> bool:
        """True if the child must be given each item as it comes."""
        return self.waiters.count > 0 or self.is_strict

    @property
    def is_strict(self) -> bool:
        """True if the child must be given each item in the step that puts it."""
        return self.policy.bounded or self.log.read_ahead is None

    def left(self, expires_ms: int) -> None:
        self.parent.need_look(expires_ms)

    def open(
        self, holder: Holder, now_ms: int, dead: bool = False, lease_ms: int = 0,
        grace_ms: int | None = None,
    ) -> Lease | None:  # fmt: skip
        self.asked_ms = now_ms
        if not self.counters.opened:
            self.parent.count_anew()  # it is at work from now on
        return super().open(holder, now_ms, dead, lease_ms, grace_ms)

    def follow(self) -> None:
        lagging = self.parent.lagging
        if lagging and self in lagging:
            if not self.is_strict:
                return  # its turn comes, and its waiters are served then
            del lagging[self]
        if self.wants_each and self not in self.parent.eager:
            self.catch_up()
            self.parent.eager[self] = None

    # -- clients that ask for nothing --------------------------------------------------------

    def is_abandoned(self, now_ms: int) -> bool:
        """True if the child has items, and no client asked for one for a day.

        The day begins anew at a start.
        """
        if now_ms - self.asked_ms < ABANDONED_MS:
            return False
        self.catch_up()
        return bool(self.ready.count or self.delays.count) and not self.leases

    def why_abandoned(self, now_ms: int) -> str:
        """Return the line for the log about an abandoned child."""
        self.catch_up()
        hours = (now_ms - self.asked_ms) // 3_600_000
        return (
            f"nobody asked for {hours} hours, and {self.ready.count} items wait: read them, "
            f"or delete {self.name.decode('ascii')}"
        )

    # -- items put for all ------------------------------------------------------------------

    def catch_up(self) -> None:
        """Take in the arrivals since the last look."""
        parent = self.parent
        if parent.next_number - 1 > self.taken:
            self._take_in(parent.next_number - 1, parent.put_bytes)

    def _take_in(self, last: int, put_bytes: int) -> None:
        first, size = self.taken + 1, put_bytes - self.seen_bytes
        unseen = self.parent.unseen
        digest = unseen.between(self.taken, last) if unseen is not None else None
        self.taken, self.seen_bytes = last, put_bytes
        self.live_bytes += size
        if digest is not None:
            self._take_digest(digest, size)
            return
        self.live.add_range(first, last)
        self.total_items += last + 1 - first
        self.ready.push_range(first, last + 1 - first, size)

    def _take_digest(self, unseen: Digest, size: int) -> None:
        """Take in these numbers; the items that were available at once have `size` bytes."""
        self.live.add_above(unseen.ids)
        self.total_items += unseen.ids.count
        if unseen.plain:
            self.ready.push_range(unseen.first_plain, unseen.plain, size)
        if unseen.delayed.count:
            self.live_bytes += unseen.delayed_bytes
            self.markers.hidden.add_above(unseen.delayed)
            self.out_of_order.add_above(unseen.delayed)
            self.delays.ids.add_above(unseen.delayed)
            self.delays.bytes += unseen.delayed_bytes
            if self.policy.max_age_ms is not None:
                self.look_up_all(unseen.delayed)  # they may expire here before they are due
        if unseen.released:
            self._take_released(unseen)

    def _take_released(self, unseen: Digest) -> None:
        """Make available the released items that this child has."""
        delays, here = self.delays, unseen.released
        if delays.ids.both(unseen.released_ids).count < len(here):  # not all of them
            here = [each for each in here if each.id in delays.ids]
            for each in here:
                delays.remove(each.id, each.size)
            self.ready.disk_refs.push_last(disk_refs_of(here), here)
        else:
            delays.remove_all(unseen.released_ids, unseen.released_bytes)
            self.ready.disk_refs.push_last(unseen.disk_refs, here)
        self.markers.give_all(here)
        for each in here if self.restored.count else ():
            self.stands(each.id)
        if here and here[-1].lsn > self.log.lsn_stored:
            for place, _, _, lsn in here:
                self.ready_items.placed(place, lsn)

    def pass_number(self, number: int) -> None:
        """Pass the parent's next number: no item that is for all and available has it."""
        self.catch_up()
        self.taken = number

    def arrive_late(self, item: Item, now_ms: int, put_bytes: int) -> None:
        """`arrive`, with an item after which others were put. Of all items up to it the bodies have
        `put_bytes`."""
        if item.id - 1 > self.taken:
            self._take_in(item.id - 1, put_bytes - item.size)
        self.arrive(item, now_ms, put_bytes)

    def arrive(self, item: Item, now_ms: int, put_bytes: int) -> None:
        """Take in an item for all, put just now; a full child drops it, or another one."""
        self.taken, self.seen_bytes = item.id, put_bytes
        if not self._accepts(item, now_ms):
            return
        self.ready_items.add(self.bound(item))
        if self.waiters.count:
            self.serve(now_ms)

    def arrive_later(self, item: Item, delay: Delay, now_ms: int) -> None:
        """Take in an item for all, put just now, that is not due yet."""
        self.taken = item.id
        if self._accepts(item, now_ms):
            self.markers.hide(item.id)
            self.delay(self.bound(item), delay, now_ms, True)

    def _accepts(self, item: Item, now_ms: int) -> bool:
        """True if there is room for the item, which is live from now on; else discard it."""
        self.total_items += 1
        if self.policy.bounded and not self.make_room(item.size, now_ms):
            self.counters.discarded += 1
            self.append(records.discarded(item, now_ms + self.clock.offset_ms))
            return False
        self._apply_put(item.id, item.size)
        return True

    def bound(self, item: Item) -> Item:
        """Return the item as it is here: if this child has a `max_age`, it may expire earlier."""
        if self.policy.max_age_ms is None or item.id in self.expiries or item.id in self.ageless:
            return super().bound(item)
        oldest = item.stored_ms + self.policy.max_age_ms
        if 0 < item.expires_ms <= oldest:
            return item
        return item.ending(oldest)

    def state(self, clock: ClockOffset, arrivals: Arrivals) -> ReaderState:
        """Return all that is known of the child but the bodies, as a copy, as after a `catch_up`.

        There may be thousands of children, most with nothing but items put for all: such a child
        takes 5 µs. If it has not looked at the latest of these, only the copy takes them in: a
        child that waits for its turn is given them from memory.

        (A KNOWN FLAW: all children are copied in one go, which takes 50 ms for 8,000.)
        """
        if self.taken < arrivals.last_unplain:
            self.catch_up()
        live, total, live_bytes = self.live.copy(), self.total_items, self.live_bytes
        if arrivals.last > self.taken:
            live_bytes += self.parent.put_bytes - self.seen_bytes
            total += arrivals.add_to(live, self.taken)
        deaths, leased = self.dead.deaths, self.leases.entries
        return ReaderState(
            self.number, self.part, self.floor, total, live, live_bytes,
            self.attempts.copy() if self.attempts else _NO_COUNTS,
            list(deaths.values()) if deaths else _NONE, list(leased.values()) if leased else _NONE,
            self.paused, self.delays.entries(clock), Placed.of(self), dict(self.held_keys),
            self.ageless.copy() if self.ageless.count else _NO_IDS,
        )  # fmt: skip

    # -- the end of an item, and of the child -----------------------------------------------

    def _apply_done(self, id_: int, body_bytes: int) -> None:
        super()._apply_done(id_, body_bytes)
        self._note_less()

    def _apply_flushed(self, spared: IdSet, last_id: int, live_bytes: int) -> None:
        super()._apply_flushed(spared, last_id, live_bytes)
        self._note_less()

    def _apply_upto(self, marker: int, stay: IdSet, live_bytes: int) -> None:
        super()._apply_upto(marker, stay, live_bytes)
        self._note_less()

    def _note_less(self) -> None:
        if not self.live.count and self.parent.is_tombstone:
            self.alarm.need(0)  # the child goes with its last item

    def stop(self) -> None:
        """Take in nothing any more: the child has ended, but a caller may still have it."""
        self.taken = _LAST
