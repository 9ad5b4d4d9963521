"""Leases: an item is leased to one holder until the lease ends."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kestrelpy.core.index.leases import Holder, Lease, Leases
from kestrelpy.core.item import Item
from kestrelpy.core.subscription.state import TOKENS_RESERVED
from tests.support.core_harness import make_queue

HOLDER = Holder("anna")


def lease(number: int, deadline_ms: int | None) -> Lease:
    item = Item(number, number, b"", 0, 0, 0)
    return Lease(item, number, HOLDER, None, number, 0, 0, deadline_ms)


def ids(leases: list[Lease]) -> list[int]:
    return [each.item.id for each in leases]


def granted(*deadlines: int | None) -> tuple[Leases, list[Lease]]:
    leases, made = Leases(), [lease(n, due) for n, due in enumerate(deadlines, 1)]
    for each in made:
        leases.grant(each)
    return leases, made


# -- the table itself -------------------------------------------------------------------------


def test_leases_are_over_at_their_deadline_and_not_before() -> None:
    leases, _ = granted(10, 20, 30)
    assert leases.next_due() == 10
    assert ids(leases.over(9, 10)) == []
    assert ids(leases.over(20, 10)) == [1, 2]


def test_leases_without_an_end_are_never_over() -> None:
    leases, made = granted(None, None)
    assert leases.next_due() is None
    assert leases.over(1 << 60, 10) == []
    assert len(leases) == 2
    leases.end(made[0])
    assert 1 not in leases
    assert 2 in leases


def test_a_shorter_lease_granted_later_is_over_first() -> None:
    leases, _ = granted(100, 10, 50, 200)
    assert leases.next_due() == 10
    assert ids(leases.over(100, 10)) == [2, 3, 1]


def test_those_over_at_once_come_in_their_original_sequence() -> None:
    leases, made = granted(10, 10, 10, 10)
    leases.renew(made[1], 10)
    leases.renew(made[3], 10)
    assert ids(leases.over(10, 10)) == [1, 2, 3, 4]


def test_no_more_are_taken_than_asked_for_and_the_rest_stays() -> None:
    leases, made = granted(10, 20, 30, 40)
    leases.renew(made[3], 5)
    first = leases.over(100, 3)
    assert len(first) == 3
    for each in first:
        leases.end(each)
    assert len(leases) == 1
    assert ids(leases.over(100, 3)) == [({1, 2, 3, 4} - set(ids(first))).pop()]


def test_those_that_are_not_over_yet_are_not_looked_through() -> None:
    leases, _ = granted(*range(10, 1010))
    looked = []

    class Watched(dict[int, Lease]):
        def values(self) -> Any:
            for each in super().values():
                looked.append(each.item.id)
                yield each

    leases._granted.leases = Watched(leases._granted.leases)
    assert ids(leases.over(11, 10)) == [1, 2]
    assert looked == [1, 2, 3]


def test_a_renewed_lease_is_over_at_its_new_deadline_longer_or_shorter() -> None:
    leases, made = granted(50, 60)
    leases.renew(made[0], 90)
    leases.renew(made[1], 20)
    assert leases.next_due() == 20
    assert ids(leases.over(89, 10)) == [2]
    leases.end(made[1])
    assert ids(leases.over(90, 10)) == [1]


def test_an_ended_lease_leaves_its_holder() -> None:
    leases, made = granted(10, None)
    assert made[0] in HOLDER.leases
    for each in made:
        leases.end(each)
    assert not set(made) & set(HOLDER.leases)
    assert leases.next_due() is None


def test_long_leases_of_the_past_do_not_slow_down_short_ones_for_ever() -> None:
    leases, made = granted(1_000_000)
    leases.end(made[0])
    leases.grant(lease(2, 10))
    assert len(leases._timers) == 0  # in order again: no heap is needed


def test_leases_renewed_for_equally_long_need_no_heap_and_do_not_disturb_those_granted() -> None:
    leases, made = granted(10, 20, 30)
    for at_ms in (100, 200):
        for each in made:
            leases.renew(each, at_ms + each.place)
    leases.grant(lease(4, 40))
    assert len(leases._timers) == 0
    assert leases.next_due() == 40
    assert ids(leases.over(202, 10)) == [4, 1, 2]  # and the caller would end them
    leases.renew(made[0], 45)
    assert len(leases._timers) == 1
    assert leases.next_due() == 40


@pytest.mark.slow
def test_a_hundred_thousand_leases_leave_nothing_behind() -> None:
    leases = Leases()
    leases.grant(lease(0, 5))  # the first stays
    for number in range(1, 100_001):
        each = lease(number, 1_000_000 - number % 7)
        leases.grant(each)
        leases.renew(each, 2_000_000 + number % 5)
        leases.end(each)
    assert len(leases) == 1
    assert len(leases._timers._heap) <= 200


def test_any_mixture_is_over_in_sequence() -> None:
    for seed in range(40):
        random = Random(seed)
        leases, alive = Leases(), {}
        for number in range(1, 300):
            choice = random.randrange(4)
            if choice <= 1:
                due = random.choice([None, number * 10, random.randrange(3000)])
                alive[number] = lease(number, due)
                leases.grant(alive[number])
            elif choice == 2 and alive:
                leases.end(alive.pop(random.choice(list(alive))))
            elif alive:
                leases.renew(alive[random.choice(list(alive))], random.randrange(3000))
            due_times = [e.deadline_ms for e in alive.values() if e.deadline_ms is not None]
            assert leases.next_due() == min(due_times, default=None), f"seed {seed}"
            assert {e.item.id for e in leases} == set(alive), f"seed {seed}"
            assert len(leases) == len(alive), f"seed {seed}"
        ending = [e for e in alive.values() if e.deadline_ms is not None and e.deadline_ms <= 1500]
        expected = sorted(ending, key=lambda e: (e.deadline_ms, e.place))
        assert leases.over(1500, 1000) == expected, f"seed {seed}"
        HOLDER.leases.clear()


# -- leases of the items of a queue -----------------------------------------------------------


def test_a_lease_ends_without_any_traffic() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1")
    q.open("anna")
    q.pass_time(999)
    assert q.leased == [b"1"]
    q.pass_time(1)
    assert (q.leased, q.ready) == ([], [b"1"])
    assert q.story == "put 1 1, returned 1 attempts 1 lease"


def test_each_lease_ends_in_its_time_be_it_that_an_item_expires_later() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1", b"2")
    q.put(b"3", expires_ms=q.unix_ms + 5000)
    q.open()
    q.pass_time(500)
    q.open()
    q.pass_time(500)
    assert q.broker.next_due() == 1500
    q.pass_time(500)
    assert q.ready == [b"1", b"2", b"3"]


def test_the_end_of_a_lease_is_marked_at_its_holder() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1")
    q.open("anna")
    q.pass_time(1000)
    assert q.who("anna").overdue == [q.reader]
    assert not q.who("anna").leases


def test_a_touched_lease_lasts_longer() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1")
    lease = q.open()
    q.pass_time(900)
    q.touch(lease, 2000)
    q.pass_time(1999)
    assert q.leased == [b"1"]
    q.pass_time(1)
    assert q.ready == [b"1"]


def test_a_lease_touched_for_a_shorter_time_ends_sooner() -> None:
    q = make_queue(lease_ms=60_000)
    q.put(b"1")
    q.touch(q.open(), 1000)
    assert q.broker.next_due() == 1000
    q.pass_time(1000)
    assert q.ready == [b"1"]


def test_without_a_lease_an_item_stays_open_until_hang_up() -> None:
    q = make_queue(lease_ms=None)
    q.put(b"1")
    q.open("anna")
    assert q.broker.next_due() is None
    q.pass_time(1 << 40)
    assert q.leased == [b"1"]
    q.hang_up("anna")
    assert q.ready == [b"1"]


def test_a_lease_without_an_end_gets_one_by_touch() -> None:
    q = make_queue(lease_ms=None)
    q.put(b"1")
    q.touch(q.open(), 500)
    q.pass_time(500)
    assert q.ready == [b"1"]


def test_a_reload_changes_the_leases_that_come_and_not_those_in_flight() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1", b"2", b"3")
    q.open("anna")
    q.reload(lease_ms=100)
    q.open("bert")
    q.reload(lease_ms=5000)
    q.open("carl")
    q.pass_time(100)
    assert q.leased == [b"1", b"3"]
    q.pass_time(900)
    assert q.leased == [b"3"]
    q.pass_time(4000)
    assert q.ready == [b"1", b"2", b"3"]


def test_a_clock_that_is_set_disturbs_no_lease() -> None:
    q = make_queue(lease_ms=1000)
    q.put(b"1")
    q.open()
    q.step_clock(86_400_000)
    assert q.leased == [b"1"]
    q.step_clock(-2 * 86_400_000)
    q.pass_time(1000)
    assert q.ready == [b"1"]


def test_a_token_is_never_issued_twice_not_even_after_a_restart() -> None:
    q = make_queue()
    q.put(b"1")
    issued = []
    for _ in range(3):
        for _ in range(50):
            lease = q.open()
            issued.append(lease.token)
            q.defer(lease)
        q = q.restarted()
    assert issued[0] == 1
    assert issued == sorted(set(issued))


def test_tokens_are_reserved_by_a_record_before_they_are_issued() -> None:
    q = make_queue()
    q.put(b"1")
    q.reader._next_token = q.reader._tokens_below = TOKENS_RESERVED - 1
    for _ in range(5):
        lease = q.open()
        below = [r.number for r in q.records if r.kind == 10]
        assert lease.token < below[-1]
        assert q.reader.tokens_lsn == max(r.lsn for r in q.records if r.kind == 10)
        q.defer(lease)


def test_after_a_restart_from_a_checkpoint_alone_tokens_go_on_behind_those_issued() -> None:
    q = make_queue()
    q.put(b"1")
    token = q.open().token
    again = q.restarted([], q.queue.checkpoint())
    again.put(b"2")
    assert again.open().token > token
