"""Children: what they are given, what ends an item, and what a segment still holds for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.format.item_header import ItemHeader
from journal.format.kinds import Kind
from journal.sets.id_set import IdSet
from kestrelpy.core.fanout.child import ABANDONED_MS
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Holder
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.queue.queue import NOT_STORED
from kestrelpy.errors import ClientError
from tests.support.core_harness import CoreHarness, make_queue

AUDIT = b"jobs+audit"
# These attributes of a child are its parent's ...
PARENTS = (
    "clock", "declared", "dedupe", "generation", "log", "metadata", "next_number",
)  # fmt: skip
# ... and these are its own, with their values for a first child with one item and no children.
OWN = {
    "name": AUDIT, "total_items": 1, "children": {}, "retained": None, "deleted": False,
    "is_going": False, "passes_on": False,
}  # fmt: skip


def child_of(q: CoreHarness, name: bytes = AUDIT, begin: int | None = None) -> ChildQueue:
    found = q.broker.queues.get(name) or q.broker.mention(name, q.now_ms, begin)
    assert isinstance(found, ChildQueue)
    return found


def taken(q: CoreHarness, child: ChildQueue) -> list[bytes]:
    """Let a child lease and confirm everything; return the bodies in order."""
    holder, found = Holder("eve"), list[bytes]()
    while True:
        lease = child.reader.open(holder, q.now_ms)
        if lease is None and q.read_back():
            continue
        if lease is None:
            return found
        found.append(lease.item.body)
        child.reader.confirm(lease, q.now_ms)


@given(st.lists(st.sets(st.integers(1, 9000), max_size=60), min_size=1, max_size=4), st.data())
def test_a_union_of_sets_has_what_any_of_them_has(
    parts: list[set[int]], data: st.DataObject
) -> None:
    sets = []
    for ids in parts:
        made, last = IdSet(), data.draw(st.sampled_from([0, 4095, 4096, 5000]))
        made.add_range(1, last)
        for id_ in sorted(ids):
            made.add(id_)
        for id_ in list(ids)[::2]:
            made.discard(id_)
        sets.append(made)
    union = IdSet.union(sets)
    expected = sorted(set().union(*map(set, sets)))
    assert list(union) == expected
    assert len(union) == len(expected)
    assert all(id_ in union for id_ in expected)


def test_a_child_begins_with_what_was_released_behind_its_marker_and_is_there() -> None:
    q = make_queue()
    for body in (b"1", b"2", b"3"):
        q.put(body, delay=Delay(10 * int(body)))
        q.pass_time(10 * int(body))
    child_of(q)  # so that a confirmed item is still there for a child
    first = q.open()
    markers = [marker for marker, _ in q.reader.markers]
    q.close(first)
    assert taken(q, child_of(q, b"jobs+all", 0)) == [b"2", b"3"]
    assert taken(q, child_of(q, b"jobs+late", markers[2])) == [b"3"]


def test_the_record_that_ends_an_item_for_its_last_subscription_says_so() -> None:
    q = make_queue()
    audit, log = child_of(q), q.queue.log
    assert isinstance(log, JournalLog)
    q.put(b"a", b"b")
    q.close(q.open())
    assert taken(q, audit) == [b"a", b"b"]
    q.close(q.open())
    drafts = log.journal._pending
    ended = [(draft[1], draft[7], draft[8] > 0) for draft in drafts if draft[0] == Kind.DONE]
    assert ended == [(1, 0, False), (1, 1, True), (2, 1, False), (2, 0, True)]


def test_a_put_costs_a_lazy_child_nothing_until_somebody_looks() -> None:
    q = make_queue()
    audit = child_of(q)
    q.put(b"a", b"bc")
    assert (audit.child.live.count, audit.child.ready.count) == (0, 0)
    assert (audit.reader.live.count, audit.reader.ready.bytes) == (2, 3)
    assert audit.total_items == 2


def test_numbers_that_are_no_arrivals_are_passed_over() -> None:
    q = make_queue()
    audit, other = child_of(q), child_of(q, b"jobs+other")
    q.put(b"one")
    other.put(b"only here", 0, 0, q.now_ms)
    q.put(b"two", delay=Delay(100))
    q.pass_time(100)
    q.put(b"three")
    assert taken(q, audit) == [b"one", b"two", b"three"]
    assert taken(q, other) == [b"one", b"only here", b"two", b"three"]
    assert q.queue.last_number == 5


def test_a_child_that_is_no_more_takes_in_nothing() -> None:
    q = make_queue()
    audit = child_of(q)
    q.put(b"one")
    q.broker.remove_child(audit.child, q.now_ms)
    q.put(b"two", delay=Delay(100))
    q.pass_time(100)
    # A read that was under way, say, ends now.
    audit.child.ready_items.refill(q.now_ms)
    assert (list(audit.child.live), audit.child.ready.count) == ([], 0)


def test_a_child_of_a_tombstone_is_found_by_its_name_whoever_has_that_now() -> None:
    q = make_queue()
    audit = child_of(q)
    q.put(b"one")
    q.broker.delete(b"jobs", q.now_ms)
    assert list(q.broker.all_named(AUDIT)) == [audit, audit]
    del q.broker.queues[AUDIT]
    assert list(q.broker.all_named(AUDIT)) == [audit]


def test_a_restart_finds_each_reader_as_it_was() -> None:
    q = make_queue()
    audit = child_of(q)
    q.put(b"a", b"b", b"c")
    lease = audit.reader.open(Holder("eve"), 0)
    while lease is None and q.read_back():
        lease = audit.reader.open(Holder("eve"), 0)
    assert lease is not None
    audit.reader.dead_letter(lease, 0, b"why")
    late = child_of(q, b"jobs+late", begin=2)
    q.broker.remove_child(child_of(q, b"jobs+gone").child, 0)
    q.close(q.open())

    again = q.restarted()
    found = {name: queue.reader for name, queue in again.broker.queues.items()}
    assert sorted(found) == [b"jobs", b"jobs+audit", b"jobs+late"]
    assert list(found[b"jobs"].live) == [2, 3]
    assert list(found[AUDIT].dead.deaths) == [1]
    assert list(found[b"jobs+late"].live) == list(late.reader.live) == [2, 3]
    assert [r.number for r in again.queue.readers] == [0, 1, 2]
    assert again.queue.readers_named == 3


def test_what_is_for_nobody_but_observers_is_retained_for_them() -> None:
    q = make_queue(fanout_only=True, retain_ms=None)
    assert q.put(b"seen")
    assert (list(q.queue.readable), list(q.queue.needed_now())) == ([1], [])
    assert list(q.restarted().queue.needed_now()) == []


def test_moving_on_leaves_what_is_on_its_way_to_another_queue() -> None:
    q = make_queue()
    audit = child_of(q)
    q.put(b"a", b"b")
    lease = None
    while lease is None:
        lease = audit.reader.open(Holder("eve"), 0)
        q.read_back()
    audit.child.leases.forward(lease, q.broker.moves.in_flight.mover)
    AckUpTo(audit, 2).finish(0)
    assert list(audit.reader.live) == [1]
    assert list(q.restarted().broker.queues[AUDIT].reader.live) == [1]


def test_what_is_for_nobody_is_not_stored() -> None:
    q = make_queue(fanout_only=True)
    assert q.put(b"for nobody")
    assert (q.queue.last_number, list(q.queue.needed_now())) == (0, [])
    audit = child_of(q)
    q.put(b"for audit", delay=Delay(50))
    q.pass_time(50)
    assert taken(q, audit) == [b"for audit"]
    assert list(q.restarted().queue.needed_now()) == []


def test_a_child_answers_whatever_a_queue_is_asked() -> None:
    q = make_queue()
    audit = child_of(q)
    q.put(b"1")
    for name in PARENTS:
        assert getattr(audit, name) == getattr(q.queue, name), name
    assert {name: getattr(audit, name) for name in OWN} == OWN
    assert taken(q, audit) == [b"1"]
    assert q.ready == [b"1"], "it has a line of its own"
    audit.set_policy(replace(q.policy, max_items=1), q.now_ms)
    assert (audit.policy.max_items, q.queue.policy.max_items) == (1, None)
    assert audit.log.lsn_appended == q.queue.log.lsn_appended
    assert (audit.last_number, audit.files) == (1, q.queue)


@pytest.mark.parametrize(("has", "is_abandoned"), [
    ("nothing", False), ("a ready item", True), ("a delayed item", True), ("a leased item", False),
    ("a leased and a ready item", False),
])  # fmt: skip
def test_a_child_is_abandoned_that_has_items_and_that_nobody_asks(
    has: str, is_abandoned: bool
) -> None:
    q = make_queue()
    branch = child_of(q)
    if "leased" in has:
        q.put(b"first")
        assert branch.reader.open(Holder("c"), q.now_ms) is not None
    if "ready" in has:
        q.put(b"second")
    if "delayed" in has:
        q.put(b"later", delay=Delay(10**9))
    branch.child.asked_ms = q.now_ms
    assert not branch.child.is_abandoned(q.now_ms + ABANDONED_MS - 1)
    assert branch.child.is_abandoned(q.now_ms + ABANDONED_MS) == is_abandoned


def test_an_id_is_the_queue_s_and_refused_by_a_child() -> None:
    q = make_queue()
    audit = child_of(q)
    with pytest.raises(ClientError, match="ids and versions are its parent's"):
        audit.put(b"mine", 0, 0, 0, b"", None, None, ItemHeader(b"5"))
    assert audit.put(b"plain", 0, 0, 0) != NOT_STORED
    assert taken(q, audit) == [b"plain"]
    assert not q.queue.reader.live
