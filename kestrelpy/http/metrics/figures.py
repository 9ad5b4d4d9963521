"""The figures of one queue, and of all queues in one walk.

    queues, in slices ──▶ a row each ──▶ seats: 200 queues with series of their own
                              └────────▶ the others, summed as one

A queue keeps its seat until it is deleted, or until another is twice as active: series that come
and go are of no use. The others have gauges alone: which queues are among them changes, so a sum of
their counters would fall.

One rule: counters are read, and nothing here changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from heapq import nlargest
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple

from journal.store import NOTHING, DiskUse
from kestrelpy.core import AnyQueue, Broker, on_disk
from kestrelpy.operations import (
    PAUSE,
    MetricSeries,
    QueueFacts,
    ServerFacts,
    State,
    counter,
    gauge,
    queue_figures,
    queue_state,
    series_of,
)

SEATS_MAX: Final = 200
OTHERS: Final = "all others"  # no queue has this name: names have no blanks
_PER_SLICE: Final = 50
# A queue with less is not worth a seat that another has.
_MARGIN: Final = 1000

STATES: Final = ("ready", "delayed", "leased", "dead")
_BITS: Final = 49

Row = list[int]


class MetricFacts(NamedTuple):
    """The figures of a queue that /metrics alone has; those of a journal are 0 for a child."""

    stored: Annotated[int, counter("items_stored", "Items stored, over restarts.", 1)]
    confirmed: Annotated[
        int, counter("items_confirmed", "Deliveries that ended with a confirm.", 4)
    ]
    dead_total: Annotated[int, counter("items_dead", "Items that became dead letters.", 9)]
    segments: Annotated[int, gauge("journal_segments", "Segments of the journal.", 6)]
    journal_bytes: Annotated[
        int, gauge("journal_bytes", "Bytes of the files of the journal.", 7)
    ]
    live_bytes: Annotated[int, gauge("journal_live_bytes", "Those of items that are there.", 8)]
    done_bytes: Annotated[int, gauge("journal_done_bytes", "Those of all other records.", 9)]
    reserve_bytes: Annotated[
        int, gauge("journal_reserve_bytes", "Those of room for records to come.", 10)
    ]


# The columns that no series of their own shows: items by state, and the age.
_OTHER_COLUMNS: Final = {
    "ready": "items", "delayed": "delayed", "leased": "leased", "dead": "dead", "age_ms": "age",
}  # fmt: skip


def _series() -> dict[str, tuple[str, MetricSeries]]:
    """Return by column the fact and the series: first those that only grow, then the others."""
    marked = series_of(QueueFacts) | series_of(MetricFacts)
    found = {series.column or fact: (fact, series) for fact, series in marked.items()}
    return dict(sorted(found.items(), key=lambda each: _sort_key(each[1][1])))


def _sort_key(series: MetricSeries) -> tuple[bool, int]:
    return not series.is_counter, series.place


_SERIES: Final = _series()
SERIES: Final = {column: series for column, (_, series) in _SERIES.items()}
SERVER_SERIES: Final = series_of(ServerFacts)
FACTS: Final = {column: fact for column, (fact, _) in _SERIES.items()} | _OTHER_COLUMNS
COLUMNS: Final = {name: number for number, name in enumerate(FACTS)}
_STORED: Final = COLUMNS["stored"]
_DELIVERED: Final = COLUMNS["delivered"]
_AGE: Final = COLUMNS["age_ms"]
_PLACES: Final = {
    name: place for place, name in enumerate((*QueueFacts._fields, *MetricFacts._fields))
}
Picker = Callable[[tuple[object, ...]], tuple[Any, ...]]


def picker(facts: Iterable[str]) -> Picker:
    """Return what picks these facts, by name, of those of `figures_of_queue`."""
    return itemgetter(*(_PLACES[fact] for fact in facts))


_pick: Final = picker(FACTS.values())


def row_of(queue: AnyQueue, now_ms: int) -> Row:
    """Return the figures of a queue, one for each column."""
    disk = on_disk(queue.log)
    if disk is None or queue.child is not None:  # a child's journal is its parent's
        return list(_pick(figures_of_queue(queue, now_ms)))
    use, segments = queue.log.disk_use(), len(disk.journal.segments)
    return list(_pick(figures_of_queue(queue, now_ms, use, segments)))


def figures_of_queue(
    queue: AnyQueue, now_ms: int, use: DiskUse = NOTHING, segments: int = 0
) -> tuple[object, ...]:
    """Return all facts of a queue and all that /metrics alone has. Those of its journal follow from
    `use` and `segments`."""
    counters = queue.reader.counters
    more = MetricFacts(
        _stored(queue), counters.confirmed, counters.dead, segments, use.total, *use
    )
    return queue_figures(queue, use, now_ms) + more


def _stored(queue: AnyQueue) -> int:
    """Return how many items were ever stored; without those that a crash may take away, since the
    number would fall."""
    last, safe = queue.last_number, queue.log.item_stored
    if not 0 <= safe < last:
        return queue.total_items
    return queue.total_items - queue.reader.live.count_between(safe + 1, last)


def _activity(row: Row) -> int:
    return row[_STORED] + row[_DELIVERED]


class WalkedFigures:
    """The figures of one walk: rows by name, the others as one row (None: there are none), and the
    sums of histograms."""

    __slots__ = ("others", "queues", "rows", "service_ms", "states", "waiting_ms")

    def __init__(self) -> None:
        self.queues = 0
        self.rows: dict[str, Row] = {}
        self.others: Row | None = None
        self.states: dict[State, int] = {}
        self.waiting_ms = [0] * _BITS
        self.service_ms = [0] * _BITS

    def add(self, broker: Broker, names: list[bytes], now_ms: int) -> dict[bytes, Row]:
        """Count these queues in; return their rows."""
        rows, waiting, service = dict[bytes, Row](), [self.waiting_ms], [self.service_ms]
        for name in names:
            if (queue := broker.queues.get(name)) is None:
                continue
            rows[name] = row_of(queue, now_ms)
            state, counters = queue_state(queue, now_ms), queue.reader.counters
            self.states[state] = self.states.get(state, 0) + 1
            if counters.waiting_ms is not None and counters.service_ms is not None:
                waiting.append(counters.waiting_ms)
                service.append(counters.service_ms)
        self.queues += len(rows)
        self.waiting_ms, self.service_ms = _sums(waiting), _sums(service)
        return rows


def _sums(rows: list[Row]) -> Row:
    """Return the sum of each column."""
    return [sum(column) for column in zip(*rows, strict=True)]


class Walks:
    """All walks of one server: what one of them must know of the walk before."""

    __slots__ = ("_seats", "_sums")

    def __init__(self) -> None:
        self._seats: dict[bytes, None] = {}
        self._sums = _Rising(_BITS), _Rising(_BITS)

    def walk(self, broker: Broker, now_ms: int) -> Generator[bytes, None, WalkedFigures]:
        """Return the figures of all queues."""
        figures, seats = WalkedFigures(), self._seats
        seated, best = dict[bytes, Row](), list[tuple[int, bytes, Row]]()
        total, names = [0] * len(COLUMNS), list(broker.queues)
        oldest = list[tuple[int, bytes]]()  # one more than seats: one of them has none
        for start in range(0, len(names), _PER_SLICE):
            if start:
                yield PAUSE
            rows = figures.add(broker, names[start : start + _PER_SLICE], now_ms)
            total = _sums([total, *rows.values()])
            some = list[tuple[int, bytes, Row]]()
            for name, row in rows.items():
                if name in seats:
                    seated[name] = row
                else:
                    some.append((_activity(row), name, row))
            best = nlargest(SEATS_MAX, best + some)
            ages = [(row[_AGE], name) for name, row in rows.items() if row[_AGE]]
            oldest = nlargest(SEATS_MAX + 1, oldest + ages)
        yield PAUSE
        self._seat(seated, best)
        self._sum_others(figures, total, seated, oldest)
        waiting, service = self._sums
        figures.waiting_ms = waiting.raised(figures.waiting_ms)
        figures.service_ms = service.raised(figures.service_ms)
        return figures

    def _seat(self, seated: dict[bytes, Row], best: list[tuple[int, bytes, Row]]) -> None:
        """Give free seats to the most active queues, and seats of much less active ones."""
        for activity, name, row in best:
            if len(seated) >= SEATS_MAX:
                least = min(seated, key=lambda each: _activity(seated[each]))
                if activity <= 2 * _activity(seated[least]) + _MARGIN:
                    break
                del seated[least]
            seated[name] = row
        self._seats = dict.fromkeys(seated)

    @staticmethod
    def _sum_others(
        figures: WalkedFigures, total: Row, seated: dict[bytes, Row],
        oldest: list[tuple[int, bytes]],
    ) -> None:  # fmt: skip
        figures.rows = {name.decode("ascii"): seated[name] for name in sorted(seated)}
        if figures.queues <= len(seated):
            return
        others = list(total)
        for row in seated.values():
            others = [a - b for a, b in zip(others, row, strict=True)]
        others[_AGE] = next((age_ms for age_ms, name in oldest if name not in seated), 0)
        figures.others = others


class _Rising:
    """Sums that never fall, though a deleted queue takes its share with it."""

    __slots__ = ("_last", "_offsets")

    def __init__(self, size: int) -> None:
        self._last = [0] * size
        self._offsets = [0] * size

    def raised(self, sums: list[int]) -> list[int]:
        """Return the sums with what deleted queues had counted."""
        for number, value in enumerate(sums):
            if (missing := self._last[number] - value - self._offsets[number]) > 0:
                self._offsets[number] += missing
        self._last = [a + b for a, b in zip(sums, self._offsets, strict=True)]
        return list(self._last)
