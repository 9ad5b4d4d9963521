"""Objects of a deleted queue or child are gone at once: the garbage collector is not needed."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from journal.store import LogStore
from journal.write.writer import Journal
from kestrelpy.core.fanout.child import Child
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.index.ready_list import Ready
from kestrelpy.core.index.waiters import Waiter
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.queue.retention import QueueRetention
from kestrelpy.core.subscription.key_gate import KeyGate
from kestrelpy.core.subscription.ready_items import ReadyItems
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.core.timers import Alarm, PartAlarm
from tests.support.server_harness import ServerHarness

WATCHED = {
    Alarm, Child, ChildQueue, Item, Journal, JournalLog, KeyGate, Lease, MemoryLog, PartAlarm,
    Queue, Ready, ReadyItems, QueueRetention, LogStore, Subscription, Waiter,
}  # fmt: skip


def there() -> Counter[str]:
    """Return how many objects of each kind are in memory."""
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in WATCHED)


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


# The requests to `jobs`, and to `jobs+audit`, before they are deleted.
LIVES: dict[str, list[tuple[bytes, ...]]] = {
    "plain": [(b"set jobs 0 0 1", b"1")],
    "empty": [(b"set jobs 0 0 1", b"1"), (b"get jobs",)],
    "many": [(b"set jobs 0 0 1", b"1")] * 50 + [(b"get jobs",)] * 20,
    "delayed": [(b"set jobs/delay=30m 0 0 1", b"1")],
    "given back": [(b"set jobs 0 0 1", b"1"), (b"get jobs/open",), (b"get jobs/abort/delay=30m",)],
    "leased": [(b"set jobs 0 0 1", b"1"), (b"get jobs/open",)],
    "by token": [(b"set jobs 0 0 1", b"1"), (b"gets jobs/open/lease=1h",)],
    "keyed": [(b"set jobs/key=k 0 0 1", b"1")] * 3 + [(b"get jobs/open",)],
    "ids": [(b"add jobs/id=a/scope=s/epoch=1 0 0 1", b"1"), (b"add jobs/id=b 0 0 1", b"1")],
    "expiring": [(b"set jobs 0 3600 1", b"1")],
    "a dead letter": [(b"set jobs/declare 0 0 16", b"max_attempts = 1"),
                      (b"set jobs 0 0 1", b"1"), (b"get jobs/open",), (b"get jobs/abort",)],
    "paused": [(b"set jobs 0 0 1", b"1"), (b"pause jobs",)],
    "declared": [(b"set jobs/declare 0 0 16", b"max_attempts = 3"), (b"set jobs 0 0 1", b"1")],
    "a child": [(b"get jobs+audit/peek",), (b"set jobs 0 0 1", b"1"), (b"get jobs+audit/open",)],
    "a delayed child": [(b"get jobs+audit/peek",), (b"set jobs/delay=30m 0 0 1", b"1")],
    "a cursor": [(b"get jobs+audit/peek",), (b"set jobs 0 0 1", b"1"),
                 (b"delete jobs+audit/upto=1",)],
    "made again": [(b"get jobs+audit/peek",), (b"set jobs 0 0 1", b"1"), (b"delete jobs",),
                   (b"set jobs 0 0 1", b"1")],
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "on disk": {}, "in memory": {"durable": False}, "retained": {"retain": "forever"},
    "bounded": {"max_items": 100, "max_age": "1h"},
}  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("life", LIVES)
def test_objects_of_a_deleted_queue_are_gone_without_the_collector(
    life: str, settings: str
) -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", **SETTINGS[settings])
    for name in ("eve", "bob"):
        stage.say(name, b"version")
    before = there()
    for line in LIVES[life]:
        assert b"ERROR" not in stage.say("eve", *line)
    for name in (b"jobs", b"jobs+audit"):
        if name in stage.broker.queues:
            stage.send("bob", b"get %b/t=1h\r\n" % name)
            assert stage.say("eve", b"delete %b" % name) == b"DELETED\r\n"
            stage.client("bob").take()
    for _ in range(3):
        stage.pass_time(10)
        stage.work()
    assert stage.broker.tombstones == []
    stage.actions.newest(99)  # the list of actions drops what the newest ones rested on
    assert there() - before == {}, "left in memory"


@pytest.mark.parametrize("life", ["a child", "a delayed child", "a cursor"])
def test_objects_of_a_deleted_child_are_gone_while_its_queue_stays(life: str) -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"0")
    stage.say("eve", b"get jobs+other/peek")
    before = there()
    for line in LIVES[life]:
        assert b"ERROR" not in stage.say("eve", *line)
    for _ in LIVES[life]:
        stage.say("eve", b"get jobs")
    stage.say("eve", b"get jobs+other")

    assert stage.say("eve", b"delete jobs+audit") == b"DELETED\r\n"
    stage.pass_time(10)

    left = there() - before
    assert [name for name in ("Child", "ChildQueue", "Subscription", "KeyGate") if left[name]] == []


def test_a_queue_that_a_start_does_not_go_on_with_is_gone_with_its_children() -> None:
    stage = ServerHarness()
    before = there()
    queue = stage.broker.fresh(b"jobs", 1, stage.now_ms)
    ChildQueue.named(queue, 1, b"audit", 0)

    stage.broker.end(queue)
    del queue

    assert there() - before == {}, "left in memory"
