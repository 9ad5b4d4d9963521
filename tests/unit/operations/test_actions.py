"""The list of actions: only durable ones are shown, it is bounded, and a repetition is counted."""

from __future__ import annotations

import pytest

from kestrelpy.core.clock import ClockOffset
from kestrelpy.operations.actions import OF_QUEUES_MAX, OF_SERVER_MAX, Action, Actions
from kestrelpy.operations.rests import Gate, Rests
from tests.support.server_harness import WALL_MS, ServerHarness

ME = "192.0.2.1:7"


def made() -> Actions:
    return Actions(ClockOffset(1000))


def words(actions: Actions, most: int = 10, queue: bytes | None = None) -> list[str]:
    """The newest actions, each as `what queue count note`."""
    found = ((one.what, one.queue, one.count, one.note) for one in actions.newest(most, queue))
    return [" ".join(str(each) for each in one if each is not None) for one in found]


def test_the_newest_action_comes_first_with_its_time_of_day() -> None:
    actions = made()
    actions.note("a", "pause", 1, b"jobs")
    actions.note("b", "mode", 2, note="readonly")

    assert actions.newest(10) == [
        Action(1002, "b", "mode", None, None, "readonly"),
        Action(1001, "a", "pause", "jobs", None, None),
    ]
    assert words(actions, 1) == ["mode readonly"]


def test_a_queue_shows_its_own_actions_and_those_of_the_server() -> None:
    actions = made()
    for name in (b"jobs", b"mail"):
        actions.note("a", "flush", 1, name, 3)
    actions.note("a", "start", 2)

    assert words(actions, queue=b"jobs") == ["start", "flush jobs 3"]


@pytest.mark.parametrize("rests", [(1, 0), (0, 1)], ids=["stored", "written"])
def test_an_action_is_shown_when_it_is_on_disk_and_never_if_it_did_not_get_there(
    rests: tuple[int, int]
) -> None:
    actions, gate = made(), Gate()
    actions.note("a", "delete", 1, b"jobs", 3, rests=(Rests(gate, *rests),))
    assert words(actions) == []
    gate.failure = OSError("no")
    assert words(actions) == []
    gate.failure = None
    gate.open()
    assert words(actions) == ["delete jobs 3"]


def test_a_repetition_within_a_minute_is_counted_in_when_it_is_on_disk() -> None:
    actions, first, second = made(), Gate(), Gate()
    actions.note("a", "purge", 1, b"jobs", 1, "item 1", (Rests(first, 1),))
    first.open()
    assert words(actions) == ["purge jobs 1 item 1"]
    actions.note("a", "purge", 2, b"jobs", 1, "item 2", (Rests(second, 1),))
    assert words(actions) == ["purge jobs 1"]
    second.open()
    assert words(actions) == ["purge jobs 2"]
    actions.note("b", "purge", 3, b"jobs", 1, "item 3")
    actions.note("a", "purge", 70_000, b"jobs", 1, "item 4")
    assert words(actions) == ["purge jobs 1 item 4", "purge jobs 1 item 3", "purge jobs 2"]


def test_repetitions_that_are_not_on_disk_become_true_together() -> None:
    actions, first, second = made(), Gate(), Gate()
    for number, gate in enumerate((first, second), 1):
        actions.note("a", "purge", number, b"jobs", 1, rests=(Rests(gate, 1),))
    first.open()
    assert words(actions) == []
    second.open()
    assert words(actions) == ["purge jobs 2"]


def test_a_repetition_that_rests_on_nothing_shows_no_action_early() -> None:
    actions, first = made(), Gate()
    actions.note("a", "purge", 1, b"jobs", 1, rests=(Rests(first, 1),))
    actions.note("a", "purge", 2, b"jobs", 0)
    assert words(actions) == []
    first.open()
    assert words(actions) == ["purge jobs 1"]
    actions.note("a", "purge", 3, b"jobs", 2)
    assert words(actions) == ["purge jobs 3"]


def test_a_flood_on_queues_drives_out_no_action_of_the_server() -> None:
    actions = made()
    for number in range(OF_SERVER_MAX + 5):
        actions.note("a", "mode", number, note=str(number))
    for number in range(OF_QUEUES_MAX + 5):
        actions.note("a", "pause", number, b"%d" % number)

    found = words(actions, 10_000)
    assert len(found) == OF_SERVER_MAX + OF_QUEUES_MAX
    assert found[0] == f"pause {OF_QUEUES_MAX + 4}"
    assert found[-1] == "mode 5"


def test_what_a_memcache_client_does_to_queues_and_server_is_noted() -> None:
    stage = ServerHarness()
    stage.set_queue(max_attempts=1)

    def say(*lines: bytes) -> None:
        for line in lines:
            stage.say(ME, *line.split(b"|"))

    for _ in range(6):
        say(b"set jobs 0 0 1|x")
    say(b"get jobs/open", b"get jobs/abort", b"get jobs/open", b"get jobs/abort")
    say(b"redrive jobs 1", b"delete jobs/dead/item=2", b"delete jobs/item=3")
    say(b"set jobs/delay=1h 0 0 1|x", b"retry jobs 8", b"move jobs later 1")
    say(b"pause jobs", b"resume jobs", b"flush jobs", b"delete jobs", b"delete nothing")
    say(b'set new/declare 0 0 12|max_items=10', b"set new/declare 0 0 12|max_items=10")
    say(b"flush_all", b"status readonly", b"flush later", b"status up")

    assert words(stage.actions, 100)[::-1] == [
        "redrive jobs 1", "purge jobs 1 item 2", "remove jobs 1 item 3", "retry jobs 1 item 8",
        "move jobs 1 to later", "pause jobs", "resume jobs", "flush jobs 4", "delete jobs 0",
        "declare new", "flush_all 2 queues", "mode readonly", "mode up",
    ]  # fmt: skip
    assert {each.who for each in stage.actions.newest(100)} == {ME}
    assert stage.actions.newest(1)[0].at_ms == WALL_MS


def test_a_producer_that_cancels_by_id_is_no_person() -> None:
    stage = ServerHarness()
    stage.say(ME, b"set jobs/id=a 0 0 1", b"x")
    assert stage.say(ME, b"delete jobs/id=a") == b"DELETED\r\n"
    assert words(stage.actions) == []
