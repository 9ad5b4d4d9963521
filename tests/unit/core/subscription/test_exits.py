"""A subscription forgets each fact about an item in the step that makes the fact useless.

`tests/unit/core/test_exits.py` checks this at rest; here are the steps that no rest shows.
"""

from __future__ import annotations

import pytest

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.subscription.where import Where
from tests.support.core_harness import CoreHarness, make_queue
from tests.support.steps import counted

LATER_MS = 10_000
HOUR = Delay(3_600_000)


def sought() -> CoreHarness:
    """Item 1 is leased, 2 waits for its key with its body on disk, and is past its expiry."""
    q = make_queue(max_memory_bytes=0)
    q.put(b"holder", key="A")
    q.put(b"blocked", key="A", expires_ms=q.unix_ms + LATER_MS)
    q.open()
    assert q.may_open("bob") is None
    q.now_ms += LATER_MS
    q.broker.tick(q.now_ms)
    assert [*q.reader.sought_keys] == [2]
    return q


def test_an_expired_item_whose_key_cannot_be_read_is_sought_no_more() -> None:
    q = sought()
    wanted = q.reader.ready_items.begin_fetch()
    assert wanted == [2]
    q.reader.ready_items.hide_disk_ref(2)
    assert q.reader.sought_keys == {}


@pytest.mark.parametrize("end", ["delete", "upto", "flush"])
def test_a_sweep_of_expired_items_is_over_when_those_that_it_seeks_are_gone(end: str) -> None:
    q = sought()
    queue = q.queue
    if end == "upto":
        AckUpTo(queue, 2).finish(q.now_ms)
    else:
        getattr(q, end)()
    assert queue.reader.sought_keys == {}
    assert counted(q.operations.sweep([queue], q.now_ms)) == (0, 0)


def test_an_item_that_expires_while_its_key_is_taken_stands_in_no_list_when_it_is_dead() -> None:
    q = make_queue(expire_to=b"late")
    q.put(b"holder", key="A")
    q.put(b"blocked", key="A", expires_ms=q.unix_ms + LATER_MS)
    q.open()
    assert q.may_open("bob") is None
    assert [*q.reader.out_of_order] == [2]
    q.now_ms += LATER_MS
    q.reader.sweep(q.now_ms, 10)
    assert q.reader.where(2) is Where.DEAD
    assert [*q.reader.out_of_order] == []


def test_a_flush_frees_the_keys_of_what_was_given_back_for_later() -> None:
    q = make_queue()
    q.put(b"first", key="A")
    q.reader.nack(q.open(), q.now_ms, b"abort", HOUR)
    q.put(b"second", key="A")
    assert q.may_open("bob") is None
    q.flush()
    q.put(b"third", key="A")
    assert q.take("bob") == b"third"
    assert len(q.reader.key_gate.keys) == 0


def test_when_the_last_item_is_gone_no_bytes_are_left_of_those_whose_size_was_a_guess() -> None:
    q = make_queue()
    q.put(b"hello")
    q.reader._apply_done(1, 2)
    assert q.reader.live_bytes == 0


def put_off(q: CoreHarness) -> None:
    """Item 1 lives for longer than its put says, for the sake of its lease."""
    q.put(b"one", expires_ms=q.unix_ms + 1000)
    lease = q.reader.open(q.who("anna"), q.now_ms, lease_ms=5000, grace_ms=5000)
    assert lease is not None
    assert [*q.reader.expiries] == [1]


def test_a_redriven_dead_letter_has_no_expiry_that_a_lease_gave_it() -> None:
    q = make_queue()
    put_off(q)
    [lease] = q.reader.leases
    q.bury(lease)
    assert q.redrive(1)
    assert q.reader.expiries == {}


@pytest.mark.parametrize("others", [0, 3])
def test_what_is_confirmed_up_to_a_marker_keeps_no_expiry(others: int) -> None:
    q = make_queue()
    put_off(q)
    q.put(*[b"x"] * others)
    AckUpTo(q.queue, 1).finish(q.now_ms)
    assert q.reader.where(1) is Where.GONE
    assert q.reader.expiries == {}
