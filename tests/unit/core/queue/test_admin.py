"""A queue is paused, and single items are taken out of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from journal.format.meta import ended_bytes
from journal.snapshot.snapshot import Snapshot
from journal.write.writer import Journal
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.ready_list import NO_FRONTIER
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.replay.replay import Replay
from kestrelpy.core.subscription.where import Where
from kestrelpy.errors import ServerError
from tests.support.core_harness import NAME, WALL_MS, CoreHarness, make_queue
from tests.support.disk_harness import DiskHarness


def test_a_paused_queue_leases_nothing_and_takes_back_what_it_leased() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    lease = q.open("anna")
    q.pause()
    assert (q.may_open("bert"), q.take("bert")) == (None, None)
    q.abort(lease)
    assert (q.ready, q.peek(), q.may_open("anna")) == ([b"1", b"2"], b"1", None)
    q.pause(False)
    assert q.take("bert") == b"1"
    assert q.story == (
        "put 1 1, put 2 2, paused on, returned 1 attempts 1 abort, paused off, done 1"
    )


def test_who_waits_for_a_paused_queue_is_served_in_sequence_when_it_goes_on() -> None:
    q = make_queue()
    q.pause()
    q.wait("anna")
    q.wait("bert", want=Want.TAKE)
    q.put(b"1", b"2", b"3")
    q.pass_time(10)
    assert q.answers() == []
    q.pause(False)
    assert q.answers() == [("anna", b"1"), ("bert", b"2")]


def test_a_client_that_waits_in_vain_during_a_pause_gets_nothing() -> None:
    q = make_queue()
    q.pause()
    q.wait("anna", 100)
    q.put(b"1")
    q.pass_time(100)
    assert q.answers() == [("anna", None)]
    due = q.broker.next_due()
    assert due is None or due > q.now_ms, "no busy loop"


def test_a_peek_that_waits_behind_a_paused_fetch_is_served_when_that_gives_up() -> None:
    q = make_queue()
    q.pause()
    fetch = q.wait("anna")
    q.wait("bert", want=Want.PEEK)
    q.put(b"1")
    assert q.answers() == []
    q.broker.give_up(fetch)
    q.pass_time(0)
    assert q.answers() == [("bert", b"1")]


def test_pausing_twice_is_one_record_and_waits_for_the_first() -> None:
    q = make_queue()
    q.put(b"1")
    assert (q.pause(), q.pause()) == (2, 2)
    q.put(b"2")
    assert (q.pause(), q.pause(False)) == (3, 4)
    assert q.story == "put 1 1, paused on, put 2 2, paused off"


def test_without_room_for_its_record_a_queue_is_not_paused() -> None:
    q = make_queue()
    q.queue.log.no_room = "disk full"
    with pytest.raises(ServerError, match="disk full"):
        q.pause()
    q.pause(False)
    assert not q.reader.paused


def test_a_snapshot_keeps_the_pause() -> None:
    q = make_queue()
    q.pause()
    state = q.queue.state()
    snapshot = Snapshot(
        1, 1, 64, state.checkpoint, state.live, 0, state.attempts, state.dead, [],
        standing=state.standing,
    )  # fmt: skip
    fresh = q.broker.fresh(b"other", 1, 0)
    Replay(fresh).restore(snapshot)
    assert fresh.reader.paused


def test_a_pause_outlives_the_segment_it_was_written_to() -> None:
    life = DiskHarness(Policy())
    Admin(life.jobs).pause(True, life.now_ms)
    life.commit()
    for _ in range(3):  # lives
        first = journal_of(life).segments[0].number
        for _ in range(20):
            life.put(bytes(100))
            life.jobs.flush(life.now_ms)
            life.commit()
        assert journal_of(life).segments[0].number > first, "what it was written to is gone"
        assert not life.log.store.maintenance.snapshots
        life.kill()
        assert life.reader.paused
    Admin(life.jobs).pause(False, life.now_ms)
    life.commit()
    life.kill()
    assert not life.reader.paused


def journal_of(life: DiskHarness) -> Journal:
    return life.log.journal


def test_a_cancelled_item_is_gone_with_its_bytes_and_its_attempts() -> None:
    q = make_queue()
    q.put(b"one", b"three", b"4", expires_ms=WALL_MS + 1000)
    q.abort(q.open())
    assert q.cancel(1)
    assert q.cancel(2)
    assert not q.cancel(2)
    assert (q.ready, q.reader.live_bytes, q.reader.ready.bytes) == ([b"4"], 1, 1)
    assert (dict(q.reader.attempts.items()), list(q.reader.watch.watched)) == ({}, [3])
    assert q.story.endswith("cancelled 1, cancelled 2")
    assert [ended_bytes(r.small, r.meta) for r in q.records[-2:]] == [3, 5]
    assert q.restarted().ready == [b"4"]
    assert q.restarted().reader.live_bytes == 1


def test_what_is_leased_dead_expired_or_not_there_does_not_wait() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"dead", b"lent")
    q.abort(q.open())
    q.open()
    q.put(b"old", expires_ms=WALL_MS + 10)
    q.now_ms += 10
    states = (Where.DEAD, Where.LEASED, Where.IN_MEMORY, Where.GONE)
    assert tuple(map(q.reader.where, (1, 2, 3, 4))) == states
    assert not any(map(q.cancel, (1, 2, 3, 4)))


def test_items_that_only_the_log_has_are_cancelled_in_any_sequence() -> None:
    q = make_queue()
    q.put(b"1", b"22", b"333", b"4444")
    again = q.restarted()
    for id_, left in ((1, 9), (4, 5), (2, 3), (3, 0)):
        assert again.reader.where(id_) is Where.LOGGED
        assert again.cancel(id_)
        assert (again.reader.ready.bytes, again.reader.live_bytes) == (left, left)
    assert again.reader.ready.frontier == NO_FRONTIER
    again.put(b"5")
    assert again.reader.ready.resident == 1, "the line is in memory again"
    assert again.ready == again.restarted().ready == [b"5"]


def test_a_purged_item_is_dead_no_more_and_one_that_is_held_stays() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", b"22", b"333")
    for _ in range(3):
        q.abort(q.open())
    lease = q.open(dead=True)
    assert [q.purge(id_) for id_ in (1, 2, 2, 9)] == [False, True, False, False]
    assert (q.dead, q.reader.dead.count, q.reader.dead.bytes) == ([b"333"], 1, 4)
    q.abort(lease)
    assert q.dead == q.restarted().dead == [b"1", b"333"]


def test_a_dead_item_whose_body_cannot_be_read_is_purged_once() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", b"2")
    for _ in range(2):
        q.abort(q.open())
    again = q.restarted()
    again.reader.ready_items.hide(again.reader.dead.missing)
    assert again.reader.dead.is_hidden(1)
    assert again.purge(1)
    assert (again.reader.dead.count, len(again.reader.dead)) == (1, 1)
    assert again.dead == [b"2"]
    assert not again.reader.dead.is_hidden(1)


def restarted_with(body: bytes, *, max_attempts: int | None = None) -> CoreHarness:
    """Return a restarted queue with one item; only the log has its body."""
    q = make_queue(max_attempts=max_attempts)
    q.put(body)
    if max_attempts:
        q.abort(q.open())
    return q.restarted()


def in_memory() -> CoreHarness:
    q = make_queue()
    q.put(b"1")
    return q


def leased() -> CoreHarness:
    q = in_memory()
    q.open()
    return q


def leased_by_token() -> CoreHarness:
    q = in_memory()
    q.open(lease_ms=1000)
    return q.restarted()


def delayed() -> CoreHarness:
    q = make_queue()
    q.add(b"1", delay=Delay(1000, False))
    return q.restarted()


@pytest.mark.parametrize("is_named", [True, False], ids=["unreadable", "not named"])
@pytest.mark.parametrize(
    ("make", "ends"),
    [
        (in_memory, False),
        (leased, False),
        (leased_by_token, False),
        (partial(restarted_with, b"1"), True),
        (delayed, True),
        (partial(restarted_with, b"1", max_attempts=1), True),
        (make_queue, True),
    ],
    ids=["in memory", "leased", "leased by token", "logged", "delayed", "dead", "gone"],
)
def test_of_what_cannot_be_read_only_what_nobody_has_is_given_up(
    make: Callable[[], CoreHarness], ends: bool, is_named: bool
) -> None:
    q = make()
    if is_named:
        q.reader.unreadable.add(1)
    admin, before = Admin(q.queue), len(q.records)
    assert admin.would_give_up(1) == (ends and is_named)

    assert admin.give_up(1, q.now_ms) == (ends and is_named)

    assert 1 not in q.reader.unreadable, "the operator is not asked about it again"
    assert (1 in q.reader.live) == (not (ends and is_named) and make is not make_queue)
    assert len(q.records) - before == (ends and is_named)
    assert not admin.give_up(1, q.now_ms)


def test_an_item_is_unreadable_in_the_log_until_the_last_reader_gives_it_up() -> None:
    q = make_queue()
    child = q.broker.mention(NAME + b"+kid", q.now_ms)
    assert child is not None
    q.add(b"1", delay=Delay(1000, False))
    assert isinstance(q.queue.log, JournalLog)
    unreadable = q.queue.log.store.unreadable
    unreadable.add(1)
    for reader in (child.reader, q.reader):
        reader.unreadable.add(1)

    assert Admin(child).give_up(1, q.now_ms)
    assert [*unreadable] == [1], "jobs needs it"
    assert Admin(q.queue).give_up(1, q.now_ms)

    assert [*unreadable] == []
