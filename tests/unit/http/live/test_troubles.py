"""What is wrong with a queue: each trouble once, none that is not there."""

from __future__ import annotations

import pytest

from kestrelpy.http.live import troubles
from kestrelpy.http.live.figures import figures_of
from kestrelpy.http.live.troubles import death_trouble, span, troubles_of
from tests.support.server_harness import ServerHarness


def codes(server: ServerHarness) -> list[str]:
    queue = server.broker.queues[b"jobs"]
    return [
        each.code for each in troubles_of(queue, figures_of(queue, server.now_ms), server.now_ms)
    ]


def test_a_queue_that_nobody_asks_is_one_after_a_while(server: ServerHarness) -> None:
    assert codes(server) == []
    server.now_ms += troubles.UNASKED_MS
    assert codes(server) == ["unasked"]
    server.say("a", b"get jobs/open")
    assert codes(server) == [], "somebody works on it"


def test_a_paused_queue_with_items_is_one(server: ServerHarness) -> None:
    server.broker.queues[b"jobs"].reader.paused = True
    assert codes(server) == ["paused"]
    server.say("a", b"flush jobs")
    assert codes(server) == []


def test_a_lease_that_lasts_is_one_after_a_while(server: ServerHarness) -> None:
    server.say("a", b"gets jobs/open/lease=1h")
    server.now_ms += troubles.LEASED_MS - 1
    assert "overdue" not in codes(server)
    server.now_ms += 1
    assert "overdue" in codes(server)


def test_a_key_that_blocks_for_long_is_one(server: ServerHarness) -> None:
    server.say("a", b"set mail/key=x 0 0 1", b"1")
    server.say("a", b"set mail/key=x 0 0 1", b"2")
    server.say("b", b"gets mail/open/lease=1h")
    server.say("c", b"get mail/open")
    queue = server.broker.queues[b"mail"]
    server.now_ms += troubles.BLOCKED_MS
    found = troubles_of(queue, figures_of(queue, server.now_ms), server.now_ms)
    assert [(each.code, each.tab) for each in found] == [("blocked", "keys")]
    assert found[0].text.startswith("1 key is blocked, and the oldest item has waited for")


def test_dead_letters_are_one_while_they_come() -> None:
    found = death_trouble(3, 1000, 2000)
    assert found is not None
    assert found.text == "3 dead letters, the latest died 1 s ago"
    assert death_trouble(3, 1000, 1000 + troubles.DIED_MS) is None
    assert death_trouble(0, 1000, 2000) is None


@pytest.mark.parametrize(("ms", "said"), [
    (0, "0 s"), (119_999, "119 s"), (120_000, "2 min"), (7_199_999, "119 min"),
    (7_200_000, "2 h"), (200_000_000, "2 d"), (-5, "0 s"),
])  # fmt: skip
def test_a_span_is_said_in_one_unit(ms: int, said: str) -> None:
    assert span(ms) == said
