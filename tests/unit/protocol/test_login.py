"""The rights that each command needs, and those that an unknown command needs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kestrelpy.access import ALL, Grant, Need, Role
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.login import needs
from kestrelpy.protocol.parse import (
    Confirm,
    Delete,
    Lines,
    Monitor,
    Parser,
    Plain,
    Remove,
    Touch,
    Withdraw,
)
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.wire import MEMCACHE
from tests.support.server_harness import Client, ServerHarness

READ, WRITE, ADMIN = Role


def test_each_command_needs_a_role_in_its_queue() -> None:
    for command, role in (
        (Delete(b"q", 5, False), WRITE), (Delete(b"q", 0, False), ADMIN),
        (Remove(b"q", 1, False, False), WRITE), (Remove(b"q", 1, True, False), ADMIN),
        (Withdraw(b"q", b"id", False), WRITE), (Touch(b"q", 5, 1, False), WRITE),
        (Monitor(b"q", 1, 1), WRITE), (Confirm(b"q", 1, False), WRITE),
        (Plain(b"stats", [b"q/item=1"]), READ), (Plain(b"flush", [b"q"]), ADMIN),
        (Plain(b"pause", [b"q"]), ADMIN), (Plain(b"retry", [b"q/item=1"]), ADMIN),
    ):
        assert needs(command, {}) == [Need(role, b"q")], command


def test_who_may_only_read_fetches_nothing_that_others_then_do_not_get() -> None:
    for line, role in (
        (b"get q", WRITE), (b"get q/open", WRITE), (b"get q/close", WRITE),
        (b"get q/close/open", WRITE), (b"get q/abort", WRITE), (b"get q/t=5", WRITE),
        (b"get q/peek", READ), (b"get q/peek/t=5", READ), (b"gets q/peek/after=0", READ),
        (b"get q/dead/peek", READ), (b"get q/dead/open", WRITE),
    ):  # fmt: skip
        parser = Parser(lambda name: 100, Lines())
        parser.feed(line + b"\r\n")
        command = parser.next()
        assert command is not None
        assert needs(command, {}) == [Need(role, b"q")], line


def test_a_command_without_a_queue_needs_its_role_in_all_of_them() -> None:
    for verb, role in (
        (b"stats", READ), (b"dump_stats", READ), (b"flush_all", ADMIN), (b"reload", ADMIN),
        (b"shutdown", ADMIN), (b"move", ADMIN), (b"flush", ADMIN),
    ):  # fmt: skip
        assert needs(Plain(verb, []), {}) == [Need(role, ALL)], verb
    for word in (b"markers", b"schedules"):
        assert needs(Plain(b"stats", [word]), {}) == [Need(READ, ALL)], word
        assert needs(Plain(b"dump_stats", [word]), {}) == [Need(READ, ALL)], word
    assert needs(Plain(b"quit", []), {}) == []


def test_a_command_that_is_not_known_needs_everything() -> None:
    assert needs(object(), {}) == [Need(ADMIN, ALL)]
    assert needs(Plain(b"new", [b"q"]), {}) == [Need(ADMIN, ALL)]


@dataclass
class _Login:
    """A login that is over as soon as it has begun."""

    grant: Grant | None
    is_over: bool = True
    refusal: str = ""


class _Users:
    """One user, whose login is checked at once; `current` is what a reload has left of him."""

    are_needed = True

    def __init__(self) -> None:
        self.current = Grant("anna", WRITE, ["jobs*"])

    def is_current(self, grant: Grant) -> bool:
        return grant is self.current

    def begin(self, name: str, secret: bytes, talk: Talk) -> _Login:
        is_right = (name, secret) == ("anna", b"secret")
        return _Login(self.current if is_right else None)


def test_a_conversation_goes_on_only_for_its_user_and_only_with_what_he_may_do() -> None:
    stage, users = ServerHarness(), _Users()
    talk = Conversation(stage.broker, stage, "anna", stage.lines, stage.now_ms, MEMCACHE, users)
    stage.clients["anna"] = Client(talk)

    def said(request: bytes) -> bytes:
        stage.send("anna", request)
        return stage.client("anna").take()

    refused = b"CLIENT_ERROR unauthenticated\r\n"
    assert said(b"get jobs\r\n") == refused
    assert said(b"version\r\n").startswith(b"VERSION ")
    assert said(b"set jobs 0 0 7\r\nanna no\r\n") == b"CLIENT_ERROR authentication failure\r\n"
    assert said(b"get jobs\r\n") == refused
    assert said(b"set jobs 0 0 11\r\nanna secret\r\n") == b"STORED\r\n"
    assert said(b"get jobs\r\n") == b"END\r\n", "a login stores nothing"

    assert said(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
    assert said(b"get jobs\r\n") == b"VALUE jobs 0 1\r\nx\r\nEND\r\n"
    assert said(b"set other 0 0 1\r\nx\r\n").startswith(b"CLIENT_ERROR ")
    assert said(b"flush jobs\r\n").startswith(b"CLIENT_ERROR ")

    users.current = Grant("anna", READ, ["jobs*"])
    assert said(b"set jobs 0 0 1\r\nx\r\n") == refused
    assert said(b"set jobs 0 0 11\r\nanna secret\r\n") == b"STORED\r\n"
    assert said(b"set jobs 0 0 1\r\nx\r\n").startswith(b"CLIENT_ERROR ")
    assert said(b"get jobs\r\n").startswith(b"CLIENT_ERROR "), "a get takes"
    assert said(b"get jobs/peek\r\n") == b"END\r\n"


@pytest.mark.parametrize("is_taken", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        b"version", b"get jobs/open", b"get jobs/open/t=5s", b"get jobs+kid/t=5s",
        b"get jobs/peek/t=5s", b"get jobs/peek/after=9/t=5s", b"monitor jobs 5",
    ],
)  # fmt: skip
def test_who_lost_the_rights_is_handed_nothing_whatever_is_under_way(
    line: bytes, is_taken: bool
) -> None:
    stage, users = ServerHarness(), _Users()
    talk = Conversation(stage.broker, stage, "anna", stage.lines, stage.now_ms, MEMCACHE, users)
    stage.clients["anna"] = Client(talk)
    stage.send("anna", b"set jobs 0 0 11\r\nanna secret\r\n" + line + b"\r\n")
    stage.client("anna").take()
    if is_taken:
        users.current = Grant("anna", READ, ["other"])

    assert talk.bar() == is_taken
    stage.say("bob", b"set jobs 0 0 1", b"x")

    is_handed = b" 0 1\r\nx\r\n" in stage.client("anna").take()
    waits = b"t=5s" in line or line.startswith(b"monitor")
    assert is_handed == (waits and not is_taken and b"after" not in line)
    assert talk.revoke(stage.now_ms) == is_taken
    assert not (is_taken and talk.holder.leases)
