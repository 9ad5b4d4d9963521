"""An observer is shown what it wants to see, and goes on from the marker that it is given."""

from __future__ import annotations

from typing import Any, cast

import pytest

from journal.store import Put
from kestrelpy.core import Broker, ClockOffset, Delay, Holder, Lease, MemoryLog, Policy
from kestrelpy.operations import LogReader, Look, Observing, Sight, observing, seen_of


class Memory:
    """A queue in memory, and the client that reads it."""

    def __init__(self, **settings: Any) -> None:
        policy = Policy(**settings)
        self.broker = Broker(lambda *_: policy, lambda _: MemoryLog(), ClockOffset(0), 10)
        self.last_command_ms = 1000
        self.queue = self.broker.create(b"jobs", 1000)

    def put(self, *bodies: bytes, expires_ms: int = 0, delay: Delay | None = None) -> None:
        for body in bodies:
            self.queue.put(body, 0, expires_ms, self.last_command_ms, delay=delay)

    def lease(self) -> Lease:
        lease = self.queue.reader.open(Holder("anna"), self.last_command_ms, lease_ms=1000)
        assert lease is not None
        return lease


def look(q: Memory, sight: Sight, after: int = 0, delayed: int = 0, most: int = 3) -> Look:
    reader = LogReader(cast("Any", q))
    steps = Observing(q.queue, reader, sight, q.last_command_ms).look(after, delayed, most)
    for _ in range(1000):
        try:
            next(steps)
        except StopIteration as end:
            found: Look = end.value
            return found
    raise AssertionError("it never ends")


def bodies(found: Look) -> list[bytes]:
    return [each.body for each in found.seen]


def test_it_sees_ready_items_after_its_marker() -> None:
    q = Memory()
    q.put(*(b"%d" % n for n in range(5)))
    first = look(q, Sight())
    assert (bodies(first), first.is_cut) == ([b"0", b"1", b"2"], False)
    assert bodies(look(q, Sight(), first.after)) == [b"3", b"4"]


def test_it_sees_leased_and_delayed_ones_if_it_wants_to() -> None:
    q = Memory()
    q.put(b"later", delay=Delay(1000))
    q.put(b"leased", b"ready")
    q.lease()
    assert bodies(look(q, Sight())) == [b"ready"]
    assert bodies(look(q, Sight(claimed=True))) == [b"leased", b"ready"]
    found = look(q, Sight(claimed=True, delayed=True))
    assert bodies(found) == [b"leased", b"ready", b"later"]
    assert bodies(look(q, Sight(delayed=True), found.after, found.delayed)) == []


def test_it_looks_at_a_limited_number_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "LOOKED_MAX", 5)
    q = Memory()
    q.put(*(b"%d" % n for n in range(5)))
    for _ in range(5):
        q.lease()
    q.put(b"ready")
    found = look(q, Sight())
    assert (bodies(found), found.is_cut) == ([], True)
    assert bodies(look(q, Sight(), found.after)) == [b"ready"]


def test_dead_done_and_expired_items_are_not_seen() -> None:
    q = Memory(max_attempts=1)
    q.put(b"dead", b"done")
    q.put(b"over", expires_ms=q.last_command_ms + 5)
    q.queue.reader.nack(q.lease(), q.last_command_ms, b"abort")
    q.queue.reader.confirm(q.lease(), q.last_command_ms)
    q.last_command_ms += 5
    assert bodies(look(q, Sight(True, True))) == []
    put = Put(1, 1, 0, 1, b"dead")
    assert seen_of(q.queue, put, q.last_command_ms) is None


def test_it_waits_for_no_sync_if_it_has_something_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    q, pages = Memory(), list[int]()
    q.put(b"stored")
    page = LogReader.page

    def one_page(self: LogReader, *args: Any) -> Any:
        assert not pages, "it waits for the second page"
        pages.append(1)
        return page(self, *args)

    monkeypatch.setattr(LogReader, "page", one_page)
    monkeypatch.setattr(LogReader, "must_wait", staticmethod(lambda queue, after: True))
    assert bodies(look(q, Sight())) == [b"stored"]
