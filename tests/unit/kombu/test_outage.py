"""A daemon that is away is one line, and so is its return."""

from __future__ import annotations

import pytest

from kestrelpy.kombu.outage import Outage


def test_an_outage_is_said_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    one, other = Outage.of("the daemon at a:1"), Outage.of("the daemon at a:1")
    one.works()
    assert caplog.messages == []
    for _ in range(3):
        one.broke(ConnectionError("it hung up"))
        other.broke(ConnectionRefusedError("refused"))
    other.works()
    one.works()
    one.broke(ConnectionError("it hung up"))

    assert caplog.messages[0] == "the daemon at a:1: it hung up; trying again until it is back"
    assert caplog.messages[1].startswith("the daemon at a:1 is back after ")
    assert len(caplog.messages) == 3
