"""A report's figures without Spark: a day in the life of a few queues."""

from __future__ import annotations

from kestrelpy.spark.jobs.report.figures import (
    Bucket,
    DeathCount,
    KnownSince,
    ReportFigures,
    ReportRow,
    Series,
    Spread,
)

START_MS = 1_790_000_040_000
MINUTE_MS = 60_000
SERVER = "4f1c2d7a9b3e4c5d8e6f7a8b9c0d1e2f"
SOME = Spread(10, 12, 400, 4_000)


def make_series(name: str | None, queues: int = 1, minutes: int = 3) -> Series:
    """Return a series in which each minute puts one item more, all confirmed in the next minute."""
    buckets = [
        Bucket(START_MS + n * MINUTE_MS, n + 1, n, 0, 0, n + 1, SOME, SOME if n else None)
        for n in range(minutes)
    ]
    return Series(name, queues, tuple(buckets), SOME, SOME)


def make_figures(
    *names: str, whole: bool = True, problems: tuple[str, ...] = ()
) -> ReportFigures:
    """Return figures of these queues on one server, and of one more queue without plots."""
    return ReportFigures(
        interval_ms=MINUTE_MS,
        first_ms=START_MS,
        last_ms=START_MS + 3 * MINUTE_MS - 1,
        everything=make_series(None, len(names) + 1),
        series=(*(make_series(name) for name in names), make_series(None)),
        total=ReportRow("", "", put=30, confirmed=20, delivered=20, repeated=5),
        servers=1,
        queues=len(names) + 1,
        rows=tuple(ReportRow(SERVER, name, put=6, confirmed=3, waiting=SOME) for name in names),
        rows_left_out=1,
        deaths=tuple(DeathCount(name, "abort", 1) for name in names),
        histories=tuple(
            KnownSince(SERVER, name, 1, 1 if whole else 41, START_MS, START_MS + 9)
            for name in names
        ),
        journals=len(names),
        broken=0 if whole else len(names),
        problems=problems,
    )
