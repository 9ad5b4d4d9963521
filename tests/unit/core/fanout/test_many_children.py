"""Work on one child costs the same, however many children its queue has.

The figures are lines of Python, as in `test_bounded_work.py`.

Promise: slices.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from journal.format import Record
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.index.waiters import Waiter, Want
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.subscription.subscription import ABORTED
from tests.support.core_harness import NAME, CoreHarness, PendingReadAhead
from tests.support.steps import Work

FEW, MANY = 50, 400
LINES = 250  # by which a cost may differ
FIRST = b"jobs+0"


def made(children: int, policy: Policy | None = None) -> CoreHarness:
    """Return a queue with this many children; each of them has two items."""
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
    """Do all ticks that are due within this time."""
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


def confirm_for_the_last(q: CoreHarness) -> Act:
    for each in ChildQueue.all_of(q.queue):
        each.flush(q.now_ms)
    lease = q.queue.reader.open(q.who("anna"), q.now_ms)
    assert lease is not None
    return lambda: q.queue.reader.confirm(lease, q.now_ms)


ACTS = [
    confirm_for_the_last, remove, remove_of_a_deleted_queue, flush, confirm_up_to, let_a_lease_end,
    give_back_for_later, wait_in_vain,
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


def waiting(q: CoreHarness, children: int) -> None:
    """Make this many children; a client waits for the next item of each."""
    for number in range(children):
        name = b"jobs+%d" % number
        if name not in q.broker.queues:
            q.broker.mention(name, q.now_ms)
        holder = q.who(name.decode())
        q.broker.wait(Want.TAKE, name, holder, False, name, q.now_ms + 60_000)


def put_now(q: CoreHarness) -> None:
    q.put(b"x")


def put_later(q: CoreHarness) -> None:
    q.put(b"x", delay=Delay(10))
    q.now_ms += 10


@pytest.mark.parametrize("put", [put_now, put_later])
def test_an_item_reaches_waiting_clients_of_many_children_in_slices(
    put: Callable[[CoreHarness], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.queue.fanout.GIVEN_MAX", 20)

    def cost(children: int) -> int:
        q, steps = CoreHarness(Policy(), queues_max=MANY + 10), list[int]()
        q.broker.create(NAME, q.now_ms)
        waiting(q, children)
        with Work() as counted:
            put(q)
        steps.append(counted.steps)
        answered = dict.fromkeys(each.name for each in q.broker.take_to_resume())
        for _ in range(2 * children):
            with Work() as counted:
                q.broker.tick(q.now_ms)
            steps.append(counted.steps)
            q.read_back()
            answered |= dict.fromkeys(each.name for each in q.broker.take_to_resume())
            q.now_ms += 1
        assert len(answered) == children
        assert not q.queue.lagging
        return max(steps)

    few, many = cost(100), cost(MANY)
    assert many < few * 1.3 + (MANY - 100) * 12  # to leave a child for later takes a few steps


LOOKS: list[Callable[[CoreHarness], object]] = [
    lambda q: q.queue.state(),
    lambda q: q.queue.needed_now(),
    lambda q: q.queue.catch_up(),
    lambda q: q.broker.mention(b"jobs+new", q.now_ms),
]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("items", [1, 3])
def test_clients_of_many_children_are_served_from_memory_whoever_looks_at_the_children(
    look: Callable[[CoreHarness], object], items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot comes between a set and the children's turns: each child read the log for it."""
    monkeypatch.setattr("kestrelpy.core.queue.fanout.GIVEN_MAX", 5)
    q = CoreHarness(Policy(), queues_max=MANY)
    q.broker.create(NAME, q.now_ms)
    waiting(q, FEW)
    q.put(*[b"x"] * items)
    assert len(q.queue.lagging) == FEW - 5
    read: list[int] = []

    def take(_: PendingReadAhead, item: int, most: int) -> list[Record]:
        read.append(item)
        return []

    monkeypatch.setattr(PendingReadAhead, "take", take)
    look(q)
    while q.queue.lagging:
        ticks(q, 1)
    assert len(q.broker.take_to_resume()) == FEW
    assert not read
    assert not q.broker.take_to_read()


def history(q: CoreHarness, random: Random) -> None:
    """Take one random step: put an item for all or for one child, confirm one, or return one."""
    name, choice = b"jobs+%d" % random.randrange(8), random.randrange(9)
    reader = child(q, name).child
    if choice <= 1:
        q.put(b"x" * random.randrange(9), delay=Delay(3) if random.random() < 0.3 else None)
    elif choice == 2:
        child(q, name).put(b"own", 0, 0, q.now_ms, delay=random.choice((None, Delay(3))))
    elif choice == 3:
        assert reader is child(q, name).reader  # it has looked
    elif choice <= 6:
        lease = child(q, name).reader.open(q.who(name.decode()), q.now_ms)
        if lease is not None and choice == 4:
            reader.confirm(lease, q.now_ms)
        elif lease is not None and choice == 5:
            reader.nack(lease, q.now_ms, ABORTED, random.choice((None, Delay(3))))
    elif choice == 7:
        q.now_ms += 1
        q.broker.tick(q.now_ms)
    else:
        q.read_back()


def said(q: CoreHarness) -> list[object]:
    """Return the children of a snapshot."""
    return [
        (
            each.number, each.floor, each.total, [*each.live], each.live_bytes,
            [*each.attempts.encode()], each.dead, each.leased, sorted(each.delayed),
            sorted(each.placed), each.held, [*each.ageless],
        )
        for each in q.queue.state().readers
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_a_snapshot_and_a_count_say_what_they_say_after_all_children_have_looked(seed: int) -> None:
    random, q = Random(seed), made(8, Policy(max_attempts=3))
    for _ in range(60):
        for _ in range(random.randrange(6)):
            history(q, random)
        needed, state = set(q.queue.needed_now()), said(q)
        if random.random() < 0.7:
            q.queue.catch_up()
            assert said(q) == state
            assert set(q.queue.needed_now()) == needed


def put_own(q: CoreHarness, number: int) -> None:
    child(q, b"jobs+%d" % number).put(b"x", 0, 0, q.now_ms)


def put_for_all_later(q: CoreHarness, number: int) -> None:
    q.put(b"x", delay=Delay(1000))
    child(q, b"jobs+%d" % number).child.catch_up()


def put_for_some_later(q: CoreHarness, number: int) -> None:
    q.put(b"x", delay=Delay(1000))
    for each in ChildQueue.all_of(q.queue)[number % 9 :: 9] if number < 9 else ():
        each.child.catch_up()


@pytest.mark.parametrize(
    ("put", "look"),
    [
        (put_own, lambda q: q.queue.state()),
        (put_own, lambda q: q.queue.needed_now()),
        (put_for_all_later, lambda q: q.queue.needed_now()),
        (put_for_some_later, lambda q: q.queue.state()),
        (put_for_some_later, lambda q: q.queue.catch_up()),
    ],
)
def test_a_look_at_all_children_costs_each_little_however_many_looked_at_other_times(
    put: Callable[[CoreHarness, int], None], look: Callable[[CoreHarness], object]
) -> None:
    """There are `notes` notes, and the children have seen them up to as many different numbers."""

    def cost(notes: int) -> int:
        q = made(MANY)
        for number in range(notes):
            put(q, number)
        with Work() as counted:
            look(q)
        return counted.steps

    few, many = cost(30), cost(200)
    assert many < few + MANY * 80


def put_nothing(q: CoreHarness) -> None:
    """Put nothing: all items are confirmed, or not there yet."""


def put_and_confirm_some(q: CoreHarness) -> None:
    q.put(*[b"x"] * 100)
    for number, each in enumerate(ChildQueue.all_of(q.queue)):
        each.child.catch_up()
        each.child._apply_done(number % 90 + 3, 1)


@pytest.mark.parametrize(("put", "most"), [(put_nothing, 20), (put_and_confirm_some, 50)])
def test_the_count_of_what_children_need_takes_few_steps_for_each(
    put: Callable[[CoreHarness], None], most: int
) -> None:
    def cost(children: int) -> int:
        q = made(children)
        put(q)
        with Work() as counted:
            q.queue.needed_now()
        return counted.steps

    few, many = cost(FEW), cost(MANY)
    assert many < few + (MANY - FEW) * most


def test_a_snapshot_takes_few_steps_for_a_child_with_nothing_but_items_for_all() -> None:
    def cost(children: int) -> int:
        q = made(children)
        q.put(*[b"x"] * 10)
        with Work() as counted:
            q.queue.state()
        return counted.steps

    few, many = cost(FEW), cost(MANY)
    assert many < few + (MANY - FEW) * 75


def test_a_child_that_is_removed_before_its_turn_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrelpy.core.queue.fanout.GIVEN_MAX", 1)
    q = CoreHarness(Policy())
    q.broker.create(NAME, q.now_ms)
    waiting(q, 3)
    q.put(b"one")
    q.broker.remove_child(child(q, b"jobs+1").child, q.now_ms)
    assert [*q.queue.lagging] == [child(q, b"jobs+2").child]


def test_a_look_at_a_child_whose_turn_comes_finds_all_its_items(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kestrelpy.core.queue.fanout.GIVEN_MAX", 1)
    q = CoreHarness(Policy())
    q.broker.create(NAME, q.now_ms)
    waiting(q, 3)
    q.put(b"one")
    assert [*q.queue.lagging] == [child(q, b"jobs+1").child, child(q, b"jobs+2").child]
    assert child(q, b"jobs+2").reader.ready.count == 1
    assert q.queue.is_needed(1)
    q.broker.remove_child(child(q, b"jobs+2").child, q.now_ms)
    assert [each.name for each in q.broker.take_to_resume()] == [b"jobs+0", b"jobs+2"]
    ticks(q)
    (waiter,) = q.broker.take_to_resume()
    assert waiter.lease is not None
    assert (waiter.name, waiter.lease.item.body) == (b"jobs+1", b"one")


def lagging(monkeypatch: pytest.MonkeyPatch) -> CoreHarness:
    """A queue with an item that waiting clients of two children get in their turn."""
    monkeypatch.setattr("kestrelpy.core.queue.fanout.GIVEN_MAX", 1)
    q = CoreHarness(Policy())
    q.broker.create(NAME, q.now_ms)
    waiting(q, 3)
    q.put(b"one")
    assert len(q.queue.lagging) == 2
    return q


def test_no_item_stays_for_children_when_all_have_had_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q = lagging(monkeypatch)
    fanout = q.queue.fanout
    assert (len(fanout._late), fanout._late_bytes) == (1, 3)
    q.pass_time(10)
    assert not q.queue.lagging
    assert (len(fanout._late), fanout._late_bytes) == (0, 0)


def test_a_child_that_a_reload_limits_before_its_turn_has_its_items_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q = lagging(monkeypatch)
    limited = child(q, b"jobs+1")
    limited.set_policy(Policy(max_items=10), q.now_ms)
    assert limited.child not in q.queue.lagging
    assert limited.child in q.queue.eager


@pytest.mark.parametrize("put", [put_now, put_later])
def test_a_child_whose_clients_have_given_up_is_given_no_later_item(
    put: Callable[[CoreHarness], None],
) -> None:
    q = CoreHarness(Policy())
    q.broker.create(NAME, q.now_ms)
    waiting(q, 1)
    assert [*q.queue.eager] == [child(q).child]
    q.pass_time(60_000)
    put(q)
    assert [*q.queue.eager] == []


@pytest.mark.parametrize("seed", range(15))
def test_each_child_gets_each_item_once_in_sequence_whoever_waits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients wait, give up and look; items come at once and later, children limited and not."""
    monkeypatch.setattr("kestrelpy.core.queue.fanout.GIVEN_MAX", 1 + seed % 3)
    monkeypatch.setattr("kestrelpy.core.queue.fanout._LATE_ITEMS_MAX", seed % 4)
    random, q = Random(seed), CoreHarness(Policy(max_items=100 if seed % 5 == 0 else None))
    q.broker.create(NAME, q.now_ms)
    names = [b"jobs+%d" % number for number in range(8)]
    for name in names:
        q.broker.mention(name, q.now_ms)
    got: dict[bytes, list[bytes]] = {name: [] for name in names}
    own: dict[bytes, list[bytes]] = {name: [] for name in names}
    waiters: list[Waiter] = []

    def answers() -> None:
        for each in q.broker.take_to_resume():
            if each.lease is not None:
                got[each.name].append(each.lease.item.body)

    def fetch(name: bytes) -> None:
        reader = child(q, name).reader
        if reader.waiters.first() is None:
            lease = reader.open(q.who("anna"), q.now_ms)
            if lease is not None:
                reader.confirm(lease, q.now_ms)
                got[name].append(lease.item.body)

    for number in range(150):
        name, choice = random.choice(names), random.randrange(12)
        if choice <= 4:
            holder = q.who(name.decode())
            waiters.append(q.broker.wait(Want.TAKE, name, holder, False, name, q.now_ms + 60_000))
        elif choice <= 6:
            body = b"%d" % number
            q.put(body, delay=Delay(random.choice((1, 5))) if random.random() < 0.2 else None)
        elif choice == 7:
            body = b"own %d" % number
            child(q, name).put(body, 0, 0, q.now_ms)
            own[name].append(body)
        elif choice == 8:
            fetch(name)
        elif choice == 9:
            (q.queue.state if random.random() < 0.5 else q.queue.catch_up)()
        elif choice == 10 and waiters:
            q.broker.give_up(waiters.pop(random.randrange(len(waiters))))
        else:
            q.now_ms += 1
            q.broker.tick(q.now_ms)
            if random.random() < 0.5:
                q.read_back()
        answers()
    for waiter in waiters:
        q.broker.give_up(waiter)
    for _ in range(100):
        q.now_ms += 1
        q.broker.tick(q.now_ms)
        q.read_back()
        answers()
    for name in names:
        for _ in range(300):
            fetch(name)
            q.read_back()
    assert not q.queue.lagging
    for name in names:
        mine = set(own[name])
        assert sorted(body for body in got[name] if body in mine) == sorted(own[name])
        everybody = [body for body in got[name] if body not in mine]
        assert everybody == [body for body in got[names[0]] if body not in own[names[0]]]
        assert len(everybody) == len({*everybody}) == q.queue.total_items


@pytest.mark.parametrize("children", [FEW, MANY])
def test_a_wait_on_one_of_many_children_looks_at_no_other(children: int) -> None:
    q = CoreHarness(Policy(), queues_max=MANY + 10)
    q.broker.create(NAME, q.now_ms)
    waiting(q, children)
    with Work() as counted:
        q.broker.wait(Want.TAKE, FIRST, q.who("ben"), False, "ben", q.now_ms + 50)
    assert counted.steps < LINES
