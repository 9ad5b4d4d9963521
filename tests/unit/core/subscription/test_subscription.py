"""Ready, leased and dead items, and every transition between the three."""

from __future__ import annotations

from itertools import permutations

import pytest

from kestrelpy.core.broker import TICK_STEPS_MAX
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.subscription.key_gate import SWEEP_ITEMS_MAX
from tests.support.core_harness import WALL_MS, make_queue

# -- leases and returns -----------------------------------------------------------------------


def test_an_aborted_item_is_the_next_one_fetched() -> None:
    q = make_queue()
    q.put(b"first", b"second")
    q.abort(q.open())
    assert q.open().item.body == b"first"
    assert q.story == "put 1 first, put 2 second, returned 1 attempts 1 abort"


def test_an_item_is_leased_to_one_holder_at_a_time() -> None:
    q = make_queue()
    q.put(b"1")
    q.open("anna")
    assert q.may_open("bert") is None
    assert q.take("carl") is None
    assert q.peek() is None


@pytest.mark.parametrize("ends", list(permutations(range(4))))
def test_several_open_items_come_back_in_their_original_sequence(ends: tuple[int, ...]) -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3", b"4", b"5")
    leases = [q.open() for _ in range(4)]
    for each in ends:
        q.abort(leases[each])
    assert q.ready == [b"1", b"2", b"3", b"4", b"5"]


def test_what_comes_back_stands_before_everything_younger_also_when_others_were_taken() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3", b"4")
    first, second = q.open(), q.open()
    assert q.take() == b"3"
    q.abort(second)
    assert q.take() == b"2"
    q.abort(first)
    assert q.ready == [b"1", b"4"]


def test_a_hang_up_gives_everything_back_in_its_original_sequence() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3")
    for _ in range(3):
        q.open("anna")
    q.hang_up("anna")
    assert q.ready == [b"1", b"2", b"3"]
    assert [q.open().attempts for _ in range(3)] == [1, 1, 1]


def test_who_waits_longest_gets_the_first_of_what_a_hang_up_gives_back() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    first = q.open("anna")
    q.open("bert")
    q.abort(first)
    q.open("bert")  # holds 2 and then 1
    q.wait("carl")
    q.wait("dora")
    q.hang_up("bert")
    assert q.answers() == [("carl", b"1"), ("dora", b"2")]


def test_who_waits_longest_gets_the_first_of_the_leases_that_end_together() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1", b"2")
    first = q.open("anna")
    q.open("bert")
    q.touch(first, 1500)
    q.wait("carl", 9000)
    q.wait("dora", 9000)
    q.now_ms = 2000  # the loop was held up: both are over
    q.pass_time(0)
    assert q.answers() == [("carl", b"1"), ("dora", b"2")]


def test_attempts_are_counted_up_to_each_delivery() -> None:
    q = make_queue()
    q.put(b"1")
    for attempts in range(5):
        lease = q.open()
        assert lease.attempts == attempts
        q.abort(lease)


def test_a_confirmed_item_is_done() -> None:
    q = make_queue()
    q.put(b"1")
    q.abort(q.open())
    q.close(q.open())
    assert (q.ready, q.leased, dict(q.reader.attempts.items())) == ([], [], {})
    assert q.story == "put 1 1, returned 1 attempts 1 abort, done 1"


def test_a_confirm_returns_the_record_to_wait_for() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    assert q.close(q.open()) == len(q.records)
    assert q.abort(q.open()) == len(q.records)


def test_a_peek_changes_nothing() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    assert q.peek() == q.peek() == b"1"
    assert q.story == "put 1 1, put 2 2"


# -- the limit of leases -----------------------------------------------------------------------


def test_no_more_are_leased_at_once_than_allowed() -> None:
    q = make_queue(max_leased=2)
    q.put(b"1", b"2", b"3")
    q.open("anna")
    held = q.open("bert")
    assert q.may_open("carl") is None
    assert q.take("carl") is None
    q.close(held)
    assert q.open("carl").item.body == b"3"


def test_with_one_lease_items_go_strictly_one_after_the_other() -> None:
    q = make_queue(max_leased=1)
    q.put(b"1", b"2", b"3")
    held = q.open("anna")
    q.wait("bert")
    q.wait("carl", want=Want.TAKE)
    q.wait("dora")
    q.put(b"4")
    assert q.answers() == []
    q.abort(held)
    assert q.answers() == [("bert", b"1")]
    q.hang_up("bert")
    assert q.answers() == [("carl", b"1"), ("dora", b"2")]
    q.close(next(iter(q.who("dora").leases)))
    assert q.take("anna") == b"3"
    assert q.take("anna") == b"4"


def test_the_end_of_a_lease_lets_the_next_one_in() -> None:
    q = make_queue(max_leased=1, lease_ms=100)
    q.put(b"1", b"2")
    q.open("anna")
    q.wait("bert")
    q.pass_time(100)
    assert q.answers() == [("bert", b"1")]


def test_a_reload_that_allows_more_serves_who_waits() -> None:
    q = make_queue(max_leased=1)
    q.put(b"1", b"2", b"3")
    q.open("anna")
    q.wait("bert")
    q.wait("carl")
    q.reload(max_leased=2)
    assert q.answers() == [("bert", b"2")]
    q.reload(max_leased=None)
    assert q.answers() == [("carl", b"3")]


def test_a_reload_that_allows_fewer_takes_nothing_away() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3")
    held = [q.open() for _ in range(2)]
    q.reload(max_leased=1)
    q.close(held[0])
    assert q.may_open() is None
    q.close(held[1])
    assert q.open().item.body == b"3"


# -- expiry ------------------------------------------------------------------------------------


def test_an_item_past_its_expiry_is_gone_without_any_traffic() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 1000)
    q.pass_time(999)
    assert q.ready == [b"1"]
    q.pass_time(1)
    assert q.ready == []
    assert q.story.endswith(f"expires_ms={WALL_MS + 1000}, expired 1")


def test_an_expired_item_is_not_handed_out_even_if_nobody_cleared_it_away() -> None:
    q = make_queue()
    q.put(b"old", expires_ms=WALL_MS + 1000)
    q.put(b"new")
    q.now_ms = 1000
    assert q.peek() == b"new"
    assert q.open().item.body == b"new"


def test_an_item_in_the_middle_expires_and_is_not_counted_any_more() -> None:
    q = make_queue()
    q.put(b"1")
    q.put(b"22", expires_ms=WALL_MS + 1000)
    q.put(b"333")
    q.pass_time(1000)
    assert q.ready == [b"1", b"333"]
    assert (q.reader.ready.count, q.reader.ready.bytes) == (2, 4)


def test_an_open_item_does_not_expire_but_at_give_back_it_may() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 1000)
    lease = q.open()
    q.pass_time(5000)
    assert q.leased == [b"1"]
    q.abort(lease)
    q.pass_time(0)
    assert (q.ready, q.leased, dict(q.reader.attempts.items())) == ([], [], {})
    assert q.reader.counters.expired == 1


def test_an_open_item_past_its_expiry_can_be_confirmed() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 1000)
    lease = q.open()
    q.pass_time(5000)
    q.close(lease)
    assert q.story.endswith("done 1")


def test_an_item_given_back_before_its_expiry_still_expires() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 1000)
    q.abort(q.open())
    q.pass_time(999)
    assert q.ready == [b"1"]
    q.pass_time(1)
    assert q.ready == []


@pytest.mark.parametrize("count", [SWEEP_ITEMS_MAX - 1, SWEEP_ITEMS_MAX, 3 * SWEEP_ITEMS_MAX])
def test_a_head_of_many_expired_items_is_passed_over_in_bounded_steps(count: int) -> None:
    q = make_queue()
    q.put(*[b"old"] * count, expires_ms=WALL_MS + 10)
    q.put(b"live")
    q.now_ms = 10
    calls = 1
    while (lease := q.may_open()) is None:
        calls += 1
        assert calls <= 5
        assert q.reader.is_busy(10)
    assert lease.item.body == b"live"
    assert q.reader.counters.expired == count
    assert calls == -(-count // SWEEP_ITEMS_MAX)


def test_a_peek_passes_over_expired_items_in_bounded_steps() -> None:
    q = make_queue()
    q.put(*[b"old"] * (2 * SWEEP_ITEMS_MAX), expires_ms=WALL_MS + 10)
    q.put(b"live")
    q.now_ms = 10
    assert q.peek() is None
    assert q.reader.is_busy(10)
    assert q.peek() == b"live"
    assert not q.reader.is_busy(10)


def test_who_waits_behind_expired_items_is_served_whoever_clears_them_away() -> None:
    q = make_queue()
    q.put(*[b"old"] * (SWEEP_ITEMS_MAX + 1), expires_ms=WALL_MS + 10)
    q.put(b"live")
    q.now_ms = 10
    assert q.may_open("anna") is None
    q.wait("anna", 5000)
    assert q.peek() == b"live"
    q.pass_time(0)
    assert q.answers() == [("anna", b"live")]


def test_a_tick_clears_away_a_bounded_number_and_asks_to_come_back() -> None:
    q = make_queue()
    q.put(*[b"old"] * (2 * TICK_STEPS_MAX), expires_ms=WALL_MS + 10)
    q.now_ms = 10
    q.broker.tick(10)
    left = q.reader.ready.count
    assert TICK_STEPS_MAX <= left < 2 * TICK_STEPS_MAX
    assert q.broker.next_due() == 11
    q.pass_time(5)
    assert q.ready == []


def test_a_sweep_on_request_takes_at_most_so_many_steps() -> None:
    q = make_queue()
    q.put(*[b"old"] * 25, expires_ms=WALL_MS + 10)
    assert q.reader.sweep(9, 10) == 0
    assert [q.reader.sweep(10, 10) for _ in range(4)] == [10, 10, 5, 0]


def test_attempts_and_expiries_of_what_is_gone_are_forgotten() -> None:
    q = make_queue(max_attempts=2, max_items=5, discard_old_when_full=True)
    for ending in ("expire", "flush", "discard", "die", "take", "close"):
        q.put(ending.encode(), expires_ms=q.unix_ms + 1000)
        q.abort(q.open())
        if ending == "expire":
            q.pass_time(1000)
        elif ending == "flush":
            q.flush()
        elif ending == "discard":
            q.reload(max_items=1)
            q.put(b"other")
            q.take()
        elif ending == "die":
            q.abort(q.open())
        elif ending == "take":
            q.take()
        else:
            q.close(q.open())
        assert not q.reader.attempts, ending
        assert not q.reader.watch.watched, ending
        assert q.ready == [], ending


# -- flush -------------------------------------------------------------------------------------


def test_a_flush_empties_what_is_ready_and_keeps_what_is_open_or_dead() -> None:
    q = make_queue(max_attempts=2)
    q.put(b"dead", b"open", b"ready")
    q.abort(q.open())
    q.abort(q.open())
    held = q.open()
    q.flush()
    assert (q.ready, q.leased, q.dead) == ([], [b"open"], [b"dead"])
    assert q.records[-1].item == 3
    assert q.story.endswith("flushed 3 sparing 2")
    q.abort(held)
    q.put(b"later")
    assert q.ready == [b"open", b"later"]


def test_after_a_failure_of_the_journal_nobody_is_served() -> None:
    q = make_queue(max_leased=1)
    q.put(b"1", b"2")
    held = q.open("anna")
    q.wait("bert")
    q.queue.log.failure = OSError("disk on fire")
    q.close(held)
    q.pass_time(10)
    assert q.answers() == []
    assert q.peek() == b"2"
