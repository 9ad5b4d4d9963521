"""Events to figures: every number of a report, from stories short enough to count by hand.

Spark is slow to begin and quick to go on, so all stories are measured at once, a queue for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pytest import approx

from kestrelpy.spark.jobs.report.figures import (
    DeathCount,
    KnownSince,
    ReportFigures,
    ReportRow,
    Series,
    Spread,
)
from kestrelpy.spark.jobs.report.metrics import Journal, RecordSpan, ShownLimits, measure
from tests.support.events import START_MS, Event, Held, events_table, items_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

MINUTES = ShownLimits(interval_ms=60_000, queues=50)

# Latencies of half a second and more are those of their bin, at most 0.2 % away.
STORIES: Mapping[str, tuple[Sequence[Event], Sequence[Held]]] = {
    "plain": (
        [
            Event("put", 1, 0),
            Event("put", 2, 10),
            Event("confirm", 1, 61, opened=2.5),
            Event("confirm", 2, 125, opened=121),
        ],
        [],
    ),
    "repeated": (
        [
            Event("put", 1, 0),
            Event("put", 2, 0),
            Event("return", 1, 2, opened=1, attempts=1, reason="abort"),
            Event("return", 1, 4, opened=3, attempts=2, reason="hangup"),
            Event("confirm", 1, 6, opened=5, attempts=2),
            Event("confirm", 2, 6, opened=5),
        ],
        [],
    ),
    "late": ([Event("put", 1, 0), Event("confirm", 1, 9, opened=8, attempts=2)], []),
    "dying": (
        [
            Event("put", 1, 0),
            Event("put", 2, 0),
            Event("dead", 1, 61, opened=60, attempts=1, reason="abort"),
        ],
        [Held(1, "dead"), Held(2)],
    ),
    "buried": (
        [
            Event("put", 1, 0),
            Event("put", 2, 0),
            Event("dead", 1, 1, opened=1, attempts=1, reason="lease"),
            Event("confirm", 1, 61, opened=60, attempts=1),
        ],
        [Held(2)],
    ),
    "flushed": (
        [
            *(Event("put", item, 0) for item in (1, 2, 3)),
            Event("flush", 3, 60),
            Event("put", 4, 61),
            Event("confirm", 2, 130, opened=59),  # it was leased when the others went
        ],
        [Held(4)],
    ),
    "spared": (
        [
            Event("put", 1, 0),
            Event("flush", 1, 60),  # the item was leased at that moment
            Event("return", 1, 61, opened=59, attempts=1, reason="abort"),
        ],
        [],  # and how it ended is no longer kept
    ),
    "limited": (
        [
            Event("put", 1, 0),
            Event("put", 2, 0),
            Event("expire", 1, 60),
            Event("discard", 2, 120),
        ],
        [],
    ),
    "trimmed": (
        [
            Event("put", 7, 0),  # its end is no longer kept
            Event("confirm", 8, 61, opened=1),  # its put is no longer kept
            Event("put", 9, 120),
        ],
        [Held(9)],
    ),
    "remade": (
        [
            Event("put", 1, 0),
            Event("confirm", 1, 1, opened=1),
            Event("put", 1, 2, generation=2),
        ],
        [Held(1, generation=2)],
    ),
    "shared": (
        [
            Event("put", 1, 0),
            Event("put", 1, 0, server="s2"),
            Event("confirm", 1, 2, opened=1, server="s2"),
        ],
        [Held(1)],
    ),
    "growing": (
        [
            Event("put", 1, 0),
            Event("put", 2, 60),  # after the items had been read
            Event("confirm", 1, 61, opened=61),
        ],
        [Held(1)],
    ),
    "parent": (
        [
            Event("put", 1, 0),
            Event("confirm", 1, 1, opened=0.5, reader="1"),  # a child's line, not this one
        ],
        [Held(1)],
    ),
}


def figures_of(
    spark: SparkSession,
    story: Sequence[Event],
    held: Sequence[Held],
    limits: ShownLimits,
    spans: Mapping[Journal, RecordSpan] | None = None,
) -> ReportFigures:
    tables = (events_table(spark, story), items_table(spark, held))
    found = measure(*tables, spans or {}, limits, lambda text: None)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def figures(spark: SparkSession) -> ReportFigures:
    """Return the figures of all the stories."""
    events = [replace(each, queue=queue) for queue, told in STORIES.items() for each in told[0]]
    held = [replace(each, queue=queue) for queue, told in STORIES.items() for each in told[1]]
    first = {each.queue: lsn for lsn, each in reversed(list(enumerate(events, 1)))}
    spans = {
        ("s1", "trimmed", 1): RecordSpan(first["trimmed"] + 1, len(events)),
        ("s1", "growing", 1): RecordSpan(1, first["growing"]),
    }
    return figures_of(spark, events, held, MINUTES, spans)


def series(figures: ReportFigures, queue: str) -> Series:
    (found,) = (each for each in figures.series if each.name == queue)
    return found


def depths(figures: ReportFigures, queue: str) -> list[int]:
    return [each.depth for each in series(figures, queue).buckets]


def row(figures: ReportFigures, queue: str) -> ReportRow:
    (found,) = (each for each in figures.rows if each.queue == queue)
    return found


def near(count: int, *percentiles_ms: int) -> object:
    """A Spread with these figures, within the accuracy of bins."""
    return approx((count, *percentiles_ms), rel=0.002)


def summary(found: Spread | None) -> tuple[int, ...] | None:
    return None if found is None else (found.count, found.p50_ms, found.p95_ms, found.p99_ms)


def test_an_item_waits_is_served_and_leaves(figures: ReportFigures) -> None:
    plain = series(figures, "plain")

    assert [each.begin_ms - START_MS for each in plain.buckets] == [0, 60_000, 120_000]
    assert [(each.put, each.confirmed) for each in plain.buckets] == [(2, 0), (0, 1), (0, 1)]
    assert depths(figures, "plain") == [2, 1, 0]
    assert row(figures, "plain") == ReportRow(
        "s1", "plain", put=2, confirmed=2, delivered=2,
        waiting=plain.waiting, service=plain.service,
    )  # fmt: skip


def test_waiting_counts_when_a_delivery_began_and_service_when_it_was_confirmed(
    figures: ReportFigures,
) -> None:
    plain = series(figures, "plain")

    first, second, third = plain.buckets
    assert summary(first.waiting) == near(1, 2_500, 2_500, 2_500)
    assert second.waiting is None
    assert summary(third.waiting) == near(1, 111_000, 111_000, 111_000)
    assert first.service is None
    assert summary(second.service) == near(1, 58_500, 58_500, 58_500)
    assert summary(third.service) == near(1, 4_000, 4_000, 4_000)
    assert summary(plain.waiting) == near(2, 2_500, 111_000, 111_000)


def test_a_delivery_after_the_first_is_a_repeated_one(figures: ReportFigures) -> None:
    found = row(figures, "repeated")

    assert (found.delivered, found.repeated, found.returned) == (2, 2, 2)
    assert summary(found.waiting) == near(2, 1_000, 5_000, 5_000)  # to the first delivery of each


def test_waiting_is_not_guessed_if_the_first_delivery_has_no_record(figures: ReportFigures) -> None:
    found = row(figures, "late")

    assert found.waiting is None
    assert summary(found.service) == near(1, 1_000, 1_000, 1_000)


def test_a_death_ends_a_delivery_and_leaves_the_line(figures: ReportFigures) -> None:
    found = row(figures, "dying")

    assert depths(figures, "dying") == [2, 1, 1]
    assert (found.died, found.dead, found.ready, found.delivered) == (1, 1, 1, 1)
    assert summary(found.waiting) == near(1, 60_000, 60_000, 60_000)
    assert set(figures.deaths) == {
        DeathCount("dying", "abort", 1),
        DeathCount("buried", "lease", 1),
    }


def test_an_item_confirmed_after_its_death_left_the_queue_once(figures: ReportFigures) -> None:
    assert depths(figures, "buried") == [1, 1, 1]


def test_a_flush_ends_the_items_it_reaches_and_spares_leased_ones(figures: ReportFigures) -> None:
    found = row(figures, "flushed")

    assert depths(figures, "flushed") == [3, 2, 1]
    assert (found.dropped, found.unknown, found.ready) == (2, 0, 1)


def test_an_item_given_back_after_a_flush_was_not_flushed(figures: ReportFigures) -> None:
    assert (row(figures, "spared").dropped, row(figures, "spared").unknown) == (0, 1)


def test_expired_and_discarded_items_leave_the_line(figures: ReportFigures) -> None:
    found = row(figures, "limited")

    assert depths(figures, "limited") == [2, 1, 0]
    assert (found.expired, found.dropped) == (1, 1)


def test_what_was_there_before_the_history_begins_is_in_the_depth(figures: ReportFigures) -> None:
    found = row(figures, "trimmed")

    assert depths(figures, "trimmed") == [1, 0, 1]
    assert (found.unknown, found.waiting) == (1, None)


def test_the_same_number_in_another_generation_is_another_item(figures: ReportFigures) -> None:
    assert row(figures, "remade").delivered == 1
    assert depths(figures, "remade") == [1, 1, 1]


def test_a_queue_on_two_servers_is_one_series_and_two_rows(figures: ReportFigures) -> None:
    assert sum(each.put for each in series(figures, "shared").buckets) == 2
    rows = [each for each in figures.rows if each.queue == "shared"]
    assert [(each.server, each.put, each.ready) for each in rows] == [("s2", 1, 0), ("s1", 1, 1)]
    assert figures.servers == 2


def test_what_a_fan_out_child_did_is_not_the_queues_own(figures: ReportFigures) -> None:
    assert (row(figures, "parent").confirmed, row(figures, "parent").ready) == (0, 1)


def test_what_a_daemon_writes_meanwhile_is_neither_lost_nor_unknown(figures: ReportFigures) -> None:
    assert depths(figures, "growing") == [1, 1, 1]
    assert row(figures, "growing").unknown == 0


def test_each_journal_says_where_its_history_begins(figures: ReportFigures) -> None:
    trimmed, *others = figures.histories

    assert (trimmed.queue, trimmed.is_whole) == ("trimmed", False)
    assert (trimmed.begin_ms, trimmed.end_ms) == (START_MS + 61_000, START_MS + 120_000)
    assert all(each.is_whole for each in others)
    assert KnownSince("s1", "remade", 2, 1, START_MS + 2_000, START_MS + 2_000) in others
    assert (figures.journals, figures.broken) == (len(STORIES) + 2, 1)


def test_the_sum_is_that_of_all_rows_and_everything_that_of_all_series(
    figures: ReportFigures,
) -> None:
    for name in ("put", "confirmed", "delivered", "repeated", "dropped", "unknown", "ready"):
        assert getattr(figures.total, name) == sum(getattr(row, name) for row in figures.rows)
    for number, bucket in enumerate(figures.everything.buckets):
        each = [one.buckets[number] for one in figures.series]
        assert bucket.put == sum(one.put for one in each)
        assert bucket.depth == sum(one.depth for one in each)
    assert figures.rows_left_out == 0
    assert figures.everything.waiting == figures.total.waiting


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> ReportFigures:
    """Four queues, a has four items, b two, c and d one; they wait 1 to 4 s. Limits are tight."""
    story = []
    for queue, items, wait in (("a", 4, 1), ("b", 2, 2), ("c", 1, 3), ("d", 1, 4)):
        for item in range(1, items + 1):
            story += [
                Event("put", item, 0, queue=queue),
                Event("confirm", item, wait + 60, opened=wait, queue=queue),
            ]
    for number, reason in enumerate(["abort", "abort", "lease", "hangup"], 11):
        story.append(Event("dead", number, 1, opened=0, attempts=1, reason=reason, queue="a"))
    return figures_of(spark, story, [], ShownLimits(queues=2, rows=1, deaths=1, interval_ms=60_000))


def test_beyond_the_busiest_queues_the_rest_is_one_series(small: ReportFigures) -> None:
    assert [(each.name, each.queues) for each in small.series] == [("a", 1), ("b", 1), (None, 2)]
    rest = small.series[-1]
    assert [(each.put, each.confirmed, each.depth) for each in rest.buckets] == [
        (2, 0, 2), (0, 2, 0),
    ]  # fmt: skip
    assert summary(rest.waiting) == near(2, 3_000, 4_000, 4_000)
    assert summary(small.everything.waiting) == near(8, 1_000, 4_000, 4_000)
    assert small.everything.buckets[0].waiting == small.everything.waiting


def test_beyond_the_busiest_rows_the_sum_still_counts_all(small: ReportFigures) -> None:
    assert [each.queue for each in small.rows] == ["a"]
    assert small.rows_left_out == 3
    assert (small.total.put, small.total.confirmed, small.total.delivered) == (8, 8, 12)


def test_beyond_the_most_frequent_reasons_the_other_deaths_are_one_line(
    small: ReportFigures,
) -> None:
    assert small.deaths == (DeathCount("a", "abort", 2), DeathCount(None, None, 2))


def test_where_nothing_happened_there_are_no_figures(spark: SparkSession) -> None:
    nothing = (events_table(spark, []), items_table(spark, []), {})

    assert measure(*nothing, MINUTES, lambda text: None) is None
