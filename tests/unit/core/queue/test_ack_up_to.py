"""`upto` goes a long way in steps; each is an `upto` of its own, in memory and in the log.

Promise upto-steps: random histories with other commands and restarts between any two steps, against
    one that takes a single step.
"""

from __future__ import annotations

from random import Random

import pytest

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.ready_list import Ready
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.queue import ack_up_to as upto
from kestrelpy.core.queue.ack_up_to import STEP_NUMBERS, AckUpTo
from kestrelpy.errors import ClientError
from tests.support.calls import counted
from tests.support.core_harness import CoreHarness, make_queue, state_after_a_restart
from tests.support.server_harness import ServerHarness

MANY = 3 * STEP_NUMBERS


def filled(count: int) -> CoreHarness:
    q = make_queue()
    q.put(*[b"x"] * count)
    return q


def test_a_long_way_is_gone_in_steps_that_look_at_a_bounded_number_of_items() -> None:
    q, looks = filled(MANY), list[int]()
    request = AckUpTo(q.queue, MANY)
    while not request.is_over:
        with counted(Ready, "at") as calls:
            request.step(0)
        looks.append(calls.count)
        assert len(q.reader.live) == MANY - len(looks) * STEP_NUMBERS == q.reader.ready.count
        assert q.reader.live_bytes == len(q.reader.live)
    assert looks == [STEP_NUMBERS] * 3


def test_numbers_of_nothing_take_no_steps() -> None:
    q = filled(MANY)
    AckUpTo(q.queue, MANY - 1).finish(0)
    q.put(b"x")
    request = AckUpTo(q.queue, MANY + 1)
    request.step(0)
    assert request.is_over
    assert not q.reader.live


def test_what_only_the_log_has_goes_in_one_step() -> None:
    q = filled(MANY).restarted()
    assert q.reader.ready.beyond == MANY
    request = AckUpTo(q.queue, MANY)
    request.step(0)
    assert request.is_over
    assert q.reader.ready.count == 0


def test_beyond_the_latest_nothing_is_changed() -> None:
    q = filled(3)
    with pytest.raises(ClientError, match="beyond the latest marker"):
        AckUpTo(q.queue, 4).finish(0)
    assert len(q.reader.live) == 3


def test_whoever_holds_an_item_is_refused_when_its_step_has_come() -> None:
    q = filled(MANY)
    first, token = q.open("anna"), q.open(lease_ms=1000)
    late = [q.open("bert") for _ in range(STEP_NUMBERS)][-1]
    request = AckUpTo(q.queue, MANY)
    request.step(0)
    assert first.holder.overdue == [q.reader]
    assert q.named(token.token) is None
    assert late in late.holder.leases, "its step is the next one"
    request.step(0)
    assert late not in late.holder.leases


def do_something(q: CoreHarness, random: Random) -> None:
    """Take one random step with delays, leases, dead letters and redriven items."""
    choice, leases = random.randrange(12), [*q.reader.leases]
    if choice <= 2:
        delay = random.choice((None, Delay(random.randrange(1, 90))))
        q.put(b"x" * random.randrange(4), delay=delay)
    elif choice <= 4:
        q.may_open(random.choice("ab"), lease_ms=random.choice((0, 40, 1000)))
    elif choice <= 6 and leases:
        lease, delay = random.choice(leases), random.choice((None, Delay(random.randrange(1, 90))))
        lease.owner.nack(lease, q.now_ms, b"abort", delay)
    elif choice == 7 and leases:
        q.bury(random.choice(leases))
    elif choice == 8:
        q.redrive(random.choice([*q.reader.dead.deaths, 1]))
    elif choice == 9:
        q.take()
    else:
        q.pass_time(random.randrange(40))


@pytest.mark.parametrize("seed", range(120))
def test_a_restart_between_two_steps_finds_the_queue_as_it_was(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so it does after the last one, whatever happened in between."""
    monkeypatch.setattr(upto, "STEP_NUMBERS", 3)
    random = Random(seed)
    q = make_queue(max_attempts=random.choice((None, 2)), lease_ms=None)
    for _ in range(3):
        for _ in range(random.randrange(60)):
            do_something(q, random)
        request = AckUpTo(q.queue, random.randrange(q.queue.last_number + 1))
        while not request.is_over:
            request.step(q.now_ms)
            before = state_after_a_restart(q.queue)
            assert state_after_a_restart(q.restarted().queue) == before
            for _ in range(random.randrange(3)):
                do_something(q, random)
    assert state_after_a_restart(q.restarted().queue) == state_after_a_restart(q.queue)


@pytest.mark.parametrize("seed", range(40))
def test_steps_leave_what_one_step_leaves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    for numbers in (3, STEP_NUMBERS):
        monkeypatch.setattr(upto, "STEP_NUMBERS", numbers)
        random = Random(seed)
        q = make_queue(lease_ms=None)
        for _ in range(150):
            do_something(q, random)
        AckUpTo(q.queue, random.randrange(q.queue.last_number + 1)).finish(q.now_ms)
        state = state_after_a_restart(q.queue)
        left.append({what: value for what, value in state.items() if what != "bytes"})
    assert left[0] == left[1]


@pytest.mark.parametrize("keys", [KeySettings(), KeySettings(matches_any=True)])
def test_the_keys_of_items_that_came_back_and_are_in_the_log_alone_are_free(
    keys: KeySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    monkeypatch.setattr("kestrelpy.core.subscription.ready_items._SLACK_BYTES", 0)
    q = make_queue(max_memory_bytes=4 << 10, max_attempts=None, lease_ms=None, keys=keys)
    for number in range(40):
        q.put(b"x", key=f"{number},{number + 100}")
    leases = [q.open() for _ in range(30)]
    while leases:
        q.reader.nack(leases.pop(), q.now_ms, b"abort")
    assert q.reader.ready.frontier < 20, "most are left to the log"
    q.put(b"late", key="25,125")
    AckUpTo(q.queue, 40).finish(q.now_ms)
    assert q.open().item.body == b"late"


KEYS = ("", "A", "B", "C", "A,B", "B,C", "A,B,C")


def do_something_with_keys(q: CoreHarness, random: Random) -> None:
    """Take a step as `do_something`, with items that wait for keys, some of them out of order."""
    if random.randrange(3):
        delay = random.choice((None, None, Delay(random.randrange(1, 30))))
        q.put(b"x" * random.randrange(4), delay=delay, key=random.choice(KEYS))
    do_something(q, random)


def all_served(q: CoreHarness) -> list[int]:
    """End all leases, take all that comes until nothing does; return the items in order."""
    for lease in [*q.reader.leases]:
        q.reader.confirm(lease, q.now_ms)
    q.pass_time(100)
    found = list[int]()
    while (lease := q.may_open()) is not None:
        found.append(lease.item.id)
        q.reader.confirm(lease, q.now_ms)
    return found


@pytest.mark.parametrize("seed", range(80))
def test_with_keys_steps_leave_what_one_step_leaves_and_all_of_it_is_served(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory and beyond it; with pairs, and with one of several values."""
    left, is_beyond = [], seed % 2 > 0
    if is_beyond:
        monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    for numbers in (4, STEP_NUMBERS):
        monkeypatch.setattr(upto, "STEP_NUMBERS", numbers)
        random = Random(seed)
        q = make_queue(
            lease_ms=None, max_memory_bytes=(1 << (10 if is_beyond else 20)), max_attempts=None,
            keys=KeySettings(matches_any=random.random() < 0.5),
        )  # fmt: skip
        for _ in range(120):
            do_something_with_keys(q, random)
        AckUpTo(q.queue, random.randrange(q.queue.last_number + 1)).finish(q.now_ms)
        there = {*q.reader.live} - {*q.reader.dead.ids}
        if not (is_beyond or q.reader.ready.disk_refs.count):
            state = state_after_a_restart(q.queue)
            assert state_after_a_restart(q.restarted().queue) == state
        served = all_served(q)
        assert {*served} <= there
        assert {*q.reader.live} == {*q.reader.dead.ids}, "nothing waits for what is gone"
        assert not q.reader.key_gate.keys.some(0, 1)
        left.append(served)
    assert left[0] == left[1]


def test_others_are_answered_between_two_steps_and_the_answer_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upto, "STEP_NUMBERS", 2)
    stage = ServerHarness()
    for _ in range(9):
        stage.say("eve", b"set jobs 0 0 1", b"x")
    steps, step = list[tuple[bytes, bytes]](), AckUpTo.step

    def seen(request: AckUpTo, now_ms: int) -> None:
        steps.append((stage.client("eve").take(), stage.client("bob").take()))
        stage.client("bob").conversation.feed(b"version\r\n", stage.now_ms)
        step(request, now_ms)

    monkeypatch.setattr(AckUpTo, "step", seen)
    assert stage.say("eve", b"delete jobs/upto=9") == b"DELETED\r\n"
    assert steps[0] == (b"", b"")
    assert steps[1:] == [(b"", b"VERSION 0.0.0\r\n")] * 4


def test_an_item_that_was_confirmed_in_the_hand_does_not_expire_later() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 9 1", b"1")
    stage.say("eve", b"set jobs 0 0 1", b"2")
    stage.say("bob", b"get jobs/open")
    assert stage.say("eve", b"delete jobs/upto=1") == b"DELETED\r\n"

    stage.pass_time(10_000)

    assert b"STAT queue_jobs_items 1\r\n" in stage.say("eve", b"stats jobs")
    assert stage.say("eve", b"get jobs") == b"VALUE jobs 0 1\r\n2\r\nEND\r\n"


def test_a_key_of_which_an_item_that_waited_had_a_part_is_free_when_that_goes_too() -> None:
    stage = ServerHarness()
    stage.set_queue(key_match="any")
    stage.say("anna", b"get jobs+a/peek")
    for key in (b"A,B", b"B,C", b"C,D", b"C"):
        assert stage.say("anna", b"set jobs/key=%b 0 0 3" % key, key[:3].ljust(3)) == b"STORED\r\n"
    assert b"A,B" in stage.say("anna", b"get jobs+a/open")
    assert stage.say("ben", b"get jobs+a/open") == b"END\r\n"
    stage.send("ben", b"get jobs+a/open/t=1s\r\n")
    assert stage.say("anna", b"delete jobs+a/upto=2") == b"DELETED\r\n"
    assert b"C,D" in stage.client("ben").take()
    assert stage.say("cleo", b"get jobs+a/open") == b"END\r\n"
    assert stage.say("ben", b"get jobs+a/close") == b"END\r\n"
    assert b"\r\nC  \r\n" in stage.say("cleo", b"get jobs+a/open")


def test_a_key_that_only_items_that_are_gone_had_is_free() -> None:
    stage = ServerHarness()
    stage.set_queue(key_match="any")
    stage.say("anna", b"get jobs+a/peek")
    for key in (b"A,B", b"B,C"):
        assert stage.say("anna", b"set jobs/key=%b 0 0 1" % key, b"x") == b"STORED\r\n"
    assert b"x" in stage.say("anna", b"get jobs+a/open")
    assert stage.say("ben", b"get jobs+a/peek") == b"END\r\n"
    assert stage.say("anna", b"delete jobs+a/upto=2") == b"DELETED\r\n"
    assert stage.say("anna", b"set jobs/key=C 0 0 1", b"y") == b"STORED\r\n"
    assert b"y" in stage.say("ben", b"get jobs+a/open")
