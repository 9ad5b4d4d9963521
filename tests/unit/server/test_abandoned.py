"""The log names a child that nobody comes for, once, and again after somebody came."""

from __future__ import annotations

import pytest

from kestrelpy.core.queue.child_queue import ABANDONED_MS
from kestrelpy.server.abandoned import name_abandoned
from tests.support.stage import Stage


def test_a_child_that_nobody_comes_for_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.say("a", b"get orders+audit/peek", b"get orders+empty/peek", b"set orders 0 0 1", b"1")
    stage.say("a", b"get orders+empty")
    named: set[bytes] = set()

    named = name_abandoned(stage.broker, named, stage.now_ms + ABANDONED_MS - 1)
    assert caplog.messages == []
    for _ in range(3):
        stage.now_ms += ABANDONED_MS
        named = name_abandoned(stage.broker, named, stage.now_ms)
    assert caplog.messages == [
        "queue orders+audit: nobody asked for 24 hours, and 1 items wait: read them, or delete "
        "orders+audit"
    ]

    stage.say("a", b"get orders+audit/peek")
    named = name_abandoned(stage.broker, named, stage.now_ms)
    named = name_abandoned(stage.broker, named, stage.now_ms + ABANDONED_MS)
    assert len(caplog.messages) == 2
    assert named == {b"orders+audit"}
