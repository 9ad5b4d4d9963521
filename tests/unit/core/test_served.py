"""A client that waits has its lease from the moment in which it is served, whatever served it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.server_harness import ServerHarness

LEASE_MS = 10_000


def put(stage: ServerHarness, line: bytes = b"set jobs 7 0 1") -> None:
    stage.say("producer", line, b"1")


def wait(stage: ServerHarness, name: bytes = b"jobs") -> None:
    assert stage.say("waiting", b"get %b/open/t=60s" % name) == b""


def a_put(stage: ServerHarness) -> None:
    wait(stage)
    stage.pass_time(5)
    put(stage)


def a_put_for_a_child(stage: ServerHarness) -> None:
    wait(stage, b"jobs+audit")
    stage.pass_time(5)
    put(stage)


def a_delay_that_is_over(stage: ServerHarness) -> None:
    put(stage, b"set jobs/delay=5s 7 0 1")
    wait(stage)
    stage.pass_time(5_000)


def a_hand_off(stage: ServerHarness) -> None:
    put(stage, b"set first 7 0 1")
    stage.say("worker", b"get first/open")
    wait(stage)
    stage.pass_time(5)
    assert stage.say("worker", b"set jobs/confirm 7 0 1", b"2") == b"STORED\r\n"


def an_abort(stage: ServerHarness) -> None:
    put(stage)
    stage.say("worker", b"get jobs/open")
    wait(stage)
    stage.pass_time(5)
    stage.say("worker", b"get jobs/abort")


def a_hang_up(stage: ServerHarness) -> None:
    put(stage)
    stage.say("worker", b"get jobs/open")
    wait(stage)
    stage.pass_time(5)
    stage.hang_up("worker")


def a_key_that_is_free(stage: ServerHarness) -> None:
    put(stage, b"set jobs/key=k 7 0 1")
    put(stage, b"set jobs/key=k 7 0 1")
    stage.say("worker", b"get jobs/open")
    wait(stage)
    stage.pass_time(5)
    stage.say("worker", b"get jobs/close")


def a_queue_that_goes_on(stage: ServerHarness) -> None:
    put(stage)
    stage.say("operator", b"pause jobs")
    wait(stage)
    stage.pass_time(5)
    stage.say("operator", b"resume jobs")


def a_redrive(stage: ServerHarness) -> None:
    put(stage)
    stage.say("worker", b"get jobs/open")
    stage.say("worker", b"get jobs/abort/dead")
    wait(stage)
    stage.pass_time(5)
    stage.say("operator", b"redrive jobs all")


@pytest.mark.parametrize(
    "arrival",
    [
        a_put, a_put_for_a_child, a_delay_that_is_over, a_hand_off, an_abort, a_hang_up,
        a_key_that_is_free, a_queue_that_goes_on, a_redrive,
    ],
)  # fmt: skip
def test_the_lease_of_a_client_that_waited_begins_when_it_is_served(
    arrival: Callable[[ServerHarness], None],
) -> None:
    stage = ServerHarness()
    stage.set_queue(lease="10s")
    stage.say("a", b"get jobs+audit/peek")

    arrival(stage)

    assert stage.client("waiting").take().startswith(b"VALUE jobs")
    holder = stage.client("waiting").conversation.holder
    [lease] = holder.leases
    assert (lease.began_ms, lease.deadline_ms) == (stage.unix_ms, stage.now_ms + LEASE_MS)
