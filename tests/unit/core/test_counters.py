"""A counter only grows, from the start of the process."""

from __future__ import annotations

import pytest

from kestrelpy.core.counters import (
    HISTOGRAM_BITS,
    Histogram,
    QueueCounters,
    ServerCounters,
    new_histogram,
)
from tests.support.compiled import attributes_of
from tests.support.core_harness import WALL_MS, make_queue
from tests.support.server_harness import ServerHarness


def counted(counters: QueueCounters) -> dict[str, int]:
    """Return the counters that are not zero, without the histograms."""
    every = {name: getattr(counters, name) for name in attributes_of(QueueCounters)}
    return {name: count for name, count in every.items() if type(count) is int and count}


def test_every_counter_starts_at_zero() -> None:
    assert counted(QueueCounters()) == {}
    server = ServerCounters()
    for name in attributes_of(ServerCounters):
        value = getattr(server, name)
        assert value in (0, {}) or value.count == 0, name


def test_deliveries_and_their_ends_are_counted() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1")
    q.abort(q.open())
    q.open("anna")
    q.hang_up("anna")
    q.open("bert")
    q.pass_time(1000)
    q.take()
    assert counted(q.reader.counters) == {
        "opened": 4, "cancelled": 3, "redelivered": 3, "lease_expired": 1, "confirmed": 1
    }  # fmt: skip


def test_what_expired_was_discarded_or_flushed_is_counted() -> None:
    q = make_queue(max_items=2, discard_old_when_full=True)
    q.put(b"1", b"2", b"3", expires_ms=WALL_MS + 100)
    q.pass_time(100)
    q.put(b"4")
    q.flush()
    q.flush()
    assert counted(q.reader.counters) == {"discarded": 1, "expired": 2, "flushes": 2}


def test_an_expired_item_is_counted_once_whoever_finds_it() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3", expires_ms=WALL_MS + 100)
    q.now_ms = 100
    q.may_open()
    q.peek()
    q.pass_time(0)
    assert q.reader.counters.expired == 3


def test_a_restart_counts_from_zero() -> None:
    q = make_queue(lease_ms=1000, max_items=3, discard_old_when_full=True)
    q.put(b"1", b"2", expires_ms=WALL_MS + 100)
    q.pass_time(100)
    q.put(b"3", b"4", b"5", b"6")
    q.abort(q.open())
    q.flush()
    assert counted(q.restarted().reader.counters) == {}


def test_created_deleted_and_aged_queues_are_counted() -> None:
    q = make_queue(max_queue_age_ms=1000)
    q.delete()
    q.put(b"1")
    q.take()
    q.pass_time(2000)
    counters = q.broker.counters
    assert (counters.queue_creates, counters.queue_deletes, counters.queue_expires) == (2, 2, 1)


@pytest.mark.parametrize(
    ("value", "entry"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1 << 60, HISTOGRAM_BITS - 1)]
)
def test_a_histogram_counts_a_value_by_its_bits(value: int, entry: int) -> None:
    histogram = Histogram()
    histogram.add(value)
    histogram.add(-5)
    expected = new_histogram()
    expected[entry] += 1
    expected[0] += 1
    expected[-1] = value
    assert (histogram.counts, histogram.count) == (expected, 2)


def test_waiting_and_service_are_counted_in_milliseconds() -> None:
    q = make_queue(lease_ms=100_000)
    q.put(b"1")
    q.pass_time(3)
    lease = q.open()
    q.pass_time(1000)
    q.close(lease)
    waiting_ms, service_ms = q.reader.counters.waiting_ms, q.reader.counters.service_ms
    assert waiting_ms is not None
    assert service_ms is not None
    assert (waiting_ms[2], waiting_ms[-1], sum(waiting_ms[:-1])) == (1, 3, 1)
    assert (service_ms[10], service_ms[-1], sum(service_ms[:-1])) == (1, 1000, 1)


def test_an_item_waits_until_its_first_delivery_alone() -> None:
    q = make_queue()
    q.put(b"1")
    q.abort(q.open())
    q.open()
    waiting_ms = q.reader.counters.waiting_ms
    assert waiting_ms is not None
    assert sum(waiting_ms[:-1]) == 1


def test_a_clock_that_was_set_back_counts_as_no_time() -> None:
    q = make_queue()
    q.put(b"1")
    q.broker.step_clock(WALL_MS - 10_000_000)
    q.close(q.open())
    waiting_ms = q.reader.counters.waiting_ms
    assert waiting_ms is not None
    assert (waiting_ms[0], waiting_ms[-1]) == (1, 0)


# The queue or child, whether its lease is by token, and the request that confirms it.
CONFIRMS = [
    ("jobs", False, b"get jobs/close"),
    ("jobs", True, b"get jobs/close/token=%d"),
    ("jobs+audit", False, b"get jobs+audit/close"),
    ("jobs+audit", True, b"get jobs+audit/close/token=%d"),
    ("jobs", False, b"set next/confirm 0 0 1\r\nx"),
    ("jobs", True, b"set next/confirm=jobs:%d 0 0 1\r\nx"),
    ("jobs+audit", True, b"set next/confirm=jobs+audit:%d 0 0 1\r\nx"),
]


@pytest.mark.parametrize(
    ("name", "by_token", "confirm", "restarts"),
    [(*each, False) for each in CONFIRMS] + [(*each, True) for each in CONFIRMS if each[1]],
)
def test_each_way_to_confirm_counts_the_time_since_the_delivery(
    name: str, by_token: bool, confirm: bytes, restarts: bool
) -> None:
    stage = ServerHarness()
    stage.say("a", b"get jobs+audit/peek")
    stage.store(b"1")
    opened = stage.say("a", b"gets %b/open%b" % (name.encode(), b"/lease=1m" * by_token))
    token = int(opened.partition(b"\r\n")[0].rpartition(b" ")[2])
    if restarts:
        stage.restart()

    stage.pass_time(5_000)
    answer = stage.say("a", confirm % token if by_token else confirm)

    assert answer in {b"END\r\n", b"STORED\r\n"}
    counters = stage.queue(name).reader.counters
    assert counters.confirmed == 1
    assert counters.service_ms is not None
    assert counters.service_ms[-1] == 5_000
