"""A start knows delayed and released items from the snapshot, as they were."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from journal.format.key import text_of
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.subscription import DEFERRED
from tests.support.disk_harness import DiskHarness


@pytest.fixture(autouse=True)
def threads_by_hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("journal.snapshot.cadence.RECORDS_MAX", 1)
    yield


def known(life: DiskHarness) -> dict[str, Any]:
    """Return all facts about out-of-order items, in whichever structure they are."""
    reader, queue = life.reader, life.jobs
    rows = [row for row in reader.key_gate.keys.rows() if not isinstance(row, int)]
    parked = {(place, i, size) for row in rows for i, place, size in row}
    places = [(place, item.id, item.size) for place, item in reader.ready.all_returned()]
    places = [each for each in places if each[0] != each[1]] + [*reader.ready.disk_refs, *parked]
    hidden = reader.markers.hidden
    return {
        "delayed": sorted(reader.delays.entries(life.broker.clock)),
        "places": sorted(each for each in places if each[0] != each[1]),
        "leases": sorted((e.place, e.item.id, e.item.marker) for e in reader.leases),
        "hidden": list(hidden),
        "index": [(marker, id_) for marker, id_ in reader.markers if id_ in hidden],
        "markers": {id_: reader.markers.of(id_, 0) for id_ in reader.dead.deaths},
        "numbers": (queue.next_number, queue.total_items),
        "bytes": (reader.live_bytes, reader.delays.bytes, reader.ready.count, reader.ready.bytes),
    }


def one_thing(life: DiskHarness, random: Random) -> None:
    act, late = random.randrange(6), Delay(random.randrange(1, 60))
    if act <= 1:
        key = random.choice([b"", b"A", b"B"])
        life.put(
            b"x" * random.randrange(90), 0, random.choice([None, late]),
            key=text_of(key) if key else NO_KEY,
        )  # fmt: skip
    elif act == 2:
        life.pass_time(random.randrange(30))
    elif (lease := life.open(lease_ms=random.choice([0, 0, 900]))) is not None:
        end(life, lease, random.choice([None, late]), random.randrange(4))


def end(life: DiskHarness, lease: Lease, late: Delay | None, how: int) -> None:
    if how == 0:
        life.reader.confirm(lease, life.now_ms)
    elif how == 1:
        life.reader.dead_letter(lease, life.now_ms, b"why")
    elif how == 2 or not lease.by_token:
        life.reader.nack(lease, life.now_ms, DEFERRED, late)


@pytest.mark.parametrize("seed", range(40))
def test_a_start_from_a_snapshot_knows_what_was_known(seed: int) -> None:
    random, life = Random(seed), DiskHarness(Policy(max_attempts=None))
    for _ in range(4):
        life.put(b"first")
        for _ in range(random.randrange(30)):
            one_thing(life, random)
        life.commit()
        life.do_all()
        before, has_snapshot = known(life), bool(life.log.store.maintenance.snapshots)
        life.kill()
        assert known(life) == before
        assert has_snapshot
    life.pass_time(100_000)
    life.commit()
    expected = life.reader.ready.count
    assert len(life.take_all()) == expected
    assert life.damages == []
