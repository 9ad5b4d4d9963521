"""With many children the log counts once for many records what the subscriptions need."""

from __future__ import annotations

from journal.format.kinds import Kind
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.queue.record_reserve import FEW_CHILDREN
from kestrelpy.core.timers import NEVER_MS
from tests.support.core_harness import NAME, CoreHarness
from tests.unit.core.fanout.test_many_children import MANY, child, made, ticks


def counts(q: CoreHarness) -> list[int]:
    """Return how many items were needed, for each count in the log."""
    log = q.queue.log
    assert isinstance(log, JournalLog)
    return [needed.count for needed in log.journal._flushed]


def test_many_removed_children_are_counted_once() -> None:
    q = made(MANY)
    before, counted = len(q.records), len(counts(q))
    for number in range(100):
        q.broker.remove_child(child(q, b"jobs+%d" % number).child, q.now_ms)
    ticks(q, MANY)
    assert [record.kind for record in q.records][before:] == [Kind.READER] * 100 + [Kind.TOKENS]
    assert counts(q)[counted:] == [2]
    ticks(q, MANY)
    assert len(q.records) == before + 101


def test_a_log_that_fails_before_its_count_is_due_gets_no_record_for_it() -> None:
    q = made(MANY)
    q.broker.remove_child(child(q).child, q.now_ms)
    q.queue.log.failure = OSError("disk on fire")
    before = len(q.records)

    ticks(q, MANY)

    assert len(q.records) == before
    assert q.queue.recount.due_ms == NEVER_MS


def test_in_a_log_that_failed_no_count_is_planned() -> None:
    q = made(MANY)
    q.queue.log.failure = OSError("disk on fire")

    q.broker.remove_child(child(q).child, q.now_ms)

    assert q.queue.recount.due_ms == NEVER_MS


def test_with_few_children_each_removal_is_counted_with_its_record() -> None:
    q = made(FEW_CHILDREN)
    before = len(q.records)
    q.broker.remove_child(child(q).child, q.now_ms)
    ticks(q, MANY)
    assert [record.kind for record in q.records][before:] == [Kind.READER]
    assert counts(q) == [2]


def test_a_count_of_a_deleted_queue_is_made_when_its_children_are_few() -> None:
    q = made(FEW_CHILDREN + 2)
    queue = q.queue
    q.broker.delete(NAME, q.now_ms)
    q.broker.remove_child(child(q).child, q.now_ms)
    assert queue.recount.due_ms > q.now_ms
    for number in range(1, FEW_CHILDREN + 2):
        q.broker.remove_child(child(q, b"jobs+%d" % number).child, q.now_ms)
    ticks(q, MANY)
    assert queue in q.broker.deleted
    log = queue.log
    assert isinstance(log, JournalLog)
    assert log.journal._flushed[-1].count == 0


def test_the_last_confirm_of_an_item_among_many_children_is_counted_soon() -> None:
    q = made(MANY)
    queue = q.queue
    for each in ChildQueue.all_of(queue):
        each.flush(q.now_ms)
    ticks(q, MANY)
    leases = [queue.reader.open(q.who("anna"), q.now_ms) for _ in range(2)]
    before, counted = len(q.records), len(counts(q))
    for lease in leases:
        assert lease is not None
        queue.reader.confirm(lease, q.now_ms)
        ticks(q)
    assert not queue.is_needed(1)
    assert counts(q)[counted:] == []
    ticks(q, MANY)
    for _ in range(3):  # once, and never again
        assert [record.kind for record in q.records][before:] == [Kind.DONE] * 2 + [Kind.TOKENS]
        assert counts(q)[counted:] == [0]
        queue.alarm.need(q.now_ms)  # it is looked at for another reason
        ticks(q)
        ticks(q, MANY)


def test_a_confirm_of_an_item_that_one_of_the_first_children_needs_is_not_counted() -> None:
    q = made(MANY)
    lease = q.queue.reader.open(q.who("anna"), q.now_ms)
    assert lease is not None
    before = len(q.records)
    q.queue.reader.confirm(lease, q.now_ms)
    ticks(q, MANY)
    assert [record.kind for record in q.records][before:] == [Kind.DONE]
