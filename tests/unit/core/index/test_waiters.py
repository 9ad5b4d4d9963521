"""Consumers waiting are served strictly in the order they came.

Promise waiters: model, transcripts.
"""

from __future__ import annotations

from random import Random

import pytest

from kestrelpy.core.index.leases import Holder
from kestrelpy.core.index.waiters import Waiter, Waiters, Want
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.subscription.subscription import RESUMED_OBSERVERS_MAX
from tests.support.core_harness import NAME, CoreHarness, make_queue, no_queue


def waiter(name: str = "", dead: bool = False) -> Waiter:
    return Waiter(Want.OPEN, b"jobs", Holder(name), dead, name)


# -- the line itself --------------------------------------------------------------------------


def test_the_first_who_came_is_first_until_finished() -> None:
    line, first, second = Waiters(), waiter(), waiter()
    line.add(first)
    line.add(second)
    assert line.first() is first
    line.finish(first)
    assert line.first() is second
    line.finish(second)
    assert line.first() is None
    assert not line


def test_the_first_of_a_line_is_forgotten_when_it_gives_up() -> None:
    line, first = Waiters(), waiter()
    line.add(first)
    line.add(waiter())
    line.finish(first)
    assert first not in line._lines[False]


def test_finishing_twice_counts_once() -> None:
    line, first, second = Waiters(), waiter(), waiter()
    line.add(first)
    line.add(second)
    line.finish(second)
    line.finish(second)
    assert line.count == 1
    assert line.first() is first


def test_observers_who_gave_up_are_forgotten_while_others_still_wait() -> None:
    line = Waiters()
    stays = Waiter(Want.OBSERVE, b"jobs", Holder(""), False, "", after=7)
    line.add(stays)
    many = [Waiter(Want.OBSERVE, b"jobs", Holder(""), False, "", after=10 + n) for n in range(3000)]
    for each in many:
        line.add(each)
    for each in many:
        line.finish(each)

    assert line.observers_at_most < 1000
    assert line.first_after == 7


def test_few_observers_who_gave_up_are_not_cleared_out_one_by_one() -> None:
    line = Waiters()
    few = [Waiter(Want.OBSERVE, b"jobs", Holder(""), False, "", after=n) for n in range(10)]
    for each in few:
        line.add(each)
    for each in few[5:8]:
        line.finish(each)
    assert (line.count, line.observers_at_most) == (7, 10), "each would cost a look at all"
    assert line.take_observers(10, 10) == few[:5] + few[8:]


def test_who_waits_for_the_dead_stands_in_another_line() -> None:
    line, ready, dead = Waiters(), waiter(), waiter(dead=True)
    line.add(dead)
    line.add(ready)
    assert line.first() is ready
    assert line.first(dead=True) is dead
    assert line.count == 2


def test_taking_all_empties_both_lines() -> None:
    line, gone, first, second, dead = Waiters(), waiter(), waiter(), waiter(), waiter(dead=True)
    for each in (gone, first, second, dead):
        line.add(each)
    line.finish(gone)
    assert line.take_all() == [first, second, dead]
    assert line.count == 0
    assert line.first() is None


def test_giving_up_behind_a_patient_one_does_not_fill_the_memory() -> None:
    line, patient = Waiters(), waiter()
    line.add(patient)
    for _ in range(10_000):
        impatient = waiter()
        line.add(impatient)
        line.finish(impatient)
    assert len(line._lines[False]) <= 200
    assert line.first() is patient


def test_any_mixture_is_first_come_first_served() -> None:
    for seed in range(50):
        random = Random(seed)
        line, model = Waiters(), list[Waiter]()
        for _ in range(500):
            if not model or random.random() < 0.55:
                model.append(waiter())
                line.add(model[-1])
            else:
                line.finish(model.pop(random.randrange(len(model))))
            assert line.first() is (model[0] if model else None), f"seed {seed}"
            assert line.count == len(model), f"seed {seed}"


# -- waiting for a queue's items --------------------------------------------------------------


def test_clients_that_wait_are_served_first_come_first() -> None:
    q = make_queue()
    for who in ("anna", "bert", "carl"):
        q.wait(who)
    q.put(b"1", b"2")
    assert q.answers() == [("anna", b"1"), ("bert", b"2")]
    q.put(b"3")
    assert q.answers() == [("carl", b"3")]


def test_nobody_overtakes_who_waits() -> None:
    q = make_queue(max_leased=1)
    q.put(b"1", b"2")
    held = q.open("anna")
    q.wait("bert")
    q.close(held)
    assert q.may_open("carl") is None
    assert q.answers() == [("bert", b"2")]


def test_a_waiting_plain_get_takes_the_item_for_good() -> None:
    q = make_queue()
    waiting = q.wait("anna", want=Want.TAKE)
    q.put(b"1")
    assert q.answers() == [("anna", b"1")]
    assert (q.ready, q.leased, q.story) == ([], [], "put 1 1, done 1")
    assert waiting.done_lsn == len(q.records)


def test_a_waiting_peek_is_shown_the_item_and_leaves_it_to_the_next() -> None:
    q = make_queue()
    for who, want in (("anna", Want.PEEK), ("bert", Want.PEEK), ("carl", Want.OPEN)):
        q.wait(who, want=want)
    q.put(b"1")
    assert q.answers() == [("anna", b"1"), ("bert", b"1"), ("carl", b"1")]
    assert q.leased == [b"1"]


def test_a_peek_that_came_later_is_served_later() -> None:
    q = make_queue()
    q.wait("anna", want=Want.OPEN)
    q.wait("bert", want=Want.PEEK)
    q.put(b"1")
    assert q.answers() == [("anna", b"1")]
    q.put(b"2")
    assert q.answers() == [("bert", b"2")]
    assert q.ready == [b"2"]


def test_what_is_given_back_goes_to_who_waits() -> None:
    q = make_queue()
    q.put(b"1")
    held = q.open("anna")
    q.wait("bert")
    q.abort(held)
    assert q.answers() == [("bert", b"1")]


def test_a_wait_ends_when_its_time_is_over() -> None:
    q = make_queue()
    q.wait("anna", 300)
    q.wait("bert", 200)
    q.pass_time(199)
    assert q.answers() == []
    q.pass_time(1)
    assert q.answers() == [("bert", None)]
    q.pass_time(100)
    assert q.answers() == [("anna", None)]
    q.put(b"1")
    assert q.answers() == []
    assert q.ready == [b"1"]


@pytest.mark.parametrize("how", ["hangs up", "times out"])
def test_a_peek_behind_one_who_may_not_have_it_is_shown_the_item_when_that_one(how: str) -> None:
    q = make_queue(max_leased=1)
    q.put(b"1")
    q.open("anna")
    first = q.wait("bert", 100)
    q.wait("carl", 200, want=Want.PEEK)
    q.put(b"2")
    q.pass_time(10)
    assert q.answers() == []  # strictly in the order they came
    if how == "hangs up":
        q.broker.give_up(first)
        q.pass_time(0)
        assert q.answers() == [("carl", b"2")]
    else:
        q.pass_time(90)
        assert q.answers() == [("bert", None), ("carl", b"2")]


def test_who_hung_up_is_passed_over() -> None:
    q = make_queue()
    gone = q.wait("anna")
    q.wait("bert")
    q.broker.give_up(gone)
    q.put(b"1")
    assert q.answers() == [("bert", b"1")]
    assert q.broker.next_due() is not None  # the lease; the waits have left nothing behind
    q.hang_up("bert")
    assert q.ready == [b"1"]


def test_who_hangs_up_after_being_served_gives_the_item_back() -> None:
    q = make_queue()
    served = q.wait("anna")
    q.put(b"1")
    q.broker.give_up(served)
    q.hang_up("anna")
    assert q.ready == [b"1"]


def test_who_was_served_is_answered_once_even_if_the_time_is_over_in_that_turn() -> None:
    q = make_queue()
    q.wait("anna", 100)
    q.now_ms = 100
    q.put(b"1")
    q.broker.tick(100)
    assert q.answers() == [("anna", b"1")]


def test_who_waits_for_a_queue_that_does_not_exist_is_served_when_it_comes_to_be() -> None:
    q = no_queue()
    q.wait("anna")
    q.wait("bert")
    q.put(b"1")
    q.put(b"2")
    assert q.answers() == [("anna", b"1"), ("bert", b"2")]


def test_waiting_creates_no_queue_and_leaves_nothing_behind() -> None:
    q = no_queue()
    q.wait("anna", 100)
    q.broker.give_up(q.wait("bert"))
    q.pass_time(100)
    assert q.answers() == [("anna", None)]
    assert (len(q.broker.queues), len(q.broker._absent)) == (0, 0)


def test_deleting_a_queue_answers_who_waits_with_nothing() -> None:
    q = make_queue()
    for who in ("anna", "bert"):
        q.wait(who)
    q.wait("carl", dead=True)
    q.delete()
    assert q.answers() == [("anna", None), ("bert", None), ("carl", None)]
    assert q.broker.next_due() is None


def test_a_waiter_for_the_dead_is_served_when_an_item_dies() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1")
    q.wait("bert", dead=True)
    q.abort(q.open("anna"))
    assert q.answers() == [("bert", b"1")]


@pytest.mark.parametrize("want", [Want.OPEN, Want.TAKE, Want.PEEK])
def test_a_wait_is_not_answered_with_what_has_expired(want: Want) -> None:
    q = make_queue()
    q.wait("anna", want=want)
    q.put(b"gone", expires_ms=q.unix_ms)
    assert q.answers() == []
    q.put(b"there")
    assert q.answers() == [("anna", b"there")]


def test_no_client_gets_an_empty_answer_while_expired_items_hide_a_live_one() -> None:
    q = make_queue()
    q.put(*[b"old"] * 5000, expires_ms=q.unix_ms + 10)
    q.put(b"live")
    q.now_ms = 10
    assert q.may_open("anna") is None  # one call passes over a bounded number
    q.wait("anna", 0)
    for _ in range(20):
        q.broker.tick(q.now_ms)
        q.now_ms += 1
    assert q.answers() == [("anna", b"live")]


# -- a crowd of observers ---------------------------------------------------------------------

CROWD = 5 * RESUMED_OBSERVERS_MAX


def observers(q: CoreHarness, count: int, wait_ms: int = 60_000) -> list[Waiter]:
    return [
        q.broker.wait(
            Want.OBSERVE, NAME, q.who("dora"), False, n, q.now_ms + wait_ms, q.queue.last_number
        )
        for n in range(count)
    ]


def notified(q: CoreHarness) -> list[object]:
    """Return the callers that were notified of an item in this turn."""
    woken = q.broker.take_to_resume()
    assert all(each.owner is q.reader for each in woken)
    return [each.caller for each in woken]


def store(q: CoreHarness) -> None:
    log = q.queue.log
    assert isinstance(log, JournalLog)
    log.item_stored = q.queue.last_number


def test_a_few_observers_are_notified_at_once() -> None:
    q = make_queue()
    q.put(b"1")
    observers(q, RESUMED_OBSERVERS_MAX)
    q.put(b"2")
    assert notified(q) == [*range(RESUMED_OBSERVERS_MAX)]


def test_a_crowd_of_observers_is_notified_in_slices_when_the_item_is_stored() -> None:
    q = make_queue()
    q.put(b"1")
    observers(q, CROWD)
    q.put(b"2")
    assert notified(q) == []
    q.pass_time(5)
    assert notified(q) == []

    store(q)
    slices = []
    for _ in range(20):
        q.now_ms += 1
        q.broker.tick(q.now_ms)
        slices.append(notified(q))
    assert max(map(len, slices)) <= RESUMED_OBSERVERS_MAX
    assert [who for each in slices for who in each] == [*range(CROWD)]


def test_many_puts_in_one_turn_tell_no_more_observers_than_one() -> None:
    q = make_queue()
    q.put(b"1")
    observers(q, CROWD)
    log = q.queue.log
    assert isinstance(log, JournalLog)
    log.item_stored = 100
    for n in range(20):
        q.put(b"%d" % n)
    assert len(notified(q)) == RESUMED_OBSERVERS_MAX


def test_an_observer_whose_time_is_over_before_its_slice_is_notified_all_the_same() -> None:
    q = make_queue()
    q.put(b"1")
    crowd = observers(q, CROWD, wait_ms=1)
    q.put(b"2")
    q.pass_time(1)
    assert {each.owner for each in crowd} == {q.reader}
    assert len(notified(q)) == CROWD


@pytest.mark.parametrize("want", [Want.OPEN, Want.OBSERVE])
def test_a_client_that_gave_up_is_forgotten_when_nobody_waits_any_more(want: Want) -> None:
    q = make_queue()
    first, second, third = (q.wait(name, want=want) for name in ("anna", "bert", "carl"))
    for waiter in (second, third, first):
        q.broker.give_up(waiter)
    assert [referrers_of(waiter, q.reader.waiters) for waiter in (first, second, third)] == [0] * 3
    assert q.reader.waiters.first() is None


def test_an_observer_who_gave_up_is_forgotten_when_the_last_one_is_notified() -> None:
    line = Waiters()
    near, far = (
        Waiter(Want.OBSERVE, b"jobs", Holder(""), False, None, after) for after in (3, 9)
    )
    line.add(near)
    line.add(far)
    line.finish(far)
    assert line.take_observers(5, 10) == [near]
    assert (line.count, line.observers_at_most) == (0, 0)


def referrers_of(waiter: Waiter, waiters: Waiters) -> int:
    """Return how often the lines and the observers refer to this waiter."""
    return sum(line.count(waiter) for line in waiters._lines) + sum(
        each[2] is waiter for each in waiters._observers
    )
