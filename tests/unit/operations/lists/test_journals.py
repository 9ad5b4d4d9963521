"""What a journal says of itself: positions and sizes, and no path."""

from __future__ import annotations

from kestrelpy.operations.lists.journals import journal_facts
from tests.support.server_harness import ServerHarness


def test_a_journal_tells_its_records_up_to_the_sync() -> None:
    server = ServerHarness()
    server.say("a", b"set jobs 0 0 1", b"x")
    facts = journal_facts(server.queue("jobs"))
    assert (facts.durable, facts.state, facts.segments) == (True, "ok", 1)
    assert 0 < facts.records_synced == facts.records_written == facts.records_appended
    assert facts.disk_bytes > 0


def test_a_queue_in_memory_has_no_journal() -> None:
    server = ServerHarness()
    server.set_queue("fast", durable=False)
    server.say("a", b"set fast 0 0 1", b"x")
    facts = journal_facts(server.queue("fast"))
    assert (facts.durable, facts.segments, facts.disk_bytes) == (False, 0, 0)
