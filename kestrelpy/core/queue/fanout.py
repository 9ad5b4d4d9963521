"""An item put into a queue with children reaches all subscriptions; each number is given once.

    put ──▶ own ready list, and the children: lazy ones look later, the others are given it now
    put, due later ──▶ noted once for all; when it is due, one record makes it available in all
    a child's own set, a place, a hole ──▶ that number is noted: the children pass it

One rule: the children's view changes in the same step as the queue's numbers.
"""

from __future__ import annotations

from journal.format import STOPS, TAKES, named
from kestrelpy.core.fanout import UNSEEN_MAX
from kestrelpy.core.index import Delay
from kestrelpy.core.item import Item
from kestrelpy.core.log import records
from kestrelpy.core.queue.idle_sweep import IdleSweep
from kestrelpy.core.queue.state import QueueState


class FanOut:
    """The numbers of one queue, and the notes about them for its children."""

    __slots__ = ("_idle_sweep", "_queue")

    def __init__(self, queue: QueueState, idle: IdleSweep) -> None:
        self._queue = queue
        self._idle_sweep = idle

    def arrive(self, item: Item, now_ms: int) -> None:
        """Give an item, just put, to all children."""
        queue = self._queue
        queue.put_bytes += item.size
        if item.expires_ms or self._idle_sweep.age_ms:
            self._idle_sweep.note(item)
        if not queue.eager:
            return
        for child in queue.eager[:]:
            child.arrive(item, now_ms)
            if not child.wants_each:
                queue.eager.remove(child)

    def arrive_later(self, item: Item, delay: Delay, now_ms: int) -> None:
        """Give an item, just put, to all children when it is due."""
        queue = self._queue
        assert queue.unseen is not None
        due_ms = delay.ms if delay.is_date else now_ms + delay.ms
        queue.unseen.due.add(item.id, item.size, due_ms, delay.is_date)
        queue.alarm.need(due_ms - queue.clock.offset_ms if delay.is_date else due_ms)
        for child in queue.eager[:]:
            child.arrive_later(item, delay, now_ms)
            if not child.wants_each:
                queue.eager.remove(child)
        queue.unseen.delay(item.id, item.size)
        if item.expires_ms or self._idle_sweep.age_ms:
            self._idle_sweep.delay(item, delay.due_ms(item.stored_ms))
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
            self._idle_sweep.need(0)

    def set_passing(self, passes_on: bool, now_ms: int) -> None:
        """From now on give the queue's own consumers no items that are put, or give them again."""
        queue = self._queue
        if passes_on == queue.passes_on or queue.log.failure is not None:
            return
        queue.passes_on = passes_on
        unix_ms = now_ms + queue.clock.offset_ms
        small = STOPS if passes_on else TAKES
        queue.log.append(named(0, b"", queue.last_number, small, unix_ms))
