"""Each item has one place: `where` finds it there, and `take_out` leaves nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from journal.format.key import text_of
from kestrelpy.core.index.dead_letters import MEMORY_BYTES_MAX
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.subscription.where import Where
from tests.support.core_harness import CoreHarness, make_queue

LATER: Final = Delay(1000)


def in_the_list(q: CoreHarness) -> CoreHarness:
    q.put(b"12345", key="A")
    return q


def blocked(q: CoreHarness) -> CoreHarness:
    q.put(b"holder", key="A")
    q.open()
    in_the_list(q)
    assert q.may_open() is None
    return q


def blocked_without_its_body(q: CoreHarness) -> CoreHarness:
    blocked(q)
    q.reader.key_gate._forget_whole(q.queue.last_number)
    q.reader.key_gate._count()
    return q


def beyond_the_frontier(q: CoreHarness) -> CoreHarness:
    return in_the_list(q).restarted()


def on_disk_out_of_order(q: CoreHarness) -> CoreHarness:
    again = delayed(q).restarted()
    again.now_ms += 1000
    again.queue.tick(again.now_ms, 1)
    return again


def delayed(q: CoreHarness) -> CoreHarness:
    q.put(b"12345", key="A", delay=LATER)
    return q


def nacked_with_a_delay(q: CoreHarness) -> CoreHarness:
    lease = in_the_list(q).open()
    q.reader.nack(lease, q.now_ms, b"abort", LATER)
    return q


def leased(q: CoreHarness) -> CoreHarness:
    in_the_list(q).open()
    return q


def leased_by_token_before_a_restart(q: CoreHarness) -> CoreHarness:
    in_the_list(q).open(lease_ms=60_000)
    return q.restarted()


def dead(q: CoreHarness) -> CoreHarness:
    q.bury(in_the_list(q).open())
    return q


def dead_and_leased(q: CoreHarness) -> CoreHarness:
    dead(q).open(dead=True)
    return q


PLACES: Final = {
    in_the_list: Where.IN_MEMORY,
    blocked: Where.IN_MEMORY,
    blocked_without_its_body: Where.LOGGED,
    beyond_the_frontier: Where.LOGGED,
    on_disk_out_of_order: Where.LOGGED,
    delayed: Where.DELAYED,
    nacked_with_a_delay: Where.DELAYED,
    leased: Where.LEASED,
    leased_by_token_before_a_restart: Where.LEASED,
    dead: Where.DEAD,
    dead_and_leased: Where.LEASED,
}


@pytest.mark.parametrize(("put_there", "where"), PLACES.items())
def test_an_item_is_found_in_its_place_and_leaves_nothing_there(
    put_there: Callable[[CoreHarness], CoreHarness], where: Where
) -> None:
    q = put_there(make_queue())
    id_ = max(q.reader.live)
    others = len(q.reader.live) - 1
    assert q.reader.where(id_) is where
    in_the_log = (5, text_of(b"A")) if where is Where.LOGGED else ()
    assert q.reader.take_out(id_, *in_the_log) == 5
    assert q.reader.where(id_) is Where.GONE
    reader = q.reader
    ready = reader.ready
    assert (ready.count, ready.bytes, ready.resident, ready.blocked_cost) == (0, 0, 0, 0)
    assert (reader.delays.count, reader.delays.bytes, reader.out_of_order.count) == (0, 0, 0)
    assert (len(reader.dead), reader.dead.count, reader.dead.bytes) == (0, 0, 0)
    assert len(reader.live) == len(reader.leases) == others
    assert (reader.held_keys, reader.leases.entries, dict(reader.attempts.items())) == ({}, {}, {})
    if not others:
        assert (reader.live_bytes, reader.leased_bytes, len(reader.key_gate.keys)) == (0, 0, 0)
    q.put(b"next", key="A")
    assert q.may_open("bob") is None if others else q.take("bob") == b"next"


def test_an_item_that_was_never_here_is_gone() -> None:
    q = make_queue()
    q.put(b"1")
    assert [q.reader.where(id_) for id_ in (0, 1, 2)] == [Where.GONE, Where.IN_MEMORY, Where.GONE]


def test_an_item_that_the_log_has_lost_is_neither_in_memory_nor_logged() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    again = q.restarted()
    again.reader.ready_items.skip_lost(1)
    assert [again.reader.where(id_) for id_ in (1, 2)] == [Where.LOST, Where.LOGGED]


def test_an_item_that_expired_and_was_redriven_leaves_the_list_once() -> None:
    q = make_queue(expire_to=b"old")
    q.put(b"stays")
    q.put(b"x" * MEMORY_BYTES_MAX, b"late", expires_ms=q.unix_ms + 10)
    q.now_ms += 10
    q.reader.sweep(q.now_ms, 10)
    assert q.redrive(3)
    assert q.reader.where(3) is Where.LOGGED
    q.reader.take_out(3, 4)
    ready = q.reader.ready
    assert (ready.count, ready.resident, ready.resident_bytes) == (1, 1, 5)
    assert q.ready == [b"stays"]


def came_back_before_a_restart(q: CoreHarness) -> CoreHarness:
    again = nacked_with_a_delay(q).restarted()
    again.now_ms += 1000
    again.queue.tick(again.now_ms, 1)
    return again


def test_an_item_that_cannot_be_read_lets_its_key_go() -> None:
    q = came_back_before_a_restart(make_queue())
    q.put(b"next", key="A")
    assert q.reader.held_keys == {1: text_of(b"A")}
    assert q.reader.ready_items.begin_fetch() == [1]

    q.reader.ready_items.hide_disk_ref(1)

    assert (q.reader.held_keys, list(q.reader.unreadable)) == ({}, [1])
    assert q.take("bob") == b"next"
