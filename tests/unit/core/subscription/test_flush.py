"""A flush, or a deletion, replaces whole structures: it does not look at one item after another."""

from __future__ import annotations

from random import Random

import pytest

from journal.format.kinds import Kind
from tests.support.calls import calls_of
from tests.support.core_harness import CoreHarness, make_queue

FEW, MANY = 200, 4000
# Sets of ids go by pages of 4096, and a pile of trash is one step more.
CALLS_MORE_MAX = 200


def ready(q: CoreHarness, count: int) -> None:
    q.put(*[b"x"] * count)


def leased(q: CoreHarness, count: int) -> None:
    ready(q, count)
    for _ in range(count):
        q.open(lease_ms=1000)


def redelivered(q: CoreHarness, count: int) -> None:
    leased(q, count)
    for lease in [*q.reader.leases]:
        q.abort(lease)
    for _ in range(count):
        q.open(lease_ms=1000)


def dead(q: CoreHarness, count: int) -> None:
    ready(q, count)
    for _ in range(count):
        q.bury(q.open())


def leased_dead(q: CoreHarness, count: int) -> None:
    dead(q, count)
    for _ in range(count):
        q.open(dead=True, lease_ms=1000)


def with_keys(q: CoreHarness, count: int) -> None:
    for n in range(count):
        q.put(b"x", key=f"k{n}")
    assert q.open().item.id == 1


STATES = [ready, leased, redelivered, dead, leased_dead, with_keys]


@pytest.mark.parametrize("state", STATES)
def test_a_flush_makes_no_calls_for_each_item(state: object) -> None:
    calls = []
    for count in (FEW, MANY):
        q = make_queue()
        assert callable(state)
        state(q, count)
        calls.append(calls_of(q.flush))
    assert calls[1] - calls[0] < CALLS_MORE_MAX


@pytest.mark.parametrize("state", STATES)
def test_a_deletion_makes_no_calls_for_each_item(state: object) -> None:
    calls = []
    for count in (FEW, MANY):
        q = make_queue()
        assert callable(state)
        state(q, count)
        calls.append(calls_of(q.delete))
    assert calls[1] - calls[0] < CALLS_MORE_MAX


def test_what_stays_is_known_by_its_numbers_and_its_bytes() -> None:
    q = make_queue()
    q.put(b"dead", b"token", b"lent", b"dead and lent", b"ready")
    q.bury(q.open())
    q.open(lease_ms=1000)
    q.open()
    q.bury(q.open())
    q.open(dead=True, lease_ms=1000)
    q.flush()
    assert list(q.reader.live) == [1, 2, 3, 4]
    assert q.reader.live_bytes == len(b"dead" b"token" b"lent" b"dead and lent")
    record = next(r for r in q.records if r.kind == Kind.FLUSHED)
    assert [*memoryview(record.body).cast("Q")] == [2, 3], "the dead stay anyway"
    again = q.restarted().reader
    assert list(again.live) == [1, 2, 3, 4]
    assert again.live_bytes == q.reader.live_bytes
    assert again.leases.entries == q.reader.leases.entries


def test_a_lease_that_a_flush_spares_keeps_its_key() -> None:
    q = make_queue()
    for n in range(3):
        q.put(b"%d" % n, key=f"k{n}")
    lease = q.open(lease_ms=1000)
    q.flush()
    q.put(b"behind", key="k0")
    q.put(b"free", key="k1")
    assert q.take() == b"free"
    q.close(lease)
    assert q.take() == b"behind"


def test_whoever_held_an_item_of_a_deleted_queue_holds_nothing() -> None:
    q = make_queue()
    ready(q, 3000)
    leases = [q.open(lease_ms=1000) for _ in range(1500)]
    leases += [q.open() for _ in range(1500)]
    q.delete()
    assert not any(lease in lease.holder.leases for lease in leases)
    q.put(b"new")
    assert q.take() == b"new"
    q.hang_up("anna")


@pytest.mark.parametrize("seed", range(40))
def test_the_ids_that_a_flush_needs_are_kept_as_items_come_and_go(seed: int) -> None:
    random, q = Random(seed), make_queue(max_attempts=3, lease_ms=200)
    for _ in range(300):
        leases = [*q.reader.leases]
        choice = random.randrange(9)
        if choice <= 2:
            q.put(b"x" * random.randrange(4))
        elif choice <= 4:
            q.may_open(dead=random.random() < 0.3, lease_ms=random.choice((0, 50, 900)))
        elif choice == 5 and leases:
            random.choice((q.abort, q.close, q.bury))(random.choice(leases))
        elif choice == 6:
            q.redrive(random.choice([*q.reader.dead.deaths, 1]))
        elif choice == 7:
            q.pass_time(random.randrange(60))
        elif random.random() < 0.2:
            q.flush()
        if random.random() < 0.02:
            q = q.restarted()
        tokens = [each for each in q.reader.leases if each.by_token and not each.dead]
        assert list(q.reader.leases.token_ids) == sorted(each.item.id for each in tokens)
        assert q.reader.leases.token_bytes == sum(each.item.size for each in tokens)
        assert list(q.reader.dead.ids) == sorted(q.reader.dead.deaths)
