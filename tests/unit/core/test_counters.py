"""A counter only grows, from the start of the process."""

from __future__ import annotations

from kestrelpy.core.counters import QueueCounters, ServerCounters
from tests.support.core_harness import WALL_MS, make_queue


def counted(counters: QueueCounters) -> dict[str, int]:
    """Those that are not zero."""
    every = {name: getattr(counters, name) for name in QueueCounters.__slots__}
    return {name: count for name, count in every.items() if count}


def test_every_counter_starts_at_zero() -> None:
    assert counted(QueueCounters()) == {}
    server = ServerCounters()
    assert [getattr(server, name) for name in ServerCounters.__slots__] == [0] * len(
        ServerCounters.__slots__
    )


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
        "opened": 4, "cancelled": 3, "redelivered": 3, "lease_expired": 1
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
