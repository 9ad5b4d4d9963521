"""Memory is taken in grains, given back, and never taken twice."""

from __future__ import annotations

from random import Random

import pytest

from kestrelpy.core.index.memory_budget import (
    FREE_BYTES,
    GRAIN_BYTES,
    UNLIMITED,
    MemoryBudget,
    MemoryShare,
)
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.subscription.ready_items import REFILL_ITEMS
from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import Trash
from tests.support.core_harness import make_queue


def memory_of(limit: int = UNLIMITED) -> MemoryBudget:
    return MemoryBudget(Trash(Timers()), limit)


def test_a_small_line_takes_nothing() -> None:
    memory = memory_of(0)
    share = MemoryShare(memory, UNLIMITED)
    assert share.allowed == FREE_BYTES
    assert not share.grow(FREE_BYTES)
    assert memory.taken == 0


def test_a_line_grows_by_grains_up_to_its_own_limit() -> None:
    memory = memory_of()
    share = MemoryShare(memory, FREE_BYTES + 3 * GRAIN_BYTES // 2)
    assert share.grow(FREE_BYTES)
    assert share.allowed == FREE_BYTES + GRAIN_BYTES
    assert share.grow(share.allowed)
    assert share.allowed == share.most
    assert not share.grow(share.allowed)
    assert memory.taken == 2 * GRAIN_BYTES


def test_all_lines_together_stay_within_the_limit() -> None:
    memory = memory_of(3 * GRAIN_BYTES + 1)
    shares = [MemoryShare(memory, UNLIMITED) for _ in range(5)]
    grown = [share.grow(FREE_BYTES) for share in shares]
    assert grown == [True, True, True, False, False]
    shares[0].release()
    assert shares[4].grow(FREE_BYTES)


def test_what_is_not_needed_is_given_back_once() -> None:
    memory = memory_of()
    share = MemoryShare(memory, UNLIMITED)
    share.grow(10 * GRAIN_BYTES)
    share.shrink(FREE_BYTES + 1)
    share.shrink(FREE_BYTES + 1)
    assert memory.taken == GRAIN_BYTES
    share.shrink(FREE_BYTES)
    assert (memory.taken, share.allowed) == (0, FREE_BYTES)
    share.grow(10 * GRAIN_BYTES)
    share.release()
    share.release()
    assert memory.taken == 0


def test_any_mixture_takes_what_the_shares_say() -> None:
    random = Random(5)
    memory = memory_of(40 * GRAIN_BYTES)
    shares = [MemoryShare(memory, 20 * GRAIN_BYTES) for _ in range(4)]
    for _ in range(2000):
        share = random.choice(shares)
        random.choice((share.grow, share.grow, share.shrink, share.limit))(
            random.randrange(25 * GRAIN_BYTES)
        )
        assert memory.taken == sum(s.grains for s in shares) * GRAIN_BYTES <= memory.limit


def test_a_line_that_was_emptied_gives_its_memory_to_others() -> None:
    q = make_queue()
    for _ in range(40):
        q.put(b"x" * GRAIN_BYTES)
    assert q.broker.memory.taken >= 39 * GRAIN_BYTES
    while q.take() is not None:
        pass
    assert q.broker.memory.taken == 0
    q.put(b"x" * GRAIN_BYTES, b"x")
    assert q.broker.memory.taken > 0
    q.delete()
    assert q.broker.memory.taken == 0


@pytest.mark.parametrize("how", ["flush", "upto", "expiry", "death"])
def test_however_a_line_was_emptied_its_memory_is_there_for_others(how: str) -> None:
    q = make_queue(max_attempts=1)
    for _ in range(40):
        q.put(b"x" * GRAIN_BYTES, expires_ms=q.unix_ms + 100 if how == "expiry" else 0)
    if how == "flush":
        q.queue.flush(q.now_ms)
    elif how == "upto":
        AckUpTo(q.queue, 40).finish(q.now_ms)
    elif how == "death":
        for _ in range(40):
            q.abort(q.open())
    q.pass_time(100)
    assert q.ready == []
    assert q.broker.memory.taken == 0


def test_a_line_that_gets_shorter_gives_memory_back_on_the_way() -> None:
    q = make_queue()
    q.put(*[b"x" * 1000] * 5000)
    taken = q.broker.memory.taken
    for _ in range(4000):
        q.take()
    assert q.broker.memory.taken < taken / 2


def test_a_queue_in_memory_leaves_nothing_to_a_log_it_does_not_have() -> None:
    q = make_queue()
    q.queue.attach(MemoryLog())
    q.broker.memory.limit = 0
    q.put(*[b"x" * 1000] * 100)
    assert (q.reader.ready.resident, q.reader.ready.beyond) == (100, 0)
    leases = [q.open() for _ in range(100)]
    for lease in leases:
        q.abort(lease)
    assert q.reader.ready.beyond == 0
    assert len([q.open() for _ in range(100)]) == 100


def test_large_bodies_are_read_back_as_far_as_there_is_room() -> None:
    q = make_queue(max_memory_bytes=3000)
    q.put(*[b"x" * 1000] * 200)
    q = q.restarted()
    for _ in range(5):
        q.read_back()
    assert q.reader.ready.resident_bytes <= 3000 + REFILL_ITEMS * 1000
    before = q.reader.ready.resident
    for _ in range(20):
        q.read_back()
    assert q.reader.ready.resident == before, "reading does not go on by itself"
