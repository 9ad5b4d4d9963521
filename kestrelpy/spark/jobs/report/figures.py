"""The figures of a report as plain numbers, without Spark or HTML; and as CSV.

    Figures ─┬─ everything    one Series over all queues
             ├─ series        one for each of the busiest queues, the last one for all the rest
             ├─ rows          one for each server and queue, busiest first; how many were left out
             ├─ deaths        dead letters by queue and reason
             └─ histories     where each journal's history begins

One rule: figures are small, however much was read: every list has a limit with a name, and rows
beyond it are grouped and counted, never silently dropped.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

BUCKETS_MAX: Final = 1440  # a day of minutes: more points than a plot has pixels
QUEUES_MAX: Final = 12  # with plots of their own; people do not read a page with more
ROWS_MAX: Final = 200
DEATHS_MAX: Final = 50
HISTORIES_MAX: Final = 200

_MINUTE_MS: Final = 60_000
# Widths that people use. Below a minute only if minutes would make no plot.
_FINE_MS: Final = (1_000, 5_000, 15_000)
_FINE_BUCKETS_MAX: Final = 120
_WIDE_MS: Final = tuple(n * _MINUTE_MS for n in (1, 5, 15, 60, 360, 1440, 10_080))
_FEW_MINUTES: Final = 10
_FORMULA_BEGINS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")  # to a spreadsheet


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of `count` latencies, in milliseconds."""

    count: int
    p50_ms: int
    p95_ms: int
    p99_ms: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """The figures of one interval; `depth` is at its end."""

    begin_ms: int
    put: int = 0
    confirmed: int = 0
    returned: int = 0
    dead: int = 0
    depth: int = 0
    waiting: Spread | None = None
    service: Spread | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One queue over time, or `queues` of them together, without a name."""

    name: str | None
    queues: int
    buckets: tuple[Bucket, ...]
    waiting: Spread | None
    service: Spread | None


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One queue of one server over the whole time. `unknown`: items whose end is in no record."""

    server: str
    queue: str
    put: int = 0
    confirmed: int = 0
    returned: int = 0
    expired: int = 0
    dropped: int = 0
    died: int = 0
    ready: int = 0
    dead: int = 0
    unknown: int = 0
    delivered: int = 0  # different items with an ended delivery
    repeated: int = 0  # deliveries beyond the first of each
    waiting: Spread | None = None
    service: Spread | None = None


@dataclass(frozen=True, slots=True)
class DeathCount:
    """How many items of a queue died for one reason; None: all other queues or reasons."""

    queue: str | None
    reason: str | None
    count: int


@dataclass(frozen=True, slots=True)
class KnownSince:
    """The point from which every record of a journal is there; lsn 1: the first record."""

    server: str
    queue: str
    generation: int
    lsn: int
    begin_ms: int | None
    end_ms: int | None

    @property
    def is_whole(self) -> bool:
        """True if no record is missing."""
        return self.lsn <= 1


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """All figures of a report. `total` sums over all rows, including those left out."""

    interval_ms: int
    first_ms: int
    last_ms: int
    everything: Series
    series: tuple[Series, ...]
    total: ReportRow
    servers: int
    queues: int
    rows: tuple[ReportRow, ...] = ()
    rows_left_out: int = 0
    deaths: tuple[DeathCount, ...] = ()
    histories: tuple[KnownSince, ...] = ()
    journals: int = 0
    broken: int = 0  # journals without their first records
    problems: tuple[str, ...] = ()  # files that were not read, with the reason, as sentences


def interval_for(first_ms: int, last_ms: int) -> int:
    """Return the width of an interval: a minute, unless that makes too few or too many."""
    span_ms = last_ms - first_ms
    if span_ms < _FEW_MINUTES * _MINUTE_MS:
        for width in _FINE_MS:
            if bucket_count(first_ms, last_ms, width) <= _FINE_BUCKETS_MAX:
                return width
    for width in _WIDE_MS:
        if bucket_count(first_ms, last_ms, width) <= BUCKETS_MAX:
            return width
    week = _WIDE_MS[-1]
    return week * -(-bucket_count(first_ms, last_ms, week) // (BUCKETS_MAX - 1))


def bucket_count(first_ms: int, last_ms: int, interval_ms: int) -> int:
    """Return how many intervals there are, from that of the first event to that of the last."""
    return last_ms // interval_ms - first_ms // interval_ms + 1


def interval_word(interval_ms: int) -> str:
    """Return an interval in words: `minute`, `5 seconds`, ..."""
    for unit_ms, word in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if interval_ms % unit_ms == 0:
            count = interval_ms // unit_ms
            return word if count == 1 else f"{count} {word}s"
    return "second" if interval_ms == 1000 else f"{interval_ms // 1000} seconds"


def series_name(series: Series) -> str:
    """Return the name for tables and headings. Names of queues have no blanks, so none is equal."""
    if series.name is not None:
        return series.name
    return f"the other {series.queues:,} queue{'s' if series.queues != 1 else ''}"


def instant(ms: int | None) -> str:
    """Return a time in ISO 8601, UTC."""
    if ms is None:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def write_csv(figures: ReportFigures, folder: Path) -> list[Path]:
    """Write every figure of the page as tables for programs; return the files.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    tables = {
        "minutes.csv": _minutes(figures),
        "queues.csv": _queues(figures),
        "dead.csv": _deaths(figures),
        "histories.csv": _histories(figures),
    }
    paths = []
    for name, rows in tables.items():
        path = folder / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([_as_text(cell) for cell in row] for row in rows)
        paths.append(path)
    return paths


Cells = Sequence[object]


def _as_text(cell: object) -> object:
    """Return a cell that a spreadsheet takes for text, not a formula; clients choose the names."""
    is_formula = isinstance(cell, str) and cell.startswith(_FORMULA_BEGINS)
    return f"'{cell}" if is_formula else cell


def _spread_names(name: str) -> tuple[str, ...]:
    return (name, f"{name}_p50_ms", f"{name}_p95_ms", f"{name}_p99_ms")


def _spread(found: Spread | None) -> Cells:
    return ("", "", "", "") if found is None else tuple(
        getattr(found, each.name) for each in fields(Spread)
    )  # fmt: skip


def _minutes(figures: ReportFigures) -> Iterator[Cells]:
    yield (
        "queue", "begin", "seconds", "put", "confirmed", "returned", "dead", "depth",
        *_spread_names("waiting"), *_spread_names("service"),
    )  # fmt: skip
    seconds = figures.interval_ms / 1000
    for series in figures.series:
        for each in series.buckets:
            yield (
                series_name(series), instant(each.begin_ms), f"{seconds:g}", each.put,
                each.confirmed, each.returned, each.dead, each.depth,
                *_spread(each.waiting), *_spread(each.service),
            )  # fmt: skip


def _queues(figures: ReportFigures) -> Iterator[Cells]:
    counts = [each.name for each in fields(ReportRow)][2:-2]
    yield ("server", "queue", *counts, *_spread_names("waiting"), *_spread_names("service"))
    for row in figures.rows:
        numbers = (getattr(row, name) for name in counts)
        yield (row.server, row.queue, *numbers, *_spread(row.waiting), *_spread(row.service))


def _deaths(figures: ReportFigures) -> Iterable[Cells]:
    yield ("queue", "reason", "count")
    for each in figures.deaths:
        yield (each.queue, each.reason, each.count)


def _histories(figures: ReportFigures) -> Iterable[Cells]:
    yield ("server", "queue", "generation", "first_lsn", "begin", "end")
    for each in figures.histories:
        yield (
            each.server, each.queue, each.generation, each.lsn,
            instant(each.begin_ms), instant(each.end_ms),
        )  # fmt: skip
