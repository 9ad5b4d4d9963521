"""A start from a snapshot and the records after it finds what one from all records finds.

    records  1 2 3 4 5 6 7 8 9        what a snapshot of any moment says of an item is undone by
                   ^                  each record that comes later, as it is of a put
                   snapshot: 5 to 9
"""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import Any, Final

import pytest

from journal.format.record import Record
from journal.snapshot.job import State
from journal.snapshot.snapshot import Snapshot
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.replay.replay import Replay
from tests.golden.layout import IDENTITY, SHORT_IDENTITY
from tests.support.core_harness import (
    NAME,
    CoreHarness,
    KeptJournal,
    KeptStore,
    make_queue,
    state_after_a_restart,
)

LIVES: Final = 40
STEPS: Final = 60


def do_something(q: CoreHarness, random: Random) -> None:
    """One step of a life with keys and delays."""
    who = random.choice(("anna", "bert"))
    leases = [*q.who(who).leases, *q.reader.token_holder.leases]
    lease = random.choice(leases) if leases else None
    delay = Delay(random.randrange(1, 200)) if random.random() < 0.5 else None
    choice = random.randrange(14)
    if choice <= 3:
        key = random.choice(("", "", "A", "B"))
        expires_ms = random.choice((0, 0, 0, q.unix_ms + random.randrange(200, 400)))
        q.put(b"x" * random.randrange(1, 5), key=key, expires_ms=expires_ms, delay=delay)
    elif choice <= 5:
        q.may_open(who, dead=random.random() < 0.2, lease_ms=random.choice((0, 0, 50, 500)))
    elif choice == 6 and lease is not None:
        q.close(lease)
    elif choice <= 8 and lease is not None:
        q.reader.nack(lease, q.now_ms, random.choice((b"abort", b"defer")), delay)
    elif choice == 9:
        q.pass_time(random.randrange(150))
    elif choice == 10:
        random.choice((q.cancel, q.purge, q.redrive))(random.choice([*q.reader.live, 1]))
    elif choice == 11 and q.queue.last_number:
        AckUpTo(q.queue, random.randrange(1, q.queue.last_number + 1)).finish(q.now_ms)
    elif choice == 12 and random.random() < 0.3:
        q.flush()
    elif choice == 13 and random.random() < 0.3:
        q.pause(not q.reader.paused)


def snapshot_of(q: CoreHarness) -> Snapshot:
    """What is written of this moment, read again."""
    state, names = q.queue.state(), {each.name for each in fields(Snapshot)}
    said = {each.name: getattr(state, each.name) for each in fields(State) if each.name in names}
    made = Snapshot(lsn=len(q.records), segment=1, offset=64, segments=[], **said)
    return Snapshot.decode(made.encode(SHORT_IDENTITY, IDENTITY, q.unix_ms), "a snapshot")


def started(q: CoreHarness, snapshot: Snapshot | None, records: list[Record]) -> Queue:
    """The queue as a start makes it of these."""
    again = CoreHarness(q.policy, q.now_ms, q.unix_ms)
    again.broker.clock.begin(q.now_ms + q.queue.clock.running_ms, again.now_ms)
    fresh = again.broker.fresh(NAME, q.queue.generation, again.now_ms)
    replay = Replay(fresh)
    if snapshot is not None:
        replay.restore(snapshot)
    replay.run(records)
    replay.finish(None, len(q.records))
    kept = KeptJournal(fresh, q.records)
    fresh.attach(JournalLog(KeptStore(kept), again.dirty, q.policy.sync_ms, fresh.state))
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
    q = make_queue(max_attempts=random.choice((None, 1, 2)), lease_ms=random.choice((None, 100)))
    snapshots: list[tuple[int, Snapshot]] = []
    for _ in range(STEPS):
        do_something(q, random)
        if random.random() < 0.1:
            snapshots.append((len(q.records), snapshot_of(q)))
    whole = all_of(started(q, None, q.records))
    for lsn, snapshot in snapshots:
        assert all_of(started(q, snapshot, q.records[lsn:])) == whole, f"seed {seed}, lsn {lsn}"
