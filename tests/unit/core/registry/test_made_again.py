"""A queue with children is deleted and made again: the children go on in the same log.

Promise made-again: kills and a power cut at every step, with unread, delayed, leased, dead items
    and none; items on the move.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from tests.support.memory_disk import PowerCut
from tests.support.server_harness import ServerHarness
from tests.support.transfer_harness import TransferHarness


def value(name: bytes, body: bytes) -> bytes:
    return b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (name, len(body), body)


def there(stage: ServerHarness) -> int:
    return len([name for name in stage.disk.names("data") if name.startswith("jobs.")])


def files(stage: ServerHarness) -> list[str]:
    (folder,) = (name for name in stage.disk.names("data") if name.startswith("jobs."))
    return stage.disk.names(f"data/{folder}")


# The requests that make a child of `jobs` and its items, before `jobs` is deleted.
CHILDREN = {
    "empty": [(b"get jobs+audit/peek",)],
    "unread items": [(b"get jobs+audit/peek",), (b"set jobs 0 0 1", b"a")],
    "read items": [(b"get jobs+audit/peek",), (b"set jobs 0 0 1", b"a"), (b"get jobs+audit",)],
    "delayed items": [(b"get jobs+audit/peek",), (b"set jobs/delay=1h 0 0 1", b"a")],
    "a dead letter": [
        (b"get jobs+audit/peek",), (b"set jobs 0 0 1", b"a"), (b"get jobs+audit/open",),
        (b"get jobs+audit/abort",),
    ],
    "a leased item": [
        (b"get jobs+audit/peek",), (b"set jobs 0 0 1", b"a"), (b"gets jobs+audit/open/lease=1h",),
    ],
    "items of its own": [(b"get jobs+audit/peek",), (b"set jobs+audit 0 0 1", b"a")],
    "an item with a key": [(b"get jobs+audit/peek",), (b"set jobs/key=k 0 0 1", b"a")],
}  # fmt: skip


@pytest.mark.parametrize("how", ["go on", "restart", "kill", "snapshot"])
@pytest.mark.parametrize("what", CHILDREN)
def test_a_child_receives_what_is_stored_after_its_queue_was_deleted(what: str, how: str) -> None:
    stage = TransferHarness()
    if what == "a dead letter":
        stage.set_queue("jobs+audit", max_attempts=1)
    for line in CHILDREN[what]:
        assert b"ERROR" not in stage.say("bob", *line)
    reader = stage.queue("jobs+audit").reader
    had = [*reader.live]

    def pause() -> None:
        if how == "restart":
            stage.restart()
        elif how == "kill":
            stage.kill()
        elif how == "snapshot":
            stage.snapshot("jobs+audit")
            assert any(name.endswith(".snapshot") for name in files(stage))
            stage.kill()

    assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"
    pause()
    assert stage.say("eve", b"get jobs/peek") == b"END\r\n"
    assert stage.say("eve", b"delete jobs") == b"NOT_FOUND\r\n"
    assert stage.say("eve", b"set jobs 0 0 1", b"x") == b"STORED\r\n"
    pause()
    assert stage.say("eve", b"set jobs 0 0 1", b"y") == b"STORED\r\n"
    pause()

    live = [*stage.queue("jobs+audit").reader.live]
    assert live[: len(had)] == had, "the child goes on with what it has"
    assert len(live) == len(had) + 2
    got = [stage.say("ann", b"get jobs+audit").split()[4] for _ in range(3 if had else 2)
           if stage.queue("jobs+audit").reader.ready.count]  # fmt: skip
    assert got[-2:] == [b"x", b"y"]
    for body in (b"x", b"y"):
        assert stage.say("bob", b"get jobs") == value(b"jobs", body)
    assert stage.say("bob", b"get jobs") == b"END\r\n"
    assert there(stage) == 1


def test_a_worker_that_waits_on_a_child_is_served_after_the_delete() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+audit/peek")
    stage.send("bob", b"get jobs+audit/t=60000\r\n")

    assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"
    assert stage.client("bob").take() == b"", "it waits for its child, which is there"
    stage.say("eve", b"set jobs 0 0 1", b"x")

    assert stage.client("bob").take() == value(b"jobs+audit/t=60000", b"x")


def test_a_worker_that_waits_on_the_queue_is_answered_and_the_next_one_is_served() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+audit/peek", b"set jobs 0 0 1", b"1", b"get jobs")
    stage.send("bob", b"get jobs/t=60000\r\n")
    assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"
    assert stage.client("bob").take() == b"END\r\n"
    stage.send("bob", b"get jobs/t=60000\r\n")

    stage.say("eve", b"set jobs 0 0 1", b"x")

    assert stage.client("bob").take() == value(b"jobs/t=60000", b"x")


def test_a_cursor_goes_on_from_its_marker_over_a_delete() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+me/peek")
    for body in (b"1", b"2"):
        stage.say("eve", b"set jobs 0 0 1", body)
    stage.say("eve", b"delete jobs+me/upto=1")
    stage.say("eve", b"delete jobs")
    stage.say("eve", b"set jobs 0 0 1", b"3")
    stage.kill()

    shown = stage.say("bob", b"gets jobs+me/peek/after=1/n=9").splitlines()

    assert [(line.split()[4], body) for line, body in zip(shown[:-1:2], shown[1::2], strict=True)]\
        == [(b"2", b"2"), (b"3", b"3")]
    assert stage.say("bob", b"delete jobs+me/upto=3") == b"DELETED\r\n"


@pytest.mark.parametrize("kills", [False, True])
def test_the_queue_made_again_has_nothing_of_the_deleted_one(kills: bool) -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", retain="forever")
    stage.say("eve", b"get jobs+audit/peek")
    stage.say("eve", b"set jobs/declare 0 0 17", b"max_attempts = 11")
    for line in (b"set jobs 0 0 1", b"set jobs/delay=1h 0 0 1", b"add jobs/id=i/key=k 0 0 1",
                 b"add jobs/id=i/scope=s/epoch=5 0 0 1"):  # fmt: skip
        assert stage.say("eve", line, b"1") == b"STORED\r\n"
    stage.say("bob", b"get jobs/open")
    stage.say("eve", b"pause jobs")
    assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"

    assert stage.say("eve", b"add jobs/id=i/key=k 0 0 1", b"x") == b"STORED\r\n"
    assert stage.say("eve", b"add jobs/id=i/scope=s/epoch=4 0 0 1", b"y") == b"STORED\r\n"
    for _ in range(2):
        if kills:
            stage.kill()
        queue = stage.queue("jobs")
        assert (queue.declared, queue.reader.paused, len(queue.reader.live)) == (b"", False, 2)
        assert queue.retained is not None
        shown = stage.say("ann", b"gets jobs/peek/after=0/n=9").splitlines()
        assert shown[1::2] == [b"x", b"y"], "observers see nothing of the deleted queue"
        assert stage.say("eve", b"add jobs/id=i 0 0 1", b"z") == b"NOT_STORED\r\n"
        assert stage.say("eve", b"add jobs/id=i/scope=s/epoch=4 0 0 1", b"z") == b"NOT_STORED\r\n"
        assert stage.say("eve", b"gets jobs/key=k/peek").split()[4] == b"1", "version 1 again"
    assert len(stage.queue("jobs+audit").reader.live) == 6


def test_the_files_go_when_the_last_child_is_deleted_as_well() -> None:
    stage = ServerHarness()
    for name in (b"audit", b"other"):
        stage.say("eve", b"get jobs+%b/peek" % name)
    stage.say("eve", b"set jobs 0 0 1", b"1")
    for _ in range(2):
        assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"
        stage.restart()
        stage.say("eve", b"set jobs 0 0 1", b"2")
    assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"
    assert stage.say("eve", b"delete jobs+other") == b"DELETED\r\n"
    stage.pass_time(10)
    assert there(stage) == 1
    assert stage.say("eve", b"delete jobs+audit") == b"DELETED\r\n"
    stage.pass_time(10)
    stage.work()
    assert (there(stage), stage.broker.tombstones) == (0, [])
    stage.say("eve", b"set jobs 0 0 1", b"3")
    assert stage.say("eve", b"get jobs") == value(b"jobs", b"3")


def test_deleting_the_queue_again_and_again_loses_no_item_of_a_child() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+audit", lease="1m")  # a configured child
    for number in range(1, 6):
        stage.say("eve", b"set jobs 0 0 1", b"%d" % number)
        assert stage.say("eve", b"delete jobs") == b"DELETED\r\n"
        if number % 2:
            stage.kill()
    for number in range(1, 6):
        assert stage.say("bob", b"get jobs+audit") == value(b"jobs+audit", b"%d" % number)
    assert stage.say("bob", b"get jobs+audit") == b"END\r\n"


LINES = [
    (b"delete jobs",), (b"set jobs 0 0 1", b"2"), (b"delete jobs",), (b"set jobs 0 0 1", b"3"),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_any_step_loses_nothing_of_a_child(seed: int) -> None:
    """Before its answer a delete, or a set, is done or not; after its answer it is done."""
    for step in range(1, 60):
        town = TransferHarness()
        town.say("eve", b"get jobs+audit/peek")
        town.put("jobs", b"1")
        answers: list[bytes] = []
        town.disk.cut_power_at(step)
        with suppress(PowerCut):
            for line in LINES:
                answers.append(town.say("eve", *line))
        town.disk.cut_power_at(0)
        town.come_back(town.disk.crash_clone(Random(seed), "random"), False)
        bodies = [body for name, body in town.stored_bodies() if name == "jobs+audit"]
        least = 1 + (len(answers) >= 2) + (len(answers) >= 4)
        assert bodies[:least] == [b"1", b"2", b"3"][:least], (step, answers)
        assert len(bodies) <= least + 1
        if len(answers) == len(LINES):
            assert town.take("jobs") == b"3"
            return
    raise AssertionError("it never ended")


def test_an_item_that_was_moving_when_its_queue_was_made_again_arrives_once() -> None:
    town = TransferHarness()
    town.say("eve", b"get jobs+audit/peek")
    town.put("jobs", b"0")
    town.take("jobs")
    town.put("next", b"1")
    town.hold_syncs()
    assert town.pass_on("next", b"0") == b"", "under way"
    town.say("eve", b"delete jobs")
    town.say("eve", b"set jobs 0 0 1", b"2")
    town.go()
    town.work()
    for _ in range(2):
        assert sorted(town.stored_bodies()) == [
            ("jobs", b"2"), ("jobs+audit", b"0"), ("jobs+audit", b"2"), ("next", b"0|"),
            ("next", b"1"),
        ]  # fmt: skip
        for name in ("eve", "client"):
            town.client(name).take()
        town.cut_power()


def test_a_child_hands_items_to_its_queue_after_that_was_deleted() -> None:
    town = TransferHarness()
    town.say("eve", b"get jobs+audit/peek")
    town.put("jobs", b"old")
    town.say("eve", b"delete jobs")
    assert town.take("jobs+audit") == b"old"
    assert town.pass_on("jobs", b"old") == b"STORED\r\n"
    town.cut_power()
    assert town.take("jobs") == b"old|"
    assert town.take("jobs+audit", "ann") == b"old|", "it is an item for all"


def test_a_start_finds_the_markers_of_done_items_of_a_queue_that_was_made_again() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", retain="forever")
    stage.say("eve", b"get jobs+audit/peek")
    stage.say("eve", b"set jobs 0 0 1", b"0")
    stage.say("eve", b"delete jobs")
    stage.say("eve", b"set jobs/delay=10s 0 0 1", b"x")
    stage.pass_time(10_000)
    assert stage.say("bob", b"get jobs") == value(b"jobs", b"x")
    before = markers(stage)
    assert len(before) == 1

    stage.restart()

    assert markers(stage) == before


@pytest.mark.parametrize("restarts", [False, True])
def test_a_queue_that_was_made_again_retains_none_of_the_deleted_items(restarts: bool) -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", retain="forever")
    stage.say("eve", b"get jobs+audit/peek")
    stage.say("eve", b"set jobs 0 0 1", b"0")
    stage.say("eve", b"get jobs")
    stage.say("eve", b"delete jobs")
    if restarts:
        stage.restart()
    stage.say("eve", b"set jobs 0 0 1", b"1")

    assert [*stage.queue("jobs").files.readable] == [2]


def markers(stage: ServerHarness) -> list[tuple[int, int]]:
    """The markers of jobs that are not the ids of their items, with the items."""
    index = stage.queue("jobs").reader.markers
    return [(marker, item) for marker, item in index if item in index.hidden]
