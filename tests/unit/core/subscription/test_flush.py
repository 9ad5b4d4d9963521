"""A flush, or a deletion, replaces whole structures: it does not look at one item after another.

Promise: slices.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.format.kinds import Kind
from kestrelpy.core.key_rule import KeySettings
from tests.support.calls import calls_of
from tests.support.core_harness import CoreHarness, make_queue
from tests.support.steps import Work

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


def leased_with_keys(q: CoreHarness, count: int) -> None:
    """Two items of each key: one is leased, the other waits for it."""
    for n in range(count):
        q.put(b"x", b"y", key=f"k{n},l{n}")
    for _ in range(count):
        q.open(lease_ms=1000)
    assert q.may_open() is None


STATES = [ready, leased, redelivered, dead, leased_dead, with_keys, leased_with_keys]
KEY_MATCHES = [False, True]  # any common value is a match


@pytest.mark.parametrize("state", STATES)
def test_a_flush_makes_no_calls_for_each_item(state: object) -> None:
    calls = []
    for count in (FEW, MANY):
        q = make_queue()
        assert callable(state)
        state(q, count)
        calls.append(calls_of(q.flush))
    assert calls[1] - calls[0] < CALLS_MORE_MAX


@pytest.mark.parametrize("matches_any", KEY_MATCHES)
def test_a_flush_takes_few_steps_for_many_leases_with_keys(
    matches_any: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.index.key_locks.SMALL", 50)
    steps = []
    for count in (FEW, MANY):
        q = make_queue(keys=KeySettings(matches_any=matches_any))
        leased_with_keys(q, count)
        with Work() as counted:
            q.flush()
        steps.append(counted.steps)
    assert steps[1] - steps[0] < 10 * CALLS_MORE_MAX


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


def test_a_lease_that_a_flush_leaves_keeps_its_key() -> None:
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
def test_the_ids_that_a_flush_needs_are_known_as_items_come_and_go(seed: int) -> None:
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


@pytest.mark.parametrize("matches_any", KEY_MATCHES)
@pytest.mark.parametrize("seed", range(20))
def test_after_a_flush_leases_have_their_keys_and_no_other_item_has_one(
    seed: int, matches_any: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the plain words: an item waits while one before it, leased or not, shares a value."""
    monkeypatch.setattr("kestrelpy.core.index.key_locks.SMALL", seed % 3)
    monkeypatch.setattr("kestrelpy.core.trash.SMALL", seed % 3)
    monkeypatch.setattr("kestrelpy.core.trash.FREED_MAX", 1 + seed % 2)
    random, q = Random(seed), make_queue(keys=KeySettings(matches_any=matches_any))
    keys: dict[int, set[str]] = {}  # of the items that are there, in their order

    def meets(one: set[str], other: set[str]) -> bool:
        return bool(one & other) if matches_any else one == other

    def is_free(id_: int) -> bool:
        return not any(meets(keys[id_], keys[i]) for i in keys if i < id_)

    for _ in range(200):
        leased = {lease.item.id: lease for lease in q.reader.leases}
        choice = random.randrange(10)
        if choice <= 2:
            words = random.sample("ABCDE", random.choice((1, 1, 2)))
            q.put(b"x", key=",".join(sorted(words)))
            keys[q.queue.last_number] = set(words)
        elif choice <= 5:
            free = [id_ for id_ in keys if id_ not in leased and is_free(id_)]
            lease = q.may_open(lease_ms=random.choice((0, 5000)))
            assert (lease.item.id if lease is not None else 0) == min(free, default=0)
        elif choice <= 7 and leased:
            lease = random.choice([*leased.values()])
            if random.random() < 0.5:
                q.close(lease)
                del keys[lease.item.id]
            else:
                q.abort(lease)
        elif choice == 8 and random.random() < 0.5:
            q.flush()
            keys = {id_: values for id_, values in keys.items() if id_ in leased}
        else:
            q.pass_time(random.randrange(3))
    while q.reader.leases:
        q.close(next(iter(q.reader.leases)))
    q.flush()
    q.pass_time(100)
    assert not len(q.reader.key_gate.keys)
