"""The ready list and its log: every waiter is served, and every counted item exists."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from journal.errors import JournalFailed
from journal.write.segment_file import Sizes
from kestrelpy.core.broker import Broker
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.disk_refs import pack
from kestrelpy.core.index.leases import Holder, Lease
from kestrelpy.core.index.ready_list import NO_FRONTIER
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.subscription import ABORTED
from tests.support.core_harness import CoreHarness, make_queue
from tests.support.disk_harness import NAME, WALL_MS, DiskHarness
from tests.support.memory_disk import Fault

LARGE = Sizes(segment_min=1 << 20, segment_max=1 << 20, batch_max=1 << 22)


@pytest.fixture(autouse=True)
def threads_by_hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    yield


def life(sizes: Sizes = LARGE, **settings: Any) -> DiskHarness:
    return DiskHarness(Policy(**{"max_memory_bytes": 0, **settings}), sizes)


def answers(q: DiskHarness) -> list[bytes | None]:
    found = []
    for waiter in q.broker.take_to_resume():
        item = waiter.lease.item if waiter.lease is not None else waiter.item
        found.append(item.body if item is not None else None)
    return found


def test_without_any_room_everything_goes_by_way_of_the_log() -> None:
    q = life()
    for n in range(200):
        q.put(b"%d" % n)
    assert q.reader.ready.resident == 0
    assert q.reader.ready.count == 200
    assert q.take_all() == [b"%d" % n for n in range(200)]


@pytest.mark.parametrize("want", [Want.OPEN, Want.PEEK, Want.TAKE])
@pytest.mark.parametrize("gone", ["expired", "dead", "confirmed", "lent"])
def test_who_waits_is_served_however_many_others_stand_before(want: Want, gone: str) -> None:
    q = life(max_attempts=1)
    for _ in range(1500):
        q.put(b"old", WALL_MS + 10 if gone == "expired" else 0)
    q.put(b"new")
    if gone != "expired":
        leases = [q.open() for _ in range(1500)]
        for lease in leases:
            assert lease is not None
            if gone == "dead":
                q.reader.nack(lease, 0, ABORTED)
            elif gone == "confirmed":
                q.reader.confirm(lease, 0)
    q.commit()
    if gone != "lent":
        q.kill()  # so that all of them are after the frontier
    q.now_ms = 10
    q.wait("bert", want)
    q.do_all()
    assert answers(q) == [b"new"]


def test_what_expires_behind_the_frontier_goes_once_something_in_memory_does() -> None:
    q = life()
    for _ in range(1000):
        q.put(b"old", WALL_MS + 10)
    q.commit()
    assert q.peek() == b"old"
    q.pass_time(20)
    q.do_all()
    assert q.reader.ready.count == 0
    assert q.reader.counters.expired == 1000


def test_an_add_is_not_refused_for_an_item_that_expired_unread() -> None:
    q = life()
    q.put(b"lock", WALL_MS + 10)
    q.commit()
    q.now_ms = 20
    assert q.peek() is None
    assert q.jobs.add(b"lock", 0, 0, q.now_ms) > 0


def test_an_add_right_after_a_start_is_not_refused_for_an_item_that_has_expired() -> None:
    q = life()
    q.put(b"lock", WALL_MS + 10)
    q.commit()
    q.now_ms = 20
    q.kill()
    assert q.jobs.add(b"lock", 0, 0, q.now_ms) > 0
    q.now_ms = 5
    q.kill()
    assert q.jobs.add(b"lock", 0, 0, q.now_ms) < 0


def test_whose_segment_is_gone_is_named_and_holds_nobody_up() -> None:
    q = life(Sizes(2048, 2048, 1 << 20))
    for n in range(20):
        q.put(b"%d" % (n % 10) * 400)
        q.commit()
    segments = [s for s in q.log.journal.segments if s.item_last]
    gone = [segments[0], segments[2]]
    for segment in gone:
        q.log.journal.segment_list.segments.remove(segment)
    lost = {i for s in gone for i in range(s.item_first, s.item_last + 1)}
    q.wait("anna")
    q.do_all()
    assert len(answers(q)) == 1
    assert len(q.take_all()) == 20 - len(lost) - 1
    assert q.peek() is None
    named = {i for d in q.damages for i in range(d.id_first, d.id_last + 1)}
    assert lost <= named
    assert q.reader.ready.count == 0
    assert not q.jobs.is_empty, "what cannot be read is not thrown away with the queue"
    q.put(b"new")
    assert q.take_all() == [b"new"]


def test_what_no_segment_holds_is_named_and_holds_nobody_up() -> None:
    q = life()
    q.put(b"1")
    q.commit()
    q.jobs._apply_put(2, 10)
    q.reader.ready.push_beyond(2, 10)  # as after a start without the last segment
    assert q.take_all() == [b"1"]
    assert [(d.id_first, d.id_last) for d in q.damages] == [(2, 2)]
    assert (q.reader.ready.count, q.reader.ready.bytes) == (0, 0)


def test_a_failed_read_is_named_and_what_comes_later_is_served() -> None:
    q = life(Sizes(2048, 2048, 1 << 20))
    for n in range(12):
        q.put(b"%d" % n * 300)
        q.commit()
    second = q.log.journal.segments[1]
    where = "*" + second.path.rpartition("/")[2]
    q.disk.faults = [Fault("read", where, times=99, error=errno.EIO)]
    found = q.take_all()
    assert 12 - (second.item_last - second.item_first + 1) <= len(found) < 12
    assert any("Input/output error" in d.reason for d in q.damages)


def test_a_read_that_fails_once_costs_nothing() -> None:
    q = life(Sizes(2048, 2048, 1 << 20))
    for n in range(12):
        q.put(b"%d" % n * 300)
        q.commit()
    q.disk.faults = [Fault("read", "*.segment", error=errno.EIO)]
    assert q.take_all() == [b"%d" % n * 300 for n in range(12)]
    assert q.damages == []


def test_a_dead_item_without_a_segment_is_hidden_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrelpy.core.index.dead_letters.MEMORY_BYTES_MAX", 0)
    q = life(max_attempts=1)
    for n in range(3):
        q.put(b"%d" % n)
        lease = q.open()
        assert lease is not None
        q.reader.nack(lease, 0, ABORTED)
    q.commit()
    q.kill()
    q.log.journal.segments[0].item_first = 2  # as if the first stood in another one
    assert q.peek(dead=True) == b"1"
    assert [(d.id_first, d.id_last) for d in q.damages] == [(1, 1)]


def test_dead_items_of_any_size_are_read_back_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kestrelpy.core.index.dead_letters.MEMORY_BYTES_MAX", 100)
    q = life(max_attempts=1)
    for size in (60, 90, 30, 200, 10):
        q.put(b"x" * size)
        lease = q.open()
        assert lease is not None
        q.reader.nack(lease, 0, ABORTED)
    q.commit()
    sizes = []
    while (lease := q.open(dead=True)) is not None:
        sizes.append(len(lease.item.body))
        q.reader.confirm(lease, 0)
    assert sizes == [60, 90, 30, 200, 10]
    assert q.jobs.is_empty


def test_a_look_at_a_failed_queue_does_not_wait_for_what_is_never_written() -> None:
    q = life()
    q.put(b"1")
    q.log.journal.commit.fail(JournalFailed("disk on fire"))
    q.log.advance()
    assert q.reader.first(0) is None
    for _ in range(5):
        q.do_some()
    assert not q.reader.is_busy(0)


@pytest.mark.parametrize("attempts", [None, 1])
def test_what_was_never_written_when_a_journal_failed_is_no_damage(attempts: int | None) -> None:
    q = life(max_attempts=attempts, max_memory_bytes=900)
    q.put(b"0")
    q.commit()
    leases = lend(q, 1)
    q.put(b"1" * 1000)
    leases += lend(q, 1)
    assert not leases[1].item.is_whole
    q.disk.faults = [Fault("write", "*.segment", error=errno.EIO)]
    q.commit()
    assert q.log.failure is not None
    for lease in leases:
        q.reader.nack(lease, 0, ABORTED)
    assert q.peek(dead=attempts is not None) == b"0"
    q.reader.open(q.who("anna"), 0, attempts is not None)
    assert q.peek(dead=attempts is not None) is None
    q.do_all()
    assert q.damages + q.reader.damages == []


def test_what_is_dropped_unread_leaves_no_wrong_counts_behind() -> None:
    q = life(max_items=50, discard_old_when_full=True)
    for n in range(300):
        q.put(b"x" * (n % 7 * 50))
        reader = q.reader
        assert reader.ready.count <= 50
        assert reader.ready.bytes >= 0
        assert reader.live_bytes >= 0
    assert q.jobs.state().live_bytes >= 0
    assert len(q.take_all()) == 50
    assert (q.reader.ready.count, q.reader.ready.bytes, q.reader.live_bytes) == (0, 0, 0)
    q.commit()
    assert all(s.live == 0 and s.live_bytes >= 0 for s in q.log.journal.segments)


def test_a_queue_that_is_deleted_while_it_is_read_leaves_nothing() -> None:
    q = life()
    for n in range(100):
        q.put(b"%d" % n)
    q.commit()
    reader = q.reader
    reader.first(0)
    q.end_turn()
    q.broker.delete(b"jobs", 0)
    while q.do_some():
        pass
    assert (reader.ready.count, reader.ready.resident, q.broker.memory.taken) == (0, 0, 0)


def test_attempts_are_remembered_however_far_away_an_item_is() -> None:
    q = life()
    for n in range(100):
        q.put(b"%d" % n)
    leases = [q.open() for _ in range(100)]
    for lease in leases:
        assert lease is not None
        q.reader.nack(lease, 0, ABORTED)
    assert q.reader.ready.count == 100
    again = [q.open() for _ in range(100)]
    assert [lease.attempts for lease in again if lease is not None] == [1] * 100
    q.commit()
    q.kill()
    found = [q.open() for _ in range(100)]
    assert [lease.attempts for lease in found if lease is not None] == [1] * 100


def test_a_flush_while_it_is_read_brings_nothing_back() -> None:
    q = life()
    for n in range(100):
        q.put(b"%d" % n)
    q.commit()
    q.reader.first(0)
    q.end_turn()
    q.jobs.flush(0)
    q.put(b"new")
    q.do_all()
    assert q.take_all() == [b"new"]


def test_an_expiry_that_was_watched_is_forgotten_with_what_is_left_to_the_log() -> None:
    q = life()
    for n in range(6):
        q.put(b"%d" % n, WALL_MS + 1000)
    leases = [q.open() for _ in range(5)]
    q.reader.ready.evict(0)
    for lease in leases:
        assert lease is not None
        q.reader.nack(lease, 0, ABORTED)
    q.reader.ready_items._leave(q.reader.ready.evict(0))
    q.pass_time(2000)
    q.do_all()
    assert q.reader.ready.count == 0
    assert q.reader.counters.expired == 6


def test_an_item_in_order_that_is_left_to_the_log_has_no_entry_of_its_expiry() -> None:
    """The log is read in order and shows the expiry: an entry would only take memory until then."""
    q = life(max_memory_bytes=1 << 20)
    for _ in range(3):
        q.put(b"in order", WALL_MS + 10_000)

    gone = q.reader.ready.evict(0)
    q.reader.ready_items._leave(gone)

    assert [item.id for item in gone] == [3, 2]
    assert list(q.reader.watch.watched) == [1]
    assert q.reader.ends.entry_count == 0


def test_an_item_in_order_that_comes_back_beyond_the_frontier_has_no_entry_either() -> None:
    q = life(max_memory_bytes=1 << 20)
    for _ in range(3):
        q.put(b"in order", WALL_MS + 10_000)
    leases = [q.open() for _ in range(3)]
    for number, lease in enumerate(leases, 1):
        assert lease is not None
        if number == 3:
            q.reader.ready_items._leave(q.reader.ready.evict(0))
            assert q.reader.ready.frontier == 2
        q.reader.nack(lease, 0, ABORTED)

    assert list(q.reader.watch.watched) == [1]
    assert q.reader.ends.entry_count == 0


def test_reading_back_stops_when_there_is_enough() -> None:
    q = life()
    for _ in range(600):
        q.put(b"x" * 1400)
    q.commit()
    q.reader.first(0)
    q.do_all()
    assert q.reader.ready.resident_bytes < 200_000
    assert len(q.take_all()) == 600


def lend(q: DiskHarness, count: int) -> list[Lease]:
    """Lease this many items, and answer each of the leases."""
    leases = []
    for n in range(count):
        lease = q.open(f"worker {n}")
        assert lease is not None
        q.reader.ready_items.said(lease)
        leases.append(lease)
    return leases


def test_leased_bodies_take_no_more_memory_than_is_allowed() -> None:
    q = life(max_memory_bytes=20_000)
    for n in range(200):
        q.put(b"%03d" % n + b"x" * 1000)
    q.commit()
    lend(q, 200)
    assert q.reader.leased_bytes <= 20_000
    assert len(q.reader.leases) == 200


def test_what_was_let_go_while_it_was_leased_comes_back_in_sequence() -> None:
    q = life(max_memory_bytes=20_000)
    bodies = [b"%03d" % n + b"x" * 1000 for n in range(200)]
    for body in bodies:
        q.put(body)
    q.commit()
    leases = lend(q, 120)
    for lease in leases[::2] + leases[1::2]:
        q.reader.nack(lease, 0, ABORTED)
    assert q.reader.ready.count == 200
    assert q.reader.ready.bytes == 200 * 1003
    assert q.take_all() == bodies


def test_a_confirmed_item_needs_no_body() -> None:
    q = life(max_memory_bytes=0)
    for n in range(20):
        q.put(b"%03d" % n + b"x" * 1000)
    leases = lend(q, 20)
    assert not any(lease.item.is_whole for lease in leases)
    for lease in leases[:19]:
        q.reader.confirm(lease, 0)
    assert q.reader.live_bytes == 1003
    q.commit()
    q.kill()
    assert q.reader.live_bytes == 1003
    assert q.take_all() == [b"019" + b"x" * 1000]


def test_a_queue_in_memory_lets_go_of_nothing() -> None:
    policy = Policy(max_memory_bytes=0)
    broker = Broker(lambda *_: policy, lambda _: MemoryLog(), ClockOffset(WALL_MS), 1)
    broker.memory.limit = 0
    queue = broker.create(NAME, 0)
    queue.put(b"only here", 0, 0, 0)
    lease = queue.reader.open(Holder("anna"), 0)
    assert lease is not None
    queue.reader.ready_items.said(lease)
    assert lease.item.body == b"only here"


# -- apart ----------------------------------------------------------------------------------


def three_with_the_second_back_bare() -> DiskHarness:
    """Make three items; the second was leased by token over a restart, the others are in memory."""
    q = life(max_memory_bytes=1 << 20)
    for n in range(3):
        q.put(b"%d" % n)
    first, second = q.open("anna"), q.open("bert", lease_ms=1000)
    assert first is not None
    assert second is not None
    q.commit()
    q.kill()
    assert q.peek() == b"0"
    q.do_all()
    lease = q.reader.leases.by_token(second.token)
    assert lease is not None
    q.reader.nack(lease, q.now_ms, ABORTED)
    return q


def test_what_comes_back_without_its_body_is_read_alone_and_keeps_its_place() -> None:
    q = three_with_the_second_back_bare()
    assert (q.reader.ready.resident, q.reader.ready.disk_refs.count) == (2, 1), "others stay"
    assert q.reader.ready.count == 3
    assert q.take_all() == [b"0", b"1", b"2"]
    assert (list(q.reader.out_of_order), q.damages) == ([], [])


@pytest.mark.parametrize("want", [Want.OPEN, Want.PEEK, Want.TAKE])
def test_a_client_that_waits_is_served_with_items_out_of_order(want: Want) -> None:
    q = three_with_the_second_back_bare()
    assert q.open("anna") is not None
    q.wait("bert", want)
    q.do_all()
    assert answers(q) == [b"1"]


def test_an_unreadable_item_out_of_order_is_named_and_holds_nobody_up() -> None:
    q = three_with_the_second_back_bare()
    segment = q.log.journal.segments[0].path
    put = q.log.store.some([2]).run(q.disk).records[2]
    q.disk.damage(segment, put.offset + 40, b"\xff")
    assert q.take_all() == [b"0", b"2"]
    assert [(d.id_first, d.id_last) for d in q.damages] == [(2, 2)]
    assert (q.reader.ready.count, q.reader.ready.bytes) == (0, 0)
    assert not q.jobs.is_empty, "a start tries again"


def test_an_unwritten_item_out_of_order_holds_nobody_up_once_the_journal_failed() -> None:
    q = life(max_memory_bytes=1 << 20)
    q.put(b"1")
    q.commit()
    q.jobs._apply_put(3, 1)
    q.reader.ready_items.stand(4, 3, 1)
    q.log.journal.commit.fail(JournalFailed("the disk is gone"))
    q.log.advance()
    assert q.take_all() == [b"1"]
    assert q.damages == [], "what was never written is not damage"


def test_the_head_that_is_dropped_may_be_out_of_order() -> None:
    q = life(max_items=3, discard_old_when_full=True)
    for n in range(2):
        q.put(b"%d" % n)
    q.jobs._apply_put(3, 5)
    q.reader.ready_items.stand(3, 3, 5)
    for n in range(4, 7):
        q.put(b"%d" % n)
    assert list(q.reader.live) == [4, 5, 6]
    assert (q.reader.ready.count, q.reader.ready.bytes) == (3, 3)
    assert q.take_all() == [b"4", b"5", b"6"]


def token(q: CoreHarness) -> None:
    q.open(lease_ms=10_000)


def connection(q: CoreHarness) -> None:
    q.open()


def dead(q: CoreHarness) -> None:
    q.bury(q.open())


def back_later(q: CoreHarness) -> None:
    q.reader.nack(q.open(), q.now_ms, b"abort", Delay(1000))


@pytest.mark.parametrize("states", [[], [token], [connection], [dead], [back_later],
                                    [token, connection, dead, back_later, token]])  # fmt: skip
def test_few_and_many_items_beyond_the_frontier_are_counted_alike(
    states: list[Callable[[CoreHarness], None]]
) -> None:
    q = make_queue()
    for n in range(300):
        q.put(b"%d" % n)
    for state in states * 3:
        q.take()
        state(q)
    reader = q.restarted().reader if connection not in states else q.reader
    for first, last in ((1, 300), (1, 70), (3, 80), (5, 5), (4, 40), (20, 299)):
        plain = [id_ for id_ in reader.live if first <= id_ <= last]
        plain = [id_ for id_ in plain if reader.ready_items._is_plain(id_)]
        assert reader.ready_items.count_unleased(first, last) == len(plain)
        assert list(reader.ready_items._plain_between(first, last)) == plain


def test_what_a_child_has_at_its_first_record_is_counted_anew_at_the_end_of_a_replay() -> None:
    """No item that was ready at the first record is left."""
    q = make_queue()
    q.put(b"first", b"second")
    reader = q.queue.reader
    reader.out_of_order.add(2)
    reader.ready_items.begin([pack(9, 2, len(b"second"))], len(b"second"))
    assert (reader.ready.count, reader.ready.disk_refs.count) == (2, 1)
    for id_ in (1, 2):
        reader._apply_done(id_, 6)
    reader.ready_items.begin([], 0)
    ready = reader.ready
    counts = (ready.count, ready.bytes, ready.disk_refs.count, ready.disk_refs.bytes)
    assert (counts, ready.frontier) == ((0, 0, 0, 0), NO_FRONTIER)
