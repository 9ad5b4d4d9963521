"""Dead letters: items whose attempts are used up, in the order in which they died."""

from __future__ import annotations

import pytest

from journal.format.subscription_state import DeadEntry
from kestrelpy.core.index.dead_letters import MEMORY_BYTES_MAX, PASSED_ENTRIES_MAX, DeadLetters
from kestrelpy.core.index.leases import Holder
from kestrelpy.core.item import Item
from kestrelpy.core.queue.admin import Admin
from tests.support.core_harness import WALL_MS, CoreHarness, make_queue
from tests.support.steps import Work


def with_dead(*bodies: bytes) -> CoreHarness:
    q = make_queue(max_attempts=1)
    for body in bodies:
        q.put(body)
        q.abort(q.open())
    return q


def test_the_last_allowed_attempt_may_finish() -> None:
    q = make_queue(max_attempts=2)
    q.put(b"1")
    q.abort(q.open())
    lease = q.open()
    assert lease.attempts == 1
    q.close(lease)
    assert (q.ready, q.dead) == ([], [])


def test_an_item_whose_attempts_are_used_up_is_dead() -> None:
    q = make_queue(max_attempts=2)
    q.put(b"1")
    q.abort(q.open())
    assert q.dead == []
    q.pass_time(70)
    q.abort(q.open())
    assert (q.ready, q.dead) == ([], [b"1"])
    assert q.reader.dead.deaths == {1: DeadEntry(1, 1, 2, b"abort", WALL_MS + 70, 1)}


@pytest.mark.parametrize("ending", ["abort", "hangup", "lease"])
def test_abort_hang_up_and_the_end_of_a_lease_count_as_attempts(ending: str) -> None:
    q = make_queue(max_attempts=1, lease_ms=1000)
    q.put(b"1")
    lease = q.open("anna")
    if ending == "abort":
        q.abort(lease)
    elif ending == "hangup":
        q.hang_up("anna")
    else:
        q.pass_time(1000)
    assert q.dead == [b"1"]
    assert q.reader.dead.deaths[1].reason == ending.encode()


def test_defer_counts_no_attempt_and_kills_nobody() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1")
    for _ in range(5):
        lease = q.open()
        assert lease.attempts == 0
        q.defer(lease)
    q.reload(max_attempts=None)
    q.abort(q.open())
    q.reload(max_attempts=1)
    q.defer(q.open())
    assert (q.ready, q.dead) == ([b"1"], [])


def test_the_dead_stand_oldest_death_first() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", b"2", b"3")
    first, second, third = q.open("a"), q.open("b"), q.open("c")
    for lease in (second, third, first):
        q.abort(lease)
    assert q.dead == [b"2", b"3", b"1"]
    assert q.peek(dead=True) == b"2"


def test_a_dead_letter_is_leased_with_its_attempts() -> None:
    q = with_dead(b"1", b"2")
    lease = q.open("anna", dead=True)
    assert (lease.item.body, lease.dead, lease.attempts) == (b"1", True, 1)
    assert q.dead == [b"2"]
    assert q.may_open("anna") is None
    assert len(q.reader.dead) == 2


def test_an_item_that_dies_again_stands_behind_those_that_died_meanwhile() -> None:
    q = with_dead(b"1", b"2", b"3")
    assert q.redrive(1)
    q.abort(q.open())
    assert q.dead == [b"2", b"3", b"1"]
    assert [q.open(dead=True).item.body for _ in range(3)] == [b"2", b"3", b"1"]


def test_an_item_that_died_twice_and_is_leased_holds_up_nobody() -> None:
    q = with_dead(b"1")
    assert q.redrive(1)
    q.abort(q.open())
    q.abort(q.open("anna", dead=True))
    q.open("anna", dead=True)
    q.put(b"2")
    q.abort(q.open())
    assert q.take("bert", dead=True) == b"2"


def test_a_dead_item_given_back_keeps_its_place_and_its_attempts() -> None:
    q = with_dead(b"1", b"2")
    first, second = q.open("a", dead=True), q.open("b", dead=True)
    q.abort(second)
    q.abort(first)
    assert q.dead == [b"1", b"2"]
    assert q.open(dead=True).attempts == 1


def test_a_lease_of_a_dead_item_ends_like_any_other() -> None:
    q = with_dead(b"1")
    q.reload(lease_ms=1000)
    q.open("anna", dead=True)
    q.pass_time(1000)
    assert (q.dead, q.ready) == ([b"1"], [])
    assert q.who("anna").overdue == [q.reader]


def test_what_has_died_again_stands_once_in_the_line_and_behind_the_others() -> None:
    q = with_dead(b"1", b"2")
    assert Admin(q.queue).redrive(1, q.now_ms) is not None
    q.abort(q.open())
    assert [q.open(dead=True).item.body for _ in range(2)] == [b"2", b"1"]
    assert q.reader.dead.missing == 0, "no body has to be read back"
    assert q.reader.open(Holder("eve"), q.now_ms, dead=True) is None


def test_a_dead_item_that_is_confirmed_is_gone() -> None:
    q = with_dead(b"1")
    q.close(q.open(dead=True))
    assert (q.dead, len(q.reader.dead), q.queue.is_empty) == ([], 0, True)


def test_nothing_expires_in_the_dead_line() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", expires_ms=WALL_MS + 1000)
    q.abort(q.open())
    q.pass_time(5000)
    lease = q.open(dead=True)
    q.pass_time(5000)
    q.abort(lease)
    q.pass_time(5000)
    assert q.dead == [b"1"]
    assert q.take(dead=True) == b"1"


def test_an_item_that_dies_of_its_last_attempt_dies_although_it_has_expired() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", expires_ms=WALL_MS + 1000)
    lease = q.open()
    q.pass_time(5000)
    q.abort(lease)
    q.pass_time(0)
    assert (q.dead, q.reader.counters.expired) == ([b"1"], 0)


def test_a_lower_limit_counts_from_the_next_end_of_a_delivery() -> None:
    q = make_queue(max_attempts=100)
    q.put(b"1")
    for _ in range(5):
        q.abort(q.open())
    q.reload(max_attempts=3)
    assert q.ready == [b"1"]
    q.abort(q.open())
    assert q.dead == [b"1"]


def test_burying_and_forgetting_leave_nothing_behind() -> None:
    line, item = DeadLetters(), Item(1, 1, b"body", 0, 0, 0)
    line.add(1, 3, b"abort", 99, 4)
    line.store(item, always=False)
    assert (len(line), line.count, line.bytes) == (1, 1, 4)
    assert line.pop() == (1, item)
    assert (len(line), line.count, line.bytes) == (1, 0, 4)
    line.forget(1, is_leased=True)
    assert (len(line), line.count, line.bytes, line.first()) == (0, 0, 0, None)
    assert not line._items
    assert not line._held_bytes


def test_the_body_of_one_that_is_purged_makes_room_for_others() -> None:
    line = DeadLetters()
    large = bytes(MEMORY_BYTES_MAX * 2 // 3)
    for id_ in (1, 2, 3):
        line.add(id_, 1, b"abort", 99, len(large))
    line.store(Item(1, 1, large, 0, 0, 0), always=False)
    line.forget(1, is_leased=False)
    line.store(Item(2, 2, b"x", 0, 0, 0), always=False)

    line.store(Item(3, 3, large, 0, 0, 0), always=False)

    assert line.at(3) is not None


def test_those_that_went_from_behind_one_that_stays_cost_nothing() -> None:
    line = DeadLetters()
    for id_ in range(1, PASSED_ENTRIES_MAX * 4):
        line.add(id_, 1, b"abort", 99, 1)
        line.store(Item(id_, id_, b"x", 0, 0, 0), always=False)
        if id_ % 100 != 1:
            line.forget(id_, is_leased=False)
        elif id_ > 1:
            line.take(id_)  # it is away, and its entry in the line
    stay = list(line.deaths)
    assert len(line._line) <= 2 * len(stay) + PASSED_ENTRIES_MAX

    for id_ in stay[1:]:
        line.put_back(Item(id_, id_, b"x", 0, 0, 0), always=True)
    assert [pop_id(line) for _ in stay] == stay
    assert line.first() is None


@pytest.mark.parametrize("always", [False, True])
def test_bodies_of_what_was_given_back_stay_within_their_bounds_or_all(always: bool) -> None:
    line, size = DeadLetters(), MEMORY_BYTES_MAX // 4
    items = [Item(id_, id_, b"x" * size, 0, 0, 0) for id_ in range(1, 9)]
    for item in items:
        line.add(item.id, 1, b"abort", 99, size)
        line.store(item, always=True)
    for _ in items:
        line.pop()
    for item in items:
        line.put_back(item, always)
    assert sum(line.at(item.id) is not None for item in items) == (8 if always else 4)
    assert line.count == 8


def pop_id(line: DeadLetters) -> int:
    found = line.pop()
    assert found is not None
    return found[1].id


@pytest.mark.parametrize(
    ("most", "ends"), [(100, "at max_attempts = 100 it is dead"), (None, "max_attempts is none")]
)
def test_at_the_tenth_attempt_one_line_names_item_and_setting(most: int | None, ends: str) -> None:
    q = make_queue(max_attempts=most)
    q.put(b"0", b"1")
    for _ in range(10):
        lease = q.open()
        q.abort(lease)
        assert not (lease.attempts < 9 and q.reader.notes)
    for _ in range(5):
        q.defer(q.open())
        q.abort(q.open())
    assert q.reader.notes == [f"queue jobs: item 1 came back 10 times; {ends}"]


def test_when_the_last_of_the_dead_is_gone_none_is_left_in_the_line() -> None:
    dead = DeadLetters()
    for id_ in (1, 2, 3):
        dead.add(id_, 1, b"abort", 0, 1)
    for id_ in (2, 3, 1):
        dead.forget(id_, False)
    assert dead._line == []
    dead.add(2, 1, b"abort", 0, 1)
    assert dead.missing == 2


@pytest.mark.parametrize("in_flight", [1, 100])
def test_after_thousands_have_left_the_front_is_found_at_once(in_flight: int) -> None:
    dead = DeadLetters()
    for id_ in range(1, 3001):
        dead.add(id_, 1, b"why", WALL_MS, 1)
    for id_ in range(1, 3000):
        dead.lease(id_)
        if id_ > in_flight:
            dead.forget(id_ - in_flight, True)
    with Work() as counted:
        assert dead.missing == 3000
    assert counted.steps < 30 * in_flight + 50
