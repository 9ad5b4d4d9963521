"""One reader's view of a queue: what is ready, lent and dead, and every transition between them.

      READY ---open---> LENT ---confirm---> done
        ^                |  \\
        +--- give_back --+   +--- attempts used up ---> DEAD
      READY past its expiry ---> expired

One rule: decide, apply, log. A transition checks, calls `_apply_x`, then `log.x`; replay calls the
same `_apply_x`, which takes no clock and cannot fail.
"""

from __future__ import annotations

from typing import Any, Final

from kestrelpy.core.counters import QueueCounters
from kestrelpy.core.dead import DeadLine
from kestrelpy.core.item import Item
from kestrelpy.core.leases import Holder, Lease, Leases
from kestrelpy.core.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.ready import Ready
from kestrelpy.core.timers import Alarm, Entry, Timers
from kestrelpy.core.waiters import Waiter, Waiters, Want
from kestrelpy.core.wall import Wall

# Expired items passed over in one call, so that a head of a million expired items costs many
# short turns and not one long one.
SWEEP_ITEMS_MAX: Final = 1000
# Lease tokens reserved by one synced record.
TOKENS_RESERVED: Final = 1 << 20
# Passed over when a reservation may be among what was damaged: more than were ever issued between
# two that are known, and room for two million such accidents below 2^53.
TOKENS_SKIPPED: Final = 1 << 32

ABORTED: Final = b"abort"
DEFERRED: Final = b"defer"
HUNG_UP: Final = b"hangup"
OVERDUE: Final = b"lease"


class Reader:
    """The ready line of a queue with its leases, its dead and its waiters."""

    __slots__ = (
        "_expiries", "_expiry_of", "_next_token", "_serving", "_tokens_below", "alarm", "attempts",
        "counters", "dead", "leases", "log", "name", "policy", "ready", "tokens_lsn", "waiters",
        "wall", "woken",
    )  # fmt: skip

    def __init__(
        self,
        name: bytes,
        policy: Policy,
        log: Log,
        wall: Wall,
        woken: list[Waiter],
        alarm: Alarm[Any],
    ) -> None:
        self.name = name
        self.policy = policy
        self.log = log
        self.wall = wall
        self.woken = woken
        self.alarm = alarm
        self.ready = Ready()
        self.leases = Leases()
        self.dead = DeadLine()
        self.waiters = Waiters()
        self.attempts: dict[int, int] = {}
        self.counters = QueueCounters()
        self.tokens_lsn = 0
        self._serving = False
        self._next_token = 1
        self._tokens_below = 1
        self._expiries: Timers[Item] = Timers()
        self._expiry_of: dict[int, Entry[Item]] = {}

    # -- lending ----------------------------------------------------------------------------

    def open(self, holder: Holder, now_ms: int, dead: bool = False) -> Lease | None:
        """Lend the next item to `holder`; None: there is none, or no more may be lent."""
        policy = self.policy
        if policy.max_leased is not None and len(self.leases) >= policy.max_leased:
            return None
        wall_ms = now_ms + self.wall.offset_ms
        if dead:
            found = self.dead.line.pop()
        else:
            found = self.ready.pop()
            if found is not None and found[1].expires_ms:
                found = self._past_expired(found, wall_ms)
        if found is None:
            return None
        place, item = found
        if self._next_token >= self._tokens_below:
            self._reserve_tokens(wall_ms)
        token = self._next_token
        self._next_token = token + 1
        attempts = self.attempts.get(item.id, 0) if self.attempts else 0
        deadline_ms = None
        if policy.lease_ms is not None:
            deadline_ms = now_ms + policy.lease_ms
            if deadline_ms < self.alarm.at_ms:
                self.alarm.need(deadline_ms)
        lease = Lease(item, place, holder, self, token, attempts, wall_ms, deadline_ms)
        if dead:
            lease.dead = True
            lease.attempts = self.dead.deaths[item.id].attempts
        self.leases.grant(lease)
        self.counters.opened += 1
        if attempts:
            self.counters.redelivered += 1
        return lease

    def _past_expired(self, found: tuple[int, Item], wall_ms: int) -> tuple[int, Item] | None:
        """The first item that is not expired, from `found` on; expired ones are gone."""
        following: tuple[int, Item] | None = found
        swept = 0
        while following is not None and 0 < following[1].expires_ms <= wall_ms:
            if swept == SWEEP_ITEMS_MAX:
                self.ready.give_back(*following)
                return None
            swept += 1
            self._expire(following[1], wall_ms)
            following = self.ready.pop()
        return following

    def first(self, now_ms: int, dead: bool = False) -> Item | None:
        """The next item, changing nothing but what has expired."""
        if dead:
            return self.dead.line.first()
        wall_ms = now_ms + self.wall.offset_ms
        swept = 0
        while (item := self.ready.first()) and 0 < item.expires_ms <= wall_ms:
            if swept == SWEEP_ITEMS_MAX:
                return None
            swept += 1
            self.ready.remove(item)
            self._expire(item, wall_ms)
        return item

    def is_sweeping(self, now_ms: int) -> bool:
        """Is there more at the front that has expired and is not yet gone?"""
        item = self.ready.first()
        return item is not None and 0 < item.expires_ms <= now_ms + self.wall.offset_ms

    def _reserve_tokens(self, wall_ms: int) -> None:
        self._tokens_below = self._next_token + TOKENS_RESERVED
        self.tokens_lsn = self.log.tokens(self._tokens_below, wall_ms)

    # -- ending a delivery ------------------------------------------------------------------

    def confirm(self, lease: Lease, now_ms: int) -> int:
        """It is done; returns the record to wait for."""
        self.leases.end(lease)
        item = lease.item
        if lease.dead:
            self.dead.forget(item)
        self._apply_done(item)
        wall_ms = now_ms + self.wall.offset_ms
        lsn = self.log.done(item, lease.attempts, lease.began_ms, wall_ms)
        if self.policy.max_leased is not None and self.waiters:
            self.serve(now_ms)  # there is room for another lease
        return lsn

    def give_back(self, lease: Lease, now_ms: int, reason: bytes) -> int:
        """It goes back to its place, or dies of its attempts; returns the record to wait for."""
        lsn = self.take_back(lease, now_ms, reason)
        if self.waiters:
            self.serve(now_ms)
        return lsn

    def take_back(self, lease: Lease, now_ms: int, reason: bytes) -> int:
        """`give_back` for one of several: they are all back in their order before `serve`."""
        self.leases.end(lease)
        item = lease.item
        wall_ms = now_ms + self.wall.offset_ms
        self.counters.cancelled += 1
        if lease.dead:
            self.dead.line.give_back(self.dead.deaths[item.id].order, item)
            lsn = self.log.returned(item, lease.attempts, lease.began_ms, wall_ms, reason)
        else:
            attempts = lease.attempts + (reason != DEFERRED)
            most = self.policy.max_attempts
            if most is not None and attempts >= most and reason != DEFERRED:
                self._apply_dead(item, attempts, reason, wall_ms)
                lsn = self.log.dead(item, attempts, lease.began_ms, wall_ms, reason)
            else:
                self._apply_returned(item, lease.place, attempts)
                lsn = self.log.returned(item, attempts, lease.began_ms, wall_ms, reason)
        return lsn

    def renew(self, lease: Lease, lease_ms: int, now_ms: int) -> None:
        """The holder has `lease_ms` from now."""
        self.leases.renew(lease, now_ms + lease_ms)
        self.alarm.need(lease.deadline_ms)

    def serve(self, now_ms: int) -> None:
        """Hand what is ready, and what is dead, to those who wait, in the order they came."""
        if self._serving or self.log.failure is not None:
            return
        self._serving = True
        waiters = self.waiters
        for dead in (False, True):
            waiter = waiters.first(dead)
            while waiter is not None and self._hand_to(waiter, now_ms):
                waiters.finish(waiter)
                self.woken.append(waiter)
                waiter = waiters.first(dead)
        self._serving = False

    def _hand_to(self, waiter: Waiter, now_ms: int) -> bool:
        if waiter.want is Want.PEEK:
            waiter.item = self.first(now_ms, waiter.dead)
            waiter.owner = self
            return waiter.item is not None
        lease = self.open(waiter.holder, now_ms, waiter.dead)
        if lease is None:
            return False
        waiter.lease = lease
        waiter.owner = self
        if waiter.want is Want.TAKE:
            waiter.done_lsn = self.confirm(lease, now_ms)
        return True

    # -- time -------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """When `tick` has something to do, on the clock that never steps; None: nothing."""
        due = self.leases.next_due()
        expiry = self._expiries.next_due()
        if expiry is not None:
            expiry -= self.wall.offset_ms
            due = expiry if due is None else min(due, expiry)
        return due

    def tick(self, now_ms: int, steps: int) -> int:
        """End what is over, in at most `steps` steps; returns how many were taken."""
        over = self.leases.over(now_ms, steps)
        for lease in over:
            self.counters.lease_expired += 1
            lease.holder.overdue.append(self)
            self.take_back(lease, now_ms, OVERDUE)
        taken = len(over)
        taken += self.sweep(now_ms, steps - taken)
        if self.waiters:
            self.serve(now_ms)  # also behind what others have cleared away in the meantime
        return taken

    def sweep(self, now_ms: int, steps: int) -> int:
        """Clear away what has expired, in at most `steps` steps; returns how many were taken."""
        wall_ms = now_ms + self.wall.offset_ms
        for taken in range(steps):
            item = self._expiries.pop_due(wall_ms)
            if item is None:
                return taken
            self._expiry_of.pop(item.id, None)
            if item.id not in self.leases:
                self.ready.remove(item)
                self._expire(item, wall_ms)
        return steps

    def _expire(self, item: Item, wall_ms: int) -> None:
        self._apply_done(item)
        self.counters.expired += 1
        self.log.expired(item, wall_ms)

    def discard_first(self, wall_ms: int) -> None:
        """Drop the head to make room."""
        found = self.ready.pop()
        if found is not None:
            self._apply_done(found[1])
            self.counters.discarded += 1
            self.log.discarded(found[1], wall_ms)

    def flush(self, last_id: int, now_ms: int) -> int:
        """Everything ready is gone; what is lent or dead stays. Returns the record to wait for.

        KNOWN FLAW: one step, whatever waits: a million items hold up the loop for a noticeable
        part of a second. A floor instead of a list would make it constant.
        """
        spared = [lease.item.id for lease in self.leases]
        gone = self.ready.take_all()
        for item in gone:
            self._apply_done(item)
        self.counters.flushes += 1
        return self.log.flushed(last_id, spared, gone, now_ms + self.wall.offset_ms)

    # -- applying: the same for a client's request and for replay ----------------------------

    def _apply_put(self, item: Item) -> None:
        self.ready.push(item)
        if item.expires_ms:
            self._watch_expiry(item)

    def _apply_done(self, item: Item) -> None:
        if self.attempts or item.expires_ms:
            self._forget(item.id)

    def _apply_returned(self, item: Item, place: int, attempts: int) -> None:
        if attempts:
            self.attempts[item.id] = attempts
        self.ready.give_back(place, item)
        if item.expires_ms and item.id not in self._expiry_of:
            self._watch_expiry(item)

    def _apply_dead(self, item: Item, attempts: int, reason: bytes, died_ms: int) -> None:
        self._forget(item.id)
        self.dead.bury(item, attempts, reason, died_ms)

    def _apply_tokens(self, below: int) -> None:
        self._next_token = self._tokens_below = max(below, self._tokens_below)

    def _watch_expiry(self, item: Item) -> None:
        self._expiry_of[item.id] = self._expiries.push(item.expires_ms, item)
        self.alarm.need(item.expires_ms - self.wall.offset_ms)

    def skip_tokens(self) -> None:
        """A record that reserved tokens may be lost: none that it may have covered is issued."""
        self._apply_tokens(self._tokens_below + TOKENS_SKIPPED)

    @property
    def tokens_below(self) -> int:
        """Tokens from here on have never been issued."""
        return self._tokens_below

    def _forget(self, item_id: int) -> None:
        """Its attempts and its expiry matter no more."""
        self.attempts.pop(item_id, None)
        entry = self._expiry_of.pop(item_id, None)
        if entry is not None:
            self._expiries.cancel(entry)
