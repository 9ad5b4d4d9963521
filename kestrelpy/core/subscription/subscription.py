"""One reader's view of a queue: what is ready, lent and dead, and every transition between them.

      READY ---open---> LENT ---confirm---> done
        ^                |  \\
        +--- give_back --+   +--- attempts used up ---> DEAD
        ^                |
        +--- DELAYED <---+                  READY past its expiry ---> expired

The state is which items are there, how often each came back, and which are dead; `_apply_x` changes
it. The line in memory is a copy of a part of it, as large as memory allows.

One rule: decide, apply, log. A transition checks, calls `_apply_x`, then `log.x`; replay calls the
same `_apply_x`, which takes no clock and cannot fail.
"""

from __future__ import annotations

from typing import Any, Final

from journal.errors import Damage
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from kestrelpy.core.clock import Wall
from kestrelpy.core.counters import QueueCounters
from kestrelpy.core.index.dead_letters import DeadLine
from kestrelpy.core.index.delayed import Delay, Delays
from kestrelpy.core.index.leases import Holder, Lease, Leases
from kestrelpy.core.index.markers import Marks
from kestrelpy.core.index.memory_budget import UNLIMITED, Memory, Residency
from kestrelpy.core.index.ready_list import Ready
from kestrelpy.core.index.token_range import TokenRange
from kestrelpy.core.index.waiters import Waiter, Waiters
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription import flush as flushing
from kestrelpy.core.subscription import nack as returns
from kestrelpy.core.subscription import token_leases as by_token
from kestrelpy.core.subscription.key_gate import Keyed
from kestrelpy.core.subscription.nack import take_back
from kestrelpy.core.subscription.outbox import EXPIRED, bury
from kestrelpy.core.subscription.ready_line import REFILL_ITEMS, Line
from kestrelpy.core.subscription.serving import serve_in_order
from kestrelpy.core.timers import Alarm

# A line gives back memory whenever its length is a multiple of 1024 (a mask).
_LOOK_ITEMS: Final = 1023
# Lease tokens reserved by one synced record.
TOKENS_RESERVED: Final = 1 << 20

ABORTED: Final = b"abort"
DEFERRED: Final = returns.DEFERRED
HUNG_UP: Final = b"hangup"
OVERDUE: Final = b"lease"


class Reader:
    """The ready line of a queue with its leases, its dead and its waiters."""

    __slots__ = (
        "_next_token", "_serving", "_tokens_below", "alarm", "attempts", "counters", "damages",
        "dead", "delays", "elsewhere", "hungry", "is_hungry", "keyed", "leases", "lent_bytes",
        "line", "live", "live_bytes", "log", "marks", "moving", "name", "notes", "number",
        "outgoing", "paused", "policy", "ready", "residency", "token_holder", "tokens",
        "tokens_lsn", "unread", "waiters", "wall", "woken",
    )  # fmt: skip

    def __init__(
        self,
        name: bytes,
        policy: Policy,
        log: Log,
        wall: Wall,
        woken: list[Waiter],
        alarm: Alarm[Any],
        memory: Memory,
        hungry: list[Reader],
        number: int = 0,
        tokens: TokenRange | None = None,
    ) -> None:
        """Whoever needs something read back stands in `hungry`, who was served in `woken`."""
        self.name = name
        self.number = number  # in the records about it; 0: the queue's own line
        self.policy = policy
        self.log = log
        self.wall = wall
        self.paused = False  # does it lend nothing, because somebody said so?
        self.woken = woken
        self.alarm = alarm
        # Neither lent nor dead, and not in the plain line: whoever put them there knows more.
        self.elsewhere = IdSet()
        self.ready = Ready(self.elsewhere)
        self.line = Line(self)
        self.keyed = Keyed(self, policy.keys.matches_any)
        self.leases = Leases()
        self.lent_bytes = 0  # of the bodies of lent items that are in memory
        self.dead = DeadLine()
        self.delays = Delays()
        self.marks = Marks()
        self.moving = 0  # items lent to the mover
        self.notes: list[str] = []  # lines for the log
        self.outgoing: list[int] = []  # dead items that shall go on to another queue
        self.waiters = Waiters()
        self.live = IdSet()
        self.live_bytes = 0  # of the bodies of all that are there: ready, lent and dead
        self.attempts = IdCounts()
        self.residency = Residency(memory, UNLIMITED)
        self.hungry = hungry
        self.is_hungry = False
        self.unread = ""  # why nothing can be read back for the moment; "": no read has said so
        self.damages: list[Damage] = []
        self.counters = QueueCounters()
        self.token_holder = Holder("token")
        self.tokens = tokens or TokenRange()
        self.tokens_lsn = 0
        self._serving = False
        self._next_token = 1
        self._tokens_below = 1

    # -- lending ----------------------------------------------------------------------------

    def open(
        self, holder: Holder, now_ms: int, dead: bool = False, lease_ms: int = 0
    ) -> Lease | None:
        """Lend the next item to `holder`; None: there is none, or no more may be lent.

        With `lease_ms` it is lent by token for so long, to whoever knows it.
        """
        policy = self.policy
        if self.paused or (policy.max_leased is not None and self._lends_no_more):
            return None
        wall_ms = now_ms + self.wall.offset_ms
        if dead:
            found = self.dead.pop()
            if found is None and self.dead.missing:
                self.ask()
        else:
            found = self.pop(now_ms)
        if found is None:
            return None
        if self.residency.grains and not self.ready.resident & _LOOK_ITEMS:
            self.residency.shrink(self.line.cost)
        place, item = found
        self.lent_bytes += item.size
        if self.elsewhere.count:
            self.elsewhere.discard(item.id)
        if self._next_token >= self._tokens_below:
            self._reserve_tokens(wall_ms)
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
        lease = Lease(item, place, holder, self, token, attempts, wall_ms, deadline_ms)
        if dead:
            lease.dead = True
            lease.attempts = self.dead.deaths[item.id].attempts
        elif item.key:
            self.keyed.lend(item)
        self.leases.grant(lease)
        if lease_ms:
            by_token.lend(self, lease, lease_ms)
        self.counters.opened += 1
        if attempts:
            self.counters.redelivered += 1
        return lease

    def pop(self, now_ms: int) -> tuple[int, Item] | None:
        """The next item that may be lent, with its place, out of the line; None: none yet."""
        ready = self.ready
        if ready.beyond and ready.resident < REFILL_ITEMS:
            self.line.refill(now_ms + self.wall.offset_ms)
        if ready.stubs.count:
            self.line.look_ahead()
        found = ready.pop()
        if found is not None and (found[1].expires_ms or found[1].key):
            return self.keyed.pass_over(found, now_ms)
        return found

    def first(self, now_ms: int, dead: bool = False) -> Item | None:
        """The next item that may be lent, changing nothing but what has expired."""
        if dead:
            if self.dead.missing:
                self.ask()
            return self.dead.first()
        wall_ms = now_ms + self.wall.offset_ms
        if self.ready.beyond and self.ready.resident < REFILL_ITEMS:
            self.line.refill(wall_ms)
        if self.ready.stubs.count:
            self.line.look_ahead()
        item = self.ready.first()
        if item is not None and (item.expires_ms or item.key):
            return self.keyed.first(item, now_ms)
        return item

    def is_busy(self, now_ms: int, dead: bool = False, lends: bool = True) -> bool:
        """Does what stands at the front have to be cleared away, or read back, before one knows?"""
        if lends and self._lends_no_more:
            return False  # whatever stands there
        if dead:
            return self.dead.missing != 0
        item = self.ready.first()
        if item is not None:
            is_over = 0 < item.expires_ms <= now_ms + self.wall.offset_ms
            return is_over or (bool(item.key) and self.keyed.is_blocked(item))
        return (self.ready.beyond > 0 or self.ready.is_held_up) and not self.line.is_cut_off

    @property
    def _lends_no_more(self) -> bool:
        most = self.policy.max_leased
        return self.paused or (most is not None and len(self.leases) - self.moving >= most)

    def _reserve_tokens(self, wall_ms: int) -> None:
        self._next_token = self.tokens.take(TOKENS_RESERVED)
        self._tokens_below = self.tokens.below
        self.tokens_lsn = self.log.tokens(self._tokens_below, wall_ms)

    # -- ending a delivery ------------------------------------------------------------------

    def confirm(self, lease: Lease, now_ms: int) -> int:
        """It is done; returns the record to wait for."""
        item = self.end(lease)
        if lease.dead:
            self.dead.forget(item.id, True)
        elif item.key:
            self.keyed.end(item)
        self._apply_done(item.id, item.size)
        wall_ms = now_ms + self.wall.offset_ms
        lsn = self.log.done(item, lease.attempts, lease.began_ms, wall_ms)
        if self.waiters.count and (item.key or self.policy.max_leased is not None):
            self.serve(now_ms)  # another item may be possible, or another lease
        return lsn

    def give_back(
        self, lease: Lease, now_ms: int, reason: bytes, delay: Delay | None = None
    ) -> int:
        """It goes back to its place, is put off, or dies; returns the record to wait for."""
        lsn = self.take_back(lease, now_ms, reason, delay=delay)
        if self.waiters:
            self.serve(now_ms)
        return lsn

    def bury(self, lease: Lease, now_ms: int, reason: bytes) -> int:
        """It goes to the dead line now, however many attempts it has; the record to wait for."""
        lsn = self.take_back(lease, now_ms, reason, True)
        if self.waiters:
            self.serve(now_ms)
        return lsn

    def end(self, lease: Lease) -> Item:
        """Nobody holds it any more."""
        self.leases.end(lease)
        item = lease.item
        self.lent_bytes -= len(item.body)
        if item.key and not lease.dead:
            self.keyed.take_back(item)
        return item

    def take_back(
        self, lease: Lease, now_ms: int, reason: bytes, buries: bool = False,
        delay: Delay | None = None,
    ) -> int:  # fmt: skip
        """`give_back` for one of several: they are all back in their order before `serve`."""
        item = self.end(lease)
        return take_back(self, lease, item, now_ms, reason, buries, delay)

    def renew(self, lease: Lease, lease_ms: int, now_ms: int) -> int:
        """The holder has `lease_ms` from now; returns the record to wait for, 0: none."""
        self.leases.renew(lease, now_ms + lease_ms)
        self.alarm.need(lease.deadline_ms)
        return by_token.renew(self, lease, lease_ms, now_ms) if lease.by_token else 0

    def serve(self, now_ms: int) -> None:
        """Hand what is ready, and what is dead, to those who wait, in the order they came.

        Whoever observes is told that there is something behind its marker.
        """
        if self._serving or self.log.failure is not None:
            return
        self._serving = True
        serve_in_order(self, now_ms)
        self._serving = False

    # -- time -------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """When `tick` has something to do, on the clock that never steps; None: nothing."""
        due = self.leases.next_due()
        expiry = self.line.next_expiry()
        if expiry is not None:
            expiry -= self.wall.offset_ms
            due = expiry if due is None else min(due, expiry)
        if self.delays.count:
            delayed = self.delays.next_due(self.wall.offset_ms)
            if delayed is not None:
                due = delayed if due is None else min(due, delayed)
        return due

    def tick(self, now_ms: int, steps: int) -> int:
        """End what is over, in at most `steps` steps; returns how many were taken."""
        over = self.leases.over(now_ms, steps)
        for lease in over:
            self.counters.lease_expired += 1
            if not lease.by_token:
                lease.holder.overdue.append(self)
            self.take_back(lease, now_ms, OVERDUE)
        taken = len(over) + self.sweep(now_ms, steps - len(over))
        if taken and self.residency.grains:
            self.tidy()
        if self.ready.beyond and self.ready.resident < REFILL_ITEMS:
            # What has expired may stand behind the frontier too.
            self.line.refill(now_ms + self.wall.offset_ms)
        if self.ready.stubs.count:
            self.line.look_ahead()
        if self.waiters:
            self.serve(now_ms)  # also behind what others have cleared away in the meantime
        return taken

    def sweep(self, now_ms: int, steps: int) -> int:
        """Clear away what has expired, in at most `steps` steps; returns how many were taken."""
        wall_ms = now_ms + self.wall.offset_ms
        for taken in range(steps):
            item = self.line.pop_expired(wall_ms)
            if item is None:
                return taken
            if item.id not in self.leases:
                if item.id not in self.keyed.whole:
                    self.ready.remove(item)
                self.expire(item, wall_ms)
        return steps

    def tidy(self) -> None:
        """Let go of what the line does not need any more, when many items or the last are gone."""
        self.residency.shrink(self.line.cost)
        if not self.live.count:
            self.line.placings.clear()

    def expire(self, item: Item, wall_ms: int) -> None:
        """It lived past its expiry and is out of the line: gone, or kept to be moved."""
        if item.key:
            self.keyed.drop(item)
        self.counters.expired += 1
        if self.policy.expire_to:
            bury(self, item, self.attempts.get(item.id), 0, wall_ms, EXPIRED)
        else:
            self._apply_done(item.id, item.size)
            self.log.expired(item, wall_ms)

    flush = flushing.flush

    # -- reading back -----------------------------------------------------------------------

    def ask(self) -> None:
        """Something has to be read back."""
        if not self.is_hungry:
            self.is_hungry = True
            self.hungry.append(self)

    def catch_up(self) -> None:
        """Take in what arrived since somebody looked last: a queue's own line always has."""

    def left(self, expires_ms: int) -> None:
        """An arrival that expires is in the log alone: what stands before it is read back."""

    def bound(self, item: Item) -> Item:
        """The item as it is here: with another expiry, where this reader has a rule of its own."""
        return item

    # -- applying: the same for a client's request and for replay ----------------------------

    def _apply_put(self, id_: int, body_bytes: int) -> None:
        self.live.add(id_)
        self.live_bytes += body_bytes

    def _apply_done(self, id_: int, body_bytes: int) -> None:
        if self.live.discard(id_):
            self.live_bytes -= body_bytes
        if self.elsewhere.count:
            self.elsewhere.discard(id_)
        if self.keyed.held:
            self.keyed.held.pop(id_, None)
        if self.marks.hidden.count:
            self.marks.forget(id_)
        if self.attempts:
            self.attempts.set(id_, 0)
        if not self.live.count or self.live_bytes < 0:
            self.live_bytes = 0  # what was dropped unread had a size that nobody knew
            if self.line.placings or self.residency.grains:
                self.tidy()
        if self.line.watched:
            self.line.forget_expiry(id_)

    def _apply_returned(self, id_: int, attempts: int) -> None:
        if attempts:
            self.attempts.set(id_, attempts)

    def _apply_dead(
        self, id_: int, attempts: int, reason: bytes, died_ms: int, body_bytes: int
    ) -> None:
        if self.attempts:
            self.attempts.set(id_, 0)
        self.line.forget_expiry(id_)
        self.keyed.held.pop(id_, None)
        if self.residency.grains and not self.ready.resident:
            self.tidy()
        self.dead.bury(id_, attempts, reason, died_ms, body_bytes)

    _apply_flushed = flushing.apply_flushed

    def _apply_tokens(self, below: int) -> None:
        self.tokens.below = max(below, self.tokens.below)
        self._next_token = self._tokens_below = self.tokens.below

    @property
    def tokens_below(self) -> int:
        """Tokens from here on have never been issued."""
        return self.tokens.below
