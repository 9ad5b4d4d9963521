"""An item put into a queue with children reaches all subscriptions; each number is given once.

    put ──▶ own ready list, and the children: lazy ones look later, the others are given it now
    put, due later ──▶ noted once for all; when it is due, one record makes it available in all
    a child's own set, a place, a hole ──▶ that number is noted: the children pass it
    put, and hundreds of children have waiting clients ──▶ some children now, some at each tick

A child whose turn comes later is lazy until then: each look at it finds all its items.

One rule: the children's view changes in the same step as the queue's numbers.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from journal.format import STOPS, TAKES, named
from journal.sets import IdSet
from kestrelpy.core.fanout import UNSEEN_MAX, Arrivals
from kestrelpy.core.index import Delay
from kestrelpy.core.item import Item
from kestrelpy.core.log import records
from kestrelpy.core.queue.lazy_sweep import LazySweep
from kestrelpy.core.queue.state import QueueState
from kestrelpy.core.timers import NEVER_MS

AT_ONCE_MS: Final = 0  # due at the next tick
# Children with waiting clients that one step gives an item: each takes some 20 µs, and its client's
# answer as much again.
GIVEN_MAX: Final = 100
# Items that stay in memory for children whose turn comes later; these read older ones back.
_LATE_ITEMS_MAX: Final = 64
_LATE_BYTES_MAX: Final = 1 << 20


class FanOut:
    """The numbers of one queue, and the notes about them for its children."""

    __slots__ = ("_late", "_late_bytes", "_lazy_sweep", "_queue")

    def __init__(self, queue: QueueState, lazy_sweep: LazySweep) -> None:
        self._queue = queue
        self._lazy_sweep = lazy_sweep
        # The latest items, each with the bytes of all that were put up to it.
        self._late: deque[tuple[Item, int]] = deque()
        self._late_bytes = 0

    def arrive(self, item: Item, now_ms: int) -> None:
        """Give an item, just put, to all children."""
        queue = self._queue
        queue.put_bytes += item.size
        if item.expires_ms or self._lazy_sweep.age_ms:
            self._lazy_sweep.note(item)
        if len(queue.eager) > GIVEN_MAX:
            self.spread()
        if queue.lagging:
            self._retain(item)
        for child in [*queue.eager] if queue.eager else ():
            child.arrive(item, now_ms, queue.put_bytes)
            if not child.wants_each:
                del queue.eager[child]

    def spread(self) -> None:
        """If more than GIVEN_MAX children are given each item only because clients wait there, let
        the others wait for their turn."""
        queue = self._queue
        if len(queue.eager) <= GIVEN_MAX:
            return
        waiting = [child for child in queue.eager if not child.is_strict]
        for child in islice(waiting, GIVEN_MAX, None):
            del queue.eager[child]
            queue.lagging[child] = None
        if queue.lagging:
            queue.alarm.need(AT_ONCE_MS)

    def _retain(self, item: Item) -> None:
        """Hold an item in memory for the children whose turn comes later. They read back an earlier
        one that is dropped for it."""
        self._late.append((item, self._queue.put_bytes))
        self._late_bytes += item.size
        while len(self._late) > _LATE_ITEMS_MAX or self._late_bytes > _LATE_BYTES_MAX:
            self._late_bytes -= self._late.popleft()[0].size

    def go_on(self, now_ms: int) -> int:
        """Give the latest items to the next children whose turn it is; return how many."""
        lagging = self._queue.lagging
        some = [*islice(lagging, GIVEN_MAX)]
        for child in some:
            if child not in lagging:
                continue
            del lagging[child]
            for item, put_bytes in self._late:
                if item.id <= child.taken:  # a look at the child came before its turn
                    child.ready_items.offer(item)
                elif child.wants_each:
                    child.arrive_late(item, now_ms, put_bytes)
            child.follow()
            if child.waiters.count:
                child.serve(now_ms)  # it may have taken in items that are in the log alone
        if not lagging and self._late:
            self._late.clear()
            self._late_bytes = 0
        return len(some)

    def arrivals(self) -> Arrivals:
        """Return the items for all that some child has not looked at."""
        queue, last = self._queue, self._queue.last_number
        taken = min((child.taken for child in queue.children.values()), default=last)
        if queue.unseen is None or taken >= last:
            return Arrivals(IdSet(), last, last)
        return queue.unseen.arrivals(taken, last)

    def next_due(self) -> int:
        """Return when `go_on` has something to do; NEVER_MS: nothing."""
        return AT_ONCE_MS if self._queue.lagging else NEVER_MS

    def arrive_later(self, item: Item, delay: Delay, now_ms: int) -> None:
        """Give an item, just put, to all children when it is due."""
        queue = self._queue
        assert queue.unseen is not None
        due_ms = delay.due_at(queue.clock, now_ms)
        queue.unseen.due.add(item.id, item.size, due_ms, delay.is_date)
        queue.alarm.need(delay.at_ms(queue.clock, now_ms))
        self.spread()
        for child in [*queue.eager]:
            child.arrive_later(item, delay, now_ms)
            if not child.wants_each:
                del queue.eager[child]
        queue.unseen.delay(item.id, item.size)
        if item.expires_ms or self._lazy_sweep.age_ms:
            self._lazy_sweep.delay(item, delay.due_ms(item.stored_ms))
        self.tell_soon()

    def forward(self, item: Item, now_ms: int) -> None:
        """Give an item, just put, to the children alone; without children discard it."""
        if self._queue.children:
            self.arrive(item, now_ms)
        else:
            unix_ms = now_ms + self._queue.clock.offset_ms
            self._queue.log.append(records.discarded(item, unix_ms))

    def pass_number(self, number: int) -> None:
        """Note that the next number is given to nothing that is for all children."""
        if self._queue.children and self._queue.unseen is not None:
            self._queue.unseen.pass_number(number)
            self.tell_soon()

    def take_place(self, is_for_all: bool = False) -> int:
        """Return the next number, as the place of an item that becomes available.

        `is_for_all`: it is available in all subscriptions, and not in one alone.
        """
        queue = self._queue
        place = queue.next_number
        if queue.children and not is_for_all:
            self.pass_number(place)
        if queue.retained is not None:
            queue.retained.skip(place)
        queue.next_number = place + 1
        return place

    def tell_soon(self) -> None:
        """Have lazy children take in the numbers they have not seen, if there are many of them."""
        if self._queue.unseen is not None and len(self._queue.unseen) > UNSEEN_MAX:
            self._lazy_sweep.need(0)

    def set_passing(self, passes_on: bool, now_ms: int) -> None:
        """Stop giving new items to the queue's own consumers, or start it again."""
        queue = self._queue
        if passes_on == queue.passes_on or queue.log.failure is not None:
            return
        queue.passes_on = passes_on
        unix_ms = now_ms + queue.clock.offset_ms
        small = STOPS if passes_on else TAKES
        queue.log.append(named(0, b"", queue.last_number, small, unix_ms))
