"""One subscription to a queue: every transition of its items.

      READY ---open---> LEASED ---confirm---> done
        ^                |  \\
        +---- nack ------+   +--- attempts used up ---> DEAD
        ^                |
        +--- DELAYED <---+                  READY past its expiry ---> expired

A subscription consists of parts that share one state: the ready items with their key gate, the
outbox, the leases by token. A queue's own consumers share one subscription; each fan-out child is
another.

One rule: decide, apply, log. A transition checks, calls `_apply_x`, then appends a record; replay
calls the same `_apply_x`, which takes no clock and cannot fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from journal.format import RawDraft
from journal.sets import IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index import Delay, Holder, Lease, MemoryBudget, TokenRange, Waiter, Want
from kestrelpy.core.item import Item
from kestrelpy.core.key_rule import NO_KEY, KeySettings
from kestrelpy.core.log import Log, records
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.expiry_sweep import ExpirySweep
from kestrelpy.core.subscription.key_gate import SWEEP_ITEMS_MAX, KeyGate
from kestrelpy.core.subscription.outbox import ATTEMPTS_NOTED, Outbox
from kestrelpy.core.subscription.ready_items import REFILL_ITEMS
from kestrelpy.core.subscription.state import SubscriptionState
from kestrelpy.core.subscription.token_leases import TokenLeases
from kestrelpy.core.subscription.where import WORDS, Where
from kestrelpy.core.timers import Alarm

# A ready list releases memory whenever its length is a multiple of 1024 (a mask).
_LOOK_ITEMS: Final = 1023
# One turn resumes this many observers: each then looks for the new items for 20 to 50 us.
RESUMED_OBSERVERS_MAX: Final = 128
# One step serves this many waiters: thousands may wait when a queue is resumed, or `max_leased` is
# raised.
SERVED_MAX: Final = 250
_SOON_MS: Final = 1
_NO_LIMIT: Final = (1 << 63) - 1
# One put drops this many items: after a limit is lowered by a million, many puts share the work.
DISCARDED_ITEMS_MAX: Final = 1000

ABORTED: Final = b"abort"
DEFERRED: Final = b"defer"
HUNG_UP: Final = b"hangup"
OVERDUE: Final = b"lease"


class Subscription(SubscriptionState):
    """The ready list of a queue's consumers with their leases, dead letters and waiters."""

    __slots__ = ("_serving", "by_token", "expiry_sweep", "key_gate", "outbox", "ready_items")

    def __init__(
        self, name: bytes, policy: Policy, log: Log, clock: ClockOffset, to_resume: list[Waiter],
        alarm: Alarm[Any], memory: MemoryBudget, to_read: list[Any], number: int = 0,
        tokens: TokenRange | None = None,
    ) -> None:  # fmt: skip
        """`to_resume` and `to_read` are filled as `SubscriptionState` says."""
        super().__init__(
            name, policy, log, clock, to_resume, alarm, memory, to_read, number, tokens
        )
        self.outbox = Outbox(self)
        self.key_gate = KeyGate(self, self.outbox)
        self.ready_items = self.key_gate.ready_items
        self.by_token = TokenLeases(self)
        self.expiry_sweep = ExpirySweep(self, self.key_gate)
        self._serving = False

    # -- leasing ----------------------------------------------------------------------------

    def open(
        self, holder: Holder, now_ms: int, dead: bool = False, lease_ms: int = 0,
        grace_ms: int | None = None,
    ) -> Lease | None:  # fmt: skip
        """Lease the next item to `holder`; None: there is none, or no more may be leased.

        With `lease_ms` the lease is by token and lasts that long: any client that knows the token
        holds it; with `grace_ms` the item does not expire within that time after it.
        """
        policy = self.policy
        if self.paused or (policy.max_leased is not None and self._leases_no_more):
            return None
        unix_ms = now_ms + self.clock.offset_ms
        if dead:
            found = self.dead.pop()
            if found is None and self.dead.missing:
                self.schedule_read()
        else:
            found = self.pop(now_ms)
        if found is None:
            return None
        if self.residency.grains and not self.ready.resident & _LOOK_ITEMS:
            self.residency.shrink(self.cost)
        place, item = found
        self.leased_bytes += item.size
        if self.out_of_order.count:
            self.out_of_order.discard(item.id)
        if self._next_token >= self._tokens_below:
            self._reserve_tokens(unix_ms)
        token = self._next_token
        self._next_token = token + 1
        attempts = self.attempts.get(item.id) if self.attempts else 0
        deadline_ms = None
        if lease_ms or policy.lease_ms is not None:
            deadline_ms = now_ms + (lease_ms or policy.lease_ms or 0)
            if deadline_ms < self.alarm.at_ms:
                self.alarm.need(deadline_ms)
            if lease_ms:
                holder = self.token_holder
        lease = Lease(item, place, holder, self, token, attempts, unix_ms, deadline_ms)
        if dead:
            lease.dead = True
            lease.attempts = self.dead.deaths[item.id].attempts
        elif item.key:
            self.key_gate.lease(item)
        self.leases.grant(lease)
        if lease_ms:
            self.by_token.begin(lease, lease_ms, grace_ms)
        counters = self.counters
        counters.opened += 1
        if attempts:
            counters.redelivered += 1
        else:
            waiting_ms = counters.waiting_ms or counters.begin()[0]
            if (waited_ms := unix_ms - item.stored_ms) > 0:
                waiting_ms[waited_ms.bit_length()] += 1
                waiting_ms[-1] += waited_ms
            else:
                waiting_ms[0] += 1
        return lease

    def pop(self, now_ms: int) -> tuple[int, Item] | None:
        """Remove the next item that may be leased from the list; return its place and the item.

        None: there is none yet.
        """
        ready = self.ready
        if ready.beyond and ready.resident < REFILL_ITEMS:
            self.ready_items.refill(now_ms + self.clock.offset_ms)
        if ready.disk_refs.ids.count:
            self.ready_items.look_ahead()
        found = ready.pop()
        if found is not None and (found[1].expires_ms or found[1].key):
            return self.key_gate.skip_blocked(found, now_ms)
        return found

    def first(self, now_ms: int, dead: bool = False) -> Item | None:
        """Return the next item that may be leased; change nothing, but end expired items."""
        if dead:
            if self.dead.missing:
                self.schedule_read()
            return self.dead.first()
        unix_ms = now_ms + self.clock.offset_ms
        if self.ready.beyond and self.ready.resident < REFILL_ITEMS:
            self.ready_items.refill(unix_ms)
        if self.ready.disk_refs.count:
            self.ready_items.look_ahead()
        item = self.ready.first()
        if item is not None and (item.expires_ms or item.key):
            return self.key_gate.first(item, now_ms)
        return item

    def holds_any(self, now_ms: int) -> bool:
        """True if an item is ready, delayed or leased; an unreadable item counts as one."""
        self.sweep(now_ms, SWEEP_ITEMS_MAX)  # expired items do not count
        self.first(now_ms)
        if self.ready.count or len(self.leases) or self.out_of_order.count:
            return True
        return len(self.live) > len(self.dead.deaths)  # one is damaged: a start may find it again

    def is_busy(self, now_ms: int, dead: bool = False, leases: bool = True) -> bool:
        """True if the front must be cleared away or read back, or a waiter waits for room, before
        it is known whether an item may be leased."""
        if leases and self._leases_no_more:
            return False  # no item may be leased, whatever stands at the front
        if leases and self.waiters.wants_token(dead) and not self.log.has_lease_room():
            return not self.log.no_room
        if dead:
            return self.dead.missing != 0
        item = self.ready.first()
        if item is not None:
            is_over = 0 < item.expires_ms <= now_ms + self.clock.offset_ms
            return is_over or (bool(item.key) and self.key_gate.is_blocked(item))
        return (self.ready.beyond > 0 or self.ready.is_held_up) and not self.ready_items.is_cut_off

    @property
    def _leases_no_more(self) -> bool:
        most = self.policy.max_leased
        return self.paused or (most is not None and len(self.leases) - self.moving >= most)

    # -- where an item is -------------------------------------------------------------------

    def where(self, id_: int) -> Where:
        """Return where an item is."""
        ready, gate = self.ready, self.key_gate
        if id_ in self.leases:
            return Where.LEASED
        if id_ in self.dead.deaths:
            return Where.DEAD
        if id_ not in self.live:
            return Where.GONE
        if id_ in self.delays:
            return Where.DELAYED
        if id_ in gate.keys.blocked:
            return Where.IN_MEMORY if id_ in gate.whole else Where.LOGGED
        is_beyond = id_ >= ready.frontier and id_ not in self.out_of_order
        if is_beyond or id_ in ready.disk_refs.ids:
            return Where.LOGGED
        return Where.IN_MEMORY if ready.at(id_) is not None else Where.LOST

    def item(self, id_: int) -> Item | None:
        """Return an item if it is in memory, with its body or without."""
        if (lease := self.leases.of(id_)) is not None:
            return lease.item
        if id_ in self.dead.deaths:
            return self.dead.at(id_)
        found = self.ready.at(id_) or self.key_gate.whole.get(id_)
        return found or self.delays.items.get(id_)

    def take_out(self, id_: int, body_bytes: int = 0, key: bytes = NO_KEY) -> int:
        """Remove an item, wherever it is, and end its claims; return the size of its body.

        `body_bytes` and `key` are those in the log, for an item that only the log has. The next
        tick serves the waiters. The caller logs the end.
        """
        ready, blocked, where = self.ready, self.key_gate.keys.blocked, self.where(id_)
        assert where is not Where.GONE
        key = key or self.held_keys.get(id_, NO_KEY)
        if (lease := self.leases.of(id_)) is not None:
            item = self.end(lease)
            body_bytes, key = item.size, item.key
            if lease.dead:
                self.dead.forget(id_, True)
                key = NO_KEY  # its death released it
        elif where is Where.DEAD:
            body_bytes = self.dead.deaths[id_].body_bytes
            self.dead.forget(id_, False)
        elif where is Where.DELAYED:
            _, body_bytes = self.delays.find(id_, self.clock)
            self.delays.remove(id_, body_bytes)
        elif where is Where.IN_MEMORY and (found := self.item(id_)) is not None:
            body_bytes, key = found.size, found.key
            if id_ not in blocked:
                ready.remove(found)
        elif id_ not in blocked and not ready.disk_refs.remove(id_, body_bytes):
            ready.drop_beyond(body_bytes)
            ready.advance(ready.frontier)
        if key:
            self.key_gate.drop_known(id_, key, body_bytes)
        self._apply_done(id_, body_bytes)
        return body_bytes

    def state_of(self, id_: int) -> tuple[bytes, int]:
        """Return where an item is, in the words of `stats`, and its attempts."""
        where, attempts = self.where(id_), self.attempts.get(id_)
        if where is Where.DEAD:
            attempts = self.dead.deaths[id_].attempts
        elif (lease := self.leases.of(id_)) is not None:
            attempts = lease.attempts
        return WORDS[where], attempts

    # -- ending a delivery ------------------------------------------------------------------

    def confirm(self, lease: Lease, now_ms: int) -> int:
        """End the lease: its item is done. Return the record to wait for."""
        item = self.end(lease)
        if lease.dead:
            self.dead.forget(item.id, True)
        elif item.key:
            self.key_gate.end(item)
        self._apply_done(item.id, item.size)
        unix_ms = now_ms + self.clock.offset_ms
        counters = self.counters
        counters.confirmed += 1
        service_ms = counters.service_ms or counters.begin()[1]
        if (served_ms := unix_ms - lease.began_ms) > 0:
            service_ms[served_ms.bit_length()] += 1
            service_ms[-1] += served_ms
        else:
            service_ms[0] += 1
        draft = records.done(item, lease.attempts, lease.began_ms, unix_ms)
        lsn = self.log.append(draft if self.needs is None else self.own(draft))  # as `append` does
        if self.waiters.count and (item.key or self.policy.max_leased is not None):
            self.serve(now_ms)  # another item may be unblocked, or another lease allowed
        return lsn

    def nack(
        self, lease: Lease, now_ms: int, reason: bytes, delay: Delay | None = None
    ) -> int:
        """End the lease: its item goes back to its place, is delayed, or becomes a dead letter.

        Return the record to wait for.
        """
        lsn = self.nack_one(lease, now_ms, reason, delay=delay)
        if self.waiters:
            self.serve(now_ms)
        return lsn

    def dead_letter(self, lease: Lease, now_ms: int, reason: bytes) -> int:
        """End the lease and make its item a dead letter now, whatever its attempts.

        Return the record to wait for.
        """
        lsn = self.nack_one(lease, now_ms, reason, True)
        if self.waiters:
            self.serve(now_ms)
        return lsn

    def end(self, lease: Lease) -> Item:
        """Take the lease from its holder; return its item."""
        self.leases.end(lease)
        item = lease.item
        self.leased_bytes -= len(item.body)
        if item.key and not lease.dead:
            self.key_gate.unlease(item)
        return item

    def nack_one(
        self, lease: Lease, now_ms: int, reason: bytes, buries: bool = False,
        delay: Delay | None = None,
    ) -> int:  # fmt: skip
        """`nack` one of several leases: all items are back in order before the caller's `serve`."""
        item, began_ms, in_memory = self.end(lease), lease.began_ms, self.log.read_ahead is None
        unix_ms = now_ms + self.clock.offset_ms
        self.counters.cancelled += 1
        if lease.dead:
            self.dead.put_back(item, in_memory)
            self.outbox.send_on((item.id,))
            draft = records.returned(item, lease.attempts, began_ms, unix_ms, reason)
            return self._append_returned(lease, draft)
        counts = buries or reason != DEFERRED
        attempts, policy = lease.attempts + counts, self.policy
        most = policy.max_attempts
        if buries or (most is not None and attempts >= most and counts):
            self.key_gate.end(item)
            has_room = buries or lease.by_token
            return self.outbox.dead_letter(item, attempts, began_ms, unix_ms, reason, has_room)
        if attempts == ATTEMPTS_NOTED and counts:
            self.outbox.note_attempts(item.id)
        self._apply_returned(item.id, attempts)
        if delay is None and counts and policy.retry_delay_ms:
            delay = Delay(policy.retry_ms(attempts))
        due_ms = delay.due_ms(unix_ms) if delay is not None else 0
        if 0 < item.expires_ms < due_ms:  # it ends at the earlier time; a restart knows no other
            delay, due_ms = Delay(item.expires_ms, True), item.expires_ms
        if delay is None or due_ms <= unix_ms:
            self.ready_items.put_back(item, lease.place)
            draft = records.returned(item, attempts, began_ms, unix_ms, reason)
            return self._append_returned(lease, draft)
        if item.key:
            self.held_keys[item.id] = item.key
        before = self.log.lsn_appended
        runs_ms = delay.runs_ms(self.clock, now_ms)
        draft = records.returned(item, attempts, began_ms, unix_ms, reason, due_ms, runs_ms)
        lsn = self._append_returned(lease, draft)
        self.markers.remember(item.id, item.marker)
        self.delay(item, delay, now_ms)
        if lsn == before and not in_memory:
            self.delays.unlogged.add(item.id)
        return lsn

    def _append_returned(self, lease: Lease, draft: RawDraft) -> int:
        """Append the record of a nack; on a full disk only that of a lease by token.

        The room left is for the confirms. A restart does not know of the delivery then.
        """
        if self.log.is_full and not lease.by_token:
            return self.log.lsn_appended
        return self.append(draft)

    def delay(
        self, item: Item, delay: Delay, now_ms: int, is_shared: bool = False
    ) -> None:
        """Keep an item out of the ready list until it is due; a queue in memory keeps it whole.

        `is_shared`: when it is due, one record says so for all subscriptions together.
        """
        self.watch.forget(item.id)
        self.know_expiry(item)
        self.out_of_order.add(item.id)
        if is_shared:
            self.delays.add_shared(item.id, item.size)
        else:
            self.delays.add(item.id, item.size, delay.due_at(self.clock, now_ms), delay.is_date)
        if self.log.read_ahead is None:
            self.delays.items[item.id] = item
        self.alarm.need(delay.at_ms(self.clock, now_ms))

    def stand(self, item: Item | None, id_: int, size: int, place: int, lsn: int) -> None:
        """Make an item ready at this place, by the record `lsn`.

        `item` is None when only the log has its body.
        """
        if item is None:
            self.ready_items.stand(place, id_, size)
            self.ready_items.placed(place, lsn)
            self.stands(id_)
        else:
            item.marker = item.marker or place
            self.ready_items.put_back(item, place)

    def renew(self, lease: Lease, lease_ms: int, now_ms: int, expiry_ms: int = 0) -> int:
        """Extend the lease to `lease_ms` from now; return the record to wait for, 0: none.

        `expiry_ms`: the new expiry of the item of a lease by token; 0: it stays.
        """
        self.leases.renew(lease, now_ms + lease_ms)
        self.alarm.need(lease.deadline_ms)
        if not lease.by_token:
            return 0
        return self.by_token.renew(lease, lease_ms, now_ms, expiry_ms)

    def serve(self, now_ms: int) -> None:
        """Give ready items and dead letters to the waiters, in the order in which the waiters came.
        Resume observers that wait for items after their markers."""
        if self._serving or self.log.failure is not None:
            return
        self._serving = True
        waiters, to_resume = self.waiters, self.to_resume
        for dead in (False, True):
            waiter, left = waiters.first(dead), SERVED_MAX
            while left and waiter is not None and self._answer(waiter, now_ms):
                waiters.finish(waiter)
                to_resume.append(waiter)
                waiter, left = waiters.first(dead), left - 1
            if not left:
                self.alarm.need(now_ms + _SOON_MS)
        if waiters.observers_at_most:
            self._wake_observers(now_ms)
        self._serving = False

    def _wake_observers(self, now_ms: int) -> None:
        """Resume observers that wait for items after their markers, some of them in each turn.

        If there are more observers than one turn resumes, they are resumed once the item is stored,
        so that they do not all wait for its record.
        """
        waiters, to_resume, latest = self.waiters, self.to_resume, self.latest_marker
        after = waiters.first_after
        if after >= latest:
            return
        most = RESUMED_OBSERVERS_MAX - len(to_resume)
        if waiters.observers_at_most > RESUMED_OBSERVERS_MAX and after >= self.log.item_stored:
            most = 0
        for observer in waiters.take_observers(latest, max(most, 0)):
            observer.owner = self
            to_resume.append(observer)
        if waiters.first_after < latest:
            self.alarm.need(now_ms + _SOON_MS)

    def _answer(self, waiter: Waiter, now_ms: int) -> bool:
        """Answer this waiter; False: it cannot be served yet, and no waiter behind it can.
        If waiting cannot help, the waiter is refused with the reason."""
        if waiter.want is Want.PEEK:
            waiter.item = self.first(now_ms, waiter.dead)
            waiter.owner = self
            return waiter.item is not None
        if waiter.lease_ms and self.log.no_room:
            waiter.refused = self.log.no_room
            return True
        if waiter.lease_ms and not self.log.has_lease_room():
            self.alarm.need(now_ms + _SOON_MS)
            return False
        lease = self.open(waiter.holder, now_ms, waiter.dead, waiter.lease_ms, waiter.grace_ms)
        if lease is None:
            return False
        waiter.lease = lease
        waiter.owner = self
        if waiter.want is Want.TAKE:
            waiter.done_lsn = self.confirm(lease, now_ms)
        return True

    # -- time -------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """Return when `tick` has something to do, on the monotonic clock; None: nothing."""
        due = self.leases.next_due()
        expiry = self.expiry_sweep.next_due()
        if expiry is not None:
            expiry -= self.clock.offset_ms
            due = expiry if due is None else min(due, expiry)
        if self.delays.count:
            delayed = self.delays.next_due(self.clock)
            if delayed is not None:
                due = delayed if due is None else min(due, delayed)
        return due

    def tick(self, now_ms: int, steps: int) -> int:
        """End overdue leases and expired items in at most `steps` steps; return the steps taken."""
        over = self.leases.over(now_ms, steps)
        for lease in over:
            self.counters.lease_expired += 1
            if not lease.by_token:
                lease.holder.overdue.append(self)
            self.nack_one(lease, now_ms, OVERDUE)
        taken = len(over) + self.sweep(now_ms, steps - len(over))
        if taken and self.residency.grains:
            self.tidy()
        if self.ready.beyond and self.ready.resident < REFILL_ITEMS:
            # Expired items may stand after the frontier as well.
            self.ready_items.refill(now_ms + self.clock.offset_ms)
        if self.ready.disk_refs.count:
            self.ready_items.look_ahead()
        if self.waiters:
            self.serve(now_ms)  # other calls may have cleared the front in the meantime
        return taken

    def sweep(self, now_ms: int, steps: int) -> int:
        """End expired items in at most `steps` steps; return the steps taken."""
        return self.expiry_sweep.sweep(now_ms, steps)

    def release(self, id_: int, size: int, place: int, lsn: int) -> None:
        """Make a delayed item ready at this place, by the record `lsn`."""
        item = self.delays.items.pop(id_, None)
        self.delays.remove(id_, size)
        self.markers.give(place, id_)
        self.stand(item, id_, size, place, lsn)

    # -- many items at once -----------------------------------------------------------------

    def flush(self, last_id: int, now_ms: int) -> int:
        """Remove everything ready or delayed; return the record to wait for. Leased and dead items
        stay, and the record names them. The flush replaces whole structures: it looks only at items
        that connections hold one by one.
        """
        leases, dead, trash = self.leases, self.dead, self.residency.trash
        items = [lease.item for lease in leases.without_token() if not lease.dead]
        held = IdSet.of(item.id for item in items)
        spared = IdSet.union([leases.token_ids, held, IdSet.of(dead.unlogged)])
        size = leases.token_bytes + sum(item.size for item in items) + dead.bytes
        self._apply_flushed(spared, last_id, size)
        self.ready_items.clear()
        self.delays.clear(trash)
        self.key_gate.clear(spared)
        self.tidy()
        self.counters.flushes += 1
        stay, needs = IdSet.union([spared, dead.ids]), self.needs
        draft = self.own(records.flushed(last_id, spared, size, now_ms + self.clock.offset_ms))
        if needs is not None:
            return needs.append_lessening(draft, now_ms)
        return self.log.append_recounted(draft, lambda: stay)

    def make_room(self, size: int, now_ms: int) -> bool:
        """True if there is room for `size` bytes, after dropping the oldest if that is allowed.

        Drop nothing if that cannot make room: delayed items count, and stay. If too many items
        would go at once, it is enough that the ready list does not grow.

        (A KNOWN LIMIT: a put that needs the bytes of more than DISCARDED_ITEMS_MAX items is
        refused, though it has dropped that many. The client's next try goes on from there.)
        """
        policy, ready, delays = self.policy, self.ready, self.delays
        items_max = policy.max_items if policy.max_items is not None else _NO_LIMIT
        bytes_max = policy.max_bytes if policy.max_bytes is not None else _NO_LIMIT
        if delays.count:
            self.sweep(now_ms, SWEEP_ITEMS_MAX)  # expired items take no room
        items_max -= delays.count
        bytes_max -= delays.bytes
        if items_max < 1 or size > bytes_max:
            return False
        if ready.count < items_max and ready.bytes + size <= bytes_max:
            return True
        self.sweep(now_ms, SWEEP_ITEMS_MAX)
        self.first(now_ms)
        bytes_before = ready.bytes
        for _ in range(DISCARDED_ITEMS_MAX):
            self.first(now_ms)  # an expired head may show only after it has been read back
            if ready.count < items_max and ready.bytes + size <= bytes_max:
                return True
            if not policy.discard_old_when_full or not ready.count:
                return False
            self._discard_first(now_ms + self.clock.offset_ms)
        return ready.bytes + size <= max(bytes_max, bytes_before)

    def _discard_first(self, unix_ms: int) -> None:
        """Drop the head of the ready list to make room."""
        item = self.ready_items.pop_any(unix_ms)
        if item is not None:
            self.key_gate.drop(item)
            self._apply_done(item.id, item.size)
            self.counters.discarded += 1
            self.append(records.discarded(item, unix_ms))

    def set_keys(self, keys: KeySettings) -> None:
        """Apply other rules for keys from now on; there are no items."""
        assert not self.live, "what is there has its key by the old rules"
        self.key_gate.keys.matches_any = keys.matches_any
        self.policy = replace(self.policy, keys=keys)

    def finish_replay(self, now_ms: int) -> None:
        """Grant again the leases by token that replay found; lock the keys of leased and nacked
        items."""
        self.key_gate.hold_restored()
        self.by_token.grant_restored(now_ms)
