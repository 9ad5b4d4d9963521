"""What one connection sends, and the turns of the others."""

from __future__ import annotations

import pytest

from tests.support.stage import Stage


def test_sets_that_many_children_put_off_leave_others_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kestrelpy.protocol.conversation.PUT_OFF_MAX", 6)
    stage = Stage()
    for number in range(3):
        stage.say("eve", b"get jobs+c%d/peek" % number)
    client = stage.client("eve")
    sets = b"set jobs/delay=1s 0 0 1\r\nx\r\n" * 7
    client.conversation.feed(sets, stage.now_ms)
    assert stage.queue("jobs").last_number == 2
    assert client.conversation.is_behind
    stage.work()
    assert client.take() == b"STORED\r\n" * 7
    assert not client.conversation.is_behind
