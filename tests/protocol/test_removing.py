"""What is removed on request leaves its segment, as what is confirmed does."""

from __future__ import annotations

from kestrelpy.core.log import JournalLog
from tests.support.stage import Stage


def test_a_segment_does_not_wait_for_what_was_cancelled_or_purged() -> None:
    stage = Stage()
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
