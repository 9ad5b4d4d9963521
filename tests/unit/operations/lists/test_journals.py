"""The facts of a journal: positions and sizes, without paths."""

from __future__ import annotations

import pytest

from journal.write.segment_file import Sizes
from kestrelpy.operations.lists import journals
from kestrelpy.operations.lists.journals import SHARES, journal_facts, survey_segments
from tests.support.server_harness import ServerHarness
from tests.support.steps import counted, ended


def test_a_journal_tells_its_records_up_to_the_sync() -> None:
    server = ServerHarness()
    server.say("a", b"set jobs 0 0 1", b"x")
    facts = journal_facts(server.queue("jobs"))
    assert (facts.durable, facts.state, facts.segments) == (True, "ok", 1)
    assert 0 < facts.records_synced == facts.records_written == facts.records_appended
    assert facts.disk_bytes == facts.live_bytes + facts.done_bytes + facts.reserve_bytes
    assert min(facts.live_bytes, facts.done_bytes, facts.reserve_bytes) > 0


def test_a_queue_in_memory_has_no_journal() -> None:
    server = ServerHarness()
    server.set_queue("fast", durable=False)
    server.say("a", b"set fast 0 0 1", b"x")
    facts = journal_facts(server.queue("fast"))
    assert (facts.durable, facts.segments, facts.disk_bytes) == (False, 0, 0)
    assert (facts.live_bytes, facts.done_bytes, facts.reserve_bytes) == (0, 0, 0)


def filled(**settings: str) -> ServerHarness:
    """Return a server with 1,000 items of 100 bytes in small segments; the first 300 are done."""
    server = ServerHarness(sizes=Sizes(32 << 10, 32 << 10, 1 << 20))
    server.set_queue("jobs", **settings)
    for _ in range(1000):
        server.say("a", b"set jobs 0 0 100", b"x" * 100)
    for _ in range(300):
        server.say("a", b"get jobs")
    return server


def test_sealed_segments_are_counted_by_the_share_that_is_live() -> None:
    server = filled()
    found = ended(survey_segments(server.broker))
    segments = server.queue("jobs").log.journal.segments
    assert found.segments == len(segments) > 5
    assert found.bytes == sum(each.capacity for each in segments)
    assert found.active_bytes == segments[-1].capacity
    by_share = {each.share: each for each in found.by_share}
    assert tuple(by_share) == SHARES
    assert sum(each.segments for each in found.by_share) == len(segments) - 1
    assert (by_share["none"].segments > 0, by_share["none"].live_bytes) == (True, 0)
    assert by_share["below_75"].segments >= 1, "full, but for what each file has of its own"
    sealed = sum(each.bytes for each in found.by_share)
    assert found.reclaimable_bytes == sealed - sum(each.live_bytes for each in found.by_share)
    assert found.retained_bytes == 0


def test_retained_segments_are_not_reclaimable() -> None:
    found = ended(survey_segments(filled(retain="forever").broker))
    assert found.reclaimable_bytes == 0
    assert found.retained_bytes > 0


def test_the_survey_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    server = filled()
    monkeypatch.setattr(journals, "_PER_SLICE", 2)
    assert counted(survey_segments(server.broker))[1] > 2


def test_a_child_counts_no_segment_of_its_parent_again() -> None:
    server = ServerHarness()
    server.say("a", b"get jobs+audit")
    server.say("a", b"set jobs 0 0 1", b"x")
    assert ended(survey_segments(server.broker)).segments == 1
