"""A child that is paused is so in every snapshot, whichever of the children it is."""

from __future__ import annotations

import pytest

from kestrelpy.core.log.log import JournalLog
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy


@pytest.mark.parametrize("paused", [b"orders+a", b"orders+b", b"orders+c"])
def test_a_snapshot_with_a_paused_child_among_others_is_read_by_the_next_start(
    paused: bytes,
) -> None:
    stage = ServerHarness()
    for name in (b"orders+a", b"orders+b", b"orders+c"):
        stage.say("eve", b"get %b/peek" % name)
    stage.say("eve", b"set orders 0 0 1", b"1")
    assert stage.say("eve", b"pause %b" % paused) == b"OK\r\n"
    log = stage.queue("orders").log
    assert isinstance(log, JournalLog)
    tidy(stage, log)

    stage.kill()

    assert stage.found.damages == []
    for name in (b"orders+a", b"orders+b", b"orders+c"):
        is_there = stage.say("eve", b"get %b" % name).startswith(b"VALUE")
        assert is_there == (name != paused)
