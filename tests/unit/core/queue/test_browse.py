"""Browsing: the items that an observer sees, of a queue in memory and of one on disk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.browse import Browse
from kestrelpy.core.subscription.where import DEAD, LEASED, READY
from tests.support.core_harness import CoreHarness

PLENTY = 1 << 40


class InMemory(CoreHarness):
    """A queue with durable = false."""

    def _make_log(self, queue: object) -> MemoryLog:
        return MemoryLog()

    @property
    def browse(self) -> Browse:
        return Browse(self.queue)

    def seen(self, after: int = 0, most: int = 100, since_ms: int = 0) -> list[bytes]:
        """Return the bodies that one scan shows."""
        items, _ = self.browse.range_scan(after, most, PLENTY, since_ms)
        return [item.body for item in items]


@pytest.fixture
def q() -> InMemory:
    queue = InMemory(replace(Policy(), max_attempts=2))
    queue.put(b"1", b"2", b"3", b"4", b"5")
    return queue


def test_ready_leased_given_back_and_dead_items_are_seen_in_sequence(q: InMemory) -> None:
    first, second = q.open("anna"), q.open("bert")
    assert first is not None
    assert second is not None
    assert q.seen() == [b"1", b"2", b"3", b"4", b"5"]
    q.abort(second)
    q.abort(first)
    assert q.seen() == [b"1", b"2", b"3", b"4", b"5"]
    again = q.open("anna")
    assert again is not None
    q.abort(again)
    assert q.browse.state(1) == (DEAD, 2)
    assert q.browse.state(2) == (READY, 1)
    q.open("carl")
    assert q.browse.state(2) == (LEASED, 1)
    assert q.seen() == [b"1", b"2", b"3", b"4", b"5"]
    assert q.seen(after=3) == [b"4", b"5"]
    assert q.seen(after=1, most=2) == [b"2", b"3"]


def test_what_is_done_is_not_seen(q: InMemory) -> None:
    lease = q.open("anna")
    assert lease is not None
    q.close(lease)
    assert q.seen() == [b"2", b"3", b"4", b"5"]
    assert not q.browse.has(1)
    assert q.browse.first(0) == 2
    assert q.browse.first(5) == 0


@pytest.mark.parametrize("marker", range(1, 6))
def test_each_item_is_found_wherever_it_is(q: InMemory, marker: int) -> None:
    leases = [q.open("anna") for _ in range(3)]
    for lease in (leases[2], leases[0]):
        assert lease is not None
        q.abort(lease)
    found = q.browse.item(marker)
    assert found is not None
    assert found.body == b"%d" % marker


def test_a_look_stops_before_its_bytes_do_but_has_one_item(q: InMemory) -> None:
    assert [i.id for i in q.browse.range_scan(0, 9, 2, 0)[0]] == [1, 2]
    assert [i.id for i in q.browse.range_scan(2, 9, 0, 0)[0]] == [3]


def test_a_look_goes_through_a_bounded_stretch(
    q: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.queue.browse._SPAN_LEAST", 3)
    items, last = q.browse.range_scan(0, 1, PLENTY, 0)
    assert ([i.id for i in items], last) == ([1], 1)
    items, last = q.browse.range_scan(4, 2, PLENTY, 0)
    assert ([i.id for i in items], last) == ([5], 5)


@pytest.mark.parametrize("many", [1, 7, 100])
def test_a_time_is_found_among_many(many: int) -> None:
    q = InMemory(Policy())
    times = []
    for n in range(many):
        q.put(b"%d" % n)
        times.append(q.unix_ms)
        q.now_ms += 10 * (n % 3)
    for since_ms in (1, *times, times[-1] + 1):
        expected = next((n for n, t in enumerate(times, 1) if t >= since_ms), many + 1)
        assert q.browse.since(since_ms) == expected
    assert q.seen(since_ms=times[-1] + 1) == []


def test_a_gap_is_a_marker_older_than_what_is_retained(q: InMemory) -> None:
    for _ in range(3):
        lease = q.open("anna")
        assert lease is not None
        q.close(lease)
    for after in (0, 3):
        q.browse.note_gap(after, 4)
        assert q.reader.counters.gaps == 0
    q.browse.note_gap(2, 4)
    assert q.reader.counters.gaps == 1


def test_a_hole_after_a_retained_item_is_no_gap(q: InMemory) -> None:
    q.open("anna")
    for _ in range(2):
        lease = q.open("bert")
        assert lease is not None
        q.close(lease)
    q.browse.note_gap(2, 4)
    assert q.reader.counters.gaps == 0


def test_an_item_that_was_delayed_hides_none_from_a_look_since_a_time() -> None:
    """Its marker is higher than those of items that were stored after it."""
    q = InMemory(Policy())
    q.put(b"1", delay=Delay(100))
    q.pass_time(10)
    since_ms = q.unix_ms
    q.put(b"2", b"3")
    q.pass_time(200)
    q.put(b"5", b"6", b"7")

    begin = q.browse.since(since_ms)

    assert q.seen(after=begin - 1, since_ms=since_ms) == [b"2", b"3", b"1", b"5", b"6", b"7"]


def test_a_look_at_the_end_leaves_out_nothing_that_comes_next(q: InMemory) -> None:
    """Others may put items before the observer looks again."""
    items, last = q.browse.range_scan(3, 100, PLENTY, 0)
    assert ([item.id for item in items], last) == ([4, 5], 5)
    assert q.browse.range_scan(5, 100, PLENTY, 0) == ([], 5)
    q.put(b"6")
    assert q.seen(after=last) == [b"6"]


@pytest.mark.parametrize("delayed", [2, 3, 4])
def test_items_are_one_behind_the_other_only_if_none_of_them_has_another_place(
    delayed: int,
) -> None:
    queue = InMemory(Policy())
    for number in range(1, 6):
        queue.put(b"%d" % number, delay=Delay(1000) if number == delayed else None)
    for first in range(1, 6):
        for last in range(first, 6):
            expected = not first <= delayed <= last
            assert queue.browse.are_all(last - first + 1, first, last) == expected
            assert not queue.browse.are_all(last - first + 2, first, last)
