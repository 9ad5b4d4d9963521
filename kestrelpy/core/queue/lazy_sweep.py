"""The looks of a queue at its lazy children, so that their items expire in time.

    put for all, expires at 9 ──▶ due 9 ──▶ round: a few children in each tick catch up and read
    child with a `max_age` ─────▶ due: put + max_age        back; items in memory are watched
    put with a delay, expires at 9 ──▶ (released) ──▶ due 9
    put with a delay that is longer than a child's `max_age` ──▶ due: put + max_age

A put costs one comparison; only a put that expires before `due_ms` sets the alarm. After the look
the child's ready list works like any other: an item in memory rings when it expires, and the items
after it are read back then.

One rule: no item expires unseen in a lazy child before `due_ms`, unless a round is under way.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.fanout import Child
from kestrelpy.core.item import Item
from kestrelpy.core.queue.state import QueueState
from kestrelpy.core.timers import NEVER_MS

# One tick looks at this many children; the next tick goes on with the others.
LOOKS_MAX: Final = 16
# One tick works for this many children: each takes some 20 µs, and a step of its items more.
RUNG_MAX: Final = 64
# The least time from the beginning of one round to the next.
LOOK_MS: Final = 1000
_SECONDS_MAX: Final = (1 << 32) - 1


class LazySweep:
    """The sweep of one queue. `due_ms`, on the wall clock, is when the next round is due.

    `age_ms` is the least `max_age` that a child had at the last round or since, 0: none had one.
    `round` are the children still to be looked at. The expiry of delayed items up to `unsure` is
    not known: their release begins a round.
    """

    __slots__ = ("_looked_ms", "_queue", "age_ms", "due_ms", "round", "unsure")

    def __init__(self, queue: QueueState) -> None:
        self._queue = queue
        self._looked_ms = -LOOK_MS
        self.age_ms = 0
        self.due_ms = NEVER_MS
        self.round: list[Child] = []
        self.unsure = 0

    def note(self, item: Item) -> None:
        """Note an item that was put for all and expires in some subscription."""
        expires_ms = self._expires_ms(item)
        if expires_ms < self.due_ms:
            self.need(expires_ms)

    def delay(self, item: Item, due_ms: int) -> None:
        """Note an item that was put for all and is due at `due_ms`, wall clock: until it is
        released for all, no child has to be looked at for it, unless it expires there before."""
        assert self._queue.unseen is not None
        expires_ms = self._expires_ms(item)
        if expires_ms < due_ms:
            self.need(expires_ms)
        seconds = min(expires_ms // 1000, _SECONDS_MAX)
        self._queue.unseen.expiries.add(item.id, item.id, max(seconds, 1))

    def released(self, id_: int) -> None:
        """Note that a delayed item is available for all now."""
        assert self._queue.unseen is not None
        seconds = self._queue.unseen.expiries.take(id_)
        if id_ <= self.unsure:
            self.need(0)
        elif seconds:
            self.need(seconds * 1000)

    def know_nothing(self) -> None:
        """Look at all children soon: it is not known when their present items expire."""
        self.unsure = self._queue.last_number
        self.need(0)

    def _expires_ms(self, item: Item) -> int:
        expires_ms = item.expires_ms or NEVER_MS
        return min(expires_ms, item.stored_ms + self.age_ms) if self.age_ms else expires_ms

    def need(self, due_ms: int) -> None:
        """Look at the children at `due_ms` at the latest."""
        if due_ms < self.due_ms:
            self.due_ms = due_ms
            self._queue.alarm.need(self.next_due())

    def know(self, max_age_ms: int | None) -> None:
        """Note that a child has this `max_age`.

        (If the child has another one by then, one round comes too early.)
        """
        if max_age_ms is not None:
            self.age_ms = min(self.age_ms or max_age_ms, max_age_ms)

    def next_due(self) -> int:
        """Return when to look, on the monotonic clock; NEVER_MS: there is no need."""
        if self.round:
            return 0
        if self.due_ms == NEVER_MS:
            return NEVER_MS
        return max(self.due_ms - self._queue.clock.offset_ms, self._looked_ms + LOOK_MS)

    def ringing(self, now_ms: int) -> list[Child]:
        """Return children with work to do, about RUNG_MAX at most, and silence their alarms. The
        others are not looked at: there may be thousands."""
        found = dict.fromkeys(self.look(now_ms))
        while len(found) < RUNG_MAX:
            child = self._queue.child_timers.pop_due(now_ms)
            if child is None:
                break
            found[child] = None
        for child in found:
            child.alarm.silence()
        return [*found]

    def ring_again(self, rung: list[Child], now_ms: int) -> None:
        """Set the alarms of these children, after their work of this tick."""
        for child in rung:
            if (due_ms := child.next_due()) is not None:
                child.alarm.need(max(due_ms, now_ms + 1))  # other due work comes first

    def look(self, now_ms: int) -> list[Child]:
        """If a round is due, let a few children catch up, and return them; the queue's tick goes on
        from there."""
        if not self.round and self.next_due() <= now_ms:
            self.due_ms, self._looked_ms = NEVER_MS, now_ms
            self.round = [*self._queue.children.values()]
            ages = [child.policy.max_age_ms for child in self.round]
            self.age_ms = min((age for age in ages if age is not None), default=0)
        some = self.round[:LOOKS_MAX]
        for child in some:
            child.catch_up()
        del self.round[:LOOKS_MAX]
        unseen, children = self._queue.unseen, self._queue.children
        if not self.round and unseen and children:
            unseen.forget(min(child.taken for child in children.values()))
        return some
