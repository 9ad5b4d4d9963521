"""The sampler: rates of a round, states that never drift, a bounded look, a bounded past."""

from __future__ import annotations

import pytest

from kestrelpy.core.counters import new_histogram
from kestrelpy.http.live import sampler
from kestrelpy.http.live.sampler import STATES, Sampler, percentile
from tests.support.server_harness import ServerHarness


def look(samples: Sampler, server: ServerHarness, seconds: int = 1) -> None:
    for _ in range(seconds):
        server.now_ms += 1000
        samples.look(server.broker, server.now_ms, new_histogram(), 7)


def test_the_rates_are_those_of_the_last_round(server: ServerHarness) -> None:
    samples = Sampler()
    look(samples, server, 2)
    assert samples.rates["stored"] == 0, "what was stored before the first look"
    server.store(b"four", b"five")
    server.say("a", b"get jobs")
    look(samples, server, 2)
    assert (samples.rates["stored"], samples.rates["delivered"]) == (2, 1)
    look(samples, server)
    assert samples.rates["stored"] == 0
    points = samples.rings.of("5m").points().values
    assert points["ready"][-1] == 4
    assert points["disk_free"][-1] == 7


def test_the_states_are_the_sums_over_the_queues_that_are_there(server: ServerHarness) -> None:
    samples = Sampler()
    server.say("a", b"get jobs/open")
    server.say("a", b"set mail/delay=1h 0 0 1", b"x")
    look(samples, server)
    assert samples.states == {"ready": 2, "leased": 1, "delayed": 1, "dead": 0}
    server.say("b", b"delete mail")
    look(samples, server)
    assert samples.states == {"ready": 2, "leased": 1, "delayed": 0, "dead": 0}
    server.say("b", b"delete jobs")
    server.say("b", b"set jobs 0 0 1", b"x")
    look(samples, server, 2)
    assert samples.states == dict.fromkeys(STATES, 0) | {"ready": 1}
    assert all(rate >= 0 for rate in samples.rates.values())


def test_a_tick_looks_at_a_bounded_number_of_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler, "PER_TICK", 4)
    server, samples = ServerHarness(), Sampler()
    for number in range(10):
        server.say("a", b"set q%d 0 0 1" % number, b"x")
    look(samples, server)
    assert (len(samples.rows), samples.rounds) == (4, 0)
    look(samples, server, 2)
    assert (len(samples.rows), samples.rounds) == (10, 1)
    server.say("a", b"set q9 0 0 1", b"x")
    look(samples, server, 4)
    assert samples.rates["stored"] == pytest.approx(1 / 3)


def test_the_past_of_the_most_recently_active_queues_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler, "KEPT_QUEUES", 2)
    server, samples = ServerHarness(), Sampler()
    look(samples, server)
    for name in (b"a", b"b", b"a", b"c"):
        server.say("x", b"set %b 0 0 1" % name, b"x")
        look(samples, server)
    assert list(samples.by_queue) == [b"a", b"c"]
    assert samples.by_queue[b"c"].ring.last()["ready"] == 1
    server.say("x", b"delete c")
    look(samples, server)
    assert list(samples.by_queue) == [b"a"]


def test_syncs_are_those_since_the_last_look(server: ServerHarness) -> None:
    samples, syncs = Sampler(), new_histogram()
    syncs[20] = 50
    samples.look(server.broker, 1000, syncs, None)
    syncs[10] += 5
    samples.look(server.broker, 2000, syncs, None)
    points = samples.rings.of("5m").points().values
    assert points["sync_p99_ms"] == [None, 1.023], "a second without a sync has no figure"
    assert points["disk_free"] == [None, None]


def test_the_times_of_syncs_are_gone_when_there_was_none_for_some_seconds(
    server: ServerHarness,
) -> None:
    samples, syncs = Sampler(), new_histogram()
    samples.look(server.broker, 1000, syncs, None)
    syncs[10] += 5
    for tick in range(1, sampler.SYNCS_KEPT + 1):
        samples.look(server.broker, 1000 + 1000 * tick, list(syncs), None)
        assert (samples.sync_p50_ms, samples.sync_p99_ms) == (1.023, 1.023)
    samples.look(server.broker, 60_000, list(syncs), None)
    assert (samples.sync_p50_ms, samples.sync_p99_ms) == (None, None)


@pytest.mark.parametrize(
    ("counts", "part", "bound"),
    [([0, 0], 0.5, 0), ([5, 5], 0.5, 0), ([5, 6], 0.5, 1), ([0, 0, 99, 1], 0.99, 3)],
)
def test_a_percentile_is_a_bound_of_its_part(counts: list[int], part: float, bound: int) -> None:
    assert percentile(counts, part) == bound
