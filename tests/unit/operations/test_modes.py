"""A mode that comes into force ends what waits, and what is done in slices."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kestrelpy.core.queue import ack_up_to
from kestrelpy.core.transfer import transfers
from kestrelpy.operations import queue_admin
from tests.support.http_client import web
from tests.support.server_harness import ServerHarness
from tests.support.zaqar import CLIENT

HANDS_OUT_NOTHING = b"SERVER_ERROR quiescent: this server hands out nothing now\r\n"
WAITS = (
    b"get jobs/t=60000", b"get jobs/open/t=60000", b"gets jobs/open/lease=1m/t=60000",
    b"get jobs/peek/t=60000", b"get jobs+kid/open/t=60000", b"get jobs/dead/open/t=60000",
    b"get absent/open/t=60000", b"monitor jobs 60 5",
)  # fmt: skip


@pytest.fixture
def stage() -> ServerHarness:
    """A server with one item, which `one` leases from the queue and `two` from its child."""
    made = ServerHarness()
    made.say("eye", b"get jobs+kid")
    made.store(b"x")
    made.say("one", b"get jobs/open")
    made.say("two", b"get jobs+kid/open")
    return made


@pytest.mark.parametrize("line", WAITS)
def test_who_waits_for_an_item_is_refused_when_nothing_is_handed_out(
    stage: ServerHarness, line: bytes
) -> None:
    assert stage.say("late", line) == b""
    assert stage.say("boss", b"status quiescent") == b"END\r\n"
    assert stage.client("late").take() == HANDS_OUT_NOTHING
    stage.hang_up("one")
    stage.hang_up("two")
    assert stage.client("late").take() == b""
    assert stage.say("late", line) == HANDS_OUT_NOTHING
    assert not stage.queue("jobs").reader.waiters
    assert not stage.queue("jobs").reader.leases
    assert stage.broker._absent == {}
    stage.say("boss", b"status up")
    assert stage.say("late", b"get jobs/open").startswith(b"VALUE")


@pytest.mark.parametrize("line", WAITS)
def test_who_waits_goes_on_waiting_when_nothing_is_stored(
    stage: ServerHarness, line: bytes
) -> None:
    assert stage.say("late", line) == b""
    stage.say("boss", b"status readonly")
    assert stage.client("late").take() == b""


def test_an_observer_goes_on_waiting(stage: ServerHarness) -> None:
    assert stage.say("late", b"get jobs/peek/after=1/t=60000") == b""
    stage.say("boss", b"status quiescent")
    assert stage.client("late").take() == b""


def test_a_close_before_a_refused_wait_is_done(stage: ServerHarness) -> None:
    assert stage.say("one", b"get jobs/close/open/t=60000") == b""
    stage.say("boss", b"status quiescent")
    assert stage.client("one").take() == b"END\r\n"
    assert not stage.queue("jobs").reader.live


async def refused_while_it_waits(line: bytes, tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        head = f"Host: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: acme\r\n".encode()
        request = b"POST %b HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (line, head)
        asked = asyncio.ensure_future(server.raw(request))
        while not server.daemon.broker._absent:
            await asyncio.sleep(0)
        server.daemon.set_mode("quiescent")
        answer = await asked
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"quiescent: this server hands out nothing now" in answer


async def test_who_waits_over_http_is_refused(tmp_path: Path) -> None:
    await refused_while_it_waits(b"/queues/jobs/leases?wait=20s", tmp_path)


async def test_a_claim_that_waits_is_refused(tmp_path: Path) -> None:
    await refused_while_it_waits(b"/v2/queues/jobs/claims?wait=20", tmp_path)


FILLED = (b"d1", b"d2", b"d3")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> ServerHarness:
    """Three dead letters, three items of a child, three queues; one thing in each slice."""
    for where, limit in (
        (queue_admin, "_REDRIVEN_PER_SLICE"), (queue_admin, "_SWEEP_STEPS"),
        (ack_up_to, "STEP_NUMBERS"), (transfers, "MOVES_MAX"), (transfers, "BEGUN_MAX"),
    ):  # fmt: skip
        monkeypatch.setattr(where, limit, 1)
    made = ServerHarness()
    made.set_queue("dead", max_attempts=1)
    made.say("eye", b"get jobs+kid")
    for body in FILLED:
        made.store(body)
        for line in (b"set dead 0 0 2\r\n" + body, b"get dead/open", b"get dead/abort"):
            made.say("a", line)
        made.say("a", b"set other-%b 0 0 1\r\nx" % body)
        made.say("a", b"set old 0 1 2\r\n" + body)
    made.now_ms += 2000
    return made


REMOVES = b"SERVER_ERROR readonly: this server removes nothing now\r\n"
MOVES = b"SERVER_ERROR readonly: this server moves nothing now\r\n"


def in_the_middle(stage: ServerHarness, line: bytes, mode: str, turns: int) -> bytes:
    """Ask, and set the mode after `turns` turns; return the answer."""
    stage.client("late").conversation.feed(line + b"\r\n", stage.now_ms)
    for _ in range(turns):
        stage._turn()
    stage.set_mode(mode)
    stage.work()
    return stage.client("late").take()


@pytest.mark.parametrize("turns", [1, 2])
def test_a_redrive_stops(slow: ServerHarness, turns: int) -> None:
    said = in_the_middle(slow, b"redrive dead all", "readonly", turns)
    left = len(slow.queue("dead").reader.dead)
    assert 0 < left < 3
    assert said == b"%d\r\n" % (3 - left)
    assert slow.say("late", b"redrive dead all") == MOVES


def test_a_redrive_that_has_not_begun_is_refused(slow: ServerHarness) -> None:
    assert in_the_middle(slow, b"redrive dead all", "readonly", 0) == MOVES
    assert len(slow.queue("dead").reader.dead) == 3


@pytest.mark.parametrize("line", [b"redrive dead all target", b"move jobs target 3"])
@pytest.mark.parametrize("turns", [1, 3])
def test_a_move_stops(slow: ServerHarness, line: bytes, turns: int) -> None:
    said = in_the_middle(slow, line, "readonly", turns)
    queues = slow.broker.queues
    moved = len(queues[b"target"].reader.live) if b"target" in queues else 0
    assert moved < 3
    assert said == (b"%d\r\n" % moved if moved else MOVES)


def test_dead_letters_that_move_by_themselves_go_on(slow: ServerHarness) -> None:
    slow.set_queue("dead", max_attempts=1, dead_letter_to="target")
    slow.say("a", b"set dead 0 0 2\r\nd4")
    slow.say("a", b"get dead/open")
    slow.set_mode("readonly")
    slow.hang_up("a")
    assert len(slow.queue("target").reader.live) == 4


@pytest.mark.parametrize("turns", [1, 2])
def test_flush_all_stops_between_two_queues(slow: ServerHarness, turns: int) -> None:
    said = in_the_middle(slow, b"flush_all", "readonly", turns)
    assert said == REMOVES
    left = [queue.reader.ready.count for queue in slow.broker.queues.values()]
    assert any(left)


@pytest.mark.parametrize("line", [b"flush_expired old", b"flush_all_expired"])
def test_a_sweep_stops(slow: ServerHarness, line: bytes) -> None:
    assert in_the_middle(slow, line, "readonly", 0) == b"0\r\n"


def test_upto_stops_when_nothing_is_confirmed_any_more(slow: ServerHarness) -> None:
    said = in_the_middle(slow, b"delete jobs/upto=3", "quiescent", 0)
    assert said == b"SERVER_ERROR quiescent: this server confirms nothing now\r\n"
    assert len(slow.queue("jobs").reader.live) == 2


def test_upto_goes_on_when_nothing_is_stored(slow: ServerHarness) -> None:
    assert in_the_middle(slow, b"delete jobs/upto=3", "readonly", 0) == b"DELETED\r\n"
