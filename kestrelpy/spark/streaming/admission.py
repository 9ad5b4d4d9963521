"""How much of what is there goes into one batch: `maxItemsPerTrigger`, `maxBytesPerTrigger`.

    there      a: 900    b: 90    c: 10        limit 100
    admitted   a:  90    b:  9    c:  1        in proportion, and at least one of each

One rule: a limit is never a reason to stand still: each batch reads something of every queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kestrelpy.spark.streaming.position import Planned


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most items and bytes of a batch; None: no limit."""

    items: int | None = None
    size: int | None = None


def admitted(there: Sequence[Planned], limits: BatchLimits) -> list[Planned]:
    """Return the front of each range, within the limits; a marker counts as an item."""
    items = sum(each.upto - each.after for each in there)
    size = sum(each.size for each in there)
    share = 1.0
    if limits.items is not None and items > limits.items:
        share = limits.items / items
    if limits.size is not None and size > limits.size:
        share = min(share, limits.size / size)
    if share == 1.0:
        return list(there)
    return [_front(each, share) for each in there]


def _front(whole: Planned, share: float) -> Planned:
    count = whole.upto - whole.after
    kept = max(int(count * share), min(count, 1))
    return whole._replace(upto=whole.after + kept, size=int(whole.size * kept / max(count, 1)))
