"""Why a queue stands still, in sentences."""

from __future__ import annotations

from kestrelpy.http.live.why import why_still
from kestrelpy.operations import queue_state
from tests.support.server_harness import ServerHarness


def why(server: ServerHarness, name: bytes = b"jobs", mode: str = "up") -> list[str]:
    return why_still(server.broker.queues[name], mode, server.now_ms)


def test_nobody_asks(server: ServerHarness) -> None:
    assert why(server) == ["Nobody is asking for an item."]
    server.say("a", b"get jobs/open")
    assert why(server) == []


def test_the_server_delivers_nothing(server: ServerHarness) -> None:
    assert why(server, mode="quiescent") == ["The server is quiescent: it delivers nothing."]


def test_as_many_are_leased_as_may_be(server: ServerHarness) -> None:
    server.set_queue(max_leased=1)
    server.say("a", b"get jobs/open")
    assert why(server) == ["max_leased is 1, and as many items are leased."]


def test_a_key_is_held(server: ServerHarness) -> None:
    for _ in range(2):
        server.say("a", b"set mail/key=x 0 0 1", b"1")
    server.say("b", b"gets mail/open/lease=1h")
    server.say("c", b"get mail/open")
    server.now_ms += 240_000
    (said,) = why(server, b"mail")
    assert said.startswith("1 key is blocked: key x is held by item 1, leased to ")
    assert said.endswith(" for 4 min.")


def test_all_are_delayed(server: ServerHarness) -> None:
    server.say("a", b"set late/delay=90s 0 0 1", b"1")
    assert why(server, b"late") == ["No item is ready; 1 delayed, the next one for 90 s more."]


def test_items_that_cannot_be_read_block_no_other_from_being_leased(server: ServerHarness) -> None:
    queue = server.broker.queues[b"jobs"]
    queue.reader.unreadable.add(7)
    assert queue_state(queue, server.now_ms) == "damaged"
    assert why(server) == ["Nobody is asking for an item."]
    server.say("a", b"get jobs/open")
    assert why(server) == []


def test_an_empty_queue_has_no_reason(server: ServerHarness) -> None:
    server.say("a", b"flush jobs")
    assert why(server) == []
