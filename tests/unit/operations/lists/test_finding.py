"""Finding: the queues, items, tokens, ids and keys that a text names, in all queues."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from kestrelpy.operations.lists.finding import FoundItems, find
from tests.support.server_harness import ServerHarness


def walked(steps: Generator[bytes, None, Any]) -> tuple[Any, int]:
    """Return what the walk returns, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value, pauses
        pauses += 1


def found_in(server: ServerHarness, text: bytes, most: int = 20) -> FoundItems:
    found, _ = walked(find(server.broker, text, most, server.now_ms))
    assert isinstance(found, FoundItems)
    return found


def hits(server: ServerHarness, text: bytes) -> list[tuple[str, str, int | None, str | None]]:
    return [tuple(each) for each in found_in(server, text).hits]


def test_a_queue_is_found_by_a_part_of_its_name_and_its_own_name_comes_first() -> None:
    server = ServerHarness()
    for name in (b"a-mail", b"mail", b"jobs"):
        server.say("a", b"set %b 0 0 1" % name, b"x")
    named = [each.queue for each in found_in(server, b"mail").hits]
    assert named == ["mail", "a-mail"]
    assert [each.queue for each in found_in(server, b"MAIL").hits] == ["a-mail", "mail"]


def test_an_item_is_found_with_its_state_until_it_is_gone(server: ServerHarness) -> None:
    assert hits(server, b"2") == [("item", "jobs", 2, "ready")]
    server.say("a", b"get jobs/open")
    assert ("item", "jobs", 1, "leased") in hits(server, b"1")
    server.say("a", b"get jobs/close")
    assert hits(server, b"1") == []


def test_a_token_is_found_once_a_client_has_seen_it(server: ServerHarness) -> None:
    answer = server.say("a", b"gets jobs/open/lease=60s")
    token = answer.split(b"\r\n")[0].split()[-1]
    assert token.isdigit()
    assert ("token", "jobs", 1, "leased") in hits(server, token)
    server.say("b", b"get jobs/open")
    assert ("token", "jobs", 1, "leased") in hits(server, token)


def test_a_delayed_item_is_found_by_its_marker_too(server: ServerHarness) -> None:
    server.say("a", b"set jobs/delay=1s 0 0 4", b"late")
    server.say("a", b"set jobs 0 0 4", b"next")
    server.now_ms += 2000
    server.work()
    assert hits(server, b"6") == [("marker", "jobs", 4, "ready")]


@pytest.mark.parametrize("text", [b"order-7", b"17"])
def test_an_id_is_found_after_its_item_is_gone(text: bytes) -> None:
    server = ServerHarness()
    server.say("a", b"set jobs/id=%b 0 0 1" % text, b"x")
    assert hits(server, text) == [("id", "jobs", 1, "ready")]
    server.say("a", b"get jobs")
    assert hits(server, text) == [("id", "jobs", 1, "gone")]


@pytest.mark.parametrize("key", [b"A", b"17", b"A,B"])
def test_a_key_leads_to_the_item_that_holds_it(key: bytes) -> None:
    server = ServerHarness()
    for _ in range(2):
        server.say("a", b"set jobs/key=%b 0 0 1" % key, b"x")
    assert hits(server, b"Z") == []
    server.say("a", b"get jobs/open")
    assert ("key", "jobs", 1, "leased") in hits(server, key)


def test_a_key_of_a_message_is_found_by_its_number() -> None:
    server = ServerHarness()
    server.set_queue(key=["/id"], key_format="json")
    server.say("a", b"set jobs 0 0 9", b'{"id":17}')
    server.say("a", b"get jobs/open")
    assert ("key", "jobs", 1, "leased") in hits(server, b"17")


def test_there_are_no_more_hits_than_asked_for_and_the_walk_pauses() -> None:
    server = ServerHarness()
    for number in range(450):
        server.say("a", b"set q%03d 0 0 1" % number, b"x")
    few, _ = walked(find(server.broker, b"1", 20, server.now_ms))
    assert (len(few.hits), few.is_whole) == (20, False)
    none, pauses = walked(find(server.broker, b"no such thing", 20, server.now_ms))
    assert (none, pauses) == (FoundItems([], True), 2)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"9" * 400, b"," * 300, b"\x00", b"-1", b"%20"])
def test_nonsense_names_nothing(server: ServerHarness, text: bytes) -> None:
    assert hits(server, text) == []
