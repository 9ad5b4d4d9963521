"""Pages of keys: the holder of each, and how many items wait for it."""

from __future__ import annotations

from kestrelpy.operations.lists.keys import list_keys
from tests.support.server_harness import ServerHarness


def server_with_keys() -> ServerHarness:
    server = ServerHarness()
    for key in (b"A", b"A", b"A", b"B", b"C"):
        server.say("a", b"set jobs/key=%b 0 0 1" % key, b"x")
    server.say("a", b"get jobs/open")
    server.say("b", b"get jobs/open")
    return server


def test_a_key_has_its_holder_and_the_number_of_items_that_wait() -> None:
    queue = server_with_keys().queue("jobs")
    page = list_keys(queue, 0, 10, only_blocked=True)
    assert [(k.key, k.holder, k.lease_holder, k.waiting) for k in page.keys] == [("A", 1, "a", 2)]
    assert page.next is None


def test_pages_go_on_from_the_position_of_the_last_key() -> None:
    queue = server_with_keys().queue("jobs")
    first = list_keys(queue, 0, 1, only_blocked=False)
    assert ([each.key for each in first.keys], first.next) == (["A"], 1)
    assert first.next is not None
    second = list_keys(queue, first.next, 5, only_blocked=False)
    assert [(k.key, k.holder_state) for k in second.keys] == [("B", "leased")]
    assert second.next is None
