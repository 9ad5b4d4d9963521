"""Stand-ins for the parts of queues that are gone.

    queue ──▶ its parts ──▶ queue      a cycle of references: only the collector would free it
    queue ──▶ the spare's parts        the parts go at once, and the queue with its last user

The server collects seldom, so whatever it makes and drops for each request must go by itself.

One rule: whoever still has a queue that is gone finds an empty one in it.
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


class Spare:
    """An empty queue with a log, timers and memory of its own: no call to it has an effect."""

    __slots__ = ("_queue",)

    def __init__(self, clock: ClockOffset) -> None:
        timers: Timers[Any] = Timers()
        self._queue = Queue(
            b"", 0, Policy(), MemoryLog(), clock, [], timers, 0, MemoryBudget(Trash(timers)), []
        )

    def stand_in(self, queue: Queue) -> None:
        """Stand in for the parts of a queue that is gone, with its children and its files."""
        spare = self._queue
        queue.alarm.end()
        queue.idle_sweep, queue.fanout, queue.due = spare.idle_sweep, spare.fanout, spare.due
        queue.retention, queue.reserve = spare.retention, spare.reserve
        queue.recount, queue.age_round = spare.recount, spare.age_round
        self.relieve(queue.reader)
        for child in queue.children.values():
            self.stand_in_for_child(child)
        queue.children = {}
        if (log := on_disk(queue.log)) is not None:
            log.end()

    def stand_in_for_child(self, child: Child) -> None:
        """Stand in for the parts of a child that is gone."""
        child.queue = None
        child.alarm.end()
        self.relieve(child)

    def relieve(self, reader: Subscription) -> None:
        """Stand in for the parts of a subscription that is gone."""
        spare = self._queue.reader
        reader.needs = None
        reader.key_gate.ready_line = spare.ready_line
        reader.ready_line, reader.key_gate = spare.ready_line, spare.key_gate
        reader.outbox, reader.by_token = spare.outbox, spare.by_token
        reader.expiry_sweep = spare.expiry_sweep
