"""A reply after a wait still waits for the lease that its request ended before.

Promise shown-synced: syncs held back by hand.
"""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness


def with_items(confirms: str, *bodies: bytes) -> ServerHarness:
    """Return a queue with these items; eve and ann each have one open if there are two."""
    stage = ServerHarness()
    stage.set_queue("jobs", confirms=confirms)
    for text in bodies:
        stage.say("zoe", b"set jobs 0 0 1", text)
    for who in ("eve", "ann")[: len(bodies)]:
        assert stage.say(who, b"get jobs/open").startswith(b"VALUE ")
    return stage


def released(stage: ServerHarness, who: str) -> bytes:
    """Return the replies once the disk goes on; there were none before."""
    assert stage.client(who).take() == b"", "it was said too early"
    stage.go()
    stage.work()
    return stage.client(who).take()


def test_with_synced_confirms_a_close_is_answered_when_it_is_synced() -> None:
    stage = with_items("synced", b"1")
    stage.hold_syncs()

    stage.send("eve", b"get jobs/close\r\n")

    assert released(stage, "eve") == b"END\r\n"


@pytest.mark.parametrize("confirms", ["synced", "written"])
def test_a_close_is_written_before_the_item_it_waits_for_is_shown(confirms: str) -> None:
    stage = with_items(confirms, b"1", b"2")
    (stage.hold_syncs if confirms == "synced" else stage.hold_writes)()
    stage.send("eve", b"get jobs/close/open/t=1m\r\n")

    stage.send("ann", b"get jobs/abort\r\n")

    assert released(stage, "eve") == b"VALUE jobs/close/open/t=1m 0 1\r\n2\r\nEND\r\n"


def test_a_close_is_written_before_its_wait_ends_with_nothing() -> None:
    stage = with_items("written", b"1")
    stage.hold_writes()
    stage.send("eve", b"get jobs/close/open/t=1s\r\n")

    stage.pass_time(1001)

    assert released(stage, "eve") == b"END\r\n"


def test_with_synced_confirms_a_get_that_waited_is_answered_when_it_is_synced() -> None:
    stage = with_items("synced", b"1", b"2")
    stage.send("bob", b"get jobs/t=1m\r\n")
    stage.hold_syncs()

    stage.send("ann", b"get jobs/abort\r\n")

    assert released(stage, "bob") == b"VALUE jobs/t=1m 0 1\r\n2\r\nEND\r\n"


def test_with_synced_confirms_a_lease_by_token_is_shown_when_it_is_synced() -> None:
    stage = with_items("synced", b"1", b"2")
    stage.say("ann", b"get jobs/abort")
    stage.hold_syncs()

    stage.send("bob", b"gets jobs/open/lease=1h\r\n")

    assert released(stage, "bob").startswith(b"VALUE jobs/open/lease=1h 0 1 ")


def test_with_synced_confirms_an_end_by_token_is_answered_when_it_is_synced() -> None:
    stage = with_items("synced")
    stage.say("zoe", b"set jobs 0 0 1", b"1")
    token = stage.say("bob", b"gets jobs/open/lease=1h").split()[4]
    stage.hold_syncs()

    stage.send("bob", b"delete jobs/token=%b\r\n" % token)

    assert released(stage, "bob") == b"DELETED\r\n"
