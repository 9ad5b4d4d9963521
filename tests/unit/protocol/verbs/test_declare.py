"""Declarations, where a transcript cannot show them: a full disk, and what it must not change."""

from __future__ import annotations

from tests.support.server_harness import ServerHarness

DECLARE = b"set jobs/declare 0 0 13\r\nmax_items = 1"


def test_a_full_disk_takes_no_declaration_and_nothing_changes() -> None:
    stage = ServerHarness()
    stage.say("a", b"set jobs 0 0 1\r\n1")
    queue = stage.broker.queues[b"jobs"]
    queue.log.no_room = "no room on the disk"
    before = queue.log.lsn_appended

    assert stage.say("a", DECLARE) == b"SERVER_ERROR no room on the disk\r\n"
    assert (queue.declared, queue.policy.max_items, queue.log.lsn_appended) == (b"", None, before)

    queue.log.no_room = ""
    assert stage.say("a", DECLARE) == b"STORED\r\n"
    queue.log.no_room = "no room on the disk"
    assert stage.say("a", DECLARE) == b"STORED\r\n", "it is so already"


def test_a_declaration_that_is_refused_makes_no_queue_and_leaves_a_waiter_waiting() -> None:
    stage = ServerHarness()
    stage.send("b", b"get jobs/t=5s\r\n")
    assert stage.say("a", b"set jobs/declare 0 0 7\r\nlease =").startswith(b"CLIENT_ERROR ")
    assert stage.broker.queues == {}
    assert stage.say("a", b"set jobs 0 0 1\r\n1") == b"STORED\r\n"
    assert stage.client("b").take() == b"VALUE jobs/t=5s 0 1\r\n1\r\nEND\r\n"
