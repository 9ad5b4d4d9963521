"""Items confirmed up to a marker, over several turns."""

from __future__ import annotations

import pytest

from kestrelpy.core.queue import ack_up_to
from kestrelpy.core.queue.ack_up_to import AckUpTo
from tests.support.server_harness import ServerHarness


def test_an_upto_takes_no_step_in_a_queue_that_was_deleted_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, steps = ServerHarness(), list[int]()
    for name in (b"1", b"2", b"3", b"4"):
        stage.say("eve", b"set jobs 0 0 1", name)
    step = AckUpTo.step

    def counted(upto: AckUpTo, now_ms: int) -> None:
        step(upto, now_ms)
        steps.append(now_ms)
        if len(steps) == 2:
            stage.broker.delete(b"jobs", stage.now_ms)

    monkeypatch.setattr(ack_up_to, "STEP_NUMBERS", 1)
    monkeypatch.setattr(AckUpTo, "step", counted)

    assert stage.say("bob", b"delete jobs/upto=4") == b"DELETED\r\n"

    assert len(steps) == 2
