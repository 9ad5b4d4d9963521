"""Where a child begins: at the marker or the time of its first mention, if that is retained."""

from __future__ import annotations

import pytest

from tests.support.memory_disk import Fault
from tests.support.server_harness import ServerHarness

BEGAN_S = 1_700_000_000  # the wall clock of a `ServerHarness` when it begins


@pytest.fixture(params=[True, False])
def stage(request: pytest.FixtureRequest) -> ServerHarness:
    """Three items, five seconds apart."""
    stage = ServerHarness()
    if not request.param:
        stage.set_queue("jobs", durable=False)
    for body in (b"1", b"2", b"3"):
        stage.say("eve", b"set jobs 0 0 1", body)
        stage.pass_time(5000)
    return stage


def taken(stage: ServerHarness, child: bytes) -> bytes:
    """Take all its items, in order."""
    found = b""
    while (answer := stage.say("bob", b"get " + child)) != b"END\r\n":
        found += answer.split(b"\r\n")[1]
    return found


@pytest.mark.parametrize("words", [b"", b"/peek", b"/peek/n=9"])
@pytest.mark.parametrize(
    ("after_s", "expected"), [(-9, b"123"), (0, b"123"), (3, b"23"), (8, b"3"), (20, b"")]
)
def test_a_first_mention_with_since_begins_there(
    stage: ServerHarness, words: bytes, after_s: int, expected: bytes
) -> None:
    since = b"/since=%d" % (BEGAN_S + after_s)
    answer = stage.say("eve", b"get jobs+old" + since + words)
    assert (b"\r\n%b\r\n" % expected[:1] in answer) == bool(expected)
    assert taken(stage, b"jobs+old") == (expected if b"peek" in words else expected[1:])
    stage.say("eve", b"set jobs 0 0 1", b"4")
    assert taken(stage, b"jobs+old") == b"4"


def test_later_since_beside_peek_only_looks(stage: ServerHarness) -> None:
    stage.say("eve", b"get jobs+old/from=3/peek")
    assert stage.say("eve", b"get jobs+old/peek/since=0") == (
        b"VALUE jobs+old/peek/since=0 0 1\r\n3\r\nEND\r\n"
    )
    assert taken(stage, b"jobs+old") == b"3"


def test_an_item_that_only_another_child_needs_is_found(stage: ServerHarness) -> None:
    stage.say("eve", b"get jobs+all/from=0/peek")
    assert taken(stage, b"jobs") == b"123"
    stage.say("eve", b"get jobs+old/peek/since=%d" % (BEGAN_S + 3))
    is_on_disk = stage.queue("jobs").log.read_ahead is not None
    assert taken(stage, b"jobs+old") == (b"23" if is_on_disk else b"123"), "nothing is missed"


def test_several_first_mentions_with_times_are_refused(stage: ServerHarness) -> None:
    answer = stage.say("eve", b"get jobs jobs+old/since=%d" % BEGAN_S)
    assert answer == (
        b"CLIENT_ERROR jobs+old does not exist yet: a child that begins at a time is "
        b"mentioned in a get of its own\r\n"
    )
    assert b"jobs+old" not in stage.broker.queues


def test_since_skips_items_put_before_it_and_released(stage: ServerHarness) -> None:
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"4")
    stage.pass_time(5000)
    after = b"since=%d" % (BEGAN_S + 18)

    assert stage.say("eve", b"get jobs/peek/" + after) == b"END\r\n"
    assert stage.say("eve", b"get jobs/peek/n=9/" + after) == b"END\r\n"
    stage.say("eve", b"get jobs+old/peek/" + after)
    assert taken(stage, b"jobs+old") == b""
    stage.say("eve", b"set jobs 0 0 1", b"5")
    assert b"\r\n5\r\n" in stage.say("eve", b"get jobs/peek/" + after)


def test_a_child_not_on_disk_when_the_journal_fails_answers_the_error() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.disk.faults.append(Fault("sync", "*.segment"))
    stage.syncs = False
    assert stage.say("eve", b"get jobs+old", b"get mail") == b""
    assert stage.say("bob", b"get jobs+old/peek") == b""
    assert stage.say("ann", b"delete jobs+me/upto=1 noreply", b"get mail") == b"END\r\n"
    stage.syncs = True
    failed = b"SERVER_ERROR data/jobs.1700000000: syncing failed: Input/output error\r\n"
    assert stage.say("eve") == failed + b"END\r\n"
    assert stage.say("bob") == failed


@pytest.mark.parametrize("words", [b"", b"/peek", b"/peek/after=0", b"/dead/peek"])
def test_no_reply_leaves_before_a_new_child_is_on_disk(words: bytes) -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.syncs = False
    assert stage.say("eve", b"get jobs+old") == b""
    # he does not know that another one was first
    assert stage.say("bob", b"get jobs+old" + words) == b""
    assert stage.say("eve", b"get jobs+none jobs+old") == b""
    stage.syncs = True
    assert stage.say("eve") == b"END\r\nEND\r\n"
    assert stage.say("bob") == b"END\r\n"
