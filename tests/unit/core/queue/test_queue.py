"""A queue: the items that it stores, the items that it refuses, and its end."""

from __future__ import annotations

import pytest

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.subscription.subscription import DISCARDED_ITEMS_MAX
from kestrelpy.errors import ItemRefused, ServerError
from tests.support.core_harness import (
    NAME,
    WALL_MS,
    CoreHarness,
    make_queue,
    state_after_a_restart,
)

# -- limits ------------------------------------------------------------------------------------


def test_a_full_queue_stores_nothing_more() -> None:
    q = make_queue(max_items=2)
    assert q.put(b"1", b"2")
    assert not q.put(b"3")
    assert q.ready == [b"1", b"2"]
    assert q.queue.total_items == 2


def test_bytes_are_limited_too() -> None:
    q = make_queue(max_bytes=10)
    assert q.put(b"12345", b"12345")
    assert not q.put(b"1")
    assert q.put(b"")
    q.take()
    assert q.put(b"12345")


def test_limits_are_over_what_is_ready_not_what_is_leased() -> None:
    q = make_queue(max_items=1)
    q.put(b"1")
    lease = q.open()
    assert q.put(b"2")
    q.abort(lease)  # what was accepted is never refused afterwards
    assert q.ready == [b"1", b"2"]
    assert not q.put(b"3")


def test_what_has_expired_takes_no_room() -> None:
    q = make_queue(max_items=2)
    q.put(b"stays")
    q.put(b"goes", expires_ms=WALL_MS + 100)
    q.now_ms = 99
    assert not q.put(b"new")
    q.now_ms = 100
    assert q.put(b"new")
    assert q.ready == [b"stays", b"new"]


def test_a_full_queue_may_drop_its_head_instead() -> None:
    q = make_queue(max_items=2, discard_old_when_full=True)
    assert q.put(b"1", b"2", b"3")
    assert q.ready == [b"2", b"3"]
    assert q.story == "put 1 1, put 2 2, discarded 1, put 3 3"


def test_as_many_are_dropped_as_the_new_one_needs() -> None:
    q = make_queue(max_bytes=10, discard_old_when_full=True)
    q.put(b"111", b"222", b"333")
    assert q.put(b"12345")
    assert q.ready == [b"333", b"12345"]


def test_what_is_leased_or_dead_is_not_dropped() -> None:
    q = make_queue(max_items=1, max_attempts=1, discard_old_when_full=True)
    q.put(b"dead")
    q.abort(q.open())
    q.put(b"lent")
    q.open()
    q.put(b"1", b"2")
    assert (q.ready, q.leased, q.dead) == ([b"2"], [b"lent"], [b"dead"])


@pytest.mark.parametrize("discard", [False, True])
def test_what_never_fits_drops_nothing(discard: bool) -> None:
    q = make_queue(max_bytes=10, discard_old_when_full=discard)
    q.put(b"1")
    with pytest.raises(ItemRefused):
        q.put(b"x" * 11)
    q.reload(max_items=0, max_bytes=None)
    assert not q.put(b"1")
    assert q.ready == [b"1"]


@pytest.mark.parametrize("limit", [{"max_items": 2}, {"max_bytes": 8}])
def test_where_what_is_delayed_takes_the_room_nothing_is_dropped_in_vain(
    limit: dict[str, int],
) -> None:
    q = make_queue(discard_old_when_full=True)
    q.put(b"head")
    for _ in range(2):
        q.queue.put(b"late", 0, 0, q.now_ms, delay=Delay(1000))
    q.reload(**limit)
    assert not q.put(b"new!")
    assert (q.ready, q.reader.counters.discarded) == ([b"head"], 0)
    q.pass_time(1000)
    assert q.put(b"new!")
    assert q.ready == [b"late", b"new!"]


def test_beside_what_is_delayed_the_head_makes_room() -> None:
    q = make_queue(max_items=2, max_bytes=9, discard_old_when_full=True)
    q.queue.put(b"late", 0, 0, q.now_ms, delay=Delay(1000))
    q.put(b"head")
    assert q.put(b"new!!")
    assert not q.put(b"larger")
    assert q.ready == [b"new!!"]


def test_a_limit_lowered_by_far_is_reached_in_bounded_steps() -> None:
    q = make_queue(discard_old_when_full=True)
    q.put(*[b"x"] * 2500)
    q.reload(max_items=10)
    counts = []
    for _ in range(4):
        assert q.put(b"x")
        counts.append(q.reader.ready.count)
    assert counts == [2501 - DISCARDED_ITEMS_MAX, 2502 - 2 * DISCARDED_ITEMS_MAX, 10, 10]


def test_a_queue_over_its_limit_of_bytes_does_not_grow() -> None:
    q = make_queue(discard_old_when_full=True)
    q.put(*[b"x"] * 2500)
    q.reload(max_bytes=2000)
    assert not q.put(b"y" * 1500)  # a thousand bytes were dropped
    assert q.reader.ready.bytes == 1500
    assert q.put(b"y" * 1500)
    assert q.reader.ready.bytes == 2000


def test_an_oversized_item_is_refused_with_its_size_and_the_limit() -> None:
    q = make_queue(max_item_bytes=5)
    assert q.put(b"12345")
    with pytest.raises(ServerError, match=r"item too large \(6 bytes, limit 5\)"):
        q.put(b"123456")
    assert q.story == "put 1 12345"


def test_limits_change_on_reload() -> None:
    q = make_queue(max_items=1)
    q.put(b"1")
    q.reload(max_items=2)
    assert q.put(b"2")
    q.reload(max_items=1)
    assert not q.put(b"3")
    assert q.ready == [b"1", b"2"]


# -- age ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked_ms", "stays_ms"), [(0, 1000), (500, 500), (1000, 1000), (9000, 1000)]
)
def test_no_item_stays_longer_than_max_age(asked_ms: int, stays_ms: int) -> None:
    q = make_queue(max_age_ms=1000)
    q.put(b"1", expires_ms=WALL_MS + asked_ms if asked_ms else 0)
    q.pass_time(stays_ms - 1)
    assert q.ready == [b"1"]
    q.pass_time(1)
    assert q.ready == []


def test_what_was_stored_under_another_max_age_keeps_its_expiry() -> None:
    q = make_queue(max_age_ms=1000)
    q.put(b"1")
    q.reload(max_age_ms=100)
    q.put(b"2")
    q.pass_time(100)
    assert q.ready == [b"1"]


def test_a_queue_that_is_empty_and_older_is_deleted() -> None:
    q = make_queue(max_queue_age_ms=5000)
    q.pass_time(4999)
    assert NAME in q.broker.queues
    q.pass_time(1)
    assert NAME not in q.broker.queues
    assert [queue.name for queue in q.broker.deleted] == [NAME]


@pytest.mark.parametrize("content", ["ready", "lent", "dead", "waiting"])
def test_an_old_queue_that_holds_something_stays_until_it_does_not(content: str) -> None:
    q = make_queue(max_queue_age_ms=5000, max_attempts=1)
    if content == "waiting":
        q.wait("anna", 20_000)
    else:
        q.put(b"1")
    if content in {"lent", "dead"}:
        lease = q.open()
        if content == "dead":
            q.abort(lease)
    q.pass_time(20_001)
    if content != "waiting":
        assert NAME in q.broker.queues
        q.take(dead=content == "dead") or q.close(next(iter(q.who("anna").leases)))
    q.pass_time(5001)
    assert NAME not in q.broker.queues


def test_the_age_of_a_queue_goes_on_over_a_restart() -> None:
    q = make_queue(max_queue_age_ms=10_000)
    q.put(b"1")
    q.pass_time(8000)
    again = q.restarted()
    again.take()
    again.pass_time(1999)
    assert NAME in again.broker.queues
    again.pass_time(1)
    assert NAME not in again.broker.queues


def test_an_age_set_by_reload_counts_at_once() -> None:
    q = make_queue()
    q.pass_time(90_000)
    assert q.broker.next_due() is None
    q.reload(max_queue_age_ms=60_000)
    q.pass_time(60_000)
    assert NAME not in q.broker.queues


# -- add ---------------------------------------------------------------------------------------


def test_add_stores_only_into_an_empty_queue() -> None:
    q = make_queue()
    assert q.add(b"lock")
    assert not q.add(b"lock")
    lease = q.open()
    assert not q.add(b"lock")
    q.close(lease)
    assert q.add(b"lock")
    assert q.story == "put 1 lock, done 1, put 2 lock"


def test_add_finds_a_queue_of_expired_items_empty() -> None:
    q = make_queue()
    q.add(b"lock", expires_ms=WALL_MS + 1000)
    q.now_ms = 1000
    assert q.add(b"lock")


def test_add_does_not_look_at_the_dead() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1")
    q.abort(q.open())
    assert q.add(b"2")


# -- when the journal cannot -------------------------------------------------------------------


def test_after_a_failure_nothing_is_stored_or_flushed() -> None:
    q = make_queue()
    q.put(b"1")
    q.queue.log.failure = OSError("disk on fire")
    for attempt in (lambda: q.put(b"2"), lambda: q.add(b"2"), q.flush):
        with pytest.raises(ServerError, match="jobs is closed until a restart: disk on fire"):
            attempt()
    assert (q.ready, q.story) == ([b"1"], "put 1 1")


def test_a_failed_queue_does_not_grow_too_old() -> None:
    q = make_queue(max_queue_age_ms=1000)
    q.queue.log.failure = OSError("disk on fire")
    q.pass_time(10_000)
    assert NAME in q.broker.queues  # a new one of its name would acknowledge again


def test_without_room_nothing_is_stored_and_everything_can_be_fetched_and_confirmed() -> None:
    q = make_queue(max_items=1, discard_old_when_full=True)
    q.put(b"1")
    q.queue.log.no_room = "no room on the disk"
    with pytest.raises(ServerError, match="no room on the disk"):
        q.put(b"2")
    assert q.ready == [b"1"]
    assert q.take() == b"1"
    q.queue.log.no_room = ""
    assert q.put(b"2")


# -- the rest ----------------------------------------------------------------------------------


def test_a_checkpoint_counts_what_is_there_once() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"dead", b"dead and lent", b"lent", b"ready")
    q.abort(q.open())
    q.abort(q.open())
    q.open()
    q.open(dead=True)
    checkpoint = q.queue.checkpoint()
    assert checkpoint.live_items == 4
    assert (checkpoint.next_item, checkpoint.next_place, checkpoint.total_items) == (5, 5, 4)
    assert checkpoint.name == NAME
    assert checkpoint.generation == q.queue.generation


def test_a_mistake_of_clients_is_complained_about_once_a_minute() -> None:
    q = make_queue()
    times = (0, 1, 59_999, 60_000, 60_001, 120_000)
    assert [t for t in times if q.reader.may_complain(t)] == [0, 60_000, 120_000]


def test_a_queue_knows_whether_it_holds_anything() -> None:
    q = make_queue()
    assert q.queue.is_empty
    q.put(b"1")
    assert not q.queue.is_empty
    lease = q.open()
    assert not q.queue.is_empty
    q.close(lease)
    assert q.queue.is_empty


@pytest.mark.parametrize("one_in", [2, 3])
def test_of_what_is_read_back_to_make_room_the_expired_is_not_discarded(one_in: int) -> None:
    q = make_queue()
    for n in range(600):
        q.put(b"x", expires_ms=WALL_MS + 10 if n % one_in else 0)
    again = q.restarted()
    again.reload(max_items=2, discard_old_when_full=True)
    again.now_ms += 20

    assert again.put(b"new")

    kept = 600 // one_in
    counters = again.reader.counters
    assert (counters.discarded, counters.expired) == (kept - 1, 600 - kept)
    assert again.reader.ready.count == 2


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("flags", [0, 1, 77])
@pytest.mark.parametrize("bodies", [[b"a"], [b"one", b"two", b"six"], [b""] * 3])
def test_a_run_of_puts_is_what_each_of_them_is(
    bodies: list[bytes], flags: int, on_disk: bool
) -> None:
    one_by_one, together = make_queue(), make_queue()
    if not on_disk:
        for q in (one_by_one, together):
            q.queue.attach(MemoryLog())
    for q in (one_by_one, together):
        q.put(b"first")
    for body in bodies:
        one_by_one.queue.put(body, flags, 0, one_by_one.now_ms)
    together.queue.put_run(bodies, sum(map(len, bodies)), flags, together.now_ms)

    def figures(q: CoreHarness) -> tuple[int, ...]:
        reader, ready = q.reader, q.reader.ready
        return (
            reader.live_bytes, ready.count, ready.bytes, ready.resident, ready.resident_bytes,
            reader.cost, q.queue.total_items, q.queue.put_bytes, q.queue.next_number,
        )  # fmt: skip

    assert figures(together) == figures(one_by_one)
    assert state_after_a_restart(together.queue) == state_after_a_restart(one_by_one.queue)
    if on_disk:
        assert together.records == one_by_one.records
