"""A page of the leases of a queue, by the ids of their items.

    all leases, in slices ──▶ after the cursor? ──▶ the lowest ids, `most` at most

The walk is a view of moments: a lease that begins or ends during it may be missing.

One rule: a slice looks at a bounded number of leases.
"""

from __future__ import annotations

from collections.abc import Generator
from heapq import nsmallest
from typing import Final

from kestrelpy.core import AnyQueue, Subscription
from kestrelpy.operations.ports import PAUSE
from kestrelpy.operations.stats_facts import LeaseFacts, lease_facts

_PER_SLICE: Final = 2000


def leased_ids(
    reader: Subscription, after: int, most: int
) -> Generator[bytes, None, list[int]]:
    """Return the ids of the next leased items after this id, `most` at most."""
    best = list[int]()
    for start in range(0, len(reader.leases), _PER_SLICE):
        if start:
            yield PAUSE
        some = [lease.item.id for lease in reader.leases.some(start, _PER_SLICE)]
        best = nsmallest(most, [*best, *(id_ for id_ in some if id_ > after)])
    return best


def list_leases(
    queue: AnyQueue, after: int, most: int, now_ms: int
) -> Generator[bytes, None, tuple[list[LeaseFacts], int | None]]:
    """Return the facts of the next leases, and the cursor of the next page."""
    ids = yield from leased_ids(queue.reader, after, most + 1)
    shown = ids[:most]
    leases = [queue.reader.leases.of(id_) for id_ in shown]
    facts = [lease_facts(queue, lease, now_ms) for lease in leases if lease is not None]
    return facts, shown[-1] if len(ids) > most else None
