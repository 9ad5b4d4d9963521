"""Many items beyond `max_memory`: a slice of long work costs the same, however many there are.

The figures are lines of Python, not milliseconds: 1,000 lines take about a tenth of a millisecond
on the slowest machine in use, compiled less.

Promise slices: counted steps of each slice, with few and many items, children and clients, beyond
    `max_memory` too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import pytest

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.subscription.placed import Placed
from kestrelpy.core.subscription.subscription import ABORTED
from tests.support.core_harness import WALL_MS, CoreHarness, make_queue
from tests.support.steps import Work

ITEMS = 3000
MEMORY = 100 << 10  # about 300 items
SLICE = 500  # items in one slice
LINES = 350  # that one item may cost


@pytest.fixture
def q(monkeypatch: pytest.MonkeyPatch) -> CoreHarness:
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    monkeypatch.setattr("kestrelpy.core.subscription.ready_items._SLACK_BYTES", 0)
    return make_queue(max_memory_bytes=MEMORY, max_attempts=None)


def filled(q: CoreHarness, expires_ms: int = 0) -> None:
    for _ in range(ITEMS):
        q.put(b"x" * 10, expires_ms=expires_ms)


def redrive(q: CoreHarness) -> Iterator[object]:
    filled(q)
    while (lease := q.may_open()) is not None:
        q.bury(lease)
    admin = q.operations
    return admin.redrive(q.queue, deque(q.reader.dead.deaths), q.now_ms)


def abort(q: CoreHarness) -> Iterator[object]:
    """Newest first: each goes before all that are back."""
    filled(q)
    leases = [q.open() for _ in range(ITEMS)]

    def steps() -> Iterator[object]:
        while leases:
            for _ in range(min(SLICE, len(leases))):
                q.reader.nack(leases.pop(), q.now_ms, ABORTED)
            yield None

    return steps()


def abort_all(q: CoreHarness) -> Iterator[object]:
    filled(q)
    leases = deque(q.open() for _ in range(ITEMS))

    def steps() -> Iterator[object]:
        while leases:
            for _ in range(min(SLICE, len(leases))):
                q.reader.nack(leases.popleft(), q.now_ms, ABORTED)
            yield None

    return steps()


def ticks(q: CoreHarness, ms: int) -> Iterator[object]:
    q.now_ms += ms
    while (due := q.broker.next_due()) is not None and due <= q.now_ms:
        q.broker.tick(q.now_ms)
        yield None
        q.read_back()  # the end of a read is a callback of its own
        yield None
        q.now_ms += 1


def overdue(q: CoreHarness) -> Iterator[object]:
    q.reload(lease_ms=1000)
    filled(q)
    while q.may_open() is not None:
        pass
    return ticks(q, 1001)


def due(q: CoreHarness) -> Iterator[object]:
    filled(q)
    while (lease := q.may_open()) is not None:
        q.reader.nack(lease, q.now_ms, ABORTED, Delay(1000))
    return ticks(q, 1001)


def expiry(q: CoreHarness) -> Iterator[object]:
    filled(q, WALL_MS + 1000)
    return ticks(q, 1001)


def expiry_of_delayed(q: CoreHarness) -> Iterator[object]:
    filled(q, WALL_MS + 1000)
    while (lease := q.may_open()) is not None:
        q.reader.nack(lease, q.now_ms, ABORTED, Delay(5000))
    return ticks(q, 1001)



def hang_up(q: CoreHarness) -> Iterator[object]:
    filled(q)
    while q.may_open() is not None:
        pass

    def steps() -> Iterator[object]:
        q.hang_up("anna")
        yield None
        yield from ticks(q, 0)

    return steps()


WORK = [redrive, abort, abort_all, overdue, due, expiry, expiry_of_delayed, hang_up]


@pytest.mark.parametrize("work", WORK)
def test_a_slice_costs_the_same_however_many_items_there_are(
    q: CoreHarness, work: Callable[[CoreHarness], Iterator[object]]
) -> None:
    steps, slices = work(q), list[int]()
    while True:
        with Work() as counted:
            is_over = next(steps, "over") == "over"
        slices.append(counted.steps)
        if is_over:
            break
    assert max(slices) < SLICE * LINES, slices
    assert q.reader.cost <= MEMORY + (64 << 10)


@pytest.mark.parametrize("most", [None, 1])
def test_a_hang_up_costs_the_same_however_many_leases_there_are(most: int | None) -> None:
    """The leases go back, or die, at the next ticks; nothing looks at all of them before."""

    def cost(items: int) -> int:
        q = make_queue(max_attempts=most)
        for _ in range(items):
            q.put(b"x")
            q.open()
        with Work() as counted:
            q.hang_up()
        assert not q.who("anna").leases
        return counted.steps

    few, many = cost(1000), cost(4000)
    assert many < few + 100


def blocked(q: CoreHarness, keys: int, items: int = ITEMS) -> None:
    """Let items wait for those of their keys that are leased."""
    for number in range(items):
        q.put(b"x", key=str(number % keys))
    for _ in range(items):
        q.may_open()


def leased(q: CoreHarness, items: int = ITEMS) -> None:
    for _ in range(items):
        q.put(b"x")
        q.open()


def test_a_resumed_queue_serves_thousands_of_waiters_in_several_ticks() -> None:
    q = make_queue(lease_ms=None)
    q.put(b"x")
    q.pause()
    filled(q)
    waiters = [q.wait(f"{number}", 60_000) for number in range(ITEMS)]

    with Work() as counted:
        q.pause(False)
    steps = [counted.steps]
    while q.broker.next_due() is not None and not waiters[-1].done:
        q.now_ms += 1
        with Work() as counted:
            q.broker.tick(q.now_ms)
        steps.append(counted.steps)
        q.read_back()
    assert [each.lease.item.id for each in waiters if each.lease] == [*range(1, ITEMS + 1)]
    assert max(steps) < SLICE * LINES / 2


def test_a_flush_looks_briefly_at_leases_with_keys() -> None:
    q = make_queue(lease_ms=None)
    for number in range(ITEMS):
        q.put(b"x", key=str(number))
        q.open()
    q.put(b"late", key="7")
    with Work() as counted:
        q.flush()
    assert counted.steps < ITEMS * 15
    q.put(b"later", key="7")
    q.put(b"other", key="other")
    assert q.open().item.body == b"other", "7 is leased still"


def came_back(q: CoreHarness, keys: int, items: int) -> None:
    """Let items that were delayed, and so are at another place, wait for their keys."""
    for number in range(items):
        q.put(b"x", key=str(number % keys), delay=Delay(10))
    q.pass_time(11)
    while q.broker.next_due() is not None and q.reader.delays.count:
        q.pass_time(1)
    for _ in range(items):
        q.may_open()


def wait_for_one_of_two(q: CoreHarness, items: int) -> None:
    """Let each item wait for two others, and hold a value that another waits for."""
    q.reload(keys=KeySettings(matches_any=True))
    q.reader.set_keys(q.policy.keys)
    for number in range(items):
        q.put(b"x", key=f"{number},{number // 2},a{number}")
    for _ in range(items):
        q.may_open()


UPTO: dict[str, Callable[[CoreHarness, int], None]] = {
    "leased": leased,
    "blocked by one key": lambda q, items: blocked(q, 1, items),
    "blocked by many keys": lambda q, items: blocked(q, items // 2, items),
    "blocked by one key at other places": lambda q, items: came_back(q, 1, items),
    "blocked by many keys at other places": lambda q, items: came_back(q, items // 2, items),
    "blocked by one of several values": wait_for_one_of_two,
}


@pytest.mark.parametrize("state", UPTO)
def test_a_step_of_upto_costs_the_same_however_many_items_there_are(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.queue.ack_up_to.STEP_NUMBERS", 100)

    def cost(items: int) -> tuple[int, int]:
        q = make_queue(max_attempts=None, lease_ms=None)
        UPTO[state](q, items)
        upto, steps = AckUpTo(q.queue, q.queue.last_number), list[int]()
        while not upto.is_over:
            with Work() as counted:
                upto.step(q.now_ms)
            steps.append(counted.steps)
        assert not q.reader.live.count
        assert not q.reader.key_gate.keys.some(0, 1)
        return len(steps), max(steps)

    (few, costly), (many, costlier) = cost(1000), cost(4000)
    assert few * 4 == many, "numbers of nothing take no steps"
    assert costlier < costly * 1.5


def test_a_copy_of_waiting_items_for_a_snapshot_looks_at_no_key() -> None:
    q = make_queue(max_attempts=None)
    blocked(q, ITEMS // 2)
    with Work() as counted:
        placed = Placed.of(q.reader)
    assert counted.steps < 300
    del placed


def test_a_flush_replaces_what_is_there(q: CoreHarness) -> None:
    filled(q)
    with Work() as counted:
        q.flush()
    assert counted.steps < 1000


@pytest.mark.parametrize("act", [abort, abort_all, redrive, hang_up])
def test_a_copy_for_a_snapshot_looks_at_no_item_in_memory(
    act: Callable[[CoreHarness], Iterator[object]]
) -> None:
    """The loop copies whole structures; the snapshot's thread looks at the items."""
    q = make_queue(max_attempts=None)
    for _ in act(q):
        pass
    leases = [q.open() for _ in range(ITEMS // 2)]
    with Work() as counted:
        placed = Placed.of(q.reader)
    assert counted.steps < 300
    assert q.reader.ready.count + len(leases) == ITEMS
    assert len([*placed]) == (ITEMS if act is redrive else 0)
