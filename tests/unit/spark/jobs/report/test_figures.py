"""The width of an interval, and the tables next to the page."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kestrelpy.spark.jobs.report.figures import (
    BUCKETS_MAX,
    bucket_count,
    interval_for,
    interval_word,
    write_csv,
)
from tests.support.figures import SERVER, make_figures

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("span_ms", "interval_ms"),
    [
        (0, SECOND),
        (90 * SECOND, SECOND),
        (9 * MINUTE, 5 * SECOND),
        (10 * MINUTE, MINUTE),
        (23 * HOUR, MINUTE),
        (2 * DAY, 5 * MINUTE),
        (59 * DAY, HOUR),
        (5 * 365 * DAY, 7 * DAY),
    ],
)
def test_an_interval_is_a_minute_unless_that_makes_too_few_or_too_many(
    span_ms: int, interval_ms: int
) -> None:
    first_ms = 1_790_000_040_123

    assert interval_for(first_ms, first_ms + span_ms) == interval_ms


def test_there_are_never_too_many_intervals() -> None:
    first_ms = 123  # a clock that was wrong for a moment: half a century
    last_ms = 1_790_000_040_123

    for before_ms in (0, *(7 * DAY * n for n in range(1, 5))):
        interval_ms = interval_for(first_ms + before_ms, last_ms)
        assert bucket_count(first_ms + before_ms, last_ms, interval_ms) <= BUCKETS_MAX


def test_an_interval_has_a_word() -> None:
    widths = (SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, HOUR, DAY, 7 * DAY)

    assert [interval_word(each) for each in widths] == [
        "second", "15 seconds", "minute", "5 minutes", "hour", "day", "7 days",
    ]  # fmt: skip


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r"])
def test_no_name_is_a_formula_to_a_spreadsheet(begin: str, tmp_path: Path) -> None:
    name = f'{begin}HYPERLINK("http://192.0.2.1","x")'
    figures = make_figures(name, whole=False)

    for path in write_csv(figures, tmp_path):
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert f"'{name}" in cells
        assert not [cell for cell in cells if cell.startswith(begin)]


def test_every_figure_is_in_a_table(tmp_path: Path) -> None:
    figures = make_figures('he said "<b>,', whole=False)

    paths = write_csv(figures, tmp_path)

    tables = {path.name: list(csv.DictReader(path.open(newline=""))) for path in paths}
    assert list(tables) == ["minutes.csv", "queues.csv", "dead.csv", "histories.csv"]
    minutes = tables["minutes.csv"]
    names = [each["queue"] for each in minutes]
    assert names == ['he said "<b>,'] * 3 + ["the other 1 queue"] * 3
    assert minutes[1] == {
        "queue": 'he said "<b>,', "begin": "2026-09-21T14:15:00.000+00:00", "seconds": "60",
        "put": "2", "confirmed": "1", "returned": "0", "dead": "0", "depth": "2",
        "waiting": "10", "waiting_p50_ms": "12", "waiting_p95_ms": "400", "waiting_p99_ms": "4000",
        "service": "10", "service_p50_ms": "12", "service_p95_ms": "400", "service_p99_ms": "4000",
    }  # fmt: skip
    assert minutes[0]["service_p50_ms"] == ""
    (queue,) = tables["queues.csv"]
    assert (queue["server"], queue["put"], queue["waiting_p99_ms"], queue["service"]) == (
        SERVER, "6", "4000", "",
    )  # fmt: skip
    assert tables["dead.csv"] == [{"queue": 'he said "<b>,', "reason": "abort", "count": "1"}]
    (history,) = tables["histories.csv"]
    assert (history["first_lsn"], history["begin"]) == ("41", "2026-09-21T14:14:00.000+00:00")
