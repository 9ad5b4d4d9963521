"""The order of queues: sorted in slices, kept for a while; rows as they are now."""

from __future__ import annotations

import pytest

from kestrelpy.core.counters import new_histogram
from kestrelpy.http.live import rows, troubles
from kestrelpy.http.live.rows import QueueOrders, WantedQueues, table
from kestrelpy.http.live.sampler import Sampler
from tests.support.server_harness import ServerHarness


def sampled(server: ServerHarness, seconds: int = 1) -> Sampler:
    samples = Sampler()
    for _ in range(seconds):
        server.now_ms += 1000
        samples.look(server.broker, server.now_ms, new_histogram(), None)
    return samples


def page(orders: QueueOrders, wanted: WantedQueues, now_ms: int) -> tuple[list[bytes], int, int]:
    """Return the names, the number of matches, and the number of slices."""
    steps, slices = orders.names(wanted, now_ms), 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            names, matched = end.value
            return names, matched, slices
        slices += 1


def test_a_queue_in_trouble_comes_before_one_with_an_older_item(server: ServerHarness) -> None:
    server.now_ms += 5000
    server.say("a", b"set late 0 0 1", b"x")
    server.say("a", b"gets late/open/lease=1h")
    server.now_ms += troubles.LEASED_MS
    server.say("b", b"get jobs/open")
    orders = QueueOrders(sampled(server))
    assert page(orders, WantedQueues(), server.now_ms)[0] == [b"late", b"jobs"]
    assert page(orders, WantedQueues(sort="oldest"), server.now_ms)[0] == [b"jobs", b"late"]


@pytest.mark.parametrize("sort", rows.SORTS)
def test_each_sort_pages_through_all_queues(server: ServerHarness, sort: str) -> None:
    for number in range(5):
        server.say("a", b"set q%d 0 0 1" % number, b"x")
    orders, found = QueueOrders(sampled(server)), list[bytes]()
    for offset in range(0, 6, 2):
        names, matched, _ = page(orders, WantedQueues("", sort, False, offset, 2), server.now_ms)
        assert matched == 6
        found += names
    assert sorted(found) == [b"jobs", *[b"q%d" % number for number in range(5)]]
    down = page(orders, WantedQueues("", sort, True, 0, 6), server.now_ms)[0]
    assert down == found[::-1]
    assert page(orders, WantedQueues("Q", sort), server.now_ms)[1] == 5


def test_it_is_sorted_in_slices_and_cached_for_a_while(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_PER_SLICE", 2)
    monkeypatch.setattr(rows, "_PER_SECOND", 1)
    for number in range(3):
        server.say("a", b"set q%d 0 0 1" % number, b"x")
    samples = sampled(server)
    orders, now_ms = QueueOrders(samples), server.now_ms
    assert page(orders, WantedQueues(sort="name"), now_ms)[2] == 2
    server.say("a", b"delete q0")
    samples.rows.pop(b"q0")
    assert page(orders, WantedQueues(sort="name"), now_ms + 2999)[1:] == (4, 1), "as it was"
    assert page(orders, WantedQueues(sort="name"), now_ms + 3000)[1] == 3


def test_a_row_is_as_the_queue_is_now(server: ServerHarness) -> None:
    samples = sampled(server)
    server.say("a", b"get jobs/open")
    shown = table(samples, server.broker, [b"jobs", b"gone"], server.now_ms)
    assert shown["order"] == ["jobs"]
    row = shown["rows"]["jobs"]
    assert (row["ready"], row["leased"], row["items"]) == (2, 1, 3)
    assert (row["level"], row["why"], row["spark"]) == ("ok", None, [])


def test_orders_that_nobody_asks_for_any_more_go(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_KEPT_MAX", 3)
    orders = QueueOrders(sampled(server))
    for offset in range(9):
        page(orders, WantedQueues(offset=offset), server.now_ms)
    assert len(orders._sorted) == 3


def test_a_row_has_every_figure_of_its_queue(server: ServerHarness) -> None:
    server.reload_with({"jobs": {"max_leased": 7}}, {})
    server.say("b", b"set jobs/delay=1h/key=A 0 0 1", b"x")
    server.say("a", b"get jobs/open")
    server.say("b", b"pause jobs")
    server.say("c", b"get jobs/open/t=1m")
    samples = sampled(server, 3)
    row = table(samples, server.broker, [b"jobs"], server.now_ms)["rows"]["jobs"]
    assert set(row) == {
        "name", "state", "paused", "items", "ready", "delayed", "leased", "max_leased", "dead",
        "blocked", "oldest_ms", "rate", "out_rate", "waiters", "bytes", "level", "why", "spark",
    }  # fmt: skip
    told = {name: row[name] for name in ("paused", "items", "ready", "delayed", "leased")}
    assert told == {"paused": True, "items": 4, "ready": 2, "delayed": 1, "leased": 1}
    assert (row["name"], row["max_leased"], row["waiters"]) == ("jobs", 7, 1)
