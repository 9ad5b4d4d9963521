"""A queue that was deleted is over, also when there is one of its name again."""

from __future__ import annotations

import pytest

from kestrelpy.core import QueueLife
from tests.support.server_harness import ServerHarness


@pytest.mark.parametrize("child", [b"", b"get jobs+kid"])
def test_a_queue_that_is_made_again_has_another_life(child: bytes) -> None:
    stage = ServerHarness()
    stage.say("anna", b"set jobs 0 0 1\r\nx")
    if child:
        stage.say("anna", child)
    first = QueueLife.of(stage.broker.queues[b"jobs"])
    assert not first.is_over
    stage.say("anna", b"delete jobs")
    assert first.is_over
    stage.say("anna", b"set jobs 0 0 1\r\ny")
    again = stage.broker.queues[b"jobs"]
    assert (again is first.queue) is bool(child), "its children go on in its log"
    assert first.is_over
    assert not QueueLife.of(again).is_over


def test_a_child_has_a_life_of_its_own() -> None:
    stage = ServerHarness()
    for line in (b"set jobs 0 0 1\r\nx", b"get jobs+kid"):
        stage.say("anna", line)
    kid = QueueLife.of(stage.broker.queues[b"jobs+kid"])
    stage.say("anna", b"delete jobs")
    assert not kid.is_over
    stage.say("anna", b"delete jobs+kid")
    assert kid.is_over
