"""An item that waits ends at its expiry, in every state, and frees its key, room and place.

Promise expiry: a table of states with little memory and restarts, clocks set both ways, random
    histories against a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from journal.format.kinds import Kind
from journal.format.record import Record
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Holder
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.expiry_sweep import SOUGHT_MAX
from kestrelpy.core.subscription.subscription import ABORTED, OVERDUE, Subscription
from tests.support.core_harness import WALL_MS, CoreHarness, make_queue
from tests.support.server_harness import ServerHarness
from tests.support.steps import counted

EXPIRES_MS = 10_000  # of the item, on the steady clock
HOUR = Delay(3_600_000)


def put(q: CoreHarness, body: bytes = b"expiring") -> None:
    q.put(body, expires_ms=WALL_MS + EXPIRES_MS, key="A")


def put_back_late(q: CoreHarness) -> None:
    put(q)
    q.reader.nack(q.open(), q.now_ms, ABORTED, HOUR)


def put_back_after_its_expiry(q: CoreHarness) -> None:
    put(q)
    lease = q.open()
    q.pass_time(EXPIRES_MS)
    q.reader.nack(lease, q.now_ms, ABORTED, HOUR)


def put_back_until_a_date(q: CoreHarness) -> None:
    put(q)
    q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(WALL_MS + 3_600_000, True))


def retried(q: CoreHarness) -> None:
    q.reload(retry_delay_ms=3_600_000)
    put(q)
    q.abort(q.open())


def overdue(q: CoreHarness) -> None:
    q.reload(retry_delay_ms=3_600_000, lease_ms=1000)
    put(q)
    q.open()
    q.pass_time(2000)


def by_token(q: CoreHarness) -> None:
    put(q)
    q.reader.nack(q.open(lease_ms=1000), q.now_ms, ABORTED, HOUR)


def given_back_twice(q: CoreHarness) -> None:
    put(q)
    q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(1000))
    q.pass_time(2000)
    q.reader.nack(q.open(), q.now_ms, ABORTED, HOUR)


def blocked(q: CoreHarness) -> None:
    """Its key's first item has left before it expires; it is blocked until then."""
    q.put(b"first", key="A")
    q.open("bob")
    put(q)
    assert q.may_open() is None
    assert q.reader.key_gate.keys.blocked.count == 1


def paused(q: CoreHarness) -> None:
    put(q)
    q.pause()


def paused_and_delayed(q: CoreHarness) -> None:
    put_back_late(q)
    q.pause()


STATES = [
    put_back_late, put_back_after_its_expiry, put_back_until_a_date, retried, overdue, by_token,
    given_back_twice, blocked, paused, paused_and_delayed,
]  # fmt: skip


def ends(records: list[Record], id_: int) -> list[int]:
    return [r.time_ms for r in records if r.kind in (Kind.EXPIRED, Kind.DEAD) and r.item == id_]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("expire_to", [b"", b"late"])
@pytest.mark.parametrize("memory", [1 << 26, 0])
def test_an_item_ends_at_its_expiry(
    state: Callable[[CoreHarness], None], restarts: bool, expire_to: bytes, memory: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if not memory:
        monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    q = make_queue(expire_to=expire_to, max_memory_bytes=memory)
    state(q)
    id_ = q.queue.last_number if state is blocked else 1
    if restarts:
        q = q.restarted()
    q.pass_time(max(EXPIRES_MS - q.now_ms, 0) + 1)

    assert ends(q.records, id_) == [max(WALL_MS + EXPIRES_MS, q.unix_ms - 1)]
    assert q.reader.counters.expired == 1
    assert not q.reader.delays.count
    assert id_ not in q.reader.live or id_ in q.reader.dead.deaths


@pytest.mark.parametrize("state", [put_back_late, retried, by_token])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_next_item_of_its_key_goes_on(
    state: Callable[[CoreHarness], None], restarts: bool
) -> None:
    q = make_queue()
    state(q)
    q.put(b"next", key="A")
    if restarts:
        q = q.restarted()
    waiter = q.wait("bob", wait_ms=60_000)
    assert q.answers() == []
    q.pass_time(EXPIRES_MS + 2)

    assert waiter.lease is not None
    assert waiter.lease.item.body == b"next"


@pytest.mark.parametrize("state", [put_back_late, retried, by_token, blocked])
@pytest.mark.parametrize("limits", [{"max_items": 1}, {"max_bytes": 8}])
def test_it_takes_no_room_any_more(
    state: Callable[[CoreHarness], None], limits: dict[str, Any]
) -> None:
    q = make_queue()
    state(q)
    q.reload(**limits)
    assert not q.put(b"other")
    q.now_ms = EXPIRES_MS  # a put may come before the tick
    assert q.put(b"other")


def test_add_takes_the_queue_for_empty() -> None:
    q = make_queue()
    put_back_late(q)
    assert not q.add(b"lock")
    q.now_ms = EXPIRES_MS
    assert q.add(b"lock")


@pytest.mark.parametrize("state", [put_back_late, retried, by_token, blocked, paused])
@pytest.mark.parametrize("memory", [1 << 26, 0])
def test_flush_expired_counts_it(
    state: Callable[[CoreHarness], None], memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not memory:
        monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    q = make_queue(max_memory_bytes=memory)
    state(q)
    q.pass_time(1)
    q.now_ms = EXPIRES_MS
    sweep, count = q.operations.sweep([q.queue], q.now_ms), -1
    for _ in range(100):
        try:
            next(sweep)
        except StopIteration as end:
            count = end.value
            break
        q.read_back()
    assert count == 1


def test_a_clock_that_is_set_forward_ends_a_delayed_item() -> None:
    q = make_queue()
    put(q)
    q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(5000))
    q.step_clock(EXPIRES_MS)
    assert q.reader.counters.expired == 1


def test_a_clock_that_is_set_back_does_not_end_it() -> None:
    q = make_queue()
    put_back_late(q)
    q.step_clock(-60_000)
    q.pass_time(EXPIRES_MS + 1)
    assert q.reader.counters.expired == 0
    q.pass_time(60_000)
    assert q.reader.counters.expired == 1


def test_a_leased_item_does_not_expire_and_ends_when_it_is_given_back() -> None:
    q = make_queue()
    put(q)
    q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(1000))
    q.pass_time(1000)
    lease = q.open()
    q.pass_time(EXPIRES_MS)
    assert q.reader.counters.expired == 0
    q.reader.nack(lease, q.now_ms, OVERDUE, HOUR)
    q.pass_time(1)
    assert q.reader.counters.expired == 1


def test_a_dead_letter_does_not_expire() -> None:
    q = make_queue()
    put(q)
    q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(1000))
    q.pass_time(1000)
    q.bury(q.open())
    q.pass_time(2 * EXPIRES_MS)
    assert q.dead == [b"expiring"]


# -- fan-out children -----------------------------------------------------------------------


def child_of(q: CoreHarness) -> Subscription:
    """The child `jobs+audit`."""
    found = q.broker.mention(b"jobs+audit", q.now_ms)
    assert found is not None
    return found.reader


def opened(q: CoreHarness, child: Subscription, lease_ms: int = 0) -> Any:
    holder = Holder("carl")
    child.catch_up()
    lease = child.open(holder, q.now_ms, lease_ms=lease_ms)
    while lease is None and q.read_back():
        lease = child.open(holder, q.now_ms, lease_ms=lease_ms)
    assert lease is not None
    return lease


@pytest.mark.parametrize("lease_ms", [0, 1000])
@pytest.mark.parametrize("delay", [None, HOUR])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_an_item_given_back_to_a_child_ends_at_its_expiry(
    lease_ms: int, delay: Delay | None, is_late: bool, restarts: int
) -> None:
    q = make_queue()
    child = child_of(q)
    put(q)
    lease = opened(q, child, lease_ms or 60_000 if restarts == 2 else lease_ms)
    if is_late:
        q.pass_time(EXPIRES_MS)
    if restarts == 2:  # it is given back by the token of a lease from before the restart
        q = q.restarted()
        child = q.queue.children[b"audit"]
        found = child.by_token.find(lease.token, q.now_ms)
        if found is not None:
            child.nack(found, q.now_ms, ABORTED, delay)
    elif child.leases.of(1) is not None:
        child.nack(lease, q.now_ms, ABORTED, delay)
    if restarts == 1:
        q = q.restarted()
        child = q.queue.children[b"audit"]
    q.pass_time(EXPIRES_MS + 1500)

    assert not child.live
    assert len(ends([r for r in q.records if r.reader], 1)) == 1


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_delay_beyond_the_max_age_of_a_child_ends_there(
    is_read: bool, restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    young = replace(Policy(), max_age_ms=EXPIRES_MS)
    monkeypatch.setattr(
        CoreHarness, "policy_of", lambda _, name: young if b"+" in name else Policy()
    )
    q = make_queue()
    child = child_of(q)
    q.put(b"later", delay=Delay(60_000))
    if is_read:
        child.catch_up()
    if restarts:
        q = q.restarted()
        child = q.queue.children[b"audit"]
    q.pass_time(EXPIRES_MS + 1500)

    assert child.counters.expired == 1
    assert not child.live.count
    q.pass_time(60_000)
    assert q.reader.live.count == 1, "the queue itself has it"


# -- how much it costs ----------------------------------------------------------------------


def test_the_entries_follow_the_items_that_wait() -> None:
    q = make_queue()
    for _ in range(1000):
        put(q)
        q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(1))
        q.pass_time(1)
        q.close(q.open())
    assert q.reader.ends.entry_count <= 1
    assert q.reader.delays.entry_count == 0


def test_an_item_that_comes_back_again_and_again_has_one_entry() -> None:
    q = make_queue(max_attempts=None)
    put(q)
    for _ in range(500):
        q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(1))
        q.pass_time(1)
    assert q.reader.ends.entry_count == 1


@pytest.mark.parametrize("is_blocked", [False, True])
def test_a_tick_ends_a_bounded_number_of_them(is_blocked: bool) -> None:
    q = make_queue(max_attempts=None)
    if is_blocked:
        q.put(b"first", key="A")
        q.open("bob")
    for _ in range(2000):
        q.put(b"expiring", expires_ms=WALL_MS + EXPIRES_MS, key="A" if is_blocked else "")
    for _ in range(0 if is_blocked else 2000):
        q.reader.nack(q.open(), q.now_ms, ABORTED, HOUR)
    assert not is_blocked or q.may_open() is None
    q.now_ms = EXPIRES_MS
    before = q.reader.counters.expired
    q.broker.tick(q.now_ms)
    assert 0 < q.reader.counters.expired - before <= 500
    q.pass_time(1000)
    assert q.reader.counters.expired - before == 2000
    assert not q.reader.delays.entry_count


def test_many_blocked_items_end_whose_keys_the_log_alone_has() -> None:
    count = 2 * SOUGHT_MAX
    stage = ServerHarness()
    stage.set_queue("jobs", max_memory=1)
    stage.say("put", b"set jobs/key=A 0 0 1", b"1")
    for _ in range(count):
        stage.say("put", b"set jobs/key=A 0 1 99", b"y" * 99)
    assert stage.say("bob", b"get jobs/open").startswith(b"VALUE")
    stage.say("carl", b"get jobs/open")
    stage.pass_time(100)  # the search for that many keys is not over yet
    reader = stage.queue("jobs").reader
    blocked, whole = reader.key_gate.keys.blocked, reader.key_gate.whole
    assert blocked.count == count and count - len(whole) > SOUGHT_MAX
    stage.pass_time(2000)
    assert [*reader.live] == [1]
    assert reader.sought_keys == {}


def test_a_flush_expired_of_nothing_takes_one_pass() -> None:
    q = make_queue()
    put_back_late(q)
    assert counted(q.operations.sweep([q.queue], q.now_ms)) == (0, 0)


@pytest.mark.parametrize("trouble", ["failed", "unread"])
def test_a_sweep_waits_no_longer_for_keys_that_cannot_be_read_now(trouble: str) -> None:
    q = make_queue()
    q.put(b"blocked")
    q.reader.sought_keys[1] = None
    sweep = q.operations.sweep([q.queue], q.now_ms)
    next(sweep)
    next(sweep)

    if trouble == "failed":
        q.queue.log.failure = OSError("disk on fire")
    else:
        q.reader.unread = "too many open files"

    assert next(sweep, None) is None, "it has ended"


# -- what is known of them goes with them ---------------------------------------------------

ENDS: dict[str, Callable[[CoreHarness, int], object]] = {
    "flush": lambda q, _: q.flush(),
    "cancel": lambda q, id_: q.cancel(id_),
    "discard": lambda q, id_: q.reader._apply_done(id_, 8),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_delayed_item_of_before_the_start_leaves_no_id_behind(end: str) -> None:
    q = make_queue()
    put_back_late(q)
    q = q.restarted()
    reader = q.reader
    assert list(reader.restored) == [1]
    ENDS[end](q, 1)
    assert not reader.restored.count
    assert not reader.ends.ids.count


def test_a_released_item_of_before_the_start_leaves_no_id_behind() -> None:
    q = make_queue()
    put(q)
    q.reader.nack(q.open(), q.now_ms, ABORTED, Delay(1000))
    q = q.restarted()
    q.pass_time(1001)
    q.close(q.open())
    assert not q.reader.restored.count


@pytest.mark.parametrize("end", ["flush", "discard"])
def test_a_key_that_is_looked_for_goes_with_its_item(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    q = make_queue(max_memory_bytes=0)
    blocked(q)
    q.now_ms = EXPIRES_MS
    q.broker.tick(q.now_ms)
    reader = q.reader
    (id_,) = reader.sought_keys
    ENDS[end](q, id_)
    assert not reader.sought_keys
