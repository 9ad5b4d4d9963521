"""An id that was seen stores nothing, of whichever kind it is, also after a restart."""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness

# The settings, and the options of the puts.
KINDS: dict[str, tuple[dict[str, str], bytes]] = {
    "plain": ({}, b"/id=7"),
    "same body": ({"dedupe": "same body"}, b"/id=7"),
    "scope": ({}, b"/id=7/scope=w/epoch=3"),
}


@pytest.mark.parametrize("end", ["running", "restart", "kill", "power cut"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_id_that_was_seen_stores_nothing(kind: str, end: str) -> None:
    settings, options = KINDS[kind]
    stage = ServerHarness()
    stage.set_queue("jobs", **settings)
    assert stage.say("a", b"set jobs%b 0 0 1" % options, b"x") == b"STORED\r\n"
    assert stage.say("a", b"get jobs").startswith(b"VALUE")
    if end == "restart":
        stage.restart()
    elif end == "kill":
        stage.kill()
    elif end == "power cut":
        stage.cut_power()
    assert stage.say("a", b"set jobs%b 0 0 1" % options, b"x") == b"STORED\r\n"
    assert stage.say("a", b"add jobs%b 0 0 1" % options, b"x") == b"NOT_STORED\r\n"
    assert not stage.queue("jobs").reader.live
    other = stage.say("a", b"set jobs%b 0 0 1" % options, b"y")
    assert other.startswith(b"CLIENT_ERROR") if kind == "same body" else other == b"STORED\r\n"
    assert not stage.queue("jobs").reader.live
