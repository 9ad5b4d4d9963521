"""Delayed items in the order in which they are due."""

from __future__ import annotations

from kestrelpy.operations.lists.delays import DelayedFacts, list_delayed
from tests.support.server_harness import ServerHarness


def test_the_item_that_is_due_first_goes_first() -> None:
    server = ServerHarness()
    for delay in (b"30s", b"10s", b"20s"):
        server.say("a", b"set jobs/delay=%b 0 0 1" % delay, b"x")
    queue = server.queue("jobs")
    found = list_delayed(queue, 2)
    assert [each.id for each in found] == [2, 3]
    assert found[1].due_ms - found[0].due_ms == 10_000
    assert found[0] == DelayedFacts(2, queue.reader.delays.find(2, queue.clock)[0])
