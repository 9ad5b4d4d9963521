"""Mistakes of clients: their replies, and what a flood of them costs."""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness


def test_the_nearest_option_is_looked_for_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(
        "kestrelpy.protocol.verbs.bad.nearest", lambda option: looked.append(option) or "!"
    )
    stage = ServerHarness()

    answer = stage.say("a", *[b"get jobs/opn"] * 50)
    stage.pass_time(1000)
    answer += stage.say("a", b"get jobs/opn")

    assert looked == ["opn", "opn"]
    assert answer.count(b"CLIENT_ERROR unknown option opn\r\n") == 49
    assert answer.count(b"CLIENT_ERROR unknown option opn!\r\n") == 2
