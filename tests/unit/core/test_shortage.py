"""A log in a shortage: after the shortage it has a record of everything that was answered.

Promise: shortage.
"""

from __future__ import annotations

import pytest

from journal.format.kinds import Kind
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.registry.lifecycle import LATER_MAX, LATER_MS
from tests.support.server_harness import ServerHarness
from tests.support.transfer_harness import TransferHarness
from tests.unit.core.transfer.test_transfers import story

WHY = "no file can be opened (Too many open files)"


def begin(stage: ServerHarness, name: str = "jobs") -> JournalLog:
    """From now on nothing is written, for want of a descriptor."""
    log = stage.queue(name).log
    assert isinstance(log, JournalLog)
    stage.hold_writes()
    log.stall("opening", WHY, True)
    return log


def end(stage: ServerHarness, log: JournalLog) -> None:
    """End the shortage."""
    log.stall("opening", "")
    stage.go()


@pytest.mark.parametrize("name", [b"plain", b"jobs", b"jobs+audit"])
def test_a_defer_and_an_abort_wait_and_a_restart_knows_of_both(name: bytes) -> None:
    stage, queue = ServerHarness(), name.partition(b"+")[0]
    stage.say("a", b"get jobs+audit")
    for body in (b"x", b"y"):
        stage.say("a", b"set %b 0 0 1" % queue, body)
    for who in "ab":
        assert stage.say(who, b"get %b/open" % name).startswith(b"VALUE")
    log = begin(stage, queue.decode())
    assert stage.say("a", b"get %b/defer/delay=1h" % name) == b"", "not before it is written"
    assert stage.say("b", b"get %b/abort" % name) == b""
    end(stage, log)
    for who in "ab":
        assert stage.client(who).take() == b"END\r\n"
    stage.kill()
    reader = stage.queue(name.decode()).reader
    assert (list(reader.delays.ids), dict(reader.attempts.items())) == ([1], {2: 1})


def test_on_a_full_disk_what_room_there_is_belongs_to_the_confirms() -> None:
    stage = ServerHarness()
    stage.say("a", b"set jobs 0 0 1", b"x")
    stage.say("a", b"get jobs/open")
    log = begin(stage)
    log.stall("preallocation", "disk full: no room for the next segment")
    assert log.is_full, "a shortage does not hide that the disk is full"
    assert stage.say("a", b"get jobs/abort") == b"END\r\n"
    assert log.lsn_appended == log.lsn_durable


def test_what_is_handed_off_in_a_shortage_is_logged_with_its_target() -> None:
    town = TransferHarness()
    for queue in ("jobs", "next"):
        town.put(queue, b"made")
        town.finish(queue)
    town.put("jobs", b"1")
    assert town.take("jobs") == b"1"
    log = begin(town)
    town.pass_on("next", b"1")
    town.write_queue("next")
    town.sync_queue("next")
    town.work()
    end(town, log)
    assert "moved 2 target=" in story(town, "jobs")


def test_what_expires_in_a_shortage_is_logged_as_dead() -> None:
    town = TransferHarness()
    town.set_queue("jobs", expire_to="late")
    town.say("a", b"set late 0 0 1", b"x")
    town.say("a", b"set jobs 0 %d 1" % (town.unix_ms // 1000 + 5), b"x")
    log = begin(town)
    town.pass_time(6000)
    town.say("a", b"get jobs")
    assert town.queue("jobs").reader.dead.deaths or town.moving()
    end(town, log)
    assert Kind.DEAD in [record.kind for record in town.records("jobs")]


def test_a_child_that_a_reload_names_in_a_shortage_is_made_at_once() -> None:
    stage = ServerHarness()
    stage.say("a", b"set jobs 0 0 1", b"x")
    log = begin(stage)
    stage.set_queue("jobs+audit", max_items=100)
    assert b"jobs+audit" in stage.broker.queues
    assert stage.say("b", b"get jobs+other").startswith(b"SERVER_ERROR"), "clients are refused"
    end(stage, log)
    assert stage.say("a", b"set jobs 0 0 1", b"y") == b"STORED\r\n"
    stage.kill()
    assert stage.say("a", b"get jobs+audit").startswith(b"VALUE jobs+audit 0 1\r\ny\r\n")


def test_a_child_that_finds_a_full_disk_is_made_when_there_is_room() -> None:
    stage = ServerHarness()
    queues = {b"q%d" % n for n in range(LATER_MAX + 2)}
    for name in queues:
        stage.say("a", b"set %b 0 0 1" % name, b"x")
        on_disk(stage, name).stall("preallocation", "disk full")
    for name in queues:
        stage.set_queue(f"{name.decode()}+audit", max_items=100)
    stage.pass_time(10 * LATER_MS)
    assert stage.broker.queues.keys() == queues
    gone = queues.pop()
    stage.say("a", b"delete " + gone)
    for name in queues:
        on_disk(stage, name).stall("preallocation", "")
    stage.pass_time(LATER_MS)
    few = len(stage.broker.queues) - len(queues)
    assert few <= LATER_MAX, "one tick makes no more"
    stage.pass_time(2 * LATER_MS)
    assert stage.broker.queues.keys() == queues | {name + b"+audit" for name in queues}
    assert stage.broker.next_due() is None, "no look is due any more"


def on_disk(stage: ServerHarness, name: bytes) -> JournalLog:
    log = stage.queue(name.decode()).log
    assert isinstance(log, JournalLog)
    return log
