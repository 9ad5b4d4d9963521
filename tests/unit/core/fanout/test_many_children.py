"""What is done to one child costs the same, however many children its queue has.

The figures are lines of Python, as in `test_bounded_work.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.subscription.subscription import ABORTED
from tests.support.core_harness import NAME, CoreHarness
from tests.support.steps import Work

FEW, MANY = 50, 400
LINES = 250  # by which a cost may differ
FIRST = b"jobs+0"


def made(children: int, policy: Policy | None = None) -> CoreHarness:
    """A queue with so many children, which all have two items."""
    q = CoreHarness(policy or Policy(lease_ms=1000), queues_max=MANY + 10)
    q.broker.create(NAME, q.now_ms)
    for number in range(children):
        q.broker.mention(b"jobs+%d" % number, q.now_ms)
    q.put(b"one", b"two")
    q.queue.catch_up()
    ticks(q)
    return q


def child(q: CoreHarness, name: bytes = FIRST) -> ChildQueue:
    found = q.broker.queues[name]
    assert isinstance(found, ChildQueue)
    return found


def leased(q: CoreHarness) -> Lease:
    lease = child(q).reader.open(q.who("anna"), q.now_ms)
    if lease is None and q.read_back():
        lease = child(q).reader.open(q.who("anna"), q.now_ms)
    assert lease is not None
    return lease


def ticks(q: CoreHarness, ms: int = 0) -> None:
    """Everything that is due after this time."""
    q.now_ms += ms
    while (due := q.broker.next_due()) is not None and due <= q.now_ms:
        q.broker.tick(q.now_ms)


Act = Callable[[], object]


def remove(q: CoreHarness) -> Act:
    return lambda: q.broker.remove_child(child(q).child, q.now_ms)


def remove_of_a_deleted_queue(q: CoreHarness) -> Act:
    q.broker.delete(NAME, q.now_ms)
    ticks(q)
    return remove(q)


def flush(q: CoreHarness) -> Act:
    return lambda: child(q).flush(q.now_ms)


def confirm_up_to(q: CoreHarness) -> Act:
    return lambda: AckUpTo(child(q), 2).finish(q.now_ms)


def let_a_lease_end(q: CoreHarness) -> Act:
    lease = leased(q)

    def act() -> None:
        ticks(q, 1000)
        assert lease not in lease.holder.leases

    return act


def give_back_for_later(q: CoreHarness) -> Act:
    lease = leased(q)

    def act() -> None:
        child(q).reader.nack(lease, q.now_ms, ABORTED, Delay(500))
        ticks(q, 500)
        assert not child(q).reader.delays.count

    return act


def wait_in_vain(q: CoreHarness) -> Act:
    child(q).flush(q.now_ms)

    def act() -> None:
        q.broker.wait(Want.OPEN, FIRST, q.who("anna"), False, "anna", q.now_ms + 50)
        ticks(q, 60)
        assert [waiter.done for waiter in q.broker.take_to_resume()] == [True]

    return act


ACTS = [
    remove, remove_of_a_deleted_queue, flush, confirm_up_to, let_a_lease_end, give_back_for_later,
    wait_in_vain,
]  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
def test_one_of_many_children_costs_what_one_of_few_costs(
    act: Callable[[CoreHarness], Act], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.queue.recount.CHILDREN_A_MS", 0.001)  # much later

    def cost(children: int) -> int:
        q = made(children)
        do = act(q)
        with Work() as counted:
            do()
            ticks(q)
        return counted.steps

    few, many = cost(FEW), cost(MANY)
    assert many < few + LINES


def test_a_deleted_queue_that_is_made_again_has_a_brief_look_at_its_children() -> None:
    def cost(children: int) -> int:
        q = made(children)
        q.broker.delete(NAME, q.now_ms)
        ticks(q)
        with Work() as counted:
            q.broker.create(NAME, q.now_ms)
            ticks(q)
        return counted.steps

    few, many = cost(FEW), cost(MANY)
    assert many < few + (MANY - FEW) * 15


def test_leases_of_many_children_that_end_at_once_take_several_ticks() -> None:
    def cost(children: int) -> int:
        q, steps = made(children), list[int]()
        for each in ChildQueue.all_of(q.queue):
            while each.reader.open(q.who("anna"), q.now_ms) is None:
                assert q.read_back()
        q.now_ms += 1000
        for _ in range(children):
            with Work() as counted:
                q.broker.tick(q.now_ms)
            steps.append(counted.steps)
            q.now_ms += 1
        assert not q.who("anna").leases
        return max(steps)

    few, many = cost(100), cost(MANY)
    assert many < few * 1.2
