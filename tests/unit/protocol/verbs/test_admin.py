"""The other verbs, where a transcript cannot show them."""

from __future__ import annotations

from typing import Any

import pytest

from kestrelpy.core.log.log import JournalLog
from kestrelpy.protocol.verbs.admin import MODES
from tests.support.server_harness import ServerHarness

SET_EXPIRED = b"set %b 0 -1 1\r\nx\r\n"


def make_stage(**settings: Any) -> ServerHarness:
    stage = ServerHarness()
    stage.set_queue(**settings)
    return stage


def answered(stage: ServerHarness, request: bytes) -> bytes:
    """Return the reply to one request, without the work of the clock."""
    conversation = stage.client("a").conversation
    conversation.feed(request, stage.now_ms)
    answer = b""
    while conversation.has_more:
        conversation.go_on(stage.now_ms)
        answer += conversation.output()
    return answer


def test_flush_expired_counts_the_items_it_removed_from_that_queue() -> None:
    stage = make_stage(durable=False)
    for n in range(12):  # each sends no more than its share
        stage.client(f"b{n}").conversation.feed(SET_EXPIRED % b"one" * 225, stage.now_ms)
    stage.client("b").conversation.feed(SET_EXPIRED % b"two" * 3, stage.now_ms)

    assert answered(stage, b"flush_expired one\r\n") == b"2700\r\n"
    assert stage.broker.queues[b"two"].reader.ready.count == 3


def test_flush_all_expired_counts_all() -> None:
    stage = make_stage(durable=False)
    stage.client("b").conversation.feed(
        SET_EXPIRED % b"one" * 3 + SET_EXPIRED % b"two" * 2, stage.now_ms
    )

    assert answered(stage, b"flush_all_expired\r\n") == b"5\r\n"


def test_flush_all_takes_one_queue_a_turn_and_is_answered_once() -> None:
    stage = make_stage(durable=False)
    for n in range(5):
        stage.say("p", b"set q%d 0 0 1" % n, b"x")
    conversation = stage.client("a").conversation
    conversation.feed(b"flush_all\r\nversion\r\n", stage.now_ms)
    left = []

    while conversation.has_more:
        conversation.go_on(stage.now_ms)
        assert conversation.output() == b""
        left.append(sum(q.reader.ready.count for q in stage.broker.queues.values()))
        if left[-1] == 0:
            break

    assert left == [4, 3, 2, 1, 0]
    stage.work()
    assert stage.client("a").take() == b"OK\r\nVERSION 0.0.0\r\n"


def test_flush_all_goes_on_past_a_queue_that_fails_meanwhile_and_says_so() -> None:
    stage = make_stage()
    for name in (b"one", b"two", b"three"):
        stage.say("p", b"set %b 0 0 1" % name, b"x")
    client = stage.client("a")
    client.conversation.feed(b"flush_all\r\nversion\r\n", stage.now_ms)
    log = stage.broker.queues[b"two"].log
    assert isinstance(log, JournalLog)

    log.journal.fail("syncing", "two", OSError("no"))
    log.advance()
    stage.work()

    assert client.take() == b"SERVER_ERROR two: syncing failed: no\r\nVERSION 0.0.0\r\n"
    assert [q.reader.ready.count for q in stage.broker.queues.values()] == [0, 1, 0]


def test_flush_all_passes_over_a_queue_that_is_deleted_meanwhile() -> None:
    stage = make_stage()
    for name in (b"one", b"two"):
        stage.say("p", b"set %b 0 0 1" % name, b"x")
    client = stage.client("a")
    client.conversation.feed(b"flush_all\r\n", stage.now_ms)

    stage.client("b").conversation.feed(b"delete two\r\n", stage.now_ms)
    stage.work()

    assert client.take() == b"OK\r\n"
    assert stage.client("b").take() == b"DELETED\r\n"


def test_shutdown_is_the_hosts_to_do() -> None:
    stage = make_stage()
    assert stage.say("a", b"shutdown").startswith(b"CLIENT_ERROR shutdown is not allowed")
    assert not stage.shut_down

    stage.set_server(allow_shutdown=True)
    assert stage.say("a", b"version", b"shutdown", b"version") == b"VERSION 0.0.0\r\n"

    assert stage.shut_down
    assert stage.client("a").closed


def test_every_mode_can_be_set_and_is_said_in_capitals() -> None:
    stage = make_stage()

    for mode in MODES:
        assert stage.say("a", b"status " + mode.upper().encode()) == b"END\r\n"
        assert stage.mode == mode
        assert stage.say("a", b"status") == mode.upper().encode() + b"\r\n"


def test_reload_is_answered_when_it_is_done() -> None:
    stage = make_stage()
    gate = stage.reload("a test")
    gate.lsn_stored = gate.lsn_written = 0
    stage.reload = lambda who: gate

    assert stage.say("a", b"reload", b"version") == b""
    gate.open()
    stage.work()

    assert stage.client("a").take() == b"Reloaded config.\r\nVERSION 0.0.0\r\n"


def test_a_flush_all_is_logged_with_its_client(caplog: pytest.LogCaptureFixture) -> None:
    stage = make_stage()
    stage.say("a", b"set jobs 0 0 1", b"x")
    assert stage.say("192.0.2.1:7", b"flush_all", b"flush_all") == b"OK\r\nOK\r\n"
    assert [r.getMessage() for r in caplog.records] == [
        "flush_all by 192.0.2.1:7 empties 1 queues"
    ]
