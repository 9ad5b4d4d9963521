"""Heat: a column has the events of its minute, a minute without events is empty."""

from __future__ import annotations

from kestrelpy.core.counters import new_histogram
from kestrelpy.http.live.heat import CELLS, COLUMNS_MAX, STEP_MS, Heat, percentiles


def add(counts: list[int], *values: int) -> None:
    for value in values:
        counts[value.bit_length()] += 1
        counts[-1] += value


def test_a_column_has_the_events_of_its_minute() -> None:
    heat, waiting, service = Heat(), new_histogram(), new_histogram()
    add(waiting, 0, 1, 5, 5)
    add(service, 1 << 40)
    assert sum(heat.see(STEP_MS, waiting, service)) == 4
    assert sum(heat.see(STEP_MS + 1, waiting, service)) == 0
    add(waiting, 5)
    heat.see(3 * STEP_MS, waiting, service)
    facts = heat.facts(3 * STEP_MS)
    assert facts["since_ms"] == STEP_MS
    assert [sum(each) for each in facts["waiting"]] == [4, 0, 1]
    assert facts["waiting"][0][:3] == [1, 1, 2], "below 1, 1 to 3, 4 to 15"
    assert facts["edges_ms"][:3] == [1, 4, 16]
    assert facts["service"][0][CELLS - 1] == 1, "the last cell has no edge"


def test_it_goes_back_an_hour_and_no_further() -> None:
    heat, waiting = Heat(), new_histogram()
    for minute in range(100):
        add(waiting, 3)
        heat.see(minute * STEP_MS, waiting, new_histogram())
    assert len(heat.facts(99 * STEP_MS)["waiting"]) == COLUMNS_MAX
    assert len(heat.facts(199 * STEP_MS)["waiting"]) == 1


def test_a_queue_made_again_counts_from_zero() -> None:
    heat, waiting = Heat(), new_histogram()
    add(waiting, 3, 3)
    heat.see(0, waiting, new_histogram())
    again = new_histogram()
    add(again, 9)
    assert sum(heat.see(1, again, new_histogram())) == 1
    assert heat.see(2, None, None) == []


def test_percentiles_are_unknown_without_events() -> None:
    counts = new_histogram()
    add(counts, *[1] * 98, 1000, 1000)
    shown = percentiles(counts, None)
    assert (shown["wait_p50_ms"], shown["wait_p99_ms"]) == (1, 1023)
    assert shown["service_p99_ms"] is None
