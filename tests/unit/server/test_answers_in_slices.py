"""Thousands of callers that one sync answers send in slices: others are answered in between.

Promise: slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from kestrelpy.operations import Caller
from kestrelpy.server.turn import (
    ANSWER_BYTES_MAX,
    ANSWERS_MAX,
    CALL_ANSWERS,
    LATE_MIN,
    Turn,
)
from tests.support.disk_harness import DiskHarness, HandLoop
from tests.support.running import Peer, Running, running
from tests.unit.server.test_turn import life, turn_of

__all__ = ["life"]

MANY = 4 * ANSWERS_MAX
TURNS_MAX = 1000


class Talk:
    """A conversation, as the turn sees it: it notes when it sends."""

    owes = closed = False

    def __init__(self, sent: list[Talk], send: Callable[[], None] = lambda: None) -> None:
        self.is_touched = False
        self.holder = self.host = self
        self.name = "peer"
        self._sent, self._send = sent, send

    def flush(self, now_ms: int) -> None:
        self._sent.append(self)
        self._send()

    def abort(self) -> None:
        raise AssertionError("it sends without a fault")


def touch(turn: Turn, *talks: Talk) -> None:
    for talk in talks:
        turn.touch(cast(Caller, talk))


def a_turn(loop: HandLoop) -> None:
    """Run what was scheduled."""
    soon, loop.soon[:] = loop.soon[:], []
    assert soon, "no turn is scheduled"
    for call, args in soon:
        call(*args)


def turns(loop: HandLoop, turn: Turn) -> int:
    """Run turns until all have sent; return how many."""
    for count in range(TURNS_MAX):
        if not turn._late and not turn._touched:
            return count
        a_turn(loop)
    raise AssertionError("no end")


@pytest.fixture
def made(life: DiskHarness, monkeypatch: pytest.MonkeyPatch) -> tuple[Turn, HandLoop]:
    """A turn whose callers are conversations."""
    monkeypatch.setattr("kestrelpy.server.turn.Conversation", Talk)
    life.commit()
    life.dirty.clear()
    return turn_of(life)


def test_one_turn_lets_a_bounded_number_send(made: tuple[Turn, HandLoop]) -> None:
    turn, loop = made
    sent: list[Talk] = []
    many = [Talk(sent) for _ in range(MANY)]
    turn.touch_all(many)
    while len(sent) < MANY:
        before = len(sent)
        a_turn(loop)
        assert 0 < len(sent) - before <= ANSWERS_MAX
    assert sent == many, "each once, in their order"
    assert not any(talk.is_touched for talk in many)


def test_callers_that_come_one_by_one_are_bounded_as_well(made: tuple[Turn, HandLoop]) -> None:
    turn, loop = made
    sent: list[Talk] = []
    many = [Talk(sent) for _ in range(MANY)]
    touch(turn, *many)
    while len(sent) < MANY:
        before = len(sent)
        a_turn(loop)
        assert 0 < len(sent) - before <= ANSWERS_MAX + LATE_MIN
    assert sent == many


def test_as_many_as_one_turn_lets_send_leave_in_it(made: tuple[Turn, HandLoop]) -> None:
    turn, loop = made
    sent: list[Talk] = []
    turn.touch_all([Talk(sent) for _ in range(ANSWERS_MAX)])
    a_turn(loop)
    assert len(sent) == ANSWERS_MAX
    assert loop.soon == []


def test_another_client_is_answered_in_the_next_turn(made: tuple[Turn, HandLoop]) -> None:
    turn, loop = made
    sent: list[Talk] = []
    turn.touch_all([Talk(sent) for _ in range(MANY)])
    a_turn(loop)
    for _ in range(3):
        other = Talk(sent)
        touch(turn, other)
        at = len(sent)
        a_turn(loop)
        assert sent[at] is other


def test_however_many_others_come_the_late_ones_go_on(made: tuple[Turn, HandLoop]) -> None:
    turn, loop = made
    sent: list[Talk] = []
    many = [Talk(sent) for _ in range(MANY)]
    turn.touch_all(many)
    for _ in range(MANY // LATE_MIN):
        touch(turn, *(Talk(sent) for _ in range(ANSWERS_MAX)))
        a_turn(loop)
    assert set(many) <= set(sent)


def test_a_late_caller_that_is_touched_again_sends_once(made: tuple[Turn, HandLoop]) -> None:
    turn, loop = made
    sent: list[Talk] = []
    many = [Talk(sent) for _ in range(MANY)]
    turn.touch_all(many)
    a_turn(loop)
    touch(turn, many[-1])
    turn.touch_all(many[ANSWERS_MAX:])
    turns(loop, turn)
    assert sent == many


def test_requests_over_http_count_for_more(
    made: tuple[Turn, HandLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.turn.Conversation", HandLoop)  # these are none
    turn, loop = made
    sent: list[Talk] = []
    many = [Talk(sent) for _ in range(MANY)]
    turn.touch_all(many)
    while len(sent) < MANY:
        before = len(sent)
        a_turn(loop)
        assert 0 < len(sent) - before <= ANSWERS_MAX // CALL_ANSWERS
    assert sent == many


def test_the_bytes_of_one_turn_are_bounded(life: DiskHarness, made: tuple[Turn, HandLoop]) -> None:
    turn, loop = made
    sent: list[Talk] = []
    counters, each = life.broker.counters, ANSWER_BYTES_MAX // 4

    def send() -> None:
        counters.bytes_written += each

    late = [Talk(sent, send) for _ in range(MANY)]
    turn.touch_all(late)
    others = [Talk(sent, send) for _ in range(6)]
    touch(turn, *others)
    a_turn(loop)
    assert sent == [*others[:4], *late[:4]]
    before = counters.bytes_written
    while len(sent) < MANY + len(others):
        a_turn(loop)
        assert counters.bytes_written - before <= ANSWER_BYTES_MAX
        before = counters.bytes_written
    assert sorted(map(id, sent)) == sorted(map(id, [*late, *others])), "each once"


def test_a_member_that_is_stopped_between_two_slices_holds_the_rest(
    made: tuple[Turn, HandLoop],
) -> None:
    turn, loop = made
    sent: list[Talk] = []
    is_ours = True
    turn.may_answer = lambda: is_ours
    many = [Talk(sent) for _ in range(MANY)]
    turn.touch_all(many)
    a_turn(loop)
    at = len(sent)
    is_ours = False
    for _ in range(3):
        a_turn(loop)
    assert len(sent) == at
    is_ours = True
    turns(loop, turn)
    assert sorted(map(id, sent)) == sorted(map(id, many)), "each once"


@pytest.mark.parametrize("answers", [0, 1, ANSWERS_MAX - 1, ANSWERS_MAX, ANSWERS_MAX + 1])
def test_a_member_that_is_stopped_in_a_slice_sends_nothing_when_it_wakes(
    made: tuple[Turn, HandLoop], answers: int
) -> None:
    turn, loop = made
    sent: list[Talk] = []
    looks = 0

    def may_answer() -> bool:
        nonlocal looks
        looks += 1
        return looks <= answers + 1  # the turn asks first

    turn.may_answer = may_answer
    many = [Talk(sent) for _ in range(MANY)]
    turn.touch_all(many)
    for _ in range(5):
        a_turn(loop)
    assert len(sent) <= answers
    turn.may_answer = lambda: True
    turns(loop, turn)
    assert sorted(map(id, sent)) == sorted(map(id, many)), "each once"


def test_refusals_among_late_callers_are_sent_while_replies_are_held(
    made: tuple[Turn, HandLoop],
) -> None:
    turn, loop = made
    sent: list[Talk] = []
    many = [Talk(sent) for _ in range(MANY)]
    turn.touch_all(many)
    a_turn(loop)
    held = many[ANSWERS_MAX::2]
    for talk in many:
        talk.closed = True  # the door
    for talk in held:
        talk.owes = True
    turn.may_answer = lambda: False
    for _ in range(MANY // ANSWERS_MAX):
        a_turn(loop)
    assert not set(held) & set(sent)
    assert len(sent) == MANY - len(held)
    turn.may_answer = lambda: True
    turns(loop, turn)
    assert len(sent) == len(set(sent)) == MANY


# -- a whole server, with slices of one answer ----------------------------------------------------

CHILDREN = 12


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWERS_MAX", "LATE_MIN"):
        monkeypatch.setattr(f"kestrelpy.server.turn.{name}", 1)


async def waiting_clients(server: Running, after: bytes = b"") -> list[Peer]:
    """Clients that wait for an item, each of a child of its own."""
    assert server.daemon is not None
    peers = [await server.client() for _ in range(CHILDREN)]
    queues = server.daemon.broker.queues
    for number, peer in enumerate(peers):
        peer.writer.write(b"get jobs+%d/open/t=20s\r\n%b" % (number, after))
    async with asyncio.timeout(20):
        for number in range(CHILDREN):
            name = b"jobs+%d" % number
            while name not in queues or not queues[name].reader.waiters.count:
                await asyncio.sleep(0)
    return peers


async def some_are_late(turn: Turn) -> None:
    async with asyncio.timeout(20):
        while not turn._late:
            await asyncio.sleep(0)


@pytest.mark.usefixtures("small")
async def test_each_client_has_its_answer_and_those_to_its_next_requests_in_sequence(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        waiting = await waiting_clients(server, b"version\r\n")
        producer = await server.client()
        assert await producer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        for number, peer in enumerate(waiting):
            lines = [await peer.line() for _ in range(4)]
            assert lines[:3] == [b"VALUE jobs+%d/open/t=20s 0 1\r\n" % number, b"a\r\n", b"END\r\n"]
            assert lines[3].startswith(b"VERSION")


@pytest.mark.usefixtures("small")
async def test_a_client_that_hangs_up_before_its_late_answer_gives_its_lease_back(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        assert server.daemon is not None
        waiting = await waiting_clients(server)
        numbers = {
            "{}:{}".format(*peer.writer.get_extra_info("sockname")): number
            for number, peer in enumerate(waiting)
        }
        producer, turn = await server.client(), server.daemon.turn
        producer.writer.write(b"set jobs 0 0 1\r\na\r\n")
        await some_are_late(turn)
        gone = [numbers[name] for each in turn._late if (name := each.holder.name) in numbers]
        assert gone
        for each in list(turn._late):
            if each.holder.name in numbers:
                each.abort()
        assert await producer.line() == b"STORED\r\n"
        for number in gone:
            heir = await server.client()
            assert (await heir.ask(b"get jobs+%d/open/t=20s\r\n" % number)).startswith(b"VALUE")
            assert [await heir.line(), await heir.line()] == [b"a\r\n", b"END\r\n"]


@pytest.mark.usefixtures("small")
async def test_a_server_that_stops_leaves_no_late_answer_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        assert server.daemon is not None
        waiting = await waiting_clients(server)
        producer = await server.client()
        producer.writer.write(b"set jobs 0 0 1\r\na\r\n")
        await some_are_late(server.daemon.turn)
        stopping = asyncio.ensure_future(server.daemon.stop())
        for peer in waiting:
            assert (await peer.line()).startswith(b"VALUE")
        assert await producer.line() == b"STORED\r\n"
        await stopping
