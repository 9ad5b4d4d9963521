"""The notes of a replay about an item end with the item, also if a record is missing; and a closed
replay is freed at once."""

from __future__ import annotations

import gc
from weakref import ref

from journal.format.kinds import ENDS, Kind
from journal.format.record import Record
from kestrelpy.core.log import records
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.replay.replay import Replay
from kestrelpy.core.replay.subscription_replay import SubscriptionReplay
from tests.support.core_harness import NAME, CoreHarness, make_queue


def test_a_flush_ends_leases_though_the_record_of_their_end_is_lost() -> None:
    q = make_queue()
    q.put(b"1", b"2")
    q.abort(q.open(lease_ms=60_000))
    q.flush()
    left = [record for record in q.records if record.kind != Kind.RETURNED]
    assert len(left) < len(q.records)

    again = q.restarted(left)

    assert again.reader.leases.entries == {}


def spared_by_a_flush() -> CoreHarness:
    """Two items of 3 and 2 bytes that are leased by token, and so stay."""
    q = make_queue()
    q.put(b"123", b"45")
    for _ in range(2):
        q.open(lease_ms=60_000)
    q.flush()
    return q


def test_a_spared_item_that_ends_without_its_size_leaves_no_bytes() -> None:
    q = spared_by_a_flush()
    for item in (1, 2):
        q.reader.append(records.cancelled(item, 0, q.unix_ms))  # it could not be read any more
    left = [record for record in q.records if record.kind != Kind.PUT]  # their segment is gone

    again = q.restarted(left)

    assert [*again.reader.live] == []
    assert again.reader.live_bytes == 0


def test_a_second_end_of_a_spared_item_is_skipped() -> None:
    q = spared_by_a_flush()
    q.close(next(lease for lease in q.reader.leases if lease.item.id == 1))
    left = [r for r in q.records if (r.kind, r.item) != (Kind.PUT, 1)]  # its segment is gone
    (end,) = (record for record in left if record.kind in ENDS and record.item == 1)

    assert live_bytes(q, left) == len(b"45")
    assert live_bytes(q, [*left, end]) == len(b"45")


def live_bytes(q: CoreHarness, found: list[Record]) -> int:
    """The bytes of the live items that a start finds in these records."""
    return q.restarted(found).reader.live_bytes


def test_a_closed_replay_is_gone_without_the_collector() -> None:
    q = make_queue()
    queue = q.broker.fresh(NAME, 2, q.now_ms)
    gc.collect()
    gc.disable()
    try:
        replay = Replay(queue)
        ChildQueue.named(queue, 1, b"audit", 0)
        replay.finish(None, 0)
        replay.close()
        known = ref(replay)
        del replay
        assert known() is None
        assert [each for each in gc.get_objects() if type(each) is SubscriptionReplay] == []
    finally:
        gc.enable()
