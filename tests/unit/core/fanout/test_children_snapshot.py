"""A start knows the state of a child from the snapshot alone, without the records before it.

In each test the queue's own subscription has a different state, so that a mix-up of the two shows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from tests.support import server_harness
from tests.support.server_harness import ServerHarness
from tests.support.tidying import reclaim
from tests.support.transfer_harness import TransferHarness

starts = pytest.mark.parametrize(
    "start", [TransferHarness.kill, TransferHarness.restart], ids=["kill", "restart"]
)
Start = Callable[[TransferHarness], None]


def made(*bodies: bytes) -> TransferHarness:
    """A queue with a child, and these items for both."""
    town = TransferHarness()
    town.say("eve", b"get jobs+a/peek")
    for text in bodies:
        assert town.say("eve", b"set jobs 0 0 1", text) == b"STORED\r\n"
    return town


def begin_again(town: TransferHarness, start: Start) -> None:
    """Take two snapshots of this state, and start without the records before them."""
    for _ in range(2):
        town.snapshot("jobs")
        town.say("eve", b"set jobs+other 0 0 1", b"x")
    start(town)
    log = town.queue("jobs").log
    log = getattr(log, "base", log)
    assert isinstance(log, JournalLog)
    assert log.store.maintenance.snapshots


def figure(town: TransferHarness, name: bytes, queue: bytes = b"jobs+a") -> bytes:
    """Return one figure of `stats`."""
    prefix = b"STAT queue_%b_%b " % (queue, name)
    [line] = [
        line for line in town.say("bob", b"stats %b" % queue).splitlines()
        if line.startswith(prefix)
    ]  # fmt: skip
    return line.removeprefix(prefix)


@starts
def test_a_child_that_was_paused_leases_nothing_and_the_queue_goes_on(start: Start) -> None:
    town = made(b"1")
    assert town.say("eve", b"pause jobs+a") == b"OK\r\n"

    begin_again(town, start)

    assert town.say("bob", b"get jobs+a") == b"END\r\n"
    assert town.say("bob", b"get jobs") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"
    town.say("eve", b"resume jobs+a")
    assert town.say("bob", b"get jobs+a") == b"VALUE jobs+a 0 1\r\n1\r\nEND\r\n"


@starts
def test_what_a_child_leased_by_token_is_leased_still(start: Start) -> None:
    town = made(b"1")
    token = town.say("eve", b"gets jobs+a/open/lease=1h").split()[4]

    begin_again(town, start)

    assert town.say("bob", b"get jobs+a") == b"END\r\n"
    assert town.say("bob", b"delete jobs+a/token=%b" % token) == b"DELETED\r\n"
    assert town.say("bob", b"get jobs") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"


@starts
def test_what_a_child_was_given_back_for_later_has_its_key_still(start: Start) -> None:
    town = TransferHarness()
    town.say("eve", b"get jobs+a/peek")
    for text in (b"1", b"2"):
        town.say("eve", b"set jobs/key=A 0 0 1", text)
    town.say("eve", b"get jobs+a/open")
    town.say("eve", b"get jobs+a/abort/delay=10m")

    begin_again(town, start)

    assert town.say("bob", b"get jobs+a") == b"END\r\n", "2 has the key of 1, which is first"
    assert town.say("bob", b"get jobs") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"
    town.pass_time(600_001)
    for text in (b"1", b"2"):
        assert town.say("bob", b"get jobs+a") == b"VALUE jobs+a 0 1\r\n%b\r\nEND\r\n" % text


@starts
def test_attempts_in_a_child_are_its_own(start: Start) -> None:
    town = made(b"1")
    for _ in range(2):
        town.say("eve", b"get jobs+a/open", b"get jobs+a/abort")
    town.say("eve", b"get jobs/open", b"get jobs/abort")

    begin_again(town, start)

    assert town.say("bob", b"gets jobs+a/peek/full").split()[7] == b"2"
    assert town.say("bob", b"gets jobs/peek/full").split()[7] == b"1"


@starts
def test_dead_letters_of_a_child_are_its_own(start: Start) -> None:
    town = made(b"1", b"2")
    town.say("eve", b"get jobs+a/open", b"get jobs+a/abort/dead=why")

    begin_again(town, start)

    assert town.say("bob", b"get jobs+a/dead") == b"VALUE jobs+a/dead 0 1\r\n1\r\nEND\r\n"
    assert town.say("bob", b"get jobs+a") == b"VALUE jobs+a 0 1\r\n2\r\nEND\r\n"
    assert town.say("bob", b"get jobs/dead") == b"END\r\n"
    assert town.say("bob", b"get jobs") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"


@starts
def test_a_child_has_a_sequence_of_its_own(start: Start) -> None:
    town = made(b"1", b"2")
    town.say("eve", b"get jobs+a/open", b"get jobs+a/abort/delay=1s")
    town.pass_time(1001)

    begin_again(town, start)

    for text in (b"2", b"1"):  # a released item comes after the ready ones
        assert town.say("bob", b"get jobs+a") == b"VALUE jobs+a 0 1\r\n%b\r\nEND\r\n" % text
    for text in (b"1", b"2"):
        assert town.say("bob", b"get jobs") == b"VALUE jobs 0 1\r\n%b\r\nEND\r\n" % text


@starts
def test_the_total_of_a_child_is_what_ever_came_to_it(start: Start) -> None:
    town = made(b"1", b"2", b"3")
    town.say("eve", b"set jobs+a 0 0 1", b"4")
    town.say("eve", b"get jobs+a")

    begin_again(town, start)

    assert figure(town, b"total_items") == b"4"
    assert figure(town, b"items") == b"3"


def test_a_child_is_known_after_a_kill_though_all_that_came_with_its_name_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The segment in which it was named is empty, and no snapshot knows the child yet."""
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(2048, 2048, 1 << 20))
    stage = ServerHarness()
    stage.say("eve", b"get jobs+a/peek")
    for _ in range(40):
        stage.say("eve", b"set jobs 0 0 1", b"x")
        for queue in (b"jobs", b"jobs+a"):
            assert stage.say("eve", b"get " + queue).startswith(b"VALUE")
    stage.say("eve", b"set jobs 0 0 4", b"last")
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    assert len(log.journal.segments) > 3

    reclaim(stage, log)
    stage.kill()

    assert stage.say("eve", b"get jobs+a") == b"VALUE jobs+a 0 4\r\nlast\r\nEND\r\n"
