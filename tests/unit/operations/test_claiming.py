"""A claim is the leases of its tokens that last: it ends and renews these and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kestrelpy.core import Holder, Lease, Queue
from kestrelpy.operations import Claiming, claimed_by
from tests.support.core_harness import CoreHarness, make_queue

HOLDER = Holder("anna")


def leased(q: CoreHarness, count: int, lease_ms: int = 1000) -> list[Lease]:
    found = [q.reader.open(HOLDER, q.now_ms, lease_ms=lease_ms) for _ in range(count)]
    return [lease for lease in found if lease is not None]


def claim_of(queue: Queue, leases: list[Lease]) -> Claiming:
    return Claiming(queue, [lease.token for lease in leases])


def test_it_has_the_leases_that_last() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3")
    leases = leased(q, 3)
    claim = claim_of(q.queue, leases[:2])
    assert claim.leases(q.now_ms) == leases[:2]
    q.close(leases[0])
    assert claim.leases(q.now_ms) == [leases[1]]
    assert claim.leases(q.now_ms + 1000) == [], "it is over, even if no tick came"


def test_a_release_gives_its_items_back_and_counts() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    leases = leased(q, 2)
    assert len(claim_of(q.queue, leases[:1]).release(q.now_ms)) == 1
    assert q.ready == [b"1"]
    assert q.reader.attempts.get(1) == 1
    assert claim_of(q.queue, leases[1:]).leases(q.now_ms) == leases[1:]


def test_a_renewal_begins_its_time_anew_and_puts_off_what_would_expire() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=q.unix_ms + 5000)
    q.put(b"2")
    leases = leased(q, 2)
    claim = claim_of(q.queue, leases)
    expiries = {1: q.unix_ms + 5000, 2: 0}
    q.now_ms += 10
    assert len(claim.renew(9000, 500, expiries, q.now_ms)) == 2
    entry = claim.entry(leases[0])
    assert (entry.since_ms, entry.deadline_ms) == (q.unix_ms, q.unix_ms + 9000)
    assert q.reader.expiries == {1: q.unix_ms + 9500}


def test_a_claimed_item_is_leased_to_somebody_and_not_dead() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", b"2")
    (lease,) = leased(q, 1)
    assert claimed_by(q.queue, 1, q.now_ms) is lease
    assert claimed_by(q.queue, 1, q.now_ms + 1000) is None
    assert claimed_by(q.queue, 2, q.now_ms) is None
    q.abort(lease)
    q.reader.open(HOLDER, q.now_ms, dead=True, lease_ms=5000)
    assert claimed_by(q.queue, 1, q.now_ms) is None


def test_its_puts_are_those_that_can_be_read(tmp_path: Path) -> None:
    q = make_queue()
    q.put(b"1", b"2")
    leases = leased(q, 2)

    class Reader:
        def find(self, queue: Queue, id_: int) -> Any:
            yield b""
            return ("put", id_) if id_ == 2 else None

    reader: Any = Reader()
    steps = claim_of(q.queue, leases).puts(reader, q.now_ms)
    found: Any = None
    for _ in range(5):
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
    assert found == [("put", 2)]
