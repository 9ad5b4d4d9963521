"""Inspection of single items and dead letters, in slices that do not stall the loop."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.stats import item as looking
from tests.support.server_harness import ServerHarness


def test_a_long_list_of_the_dead_comes_in_slices_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "_PER_SLICE", 3)
    stage = ServerHarness()
    stage.set_queue(max_attempts=1)
    for _ in range(10):
        stage.say("a", b"set jobs 0 0 1", b"x")
        stage.say("a", b"get jobs/open")
        stage.say("a", b"get jobs/abort")

    pieces = list(looking.dead_lines(stage.broker.queues[b"jobs"]))
    said = stage.say("b", b"stats jobs/dead")

    assert len(pieces) == 5
    assert b"".join(pieces) == said
    assert said.count(b"_reason abort\r\n") == 10
