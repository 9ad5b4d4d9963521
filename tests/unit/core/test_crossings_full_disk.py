"""A full disk: what was put off without a record meets other verbs, and who gets the room that is
left."""

from __future__ import annotations

from tests.support.server_harness import ServerHarness
from tests.unit.core.fanout.test_limits import drain
from tests.unit.core.test_crossings import figure, value

WHY = "disk full: no room for the next segment"


def put_off_without_a_record() -> ServerHarness:
    """On a full disk item 1, whose id is x, is given back for ten minutes; item 2 is ready."""
    stage = ServerHarness()
    stage.say("eve", b"set jobs/id=x 0 0 1", b"1")
    stage.say("eve", b"set jobs 0 0 1", b"2")
    stage.say("eve", b"get jobs/open")
    stage.queue("jobs").log.no_room = WHY
    assert stage.say("eve", b"get jobs/abort/delay=10m") == b"END\r\n"
    assert figure(stage, b"jobs", b"delayed") == b"1"
    return stage


def test_an_upto_leaves_what_was_put_off_without_a_record_also_after_a_kill() -> None:
    stage = put_off_without_a_record()

    assert stage.say("bob", b"delete jobs/upto=2") == b"DELETED\r\n"
    stage.kill()

    assert stage.say("bob", b"get jobs") == value(b"jobs", b"1")
    assert stage.say("bob", b"get jobs") == b"END\r\n"


def test_what_was_put_off_without_a_record_and_is_retried_is_there_after_a_kill() -> None:
    stage = put_off_without_a_record()

    assert stage.say("bob", b"retry jobs 1") == b"OK\r\n"
    stage.kill()

    for text in (b"1", b"2"):
        assert stage.say("bob", b"get jobs") == value(b"jobs", text)


def test_what_was_put_off_without_a_record_and_is_cancelled_leaves_nothing_in_memory() -> None:
    stage = put_off_without_a_record()

    assert stage.say("bob", b"delete jobs/id=x") == b"DELETED\r\n"

    assert stage.queue("jobs").reader.delays.unlogged == set()
    stage.kill()
    assert stage.say("bob", b"get jobs") == value(b"jobs", b"2")
    assert stage.say("bob", b"get jobs") == b"END\r\n"


def test_scopes_that_are_too_old_take_no_room_from_the_confirms_on_a_full_disk() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", scope_window="1s")
    line, stored = b"set jobs/id=x/scope=%d/epoch=1 0 0 1", 0
    while stage.say("p", line % stored, b"x") == b"STORED\r\n":
        stored += 1
        stage.has_room = False  # for more than the first segment

    stage.pass_time(60_000)

    assert stored > 50
    assert drain(stage, b"jobs") == stored


def test_on_a_full_disk_each_emptied_segment_is_room_for_the_confirms_of_the_next() -> None:
    stage, stored = ServerHarness(), 0
    while stage.say("p", b"set jobs 0 0 1", b"x") == b"STORED\r\n":
        stored += 1
        stage.has_room = stored < 2000
    assert stored > 4000, "the confirms of the last segment need more than the first one's file"

    assert drain(stage, b"jobs") == stored
