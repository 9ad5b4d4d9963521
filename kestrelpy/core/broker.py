"""All queues by name: create, delete, wait, and one `tick` for everything that comes due.

One rule: the broker never calls out. It lists served waiters in `to_resume`, deleted queues in
`deleted`, and subscriptions that need items read back from the log in `to_read`. The shell collects
the three lists once per turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index import Holder, Waiter, Waiters, Want
from kestrelpy.core.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue import ChildQueue, Queue
from kestrelpy.core.registry import Later, Lifecycle
from kestrelpy.core.subscription import AT_ONCE_MS, HUNG_UP, Subscription
from kestrelpy.core.timers import Alarm, Timers
from kestrelpy.core.transfer import TransferRequest, Transfers
from kestrelpy.core.trash import Trash

# The limit counts items released or expired, leases ended and waits timed out in one tick, and the
# leases that a hang-up ends at once. They take 1 to 4 ms of work, and the same again to write their
# records, so a tick never blocks the loop for long; a request of another client waits for two or
# three turns. The rest is due at once in the next turn.
TICK_STEPS_MAX: Final = 250
BUSY_MS: Final = 2  # until the broker checks again whether the items at the front are known


class GoneHolders:
    """Holders whose connections are gone, with leases that are still to be nacked; `alarm` rings
    until there are none."""

    __slots__ = ("alarm", "holders")

    def __init__(self, timers: Timers[Any]) -> None:
        self.holders: deque[Holder] = deque()
        self.alarm: Alarm[Any] = Alarm(timers, self)

    def take(self, holder: Holder) -> None:
        """Nack the leases of a holder, to which no lease is granted from now on."""
        self.holders.append(holder)
        self.alarm.need(AT_ONCE_MS)


class Broker(Lifecycle):
    """The queues of one server, the waiters of each, and everything that comes due."""

    def __init__(
        self,
        policy_of: Callable[[bytes, bytes], Policy],
        make_log: Callable[[Queue], Log],
        clock: ClockOffset,
        queues_max: int,
    ) -> None:
        """`policy_of` makes a queue's policy from its name and its declared settings."""
        super().__init__(policy_of, make_log, clock, queues_max)
        self.moves = Transfers(self)
        self.gone_holders = GoneHolders(self._timers)

    # -- waiting ----------------------------------------------------------------------------

    def wait(
        self, want: Want, name: bytes, holder: Holder, dead: bool, caller: object,
        due_ms: int, after: int = 0, lease_ms: int = 0, grace_ms: int | None = None,
    ) -> Waiter:  # fmt: skip
        """Wait until `due_ms` for an item of `name`, or observe the items after marker `after`."""
        waiter = Waiter(want, name, holder, dead, caller, after, lease_ms, grace_ms)
        queue = self.queues.get(name)
        reader = queue.reader if queue is not None else None
        if reader is not None:
            line = reader.waiters
        else:
            line = self._absent.setdefault(name, Waiters())
            parent, plus, _ = name.partition(b"+")
            if plus:
                self._absent_children.setdefault(parent, {})[name] = None
        waiter.line = line
        line.add(waiter)
        if reader is not None:
            reader.follow()
        waiter.timer = self._timers.push(due_ms, waiter)
        return waiter

    def give_up(self, waiter: Waiter) -> None:
        """End the wait of `waiter` without an answer."""
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
                # The pause or the limit may have held this waiter up. A peek after it in the line
                # needs neither: it may have waited only because this waiter was before it.
                queue.reader.alarm.need(AT_ONCE_MS)

    def refuse_waits(self, why: str) -> None:
        """End every wait for an item with the answer `why`: no more items are handed out.

        10,000 waits take 10 ms; the shell answers some of them in each turn.
        """
        lines = [queue.reader.waiters for queue in self.queues.values() if queue.reader.waiters]
        for line in (*lines, *self._absent.values()):
            for waiter in line.consumers():
                waiter.refused = why
                self.give_up(waiter)
                self._answer_nothing(waiter)

    def _time_out(self, waiter: Waiter, now_ms: int) -> None:
        if waiter.done:
            return  # served in this same turn
        queue = self.queues.get(waiter.name)
        if waiter.want is Want.OBSERVE:
            self.give_up(waiter)
            if queue is not None and waiter.after < queue.reader.latest_marker:
                waiter.owner = queue.reader  # there are items: a later turn would have served it
            self._answer_nothing(waiter)
            return
        leases = waiter.want is not Want.PEEK
        if queue is not None and (
            queue.reader.is_busy(now_ms, waiter.dead, leases)
            or queue.reader.waiters.wants_token(waiter.dead)
        ):
            # The items at the front have to be cleared away or read back first. An item may follow
            # them, so the answer "nothing" may be wrong. Or the first waiter has waited for room,
            # and got it with the last write.
            queue.reader.first(now_ms, waiter.dead)
            queue.reader.serve(now_ms)
            if waiter.done:
                return
            if not queue.reader.unread and queue.reader.is_busy(now_ms, waiter.dead, leases):
                waiter.timer = self._timers.push(now_ms + BUSY_MS, waiter)
                return
        self.give_up(waiter)
        if queue is not None and waiter.want is Want.PEEK:
            # The peek may have waited only because waiters before it in the line are held up.
            waiter.item, waiter.owner = queue.reader.first(now_ms, waiter.dead), queue.reader
        self._answer_nothing(waiter)

    # -- holders ----------------------------------------------------------------------------

    def hang_up(self, holder: Holder, now_ms: int) -> Holder:
        """Nack everything leased to `holder`; the items return in their original order. Return a
        holder without leases, with which its client may go on.

        With thousands of leases it nacks the oldest now, and each tick nacks some more, because all
        of them at once would block the loop. Until then the others still belong to `holder`.
        """
        self._nack_some(holder, TICK_STEPS_MAX, now_ms)
        if not holder.leases:
            return holder
        self.gone_holders.take(holder)
        return Holder(holder.name)

    def _nack_some(self, holder: Holder, most: int, now_ms: int) -> int:
        """Nack the oldest leases of `holder`, `most` at most; return how many."""
        owners = dict[Subscription, None]()
        some = list(islice(holder.leases, most))
        for lease in some:
            owner = lease.owner
            assert isinstance(owner, Subscription)
            owner.nack_one(lease, now_ms, HUNG_UP)
            owners[owner] = None
        for owner in owners:
            if owner.waiters:
                owner.serve(now_ms)
        return len(some)

    def _nack_more(self, most: int, now_ms: int) -> int:
        """Nack leases of holders that have hung up, `most` at most; return how many."""
        gone, left = self.gone_holders, most
        gone.alarm.silence()
        while gone.holders and left:
            left -= self._nack_some(gone.holders[0], left, now_ms)
            if not gone.holders[0].leases:
                gone.holders.popleft()
        if gone.holders:
            gone.alarm.need(AT_ONCE_MS)
        return most - left

    # -- time -------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """Return when `tick` next has something to do; None: never."""
        return self._timers.next_due()

    def tick(self, now_ms: int) -> None:
        """Do the work that is due, in bounded steps."""
        steps = TICK_STEPS_MAX
        while steps > 0:
            thing = self._timers.pop_due(now_ms)
            if thing is None:
                return
            steps -= 1
            if isinstance(thing, Queue):
                steps -= thing.tick(now_ms, steps)
                if thing.reader.outgoing:
                    self.moves.send(thing)
                rung, thing.rung = thing.rung, []
                for child in rung:
                    if child.outgoing:
                        self.moves.send(ChildQueue.of(child))
                if thing.children:
                    self.expire_children(thing, now_ms)
                if thing.is_tombstone and thing in self.tombstones:
                    self.clear_away(thing, now_ms)
                elif thing.is_too_old(now_ms):
                    self.delete(thing.name, now_ms)
                    self.counters.queue_expires += 1
            elif isinstance(thing, TransferRequest):
                self.moves.wake(thing)
            elif isinstance(thing, Trash):
                thing.free(now_ms)
            elif isinstance(thing, GoneHolders):
                steps -= self._nack_more(steps, now_ms)
            elif isinstance(thing, Later):
                self.make_later(now_ms)
            else:
                self._time_out(thing, now_ms)

    def step_clock(self, offset_ms: int) -> None:
        """Set the clock offset after the wall clock was set or drifted, and move the due dates.

        (A KNOWN FLAW: all queues and children are looked at in one go, 50 ms for 10,000 children.)
        """
        self.clock.offset_ms = offset_ms
        for queue in self.logged:
            queue.catch_up()
            for reader in queue.readers:
                reader.alarm.need(reader.next_due())
            if queue.children:
                queue.alarm.need(queue.lazy_sweep.next_due())
            if queue.unseen is not None:
                queue.alarm.need(queue.unseen.due.next_due(self.clock))
