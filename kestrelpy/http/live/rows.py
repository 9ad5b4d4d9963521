"""Queues as the rows of a table, and their order: sorted once for all viewers, in slices.

    the sampler's rows ──▶ searched, sorted in slices ──▶ kept for a while ──▶ the names of a page
                                                                     ──▶ a row each, as they are now

One rule: a sort order may be some seconds old, a row never is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import nlargest, nsmallest
from typing import Any, Final, NamedTuple

from kestrelpy.core import Broker
from kestrelpy.http.live.figures import IN_TABLE, QueueRow, figures_of
from kestrelpy.http.live.sampler import Sampler
from kestrelpy.http.live.troubles import LEVELS
from kestrelpy.operations import PAUSE

_PER_SLICE: Final = 500
# The sort order of this many queues is renewed each second, that of twice as many every other
# second.
_PER_SECOND: Final = 2000
_KEPT_MAX: Final = 200
_SECOND_MS: Final = 1000
_SPARK_STEP: Final = 6

_By = Callable[[Sampler, bytes, QueueRow], Any]


def _trouble(samples: Sampler, name: bytes, row: QueueRow) -> tuple[int, int]:
    """Return how bad it is: by the worst trouble, then by the age of the oldest item."""
    troubles = samples.troubles.get(name)
    if not troubles:
        return 1 if row.dead or row.blocked else 0, row.oldest_ms
    return 1 + len(LEVELS) - LEVELS.index(troubles[0].level), row.oldest_ms


def _rate(samples: Sampler, name: bytes, _: QueueRow) -> float:
    sampled = samples.by_queue.get(name)
    return sampled.rates["stored"] if sampled is not None else 0.0


SORTS: Final[dict[str, _By]] = {
    "trouble": _trouble,
    "oldest": lambda samples, name, row: row.oldest_ms,
    "dead": lambda samples, name, row: row.dead,
    "blocked": lambda samples, name, row: row.blocked,
    "items": lambda samples, name, row: row.ready + row.delayed + row.leased,
    "rate": _rate,
    "name": lambda samples, name, row: 0,
}


class WantedQueues(NamedTuple):
    """Which queues: those whose name has `search` in it, sorted, from `offset` on."""

    search: str = ""
    sort: str = "trouble"
    is_descending: bool = True
    offset: int = 0
    limit: int = 100


class _Sorted(NamedTuple):
    made_ms: int
    names: list[bytes]
    matched: int


class QueueOrders:
    """The sort orders that viewers watch."""

    __slots__ = ("_samples", "_sorted")

    def __init__(self, samples: Sampler) -> None:
        self._samples = samples
        self._sorted: dict[WantedQueues, _Sorted] = {}

    def names(
        self, wanted: WantedQueues, now_ms: int
    ) -> Generator[bytes, None, tuple[list[bytes], int]]:
        """Return the names of this page, and how many queues match on all pages."""
        order = self._sorted.get(wanted)
        count = len(self._samples.rows)
        if order is None or now_ms - order.made_ms >= count * _SECOND_MS // _PER_SECOND:
            order = yield from self._sort(wanted, now_ms)
            self._sorted.pop(wanted, None)
            self._sorted[wanted] = order
            if len(self._sorted) > _KEPT_MAX:
                del self._sorted[next(iter(self._sorted))]
        return order.names, order.matched

    def _sort(self, wanted: WantedQueues, now_ms: int) -> Generator[bytes, None, _Sorted]:
        samples, by = self._samples, SORTS[wanted.sort]
        search = wanted.search.lower().encode("utf-8", "surrogatepass")
        most = wanted.offset + wanted.limit
        is_up = not wanted.is_descending
        pick = nsmallest if is_up else nlargest
        best, matched, names = list[tuple[Any, bytes]](), 0, list(samples.rows)
        for start in range(0, len(names), _PER_SLICE):
            if start:
                yield PAUSE
            some = list[tuple[Any, bytes]]()
            for name in names[start : start + _PER_SLICE]:
                row = samples.rows.get(name)
                if row is None or (search and search not in name.lower()):
                    continue
                matched += 1
                some.append((by(samples, name, row), name))
            best = pick(most, best + some)
        return _Sorted(now_ms, [name for _, name in best[wanted.offset :]], matched)


def table(samples: Sampler, broker: Broker, names: list[bytes], now_ms: int) -> dict[str, Any]:
    """Return the table of these queues; one that is gone has no row."""
    rows = dict[str, Any]()
    for name in names:
        row = row_of_queue(samples, broker, name, now_ms)
        if row is not None:
            rows[row["name"]] = row
    return {"order": list(rows), "rows": rows}


def row_of_queue(
    samples: Sampler, broker: Broker, name: bytes, now_ms: int
) -> dict[str, Any] | None:
    """Return the row of one queue; None: there is none of this name."""
    queue = broker.queues.get(name)
    if queue is None:
        return None
    row, sampled = figures_of(queue, now_ms), samples.by_queue.get(name)
    troubles = samples.troubles.get(name)
    return {
        "name": name.decode("ascii"), **{each: getattr(row, each) for each in IN_TABLE},
        "items": row.ready + row.delayed + row.leased, "max_leased": queue.policy.max_leased,
        "rate": round(sampled.rates["stored"], 1) if sampled is not None else 0,
        "out_rate": round(sampled.rates["delivered"], 1) if sampled is not None else 0,
        "level": troubles[0].level if troubles else "ok",
        "why": troubles[0].text if troubles else None,
        "spark": sampled.ring.tail("ready", _SPARK_STEP) if sampled is not None else [],
    }  # fmt: skip
