"""The troubles of a queue: each is named once, and none is named that is not there."""

from __future__ import annotations

import pytest

from journal.errors import JournalFailed
from kestrelpy.core.fanout.child import ABANDONED_MS
from kestrelpy.http.live import troubles
from kestrelpy.http.live.figures import figures_of
from kestrelpy.http.live.troubles import Trouble, death_trouble, span, troubles_of
from tests.support.server_harness import ServerHarness


def codes(server: ServerHarness) -> list[str]:
    queue = server.broker.queues[b"jobs"]
    return [
        each.code for each in troubles_of(queue, figures_of(queue, server.now_ms), server.now_ms)
    ]


def test_a_queue_that_nobody_asks_is_one_after_a_while(server: ServerHarness) -> None:
    assert codes(server) == []
    stored_ms = server.now_ms
    server.now_ms += troubles.UNASKED_MS
    assert [(each.code, each.since_ms) for each in of(server, b"jobs")] == [("unasked", stored_ms)]
    server.say("a", b"get jobs/open")
    assert codes(server) == [], "somebody works on it"


def test_a_paused_queue_with_items_is_one(server: ServerHarness) -> None:
    server.broker.queues[b"jobs"].reader.paused = True
    assert codes(server) == ["paused"]
    server.say("a", b"flush jobs")
    assert codes(server) == []


def test_a_lease_that_lasts_is_one_after_a_while(server: ServerHarness) -> None:
    server.say("a", b"gets jobs/open/lease=1h")
    leased_ms = server.now_ms
    server.now_ms += troubles.LEASED_MS - 1
    assert "overdue" not in codes(server)
    server.now_ms += 1
    assert ("overdue", leased_ms) in [(each.code, each.since_ms) for each in of(server, b"jobs")]


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


def test_a_failed_journal_is_the_worst_and_a_full_disk_is_bad(server: ServerHarness) -> None:
    log = server.broker.queues[b"jobs"].log
    log.no_room = "disk full: no room for the next segment"
    (found,) = of(server, b"jobs")
    assert (found.level, found.code, found.tab) == ("bad", "disk_full", "now")
    assert "nothing new is stored" in found.text
    log.failure = JournalFailed("/srv/data/1.segment: syncing failed: Input/output error")
    (found,) = of(server, b"jobs")
    assert (found.level, found.code) == ("bad", "failed")
    assert "nothing is acknowledged until a restart" in found.text
    assert ".../1.segment: syncing failed" in found.text


def test_a_child_that_nobody_reads_is_one_after_a_day(server: ServerHarness) -> None:
    server.say("a", b"get jobs+audit/peek", b"set jobs 0 0 1", b"x")
    assert [each.code for each in of(server, b"jobs+audit")] == []
    server.now_ms += ABANDONED_MS
    codes = [(each.level, each.code) for each in of(server, b"jobs+audit")]
    assert codes == [("warn", "abandoned")]


def of(server: ServerHarness, name: bytes) -> list[Trouble]:
    queue = server.broker.queues[name]
    return troubles_of(queue, figures_of(queue, server.now_ms), server.now_ms)


def test_dead_letters_are_one_while_they_come() -> None:
    found = death_trouble(3, 1000, 2000)
    assert found is not None
    assert found.text == "3 dead letters, the latest died 1 s ago"
    assert found.since_ms == 1000
    assert death_trouble(3, 1000, 1000 + troubles.DIED_MS) is None
    assert death_trouble(0, 1000, 2000) is None


@pytest.mark.parametrize(("ms", "said"), [
    (0, "0 s"), (119_999, "119 s"), (120_000, "2 min"), (7_199_999, "119 min"),
    (7_200_000, "2 h"), (200_000_000, "2 d"), (-5, "0 s"),
])  # fmt: skip
def test_a_span_is_said_in_one_unit(ms: int, said: str) -> None:
    assert span(ms) == said
