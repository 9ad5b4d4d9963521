"""`max_queue_age`: children that no client uses go, and then their queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kestrelpy.operations import Children
from tests.support.server_harness import ServerHarness

AGE_MS = 100_000


def worker(line: bytes, *lines: bytes) -> Callable[[ServerHarness], None]:
    def use(stage: ServerHarness) -> None:
        for each in (line, *lines):
            stage.send("bob", each + b"\r\n")
        stage.work()

    return use


def with_child() -> ServerHarness:
    stage = ServerHarness()
    stage.set_queue("jobs", max_queue_age="100s")
    stage.say("bob", b"get jobs+w/peek")
    return stage


def pass_ms(stage: ServerHarness, ms: int) -> None:
    for _ in range(20):
        stage.pass_time(ms // 20)


@pytest.mark.parametrize("has_items", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_child_that_no_client_uses_goes_and_then_its_queue(
    has_items: bool, restarts: bool
) -> None:
    stage = with_child()
    if has_items:
        stage.say("eve", b"set jobs 0 0 1", b"1")
        stage.say("eve", b"get jobs")
    pass_ms(stage, AGE_MS // 2)
    if restarts:
        stage.restart()
    else:
        assert b"jobs+w" in stage.broker.queues
    pass_ms(stage, 2 * AGE_MS)
    stage.work()
    assert stage.broker.queues == {}
    assert not [name for name in stage.disk.names("data") if name.startswith("jobs.")]


def test_a_child_of_a_deleted_queue_goes_as_well_and_the_files_with_it() -> None:
    stage = with_child()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"delete jobs")
    pass_ms(stage, 2 * AGE_MS)
    stage.work()
    assert (stage.broker.queues, stage.broker.tombstones) == ({}, [])


USES = {
    "a waiter": worker(b"get jobs+w/t=1h"),
    "an observer that waits": worker(b"gets jobs+w/peek/after=0/t=1h"),
    "a lease by connection": worker(b"set jobs 0 0 1\r\n1", b"get jobs+w/open"),
    "a lease by token": worker(b"set jobs 0 0 1\r\n1", b"gets jobs+w/open/lease=10h"),
}


@pytest.mark.parametrize("use", USES)
def test_a_child_with_a_waiter_or_a_lease_stays(use: str) -> None:
    stage = with_child()
    USES[use](stage)
    pass_ms(stage, 5 * AGE_MS)
    assert b"jobs+w" in stage.broker.queues


@pytest.mark.parametrize(
    "line",
    [b"get jobs+w", b"get jobs+w/peek", b"delete jobs+w/upto=0", b"gets jobs+w/peek/after=0"],
)
def test_a_child_that_a_client_asks_now_and_then_stays(line: bytes) -> None:
    stage = with_child()
    child = stage.queue("jobs+w")
    for _ in range(4):
        pass_ms(stage, AGE_MS * 3 // 4)
        stage.say("bob", line)
    assert stage.queue("jobs+w") is child, "it was made again"


def test_a_child_that_other_doors_ask_now_and_then_stays() -> None:
    stage = with_child()
    child = stage.queue("jobs+w")
    for _ in range(4):
        pass_ms(stage, AGE_MS * 3 // 4)
        assert Children(stage.broker, stage).asked(b"jobs+w", stage.now_ms) is not None
    assert stage.queue("jobs+w") is child, "it was made again"


def test_a_child_that_the_configuration_names_stays() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", max_queue_age="100s")
    stage.set_queue("jobs+w", lease="1m")
    stage.say("eve", b"set jobs 0 0 1", b"1")
    pass_ms(stage, 5 * AGE_MS)
    assert b"jobs+w" in stage.broker.queues
