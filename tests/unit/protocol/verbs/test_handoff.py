"""A hand-off of what was stored before waits for the disk, and looks again at the lease then."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.server_harness import ServerHarness

# The option of the set that names the lease, the open, and the refusal once the lease is over.
OPEN: Final = (
    b"/confirm", b"get jobs/open",
    b"CLIENT_ERROR lease expired: the item of jobs is not leased to this connection any more, "
    b"another client may have it\r\n",
)  # fmt: skip
TOKEN: Final = (
    b"/confirm=jobs:1", b"gets jobs/open/lease=1s",
    b"CLIENT_ERROR token 1 of jobs is not valid: confirmed, expired or never issued\r\n",
)
leases = pytest.mark.parametrize(("named", "get", "over"), [OPEN, TOKEN], ids=["open", "token"])


def waiting(named: bytes, get: bytes) -> ServerHarness:
    """Return a server in which a hand-off waits until another item is on disk in its target."""
    stage = ServerHarness()
    stage.set_queue("jobs", lease="1s")
    stage.say("ann", b"set next/id=7 0 0 1", b"x")
    stage.say("ann", b"set jobs 0 0 1", b"1")
    assert stage.say("ann", get).startswith(b"VALUE ")
    stage.hold_syncs()
    stage.say("bob", b"set next 0 0 1", b"y")
    assert stage.say("ann", b"set next/id=7" + named + b" 0 0 1", b"z") == b""
    return stage


@leases
def test_a_lease_that_holds_until_then_is_confirmed(named: bytes, get: bytes, over: bytes) -> None:
    stage = waiting(named, get)

    stage.go()

    assert stage.client("ann").take() == b"STORED\r\n"
    stage.pass_time(2000)
    assert stage.say("eve", b"get jobs") == b"END\r\n"


@leases
def test_a_lease_that_ends_meanwhile_is_confirmed_by_nobody(
    named: bytes, get: bytes, over: bytes
) -> None:
    stage = waiting(named, get)
    stage.pass_time(1001)
    assert stage.client("ann").take() == b""

    stage.go()

    assert stage.client("ann").take() == over
    assert stage.say("eve", b"get jobs") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"


def test_a_token_that_another_connection_ends_meanwhile_is_not_valid() -> None:
    named, get, over = TOKEN
    stage = waiting(named, get)
    stage.send("zoe", b"get jobs/abort/token=1\r\n")

    stage.go()

    assert stage.client("ann").take() == over
    assert stage.say("eve", b"get jobs") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"
