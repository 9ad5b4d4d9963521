"""A reload that takes rights from thousands of clients: no item is handed out from that moment on,
and each turn ends a few of the waits and leases under way.

Promise: slices.
"""

from __future__ import annotations

import pytest

from kestrelpy.access import Grant, Role
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.login import Login
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.wire import MEMCACHE
from kestrelpy.server.connections import revocation
from kestrelpy.server.connections.revocation import Revocation
from tests.support.server_harness import Client, ServerHarness
from tests.support.steps import Work

REFUSED = b"CLIENT_ERROR unauthenticated\r\n"
WAITS = [
    b"get jobs/t=60000", b"get jobs/open/t=60000", b"gets jobs/open/lease=1m/t=60000",
    b"get jobs/peek/t=60000", b"get jobs/peek/after=0/t=60000", b"get jobs+kid/open/t=60000",
    b"get absent/t=60000", b"get absent/peek/after=0/t=60000", b"monitor jobs 60",
    b"monitor jobs 60 5",
]  # fmt: skip


class Users:
    """The users whose names are in `there`; all are logged in."""

    are_needed = True

    def __init__(self) -> None:
        self.there = {"anna", "bert"}

    def is_current(self, grant: Grant) -> bool:
        return grant.name in self.there

    def begin(self, name: str, secret: bytes, talk: Talk) -> Login:
        raise AssertionError("no client logs in here")


class Town:
    """A server with clients of anna, who will have no rights, and of bert."""

    def __init__(self) -> None:
        self.stage = ServerHarness()
        self.stage.store(b"first")
        assert self.stage.say("other", b"get jobs", b"get jobs+kid").endswith(b"END\r\n")
        self.users = Users()

    def join(self, name: str, user: str = "anna") -> Conversation:
        stage = self.stage
        talk = Conversation(
            stage.broker, stage, name, stage.lines, stage.now_ms, MEMCACHE, self.users
        )
        assert talk._gate is not None
        talk._gate._grant = Grant(user, Role.ADMIN, "*")
        stage.clients[name] = Client(talk)
        return talk

    def reload(self) -> Revocation:
        self.users.there.discard("anna")
        found = Revocation(self.touch)
        found.bar([each.conversation for each in self.stage.clients.values()], [])
        return found

    def touch(self, caller: Conversation) -> None:
        """Ask all clients in each turn."""


@pytest.fixture
def town(monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setattr(revocation, "SLICE_SECONDS", -1)  # one client in each turn
    return Town()


@pytest.mark.parametrize("line", WAITS)
def test_a_wait_is_not_served_between_the_reload_and_its_end(town: Town, line: bytes) -> None:
    stage = town.stage
    for name in ("one", "two"):
        town.join(name)
        assert stage.say(name, line) == b""
    going = town.reload()
    for queue in ("jobs", "absent"):
        stage.say("other", b"set %b 0 0 1" % queue.encode(), b"x")
    stage.work()
    for _ in range(2):
        stage.client("one").take()
        going.go_on(stage.now_ms)
        stage.work()
    assert going.go_on(stage.now_ms)
    assert stage.client("two").take() == REFUSED
    for queue in ("jobs", "absent"):
        assert len(stage.queue(queue).reader.live) == 1
        assert not len(stage.queue(queue).reader.leases)
        assert not stage.queue(queue).reader.attempts.get(1)
    assert stage.say("other", b"get jobs/open").endswith(b" 0 1\r\nx\r\nEND\r\n")


def test_one_with_the_rights_is_served_in_the_place_of_those_without(town: Town) -> None:
    stage = town.stage
    for name, user in (("one", "anna"), ("two", "bert")):
        town.join(name, user)
        assert stage.say(name, b"get jobs/open/t=60000") == b""
    going = town.reload()
    stage.say("other", b"set jobs 0 0 1", b"x")
    assert stage.client("two").take().endswith(b" 0 1\r\nx\r\nEND\r\n")
    while not going.go_on(stage.now_ms):
        pass
    stage.work()
    assert stage.client("one").take() == REFUSED
    assert stage.say("two", b"get jobs/close") == b"END\r\n"


@pytest.mark.parametrize("line", WAITS)
def test_a_client_that_hangs_up_between_leaves_nothing(town: Town, line: bytes) -> None:
    stage = town.stage
    town.join("one")
    assert stage.say("one", line) == b""
    going = town.reload()
    stage.hang_up("one")
    assert going.go_on(stage.now_ms)
    stage.work()
    stage.say("other", b"set jobs 0 0 1", b"x")
    assert stage.say("other", b"get jobs/open").endswith(b" 0 1\r\nx\r\nEND\r\n")


def test_what_a_client_sends_between_is_refused_and_its_leases_are_back(town: Town) -> None:
    stage = town.stage
    town.join("one")
    stage.say("other", b"set jobs 0 0 1", b"x")
    assert stage.say("one", b"get jobs/open").startswith(b"VALUE")
    town.reload()
    assert stage.say("one", b"get jobs/close") == REFUSED
    assert stage.say("other", b"get jobs/open").endswith(b" 0 1\r\nx\r\nEND\r\n")


def test_a_slice_costs_the_same_however_many_clients_lose_their_rights(town: Town) -> None:
    def costs(clients: int) -> list[int]:
        stage, steps = town.stage, list[int]()
        town.users.there.add("anna")
        for number in range(clients):
            stage.store(b"x")
            town.join(f"{number}")
            assert stage.say(f"{number}", b"get jobs/open").startswith(b"VALUE")
            assert stage.say(f"{number}", b"get absent/t=60000") == b""
        going, is_over = town.reload(), False
        while not is_over:
            with Work() as counted:
                is_over = going.go_on(stage.now_ms)
            steps.append(counted.steps)
        for number in range(clients):
            stage.hang_up(f"{number}")
        return steps

    few, many = costs(5), costs(40)
    assert len(many) >= 40
    assert max(many) < max(few) * 1.5
