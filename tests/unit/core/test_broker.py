"""All queues by name, and the one clock hand for everything that comes due."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kestrelpy.core.broker import TICK_STEPS_MAX
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.errors import ServerError
from tests.support.core_harness import NAME, WALL_MS, CoreHarness, make_queue, no_queue


def put_in(q: CoreHarness, name: bytes, *bodies: bytes, expires_ms: int = 0) -> None:
    """Store into another queue of the same broker."""
    queue = q.broker.queues.get(name) or q.broker.create(name, q.now_ms)
    for body in bodies:
        queue.put(body, 0, expires_ms, q.now_ms)


def test_queues_are_known_by_their_names_and_have_nothing_in_common() -> None:
    q = make_queue()
    q.put(b"1")
    put_in(q, b"other", b"2")
    assert q.ready == [b"1"]
    assert q.broker.queues[b"other"].reader.ready.count == 1


def test_no_more_queues_are_made_than_allowed() -> None:
    q = CoreHarness(make_queue().policy, queues_max=2)
    q.broker.create(b"a", 0)
    q.broker.create(b"b", 0)
    with pytest.raises(ServerError, match=r"too many queues \(limit 2\)"):
        q.broker.create(b"c", 0)
    q.broker.delete(b"a", 0)
    q.broker.create(b"c", 0)


def test_a_deleted_queue_is_gone_with_its_items_its_leases_and_its_dead() -> None:
    q = make_queue(max_attempts=1, lease_ms=1000)
    q.put(b"dead", b"lent", b"ready")
    q.abort(q.open())
    q.open("anna")
    assert q.delete()
    assert not q.who("anna").leases
    assert q.broker.next_due() is None
    assert not q.delete()
    assert [queue.deleted for queue in q.broker.deleted] == [True]
    q.put(b"new")
    assert (q.ready, q.leased, q.dead) == ([b"new"], [], [])


def test_a_mark_of_an_overdue_lease_keeps_no_items_of_a_deleted_queue() -> None:
    q = make_queue(lease_ms=100, max_attempts=1)
    q.put(b"1", b"2")
    q.open("anna")
    q.pass_time(100)
    q.delete()
    (reader,) = q.who("anna").overdue
    assert isinstance(reader, Subscription)
    assert reader.ready.count == len(reader.dead) == 0


def test_a_name_made_again_is_another_generation_also_in_the_same_second() -> None:
    q = make_queue()
    generations = [q.queue.generation]
    for _ in range(3):
        q.delete()
        q.put(b"1")
        generations.append(q.queue.generation)
    q.step_clock(-1_000_000)
    q.delete()
    q.put(b"1")
    generations.append(q.queue.generation)
    assert generations[0] == WALL_MS // 1000
    assert generations == sorted(set(generations))


def test_names_of_the_past_take_no_memory() -> None:
    q = no_queue()
    for number in range(1000):
        name = b"%d" % number
        q.broker.create(name, 0)
        q.broker.give_up(q.broker.wait(Want.OPEN, name, q.who("anna"), False, None, 50))
        q.broker.delete(name, 0)
        q.broker.deleted.clear()
        for gone in [*q.broker.ending]:
            q.broker.end(gone)
        q.broker.take_to_resume()
    held = [value for value in vars(q.broker).values() if isinstance(value, dict | list | set)]
    assert all(len(each) == 0 for each in held)
    assert len(q.broker._timers) == 0


def test_a_hang_up_gives_back_what_was_held_of_every_queue() -> None:
    q = make_queue()
    q.put(b"1")
    put_in(q, b"other", b"2")
    q.open("anna")
    other = q.broker.queues[b"other"].reader
    other.open(q.who("anna"), q.now_ms)
    q.hang_up("anna")
    assert q.ready == [b"1"]
    assert other.ready.count == 1
    assert not q.who("anna").leases


def held_by_thousands(count: int = 3 * TICK_STEPS_MAX) -> CoreHarness:
    """All these items are leased to anna."""
    q = make_queue(max_attempts=None)
    for number in range(count):
        q.put(b"%d" % number)
        q.open("anna")
    return q


def test_of_thousands_of_leases_a_hang_up_gives_back_the_oldest_first_and_the_rest_by_ticks() -> (
    None
):
    q, seen = held_by_thousands(), list[int]()
    q.put(b"last")
    q.hang_up("anna")
    assert not q.who("anna").leases, "the connection has none, whatever it does next"
    assert q.broker.next_due() == 0
    while len(q.reader.leases):
        seen.append(len(q.ready) - 1)
        assert q.ready == [b"%d" % number for number in range(seen[-1])] + [b"last"]
        q.broker.tick(q.now_ms)
    assert seen[0] == TICK_STEPS_MAX
    assert len(seen) < 5, "each tick does its share"
    assert max(later - before for before, later in pairwise(seen)) <= TICK_STEPS_MAX
    assert q.ready == [b"%d" % number for number in range(3 * TICK_STEPS_MAX)] + [b"last"]
    assert not q.broker.gone_holders.holders
    assert q.broker.next_due() != 0


def test_a_wait_gets_the_item_of_the_tick_that_gives_it_back() -> None:
    q = held_by_thousands()
    q.hang_up("anna")
    for _ in range(TICK_STEPS_MAX):
        q.open("bert")
    waiter = q.broker.wait(Want.OPEN, NAME, q.who("carl"), False, "carl", 9000)
    q.broker.tick(q.now_ms)
    assert waiter.lease is not None
    assert waiter.lease.item.body == b"%d" % TICK_STEPS_MAX


@pytest.mark.parametrize("end", ["deleted", "overdue", "flushed", "moved"])
def test_leases_that_end_otherwise_before_the_tick_end_once(end: str) -> None:
    q = held_by_thousands()
    q.hang_up("anna")
    if end == "deleted":
        q.broker.delete(NAME, q.now_ms)
    elif end == "overdue":
        q.now_ms += q.queue.policy.lease_ms + 1
    elif end == "flushed":
        q.flush()
    else:
        for lease in q.reader.leases.all()[:5]:
            q.reader.confirm(lease, q.now_ms)
    for _ in range(8):
        q.broker.tick(q.now_ms)
    assert not q.broker.gone_holders.holders
    if end != "deleted":
        assert not len(q.reader.leases)
        count = {"overdue": 3 * TICK_STEPS_MAX, "flushed": 2 * TICK_STEPS_MAX}
        assert len(q.ready) == count.get(end, 3 * TICK_STEPS_MAX - 5)


def test_a_new_queue_gets_the_log_that_its_server_makes_and_recovery_its_own() -> None:
    q = make_queue()
    assert not isinstance(q.queue.log, MemoryLog)
    assert q.queue.log is q.reader.log
    assert isinstance(q.broker.fresh(b"other", 1, 0).log, MemoryLog)
    assert b"other" not in q.broker.queues


def test_next_due_is_the_earliest_of_leases_expiries_waits_and_ages() -> None:
    q = make_queue(lease_ms=4000, max_queue_age_ms=9000)
    assert q.broker.next_due() == 9000
    q.put(b"1")
    q.open()
    assert q.broker.next_due() == 4000
    q.put(b"2", expires_ms=WALL_MS + 3000)
    assert q.broker.next_due() == 3000
    put_in(q, b"other", b"3")
    q.broker.wait(Want.OPEN, b"absent", q.who("bert"), False, "bert", 2000)
    assert q.broker.next_due() == 2000


def test_a_tick_takes_a_bounded_number_of_steps() -> None:
    q = make_queue()
    for _ in range(TICK_STEPS_MAX + 200):
        q.wait("anna", 10)
    q.now_ms = 10
    q.broker.tick(10)
    assert len(q.answers()) == TICK_STEPS_MAX
    q.broker.tick(10)
    assert len(q.answers()) == 200


def test_all_queues_share_the_steps_of_a_tick() -> None:
    q = make_queue()
    for number in range(5):
        put_in(q, b"%d" % number, *[b"old"] * TICK_STEPS_MAX, expires_ms=WALL_MS + 10)
    q.broker.tick(10)
    left = sum(queue.reader.ready.count for queue in q.broker.queues.values())
    assert 4 * TICK_STEPS_MAX <= left < 5 * TICK_STEPS_MAX


def test_a_queue_with_much_to_do_does_not_hold_up_the_others() -> None:
    q = make_queue(lease_ms=100)
    q.put(*[b"old"] * (10 * TICK_STEPS_MAX), expires_ms=WALL_MS + 50)
    put_in(q, b"other", b"1")
    other = q.broker.queues[b"other"].reader
    other.open(q.who("anna"), 0)
    q.now_ms = 200
    q.broker.tick(200)
    assert q.reader.ready.count > 8 * TICK_STEPS_MAX
    q.broker.tick(200)
    assert other.ready.count == 1


def test_nothing_is_due_in_a_server_at_rest() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1")
    q.close(q.open())
    q.pass_time(1000)  # the alarm of the lease that ended early rings once
    assert q.broker.next_due() is None


