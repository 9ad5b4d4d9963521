"""Families in base units, with histograms that Prometheus understands."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kestrelpy.core.counters import Histogram
from kestrelpy.http.metrics.families import (
    figure_families,
    histogram,
    queue_families,
    queue_histograms,
)
from kestrelpy.http.metrics.figures import OTHERS, SERIES, Walks
from kestrelpy.http.metrics.scrapes import rendered
from kestrelpy.operations import server_figures
from tests.support.figure_table import PAGE, page
from tests.support.server_harness import ServerHarness
from tests.support.steps import ended


def test_a_histogram_is_cumulative_and_its_sum_is_in_the_base_unit() -> None:
    values = Histogram()
    for ms in (0, 1, 3, 5, 100):
        values.add(ms)
    text = rendered(histogram("x_seconds", "x", values.counts, range(0, 6, 2), 1000)).decode()
    assert [line.partition("x_seconds_")[2] for line in text.splitlines()[2:]] == [
        'bucket{le="0.001"} 1.0', 'bucket{le="0.004"} 3.0', 'bucket{le="0.016"} 4.0',
        'bucket{le="+Inf"} 5.0', "count 5.0", "sum 0.109",
    ]  # fmt: skip


def test_each_limit_of_whole_numbers_counts_the_number_itself() -> None:
    values = Histogram()
    for number in (1, 3, 4):
        values.add(number)
    text = rendered(histogram("n", "n", values.counts, range(1, 4))).decode()
    assert 'n_bucket{le="1.0"} 1.0' in text
    assert 'n_bucket{le="3.0"} 2.0' in text
    assert 'n_bucket{le="7.0"} 3.0' in text


def test_the_name_of_a_queue_is_escaped_in_its_label() -> None:
    server = ServerHarness()
    server.say("a", b'set q"\\ 0 0 1', b"x")
    figures = ended(Walks().walk(server.broker, server.now_ms))
    text = b"".join(map(rendered, queue_families(figures))).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ready = families["kestrelpy_items"].samples[0]
    assert (ready.labels, ready.value) == ({"queue": 'q"\\', "state": "ready"}, 1)
    assert OTHERS not in text


def test_facts_of_the_server_with_one_family_share_it() -> None:
    server = ServerHarness()
    server.say("a", b"set jobs 0 0 1", b"x")
    server.say("a", b"set mail 0 0 1", b"x")
    server.say("a", b"delete mail")
    facts = server_figures(server.broker, server, server.now_ms)
    text = b"".join(map(rendered, figure_families(facts))).decode()
    assert text.count("# TYPE kestrelpy_queue_events_total counter") == 1
    assert [line for line in text.splitlines() if line.startswith("kestrelpy_queue_events")] == [
        'kestrelpy_queue_events_total{event="created"} 2.0',
        'kestrelpy_queue_events_total{event="deleted"} 1.0',
        'kestrelpy_queue_events_total{event="expired"} 0.0',
    ]


def test_a_queue_that_is_not_there_has_no_histogram() -> None:
    server = ServerHarness()
    assert all(not family.samples for family in queue_histograms(server.broker, [b"none"]))


def test_the_page_of_the_docs_has_each_figure() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.support.figure_table"


def test_families_of_queues_stay_as_listed_and_new_ones_come_last() -> None:
    assert [each.family for each in SERIES.values() if each.is_counter][:11] == [
        "items_stored", "deliveries", "redeliveries", "items_confirmed", "deliveries_returned",
        "leases_expired", "items_expired", "items_discarded", "items_dead", "items_duplicate",
        "gaps",
    ]  # fmt: skip
    assert [each.family for each in SERIES.values() if not each.is_counter][:10] == [
        "item_bytes", "waiters", "keys_blocked", "keys_in_flight", "items_unreadable",
        "journal_segments", "journal_bytes", "journal_live_bytes", "journal_done_bytes",
        "journal_reserve_bytes",
    ]  # fmt: skip
