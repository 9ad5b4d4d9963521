"""The figures of a queue, and percentiles of a histogram by bits."""

from __future__ import annotations

from kestrelpy.http.live.figures import figures_of, percentile
from tests.support.server_harness import ServerHarness


def test_the_oldest_lease_has_an_age(server: ServerHarness) -> None:
    queue = server.broker.queues[b"jobs"]
    assert figures_of(queue, server.now_ms).lease_age_ms == 0
    server.say("a", b"gets jobs/open/lease=1h")
    server.now_ms += 7000
    server.say("b", b"get jobs/open")
    row = figures_of(queue, server.now_ms)
    assert (row.leased, row.ready, row.lease_age_ms) == (2, 1, 7000)


def test_a_queue_is_active_if_it_delivered_since_the_look_before(server: ServerHarness) -> None:
    queue = server.broker.queues[b"jobs"]
    before = figures_of(queue, server.now_ms)
    assert not figures_of(queue, server.now_ms, before).is_active
    server.say("a", b"get jobs")
    assert figures_of(queue, server.now_ms, before).is_active


def test_each_figure_stands_in_its_own_field(server: ServerHarness) -> None:
    for verb in (b"get jobs", b"get jobs/open"):
        server.say("a", verb)
    server.say("a", b"pause jobs")
    server.now_ms += 400

    row = figures_of(server.broker.queues[b"jobs"], server.now_ms)

    assert (row.stored, row.delivered, row.confirmed, row.ready, row.leased) == (3, 2, 1, 1, 1)
    assert (row.bytes, row.oldest_ms, row.state, row.paused) == (5, 400, "ok", True)
    assert (row.lease_age_ms, row.is_active) == (400, True)


def test_a_percentile_is_the_bound_of_its_bits() -> None:
    assert percentile([0, 98, 0, 2], 0.5) == 1
    assert percentile([0, 98, 0, 2], 0.99) == 7
    assert percentile([0, 0], 0.99) == 0
