"""Stand-ins for the parts of queues that are gone.

    queue ──▶ its parts ──▶ queue      a cycle of references: only the collector would free it
    queue ──▶ empty parts              its own parts go at once, and the queue with its last user

The server collects seldom, so the objects that each request makes and drops must be freed without
the collector.

One rule: code that still has a queue that is gone finds no item in it, and changes nothing.
"""

from __future__ import annotations

from typing import Any

from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.fanout import Child
from kestrelpy.core.index import MemoryBudget
from kestrelpy.core.log import MemoryLog, on_disk
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue import Queue
from kestrelpy.core.subscription import Subscription
from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import Trash


class StandIn:
    """An empty queue with a log, timers and memory of its own: no call to it has an effect."""

    __slots__ = ("_queue",)

    def __init__(self, clock: ClockOffset) -> None:
        timers: Timers[Any] = Timers()
        self._queue = Queue(
            b"", 0, Policy(), MemoryLog(), clock, [], timers, 0, MemoryBudget(Trash(timers)), []
        )

    def replace_queue(self, queue: Queue) -> None:
        """Put empty parts into a queue that is gone, into its children and its files."""
        empty = self._queue
        queue.alarm.end()
        queue.lazy_sweep, queue.fanout, queue.due = empty.lazy_sweep, empty.fanout, empty.due
        queue.retention, queue.reserve = empty.retention, empty.reserve
        queue.recount, queue.age_round = empty.recount, empty.age_round
        self.replace_reader(queue.reader)
        for child in queue.children.values():
            self.replace_child(child)
        queue.children = {}
        if (log := on_disk(queue.log)) is not None:
            log.end()

    def replace_child(self, child: Child) -> None:
        """Put empty parts into a child that is gone."""
        child.queue = None
        child.alarm.end()
        self.replace_reader(child)

    def replace_reader(self, reader: Subscription) -> None:
        """Put empty parts into a subscription that is gone."""
        empty = self._queue.reader
        reader.needs = None
        reader.key_gate.ready_items = empty.ready_items
        reader.ready_items, reader.key_gate = empty.ready_items, empty.key_gate
        reader.outbox, reader.by_token = empty.outbox, empty.by_token
        reader.expiry_sweep = empty.expiry_sweep
