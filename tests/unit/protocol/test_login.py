"""A conversation logs in, and goes on only with what its user may do."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kestrelpy.access import Grant, Role
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.wire import MEMCACHE
from tests.support.server_harness import Client, ServerHarness

READ, WRITE, _ = Role


@dataclass
class _Login:
    """A login that is over as soon as it has begun."""

    grant: Grant | None
    is_over: bool = True
    refusal: str = ""


class _Users:
    """One user, whose login is checked at once; `current` are the rights after the last reload."""

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
