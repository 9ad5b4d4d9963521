"""Fetches, leases and waits of one connection: refused before the first change."""

from __future__ import annotations

import errno

import pytest

from kestrelpy.core.log.log import JournalLog
from tests.support.server_harness import ServerHarness


def stage_with_items(*bodies: bytes) -> ServerHarness:
    stage = ServerHarness()
    stage.client("producer")
    for body in bodies:
        answer = stage.say("producer", b"set jobs 0 0 %d" % len(body), body)
        assert answer == b"STORED\r\n"
    stage.client("a")
    return stage


@pytest.mark.parametrize(
    "request_line",
    [
        b"get jobs other/opne",
        b"get jobs other/open third/open",
        b"get jobs jobs/open",
        b"get jobs other/t=5s",
    ],
)
def test_several_keys_are_all_checked_before_the_first_is_answered(request_line: bytes) -> None:
    stage = stage_with_items(b"first")

    answer = stage.say("a", request_line)

    assert answer.startswith(b"CLIENT_ERROR ")
    assert stage.say("a", b"get jobs/peek") == b"VALUE jobs/peek 0 5\r\nfirst\r\nEND\r\n"


def test_close_open_on_another_queue_than_the_open_item_is_refused_and_confirms_nothing() -> None:
    stage = stage_with_items(b"first")
    stage.say("producer", b"set mail 0 0 1", b"m")
    stage.say("a", b"get jobs/open")

    answer = stage.say("a", b"get mail/close/open")

    assert answer == b"CLIENT_ERROR close or abort the open item first\r\n"
    assert stage.say("a", b"get jobs/abort") == b"END\r\n"
    assert stage.say("a", b"get jobs") == b"VALUE jobs 0 5\r\nfirst\r\nEND\r\n"


def test_an_open_gets_the_token_and_a_plain_gets_the_marker() -> None:
    stage = stage_with_items(b"first", b"second")
    opened = stage.say("a", b"gets jobs/open")
    stage.say("a", b"get jobs/close")

    taken = stage.say("a", b"gets jobs")

    assert opened.startswith(b"VALUE jobs/open 0 5 1\r\n")
    assert taken.startswith(b"VALUE jobs 0 6 2\r\n")


def test_a_token_is_shown_when_its_reservation_is_synced() -> None:
    stage = stage_with_items(b"first")
    stage.hold_syncs()
    client = stage.client("b")

    stage.send("b", b"gets jobs/open\r\n")
    assert client.take() == b""

    stage.go()
    assert client.take().startswith(b"VALUE jobs/open 0 5 1\r\n")


@pytest.mark.parametrize(
    ("request_", "is_refused"),
    [
        (b"get jobs", True), (b"get jobs/open", True), (b"get jobs/peek", True),
        (b"get jobs/close", False), (b"get jobs/abort", False),
    ],
)  # fmt: skip
def test_a_quiescent_server_shows_no_item_and_takes_the_end_of_one(
    request_: bytes, is_refused: bool
) -> None:
    stage = ServerHarness()
    stage.store(b"1")
    assert stage.say("a", b"get jobs/open").startswith(b"VALUE ")
    stage.set_mode("quiescent")
    assert stage.say("a", request_).startswith(b"SERVER_ERROR ") == is_refused


@pytest.mark.parametrize("is_at_end", [False, True])
@pytest.mark.parametrize("name", [b"jobs", b"both"])
def test_a_client_at_its_end_and_one_that_asks_an_alias_wait_for_nothing(
    name: bytes, is_at_end: bool
) -> None:
    stage = ServerHarness()
    stage.set_alias("both", ["jobs", "other"])
    if is_at_end:
        stage.client("a").conversation.note_eof()
    stage.send("a", b"get %b/t=5m\r\n" % name)
    waits = name == b"jobs" and not is_at_end
    assert stage.client("a").take() == (b"" if waits else b"END\r\n")


@pytest.mark.parametrize(
    ("request_", "is_refused"), [(b"get jobs/peek", False), (b"get jobs", True)]
)
def test_of_a_queue_whose_journal_failed_an_item_is_shown_and_none_is_taken(
    request_: bytes, is_refused: bool
) -> None:
    stage = stage_with_items(b"1")
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    log.journal.fail("writing", "jobs", OSError(errno.EIO, "Input/output error"))
    log.advance()
    assert stage.say("a", request_).startswith(b"SERVER_ERROR ") == is_refused
