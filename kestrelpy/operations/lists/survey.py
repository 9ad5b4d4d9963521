"""All queues of a server, counted in one walk.

    200 queues ──▶ PAUSE ──▶ 200 queues ──▶ PAUSE ──▶ ... ──▶ `Totals`

One rule: a slice takes a bounded time, however many queues there are.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from kestrelpy.core import Broker
from kestrelpy.operations.ports import PAUSE
from kestrelpy.operations.stats_facts import State, Totals, queue_state, server_health

QUEUES_PER_SLICE: Final = 200
# An answer names this many queues that are not ok.
_NAMED_MAX: Final = 20


def survey(broker: Broker, now_ms: int) -> Generator[bytes, None, Totals]:
    """Return the totals of all queues."""
    names = list(broker.queues)
    items = stored = size = 0
    states, unwell = set[State](), list[str]()
    for start in range(0, len(names), QUEUES_PER_SLICE):
        if start:
            yield PAUSE
        for name in names[start : start + QUEUES_PER_SLICE]:
            queue = broker.queues.get(name)
            if queue is None:
                continue
            ready = queue.reader.ready
            items += ready.count
            size += ready.bytes
            stored += queue.total_items
            if (state := queue_state(queue, now_ms)) != "ok":
                states.add(state)
                if len(unwell) < _NAMED_MAX:
                    unwell.append(name.decode("ascii"))
    health, reason = server_health(broker, states)
    return Totals(len(names), items, stored, size, health, unwell, reason)
