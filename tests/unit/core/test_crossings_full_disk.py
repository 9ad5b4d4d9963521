"""A full disk: other verbs meet items that were delayed without a record, and the confirms get the
room that is left."""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness
from tests.unit.core.fanout.test_limits import drain
from tests.unit.core.test_crossings import figure, value

DEAD_EACH = 2
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


@pytest.mark.parametrize("name", [b"jobs", b"jobs+kid"])
def test_what_was_put_off_without_a_record_and_is_due_leaves_nothing_in_memory(
    name: bytes,
) -> None:
    stage = ServerHarness()
    stage.say("eve", b"get %b/peek" % name)
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"get %b/open" % name)
    stage.queue("jobs").log.no_room = WHY
    stage.say("eve", b"get %b/abort/delay=1s" % name)
    reader = stage.queue(name.decode()).reader
    assert reader.delays.unlogged == {1}
    stage.pass_time(1000)
    assert reader.delays.unlogged == set()
    assert stage.say("bob", b"get %b" % name) == value(name, b"1")


def test_what_was_put_off_without_a_record_and_is_cancelled_leaves_nothing_in_memory() -> None:
    stage = put_off_without_a_record()

    assert stage.say("bob", b"delete jobs/id=x") == b"DELETED\r\n"

    assert stage.queue("jobs").reader.delays.unlogged == set()
    stage.kill()
    assert stage.say("bob", b"get jobs") == value(b"jobs", b"2")
    assert stage.say("bob", b"get jobs") == b"END\r\n"


def dead_without_a_record(reason: str) -> ServerHarness:
    """On a full disk item 1 has become a dead letter; item 2 is ready."""
    stage = ServerHarness()
    stage.set_queue("jobs", max_attempts=1, expire_to="old")
    stage.say("eve", b"set jobs 0 %d 1" % (10 if reason == "expired" else 0), b"1")
    stage.say("eve", b"set jobs 0 0 1", b"2")
    if reason == "attempts":
        stage.say("eve", b"get jobs/open")
    stage.queue("jobs").log.no_room = WHY
    stage.has_room = False
    before = stage.queue("jobs").log.lsn_appended
    if reason == "attempts":
        assert stage.say("eve", b"get jobs/abort") == b"END\r\n"
    else:
        stage.pass_time(11_000)
        assert stage.say("eve", b"get jobs/peek").endswith(b"\r\n2\r\nEND\r\n")
    assert stage.queue("jobs").log.lsn_appended == before, "the room is for the confirms"
    assert figure(stage, b"jobs", b"dead") == b"1"
    return stage


BY_BOTH = pytest.mark.parametrize("reason", ["attempts", "expired"])


@BY_BOTH
@pytest.mark.parametrize("verb", [b"flush jobs", b"delete jobs/upto=2"])
def test_a_death_without_a_record_is_spared_also_after_a_kill(reason: str, verb: bytes) -> None:
    stage = dead_without_a_record(reason)

    assert stage.say("bob", verb) in (b"END\r\n", b"DELETED\r\n")
    assert figure(stage, b"jobs", b"dead") == b"1"
    stage.kill()

    assert len(stage.queue("jobs").reader.live) == 1
    if reason == "attempts":
        assert stage.say("bob", b"get jobs") == value(b"jobs", b"1")


def test_a_dead_letter_without_a_record_is_redriven_also_after_a_kill() -> None:
    stage = dead_without_a_record("attempts")
    stage.queue("jobs").log.no_room = ""

    assert stage.say("bob", b"redrive jobs all") == b"1\r\n"
    stage.kill()

    for text in (b"2", b"1"):
        assert stage.say("bob", b"get jobs") == value(b"jobs", text)
    assert stage.say("bob", b"get jobs") == b"END\r\n"


def test_a_dead_letter_without_a_record_that_ends_leaves_nothing() -> None:
    stage = dead_without_a_record("attempts")

    assert stage.say("bob", b"delete jobs/dead/item=1") == b"DELETED\r\n"

    assert stage.queue("jobs").reader.dead.unlogged == set()
    stage.kill()
    assert stage.say("bob", b"get jobs") == value(b"jobs", b"2")
    assert stage.say("bob", b"get jobs") == b"END\r\n"


def test_give_backs_that_use_up_all_attempts_take_no_room_from_the_confirms() -> None:
    stage, stored = ServerHarness(), 0
    stage.set_queue("jobs", max_attempts=1)
    while stage.say("p", b"set jobs 0 0 1", b"x") == b"STORED\r\n":
        stored += 1
        stage.has_room = stored < 200
    assert stored > 400

    dead = int(figure(stage, b"jobs", b"items")) // DEAD_EACH
    for name in range(dead):
        stage.say(f"w{name}", b"get jobs/open")
    for name in range(dead):
        assert stage.say(f"w{name}", b"get jobs/abort") == b"END\r\n"
    assert figure(stage, b"jobs", b"dead") == b"%d" % dead

    assert drain(stage, b"jobs") == stored - dead


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
