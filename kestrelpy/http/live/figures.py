"""The figures of one queue, as the page shows them.

One rule: a look reads them, and takes the same time whatever the queue holds.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final, NamedTuple

from kestrelpy.core import AnyQueue
from kestrelpy.http.metrics import FACTS, SERIES, figures_of_queue, picker
from kestrelpy.operations import State


class QueueRow(NamedTuple):
    """The figures of a queue: those that only grow, then what there is now. Each has the name that
    it has in the page; the first ones are rates there, the others stand in the table of queues.

    `lease_age_ms` is the age of one of the oldest leases. `is_active`: an item was
    delivered since the look before.
    """

    stored: int = 0
    delivered: int = 0
    confirmed: int = 0
    expired: int = 0
    dead_total: int = 0
    duplicates: int = 0
    ready: int = 0
    delayed: int = 0
    leased: int = 0
    dead: int = 0
    bytes: int = 0
    waiters: int = 0
    blocked: int = 0
    oldest_ms: int = 0
    state: State = "ok"
    paused: bool = False
    lease_age_ms: int = 0
    is_active: bool = False


_MADE_HERE: Final = ("lease_age_ms", "is_active")
_GROWING: Final = {name for name, series in SERIES.items() if series.is_counter}
# The figures that only grow: the page shows by how much in a second.
RATES: Final = tuple(name for name in QueueRow._fields if name in _GROWING)
# Returns these of a row.
counted: Final = itemgetter(*(QueueRow._fields.index(name) for name in RATES))
# Those that the table of queues has.
IN_TABLE: Final = tuple(name for name in QueueRow._fields if name not in (*RATES, *_MADE_HERE))
# By field: the fact that it shows, where both have names of their own.
_SHOWS: Final = FACTS | {"blocked": "keys_blocked", "oldest_ms": "age"}
_pick: Final = picker(
    _SHOWS.get(name, name) for name in QueueRow._fields if name not in _MADE_HERE
)
NO_ROW: Final = QueueRow()


def figures_of(queue: AnyQueue, now_ms: int, before: QueueRow = NO_ROW) -> QueueRow:
    """Return the figures of a queue; `before` are those of the look before."""
    reader, lease_age_ms, began_ms = queue.reader, 0, queue.reader.leases.first_began_ms()
    if began_ms is not None:
        lease_age_ms = max(now_ms + queue.clock.offset_ms - began_ms, 0)
    is_active = reader.counters.opened != before.delivered
    shown = _pick(figures_of_queue(queue, now_ms))
    return QueueRow._make((*shown, lease_age_ms, is_active))


def percentile(counts: list[int], part: float) -> int:
    """Return a bound that this part of the values keeps: `counts[b]` have b bits."""
    left = sum(counts) * part
    for bits, count in enumerate(counts):
        left -= count
        if count and left <= 0:
            return (1 << bits) - 1
    return 0
