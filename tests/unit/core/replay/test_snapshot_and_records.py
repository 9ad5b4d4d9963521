"""A start from a snapshot and the records after it finds what one from all records finds.

    records  1 2 3 4 5 6 7 8 9        what a snapshot of any moment says of an item is undone by
                   ^                  each record that comes later, as it is of a put
                   snapshot: 5 to 9
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, replace
from random import Random
from typing import Any, Final

import pytest

from journal.format.record import Record
from journal.format.subscription_state import ReaderState
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.job import QueueCopy
from journal.snapshot.snapshot import Snapshot
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.replay.replay import Replay
from tests.golden.layout import IDENTITY, SHORT_IDENTITY
from tests.support.core_harness import (
    NAME,
    CoreHarness,
    PendingJournal,
    PendingStore,
    make_queue,
    state_after_a_restart,
)

LIVES: Final = 20
STEPS: Final = 60


def do_something(q: CoreHarness, random: Random) -> None:
    """Take one random step with keys and delays."""
    who = random.choice(("anna", "bert"))
    leases = [*q.who(who).leases, *q.reader.token_holder.leases]
    lease = random.choice(leases) if leases else None
    delay = Delay(random.randrange(1, 200)) if random.random() < 0.5 else None
    choice = random.randrange(16)
    if choice <= 3:
        key = random.choice(("", "A", "B"))
        expires_ms = random.choice((0, 0, 0, q.unix_ms + random.randrange(200, 400)))
        q.put(b"x" * random.randrange(1, 5), key=key, expires_ms=expires_ms, delay=delay)
    elif choice <= 5 or choice == 15:
        q.may_open(who, dead=random.random() < 0.2, lease_ms=random.choice((0, 0, 50, 500)))
    elif choice == 6 and lease is not None:
        q.close(lease)
    elif choice <= 8 and lease is not None:
        q.reader.nack(lease, q.now_ms, random.choice((b"abort", b"abort", b"defer")), delay)
    elif choice == 9:
        q.pass_time(random.randrange(150))
    elif choice == 10:
        q.cancel(random.choice([*q.reader.live, 1]))
    elif choice == 14:
        random.choice((q.purge, q.redrive, q.redrive))(random.choice([*q.reader.dead.deaths, 1]))
    elif choice == 11 and q.queue.last_number:
        AckUpTo(q.queue, random.randrange(1, q.queue.last_number + 1)).finish(q.now_ms)
    elif choice == 12 and random.random() < 0.3:
        q.flush()
    elif choice == 13 and random.random() < 0.3:
        q.pause(not q.reader.paused)


def snapshot_of(q: CoreHarness) -> Snapshot:
    """Return the snapshot of this moment, encoded and decoded."""
    state, names = q.queue.state(), {each.name for each in fields(Snapshot)}
    copied = [each.name for each in fields(QueueCopy) if each.name in names]
    said = {name: getattr(state, name) for name in copied}
    made = Snapshot(lsn=len(q.records), segment=1, offset=64, segments=[], **said)
    return Snapshot.decode(made.encode(SHORT_IDENTITY, IDENTITY, q.unix_ms), "a snapshot")


def started(q: CoreHarness, snapshot: Snapshot | None, records: list[Record]) -> Queue:
    """Return the queue that a start makes of a snapshot and records."""
    again = CoreHarness(q.policy, q.now_ms, q.unix_ms)
    again.broker.clock.begin(q.now_ms + q.queue.clock.running_ms, again.now_ms)
    fresh = again.broker.fresh(NAME, q.queue.generation, again.now_ms)
    replay = Replay(fresh)
    if snapshot is not None:
        replay.restore(snapshot)
    replay.run(records)
    replay.finish(None, len(q.records))
    kept = PendingJournal(fresh, q.records)
    fresh.attach(JournalLog(PendingStore(kept), again.dirty, q.policy.sync_ms, fresh.state))
    again.broker.adopt(fresh, again.now_ms)
    return fresh


def all_of(queue: Queue) -> dict[str, Any]:
    reader = queue.reader
    return state_after_a_restart(queue) | {
        "held": dict(reader.held_keys), "keys in flight": reader.key_gate.in_flight,
        "ageless": list(reader.ageless), "out of order": list(reader.out_of_order),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_snapshot_of_any_moment_and_what_came_later_is_all_that_came(seed: int) -> None:
    random = Random(seed)
    q = make_queue(max_attempts=random.choice((None, 1, 2, 2)), lease_ms=random.choice((None, 100)))
    snapshots: list[tuple[int, Snapshot]] = []
    for _ in range(STEPS):
        do_something(q, random)
        if random.random() < 0.2:
            check_what_is_left(q.queue)
    snapshots.append((len(q.records), snapshot_of(q)))
    check_what_is_left(q.queue)
    snapshots.append((len(q.records), snapshot_of(q)))
    whole = all_of(started(q, None, q.records))
    for lsn, snapshot in snapshots:
        assert all_of(started(q, snapshot, q.records[lsn:])) == whole, f"seed {seed}, lsn {lsn}"


def do_something_to_a_child(q: CoreHarness, random: Random) -> None:
    """Take one random step with one of two children, which begin with the next put."""
    name = NAME + random.choice((b"+kid", b"+cat"))
    child = q.broker.queues.get(name)
    if child is None:
        q.broker.mention(name, q.now_ms, None)
        return
    reader, who = child.reader, q.who(random.choice(("carl", "dora")))
    leases = [each for each in (*who.leases, *reader.token_holder.leases) if each.owner is reader]
    lease = random.choice(leases) if leases else None
    delay = Delay(random.randrange(1, 200)) if random.random() < 0.5 else None
    choice = random.randrange(10)
    if choice <= 3:
        lease_ms = random.choice((0, 0, 50, 500))
        opened = reader.open(who, q.now_ms, random.random() < 0.2, lease_ms)
        if opened is None:
            q.read_back()
    elif choice == 4 and lease is not None:
        reader.confirm(lease, q.now_ms)
    elif choice <= 6 and lease is not None:
        reader.nack(lease, q.now_ms, random.choice((b"abort", b"abort", b"defer")), delay)
    elif choice == 7 and child.last_number:
        AckUpTo(child, random.randrange(1, child.last_number + 1)).finish(q.now_ms)
    elif choice == 8 and random.random() < 0.3:
        child.flush(q.now_ms)
    elif choice == 9 and random.random() < 0.2:
        child.put(b"own", 0, 0, q.now_ms)


def check_what_is_left(queue: Queue) -> None:
    """Check that no index knows an item that is gone, and that no dead letter holds a key."""
    for reader in queue.readers:
        live, dead = set(reader.live), set(reader.dead.deaths)
        known = {
            "attempts": {item for item, _ in reader.attempts.items()},
            "ageless": set(reader.ageless), "expiries": set(reader.expiries),
            "out of order": set(reader.out_of_order), "leased": set(reader.leases.entries),
            "delayed": set(reader.delays.ids), "dead": dead, "ends": set(reader.ends.ids),
            "watched": set(reader.watch.watched), "sought keys": set(reader.sought_keys),
            "held keys of the dead": dead & set(reader.held_keys), "held": set(reader.held_keys),
        }  # fmt: skip
        left = {what: ids - live for what, ids in known.items()}
        left["held keys of the dead"] = known["held keys of the dead"]
        assert not any(left.values()), left


def state_of(queue: Queue) -> dict[str, Any]:
    """Return the contents of a snapshot of the queue, sorted."""
    found: dict[str, Any] = plain(queue.state())
    for reader in (found, *found["readers"]):
        for name in ("leased", "delayed", "placed"):
            reader[name] = sorted(map(str, reader[name]))
        dead = sorted(reader["dead"], key=lambda each: each.order)
        reader["dead"] = [replace(each, order=0) for each in dead]
    found.pop("memory")
    return found


def plain(value: Any) -> Any:
    if isinstance(value, IdSet):
        return list(value)
    if isinstance(value, IdCounts):
        return list(value.items())
    if isinstance(value, QueueCopy | ReaderState):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    is_many = isinstance(value, Iterable) and not isinstance(value, bytes | dict | tuple | str)
    return [plain(each) for each in value] if is_many else value


@pytest.mark.parametrize("seed", range(LIVES))
def test_so_it_is_with_children(seed: int) -> None:
    random = Random(seed)
    q = make_queue(max_attempts=random.choice((None, 1, 2, 2)), lease_ms=random.choice((None, 100)))
    snapshots: list[tuple[int, Snapshot]] = []
    for _ in range(STEPS):
        random.choice((do_something, do_something_to_a_child))(q, random)
        if random.random() < 0.2:
            check_what_is_left(q.queue)
    snapshots.append((len(q.records), snapshot_of(q)))
    check_what_is_left(q.queue)
    snapshots.append((len(q.records), snapshot_of(q)))
    whole = state_of(started(q, None, q.records))
    for lsn, snapshot in snapshots:
        assert state_of(started(q, snapshot, q.records[lsn:])) == whole, f"seed {seed}, lsn {lsn}"


# -- each state, and each end ---------------------------------------------------------------------


def nack(q: CoreHarness, ms: int) -> None:
    q.reader.nack(q.open(), q.now_ms, b"abort", Delay(ms))


def redrive(q: CoreHarness) -> None:
    q.bury(q.open())
    assert q.redrive(1)


def come_back(q: CoreHarness) -> None:
    nack(q, 10)
    q.pass_time(10)


STATES: Final[dict[str, Callable[[CoreHarness], object]]] = {
    "ready": lambda q: None,
    "leased": lambda q: q.open(),
    "leased by token": lambda q: q.open(lease_ms=60_000),
    "nacked": lambda q: q.abort(q.open()),
    "nacked for later": lambda q: nack(q, 50),
    "back": come_back,
    "dead": lambda q: q.bury(q.open()),
    "redriven": redrive,
    "redriven and nacked for later": lambda q: (redrive(q), nack(q, 50)),
}


def any_lease(q: CoreHarness) -> Lease:
    there = [*q.who("anna").leases, *q.reader.token_holder.leases]
    return there[0] if there else q.open(dead=bool(q.reader.dead.deaths))


ENDS: Final[dict[str, Callable[[CoreHarness], object]]] = {
    "confirmed": lambda q: q.close(any_lease(q)),
    "dead": lambda q: q.bury(any_lease(q)),
    "cancelled": lambda q: q.cancel(1),
    "purged": lambda q: q.purge(1),
    "flushed": lambda q: q.flush(),
    "up to it": lambda q: AckUpTo(q.queue, q.queue.last_number).finish(q.now_ms),
    "expired": lambda q: q.pass_time(5_000),
    "nacked again": lambda q: nack(q, 10),
    "leased again": any_lease,
    "redriven": lambda q: q.redrive(1),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("waits", [0, 100])
def test_what_ends_an_item_undoes_what_a_snapshot_said_of_it(
    state: str, end: str, waits: int
) -> None:
    q = make_queue()
    q.put(b"1", key="A", expires_ms=q.unix_ms + 2_000)
    STATES[state](q)
    said, lsn = snapshot_of(q), len(q.records)
    q.pass_time(waits)
    with suppress(AssertionError):  # it cannot end so
        ENDS[end](q)

    check_what_is_left(q.queue)
    whole = started(q, None, q.records)
    for snapshot, at in ((said, lsn), (snapshot_of(q), len(q.records))):
        found = started(q, snapshot, q.records[at:])
        check_what_is_left(found)
        assert all_of(found) == all_of(whole)
        assert state_of(found) == state_of(whole)
