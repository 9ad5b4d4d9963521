"""Pages of leases, by the ids of their items."""

from __future__ import annotations

import pytest

from kestrelpy.operations.lists import leases
from kestrelpy.operations.lists.leases import list_leases
from tests.support.server_harness import ServerHarness
from tests.support.steps import counted, ended


def test_pages_have_every_lease_once_whoever_holds_it() -> None:
    server = ServerHarness()
    server.set_server(max_open_reads=10)
    for _ in range(6):
        server.say("a", b"set jobs 0 0 1", b"x")
    for number in range(5):
        server.say("a", (b"gets jobs/open/lease=1h", b"get jobs/open")[number % 2])
    queue, seen, after = server.queue("jobs"), [], 0
    for _ in range(6):
        facts, cursor = ended(list_leases(queue, after, 2, server.now_ms))
        seen += [(each.id, each.holder) for each in facts]
        if cursor is None:
            break
        after = cursor
    assert seen == [(1, "token"), (2, "a"), (3, "token"), (4, "a"), (5, "token")]


def test_a_walk_over_many_leases_pauses_between_its_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leases, "_PER_SLICE", 2)
    server = ServerHarness()
    server.set_server(max_open_reads=10)
    for _ in range(5):
        server.say("a", b"set jobs 0 0 1", b"x")
        server.say("a", b"get jobs/open")
    (facts, _), pauses = counted(list_leases(server.queue("jobs"), 0, 9, server.now_ms))
    assert ([each.id for each in facts], pauses) == ([1, 2, 3, 4, 5], 2)
