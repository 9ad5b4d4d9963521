"""An item removed on request leaves its segment, as a confirmed one does."""

from __future__ import annotations

import pytest

from kestrelpy.core.log.log import JournalLog
from tests.support.server_harness import ServerHarness


def test_a_segment_does_not_wait_for_cancelled_or_purged_items() -> None:
    stage = ServerHarness()
    stage.set_queue(max_attempts=1)
    for body in (b"1", b"2"):
        stage.say("a", b"set jobs 0 0 1", body)
    stage.say("a", b"get jobs/open")
    stage.say("a", b"get jobs/abort")
    log = stage.broker.queues[b"jobs"].log
    assert isinstance(log, JournalLog)
    [segment] = log.journal.segments
    assert segment.live == 2

    assert stage.say("b", b"delete jobs/dead/item=1") == b"DELETED\r\n"
    assert stage.say("b", b"delete jobs/item=2") == b"DELETED\r\n"

    assert segment.live == 0


def test_an_item_is_cancelled_that_stands_on_disk_after_more_confirms_than_one_reading_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("WALKED_BYTES_MAX", "PIECE_BYTES_OF_ONE", "NEAR_ITEMS"):
        monkeypatch.setattr(f"journal.read.range_scan.{name}", 200)
    stage = ServerHarness()
    stage.set_queue(max_memory=1)
    stage.say("a", b"set jobs 0 0 1", b"1")
    stage.restart()
    for _ in range(20):
        stage.say("a", b"get jobs/open", b"get jobs/abort")
    stage.say("a", b"set jobs 0 0 1", b"2")

    assert stage.say("a", b"delete jobs/item=2") == b"DELETED\r\n"


def test_an_id_that_is_no_longer_remembered_removes_nothing() -> None:
    stage = ServerHarness()
    stage.set_queue(dedupe_window="1m")
    stage.say("a", b"set jobs/id=7 0 0 1", b"x")
    stage.now_ms += 61_000  # and nothing swept the ids in between
    stage.say("a", b"delete jobs/id=7")
    assert stage.say("a", b"get jobs/peek") == b"VALUE jobs/peek 0 1\r\nx\r\nEND\r\n"
