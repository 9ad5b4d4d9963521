"""A child flushes and delays for itself, as a queue does, also over a restart."""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness

END = b"END\r\n"


@pytest.fixture
def stage() -> ServerHarness:
    """A queue with a child that has one attempt."""
    made = ServerHarness()
    made.set_queue("jobs+kid", max_attempts=1)
    made.say("eye", b"get jobs+kid")
    return made


def put(stage: ServerHarness, options: bytes = b"") -> None:
    assert stage.say("prod", b"set jobs%b 0 0 1" % options, b"x") == b"STORED\r\n"


def live(stage: ServerHarness, name: str) -> int:
    return len(stage.queue(name).reader.live)


# Before the flush: the options of the put, the requests to the child; the items that then stay.
STATES: dict[str, tuple[bytes, tuple[bytes, ...], int]] = {
    "ready": (b"", (), 0),
    "delayed": (b"/delay=1h", (), 0),
    "leased": (b"", (b"gets jobs+kid/open/lease=10h",), 1),
    "dead": (b"", (b"get jobs+kid/open", b"get jobs+kid/abort"), 1),
}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_a_flush_of_a_child(stage: ServerHarness, state: str, restarts: bool) -> None:
    options, lines, stay = STATES[state]
    put(stage, options)
    for line in lines:
        stage.say("kid", line)
    assert stage.say("op", b"flush jobs+kid") == END
    if restarts:
        stage.cut_power()
    assert live(stage, "jobs+kid") == stay
    assert live(stage, "jobs") == 1, "a flush is for one reader"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_flush_of_a_child_takes_what_waits_for_its_key(
    stage: ServerHarness, restarts: bool
) -> None:
    put(stage, b"/key=A")
    put(stage, b"/key=A")
    stage.say("kid", b"gets jobs+kid/open/lease=10h")
    assert stage.say("op", b"flush jobs+kid") == END
    if restarts:
        stage.cut_power()
    assert live(stage, "jobs+kid") == 1
    assert live(stage, "jobs") == 2
    put(stage, b"/key=A")
    said = stage.say("other", b"get jobs+kid/open")
    stage.pass_time(10)  # after a start the front is read back first
    assert said + stage.client("other").take() == END, "its key is leased still"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("how", ["put", "given back"])
@pytest.mark.parametrize("name", [b"jobs", b"jobs+kid"])
def test_a_delay_is_over(stage: ServerHarness, name: bytes, how: str, restarts: bool) -> None:
    put(stage, b"/delay=10s" if how == "put" else b"")
    if how == "given back":
        stage.say("a", b"get " + name + b"/open")
        assert stage.say("a", b"get " + name + b"/defer/delay=10s") == END
    stage.pass_time(4000)
    if restarts:
        stage.restart()
    stage.pass_time(5999)
    assert stage.say("b", b"get " + name + b"/open") == END
    stage.pass_time(2)
    assert stage.say("b", b"get " + name + b"/open").startswith(b"VALUE")
