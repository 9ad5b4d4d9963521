"""Puts without room in the journal: they wait for the next segment, and leave nothing behind.

Promise: full-disk.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from journal.store import Sizes
from kestrelpy.access import Grant, Role
from kestrelpy.core import JournalLog
from kestrelpy.errors import NoRoomYet
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.login import Login
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.room import with_room
from kestrelpy.protocol.wire import MEMCACHE
from tests.support.server_harness import Client, ServerHarness

LARGE = bytes(6000)
SET = b"set jobs 0 0 6000"
SIZES = Sizes(segment_min=8 << 10, segment_max=8 << 10)
FULL = b"SERVER_ERROR disk full: no room for the next segment\r\n"


@pytest.fixture
def stage() -> ServerHarness:
    """The queue `jobs`, whose segment is full, and whose writes wait."""
    stage = ServerHarness(sizes=SIZES)
    assert stage.say("first", SET, LARGE) == b"STORED\r\n"
    stage.writes = False
    while log_of(stage).has_room(len(LARGE) + 100):
        stage.queue("jobs").put(LARGE, 0, 0, stage.now_ms)
    return stage


def log_of(stage: ServerHarness) -> JournalLog:
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    return log


def waiting(stage: ServerHarness, *names: str) -> bool:
    """Do just these wait for room?"""
    talks = [stage.client(name).conversation for name in names]
    return list(log_of(stage).waiting_room) == talks


def go_on(stage: ServerHarness) -> None:
    stage.writes = True
    log_of(stage).mark()
    stage.work()


def items(stage: ServerHarness) -> int:
    return len(stage.queue("jobs").reader.live)


def test_sets_wait_in_sequence_and_each_is_answered_once(stage: ServerHarness) -> None:
    before = items(stage)
    for name in ("anna", "bert"):
        assert stage.say(name, SET, LARGE, b"get none") == b""
    assert waiting(stage, "anna", "bert")
    assert items(stage) == before, "nothing has changed"
    go_on(stage)
    for name in ("anna", "bert"):
        assert stage.client(name).take() == b"STORED\r\nEND\r\n"
    assert items(stage) == before + 2
    assert waiting(stage)


def test_a_set_that_waits_is_refused_when_there_is_no_room_for_a_segment(
    stage: ServerHarness,
) -> None:
    before = items(stage)
    stage.has_room = False
    assert stage.say("anna", SET, LARGE, b"get none") == b""
    go_on(stage)
    assert stage.client("anna").take() == FULL + b"END\r\n"
    assert items(stage) == before
    assert waiting(stage)
    assert log_of(stage).journal.room.asked == 0, "the next segment may be smaller"


def test_a_client_that_hangs_up_while_it_waits_stores_nothing(stage: ServerHarness) -> None:
    before = items(stage)
    stage.say("anna", SET, LARGE)
    stage.say("bert", SET, LARGE)
    stage.hang_up("anna")
    assert waiting(stage, "bert")
    go_on(stage)
    assert items(stage) == before + 1


def test_a_set_that_waits_when_its_queue_is_deleted_is_stored_in_the_next_one(
    stage: ServerHarness,
) -> None:
    stage.say("anna", SET, LARGE)
    old = log_of(stage)
    stage.say("bert", b"delete jobs")
    for waiter in old.end_waiting_room():  # as the turn does
        assert waiter is stage.client("anna").conversation
    stage.writes = True
    stage.work()
    assert stage.client("anna").take() == b"STORED\r\n"
    assert items(stage) == 1
    assert log_of(stage) is not old


@pytest.mark.parametrize("end", ["kill", "cut_power"])
def test_a_server_that_ends_while_a_set_waits_has_not_stored_it(
    stage: ServerHarness, end: str
) -> None:
    before = items(stage)
    assert stage.say("anna", SET, LARGE) == b""
    getattr(stage, end)()
    assert items(stage) == before


def test_a_journal_that_fails_refuses_the_sets_that_wait(stage: ServerHarness) -> None:
    stage.say("anna", SET, LARGE)
    log = log_of(stage)
    log.fail(OSError(5, "Input/output error"))
    assert log.take_waiting_room() == [stage.client("anna").conversation]
    stage.writes = True
    stage.work()
    assert stage.client("anna").take().startswith(b"SERVER_ERROR")


@dataclass
class Users:
    """One user, logged in already, until a reload takes the rights."""

    are_needed: bool = True
    is_there: bool = True

    def is_current(self, grant: Grant) -> bool:
        return self.is_there

    def begin(self, name: str, secret: bytes, talk: Talk) -> Login:
        raise AssertionError("no client logs in here")


@pytest.mark.parametrize("ending", [b"", b" noreply"])
@pytest.mark.parametrize("first", [b"", b"get jobs/open\r\n"])
def test_a_right_that_is_taken_ends_the_wait_without_an_item(
    stage: ServerHarness, ending: bytes, first: bytes
) -> None:
    before, users = items(stage), Users()
    talk = Conversation(
        stage.broker, stage, "anna", stage.lines, stage.now_ms, MEMCACHE, users
    )
    assert talk._gate is not None
    talk._gate._grant = Grant("anna", Role.WRITE, "*")
    stage.clients["anna"] = Client(talk)
    stage.send("anna", first + SET + ending + b"\r\n" + LARGE + b"\r\n")
    assert waiting(stage, "anna")
    stage.client("anna").take()
    users.is_there = False

    assert talk.bar()
    assert talk.revoke(stage.now_ms)

    assert waiting(stage)
    go_on(stage)
    said = b"" if ending else b"CLIENT_ERROR unauthenticated\r\n"
    assert stage.client("anna").take() == said
    assert items(stage) == before
    assert not talk.holder.leases, "its lease is given back"


# -- leases by token ------------------------------------------------------------------------


def fill(stage: ServerHarness) -> None:
    """Leave no room for the record of a lease either."""
    log = log_of(stage)
    while log.has_lease_room():
        stage.queue("jobs").put(b"", 0, 0, stage.now_ms)


def test_a_get_by_token_that_waits_for_room_gets_its_item_when_there_is(
    stage: ServerHarness,
) -> None:
    fill(stage)
    before = items(stage)
    assert stage.say("anna", b"gets jobs/open/lease=10s/t=60000") == b""
    go_on(stage)
    stage.now_ms += 100
    stage.work()
    assert stage.client("anna").take().startswith(b"VALUE jobs")
    assert items(stage) == before


def test_a_waiter_for_a_token_keeps_its_turn_while_there_is_no_room(
    stage: ServerHarness,
) -> None:
    reader = stage.queue("jobs").reader
    while stage.say("bert", b"get jobs/open/t=0").startswith(b"VALUE"):
        pass
    assert stage.say("anna", b"gets jobs/open/lease=10s/t=60000") == b""
    assert reader.waiters.wants_token()
    log = log_of(stage)
    most = next(size for size in range(len(LARGE), 0, -8) if log.has_room(size))
    stage.queue("jobs").put(bytes(most - 48), 0, 0, stage.now_ms)
    assert not log.has_lease_room()
    assert reader.is_busy(stage.now_ms), "what is there belongs to the waiter"
    log.no_room = "full"
    assert not reader.is_busy(stage.now_ms), "waiting cannot help"


def test_a_get_by_token_whose_time_ends_as_there_is_room_again_gets_its_item(
    stage: ServerHarness,
) -> None:
    stage.say("bert", *[b"get jobs/t=0"] * items(stage))
    assert stage.say("anna", b"gets jobs/open/lease=10s/t=5") == b""
    log = log_of(stage)
    most = next(size for size in range(len(LARGE), 0, -8) if log.has_room(size))
    stage.queue("jobs").put(bytes(most - 48), 0, 0, stage.now_ms)
    log.journal.room.free += len(LARGE)  # as after a write, before the waiters are served
    assert log.has_lease_room()
    waiter = stage.queue("jobs").reader.waiters.first()
    assert waiter is not None
    stage.broker._time_out(waiter, stage.now_ms + 5)
    go_on(stage)
    assert stage.client("anna").take().startswith(b"VALUE jobs")


def test_a_close_that_takes_the_room_for_the_next_lease_has_it_wait(stage: ServerHarness) -> None:
    stage.writes = True
    stage.store(b"one", b"two")
    said = stage.say("anna", b"gets jobs/open/lease=10s")
    token = said.split(b"\r\n")[0].split(b" ")[-1]
    stage.writes = False
    log = log_of(stage)
    room = log.journal.room
    while log.has_lease_room():
        room.free -= 8
    room.free += 8
    room.forget_asked()
    assert log.has_lease_room()
    assert stage.say("anna", b"gets jobs/close/open/token=%b/lease=10s" % token) == b""
    go_on(stage)
    stage.now_ms += 100
    stage.work()
    assert stage.client("anna").take().startswith(b"VALUE jobs")


# -- several queues ---------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [b"", b" noreply"])
@pytest.mark.parametrize("to", [["jobs", "other"], ["other", "jobs"]])
def test_a_set_of_an_alias_goes_on_with_the_queue_that_had_no_room(
    to: list[str], ending: bytes
) -> None:
    stage = ServerHarness(sizes=SIZES)
    stage.set_alias("both", to)
    assert stage.say("first", SET, LARGE) == b"STORED\r\n"
    stage.writes = False
    while log_of(stage).has_room(len(LARGE) + 100):
        stage.queue("jobs").put(LARGE, 0, 0, stage.now_ms)
    before = items(stage)
    said = stage.say("anna", b"set both 0 0 6000" + ending, LARGE, b"get none")
    assert said == b""
    assert items(stage) == before
    go_on(stage)
    stage.work()
    assert stage.client("anna").take() == (b"" if ending else b"STORED\r\n") + b"END\r\n"
    assert items(stage) == before + 1
    assert len(stage.queue("other").reader.live) == 1
    assert stage.broker.counters.cmd_set == 2


def test_the_expiry_of_an_item_counts_from_the_moment_at_which_it_is_stored(
    stage: ServerHarness,
) -> None:
    before = stage.queue("jobs").last_number
    assert stage.say("anna", b"set jobs 0 1 6000", LARGE) == b""
    stage.now_ms += 700
    go_on(stage)
    assert stage.client("anna").take() == b"STORED\r\n"
    item = stage.queue("jobs").reader.item(before + 1)
    assert item is not None
    assert item.expires_ms == stage.unix_ms + 1000


def test_a_get_that_waits_for_memory_and_then_for_room_gets_its_item(
    stage: ServerHarness,
) -> None:
    talk: Talk = Conversation(stage.broker, stage, "x", stage.lines, stage.now_ms, MEMCACHE)
    waiting_room, tries = dict[object, None](), 0

    def fetch(now_ms: int) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise NoRoomYet(waiting_room, b"jobs")

    steps = with_room(talk, fetch)
    assert next(steps) == b""
    assert list(waiting_room) == [talk]
    assert next(steps, None) is None
    assert tries == 2


def test_the_first_id_waits_for_room_for_the_confirms_of_earlier_items() -> None:
    """From then on no earlier segment is room for them, until snapshots cover it."""
    stage = ServerHarness(sizes=SIZES)
    assert stage.say("first", b"set jobs 0 0 1", b"x") == b"STORED\r\n"
    journal = log_of(stage).journal
    while len(journal.segments) < 3:
        assert stage.say("first", b"set jobs 0 0 1", b"x") == b"STORED\r\n"
    stage.writes = False
    while journal.room.free > 3000:
        stage.queue("jobs").put(b"x", 0, 0, stage.now_ms)

    assert stage.say("a", b"set jobs/id=1 0 0 1", b"x") == b""
    stage.say("b", b"set jobs 0 0 1", b"x")
    assert waiting(stage, "a"), "the other has room"
    go_on(stage)
    assert stage.client("a").take() == stage.client("b").take() == b"STORED\r\n"
    assert stage.say("c", b"set jobs/id=1 0 0 1", b"x") == b"STORED\r\n"
    assert stage.queue("jobs").reader.counters.duplicates == 1
