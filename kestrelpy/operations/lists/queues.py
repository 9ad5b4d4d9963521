"""A page of the queues, searched and sorted.

    all names ──▶ searched ──▶ after the cursor? ──▶ the best so far, `most` at most ──▶ a page
       └──────── in slices, with PAUSE between them ───────┘

The cursor of a page is the value and the name of its last queue. A queue that changes its value
between two pages may be on both, or on neither.

One rule: the walk holds one page, and never a sorted list of all queues.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import nlargest, nsmallest
from typing import Final, NamedTuple

from kestrelpy.core import AnyQueue, Broker
from kestrelpy.operations.ports import PAUSE

_PER_SLICE: Final = 500

_By = Callable[[AnyQueue], int]
QUEUE_SORTS: Final[dict[str, _By]] = {
    "name": lambda queue: 0,
    "items": lambda queue: queue.reader.ready.count,
    "bytes": lambda queue: queue.reader.ready.bytes,
    "delayed": lambda queue: queue.reader.delays.count,
    "leased": lambda queue: len(queue.reader.leases),
    "dead": lambda queue: len(queue.reader.dead),
    "waiters": lambda queue: queue.reader.waiters.count,
    "total_items": lambda queue: queue.total_items,
    "logsize": lambda queue: queue.log.disk_bytes(),
}


class QueueOrder(NamedTuple):
    """The wanted queues and their order; `after` is the cursor of the previous page."""

    search: bytes = b""
    sort: str = "name"
    is_descending: bool = False
    after: tuple[int, bytes] | None = None
    most: int = 100


class QueuePage(NamedTuple):
    """The queues of one page; `matched` counts those of all pages, `next` is None on the last."""

    queues: list[AnyQueue]
    matched: int
    next: tuple[int, bytes] | None


def list_queues(broker: Broker, order: QueueOrder) -> Generator[bytes, None, QueuePage]:
    """Return one page of the queues whose name contains `search`, in any case."""
    by, after, search = QUEUE_SORTS[order.sort], order.after, order.search.lower()
    pick = nlargest if order.is_descending else nsmallest
    names, best, matched = list(broker.queues), list[tuple[int, bytes]](), 0
    for start in range(0, len(names), _PER_SLICE):
        if start:
            yield PAUSE
        some = list[tuple[int, bytes]]()
        for name in names[start : start + _PER_SLICE]:
            queue = broker.queues.get(name)
            if queue is None or (search and search not in name.lower()):
                continue
            matched += 1
            entry = by(queue), name
            if after is None or (entry < after if order.is_descending else entry > after):
                some.append(entry)
        best = pick(order.most + 1, best + some)
    shown = best[: order.most]
    queues = [found for _, name in shown if (found := broker.queues.get(name)) is not None]
    return QueuePage(queues, matched, shown[-1] if len(best) > order.most else None)
