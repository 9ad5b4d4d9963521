"""How long items of a queue waited and were worked on, minute by minute, for an hour.

    histograms that only grow ──▶ what a look adds ──▶ a column for each minute, 13 cells high

One rule: a column counts events of its minute alone.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

from kestrelpy.http.live.figures import percentile

STEP_MS: Final = 60_000
COLUMNS_MAX: Final = 60
_BITS_PER_CELL: Final = 2
CELLS: Final = 13
# A cell has the values below its edge, and not below the edge before; the last has no edge.
EDGES_MS: Final = [1 << (_BITS_PER_CELL * cell) for cell in range(CELLS - 1)]


class _Column(NamedTuple):
    slot: int
    waiting: list[int]
    service: list[int]


class Heat:
    """The last hour of one queue."""

    __slots__ = ("_columns", "_service", "_waiting")

    def __init__(self) -> None:
        self._columns: deque[_Column] = deque(maxlen=COLUMNS_MAX)
        self._waiting: list[int] = []  # the histograms at the look before
        self._service: list[int] = []

    def see(self, now_ms: int, waiting: list[int] | None, service: list[int] | None) -> list[int]:
        """Count a look in; return how many items waited how long since the look before, by
        bits."""
        if waiting is None or service is None:
            return []
        new_waiting = _added(self._waiting, waiting)
        new_service = _added(self._service, service)
        self._waiting, self._service = waiting[:-1], service[:-1]
        slot = now_ms // STEP_MS
        if not self._columns or self._columns[-1].slot != slot:
            self._columns.append(_Column(slot, [0] * CELLS, [0] * CELLS))
        _count(self._columns[-1].waiting, new_waiting)
        _count(self._columns[-1].service, new_service)
        return new_waiting

    def facts(self, now_ms: int) -> dict[str, Any]:
        """Return the columns up to this minute; a minute without events has an empty one."""
        last = now_ms // STEP_MS
        by_slot = {each.slot: each for each in self._columns if each.slot > last - COLUMNS_MAX}
        first = min(by_slot, default=last)
        none = _Column(0, [0] * CELLS, [0] * CELLS)
        columns = [by_slot.get(slot, none) for slot in range(first, last + 1)]
        return {
            "step_ms": STEP_MS, "since_ms": first * STEP_MS, "edges_ms": EDGES_MS,
            "waiting": [each.waiting for each in columns],
            "service": [each.service for each in columns],
        }  # fmt: skip


def percentiles(queue_waiting: list[int] | None, queue_service: list[int] | None) -> dict[str, Any]:
    """Return p50 and p99 of both histograms since the start; None: nothing was counted."""
    shown = dict[str, Any]()
    for word, counts in (("wait", queue_waiting), ("service", queue_service)):
        for part in (50, 99):
            value = percentile(counts[:-1], part / 100) if counts is not None else None
            shown[f"{word}_p{part}_ms"] = value
    return shown


def _added(before: list[int], counts: list[int]) -> list[int]:
    if not before:
        return counts[:-1]
    new = [now - old for now, old in zip(counts, before, strict=False)]
    return new if min(new) >= 0 else counts[:-1]  # a queue made again counts from 0


def _count(cells: list[int], bits: list[int]) -> None:
    for bit, count in enumerate(bits):
        if count:
            cells[min((bit + 1) // _BITS_PER_CELL, CELLS - 1)] += count
