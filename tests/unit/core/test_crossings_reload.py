"""Settings that change while a client waits, a dead letter stays, or a child is lazy."""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness
from tests.unit.core.test_crossings import figure, value, with_child, with_one_leased_at_most


def test_a_client_that_waits_is_served_when_more_may_be_leased() -> None:
    stage = with_one_leased_at_most()

    stage.set_queue("jobs", max_leased=2)
    stage.work()

    assert stage.client("bob").take() == value(b"jobs/open/t=1m", b"2")


def test_a_client_that_waits_for_a_paused_queue_is_served_when_that_goes_on() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"pause jobs")
    stage.send("bob", b"get jobs/open/t=1m\r\n")
    assert stage.client("bob").take() == b""

    stage.say("eve", b"resume jobs")

    assert stage.client("bob").take() == value(b"jobs/open/t=1m", b"1")


def test_dead_letters_that_are_there_go_on_when_the_queue_gets_a_target() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"get jobs/open", b"get jobs/abort/dead=why")

    stage.set_queue("jobs", dead_letter_to="failed")
    stage.pass_time(10)

    assert stage.say("bob", b"get failed") == value(b"failed", b"1")


def test_a_lazy_child_that_is_bounded_drops_what_is_too_much_from_then_on() -> None:
    stage = with_child()
    stage.set_queue("jobs+a", max_items=1)

    for text in (b"1", b"2"):
        stage.say("eve", b"set jobs 0 0 1", text)

    assert figure(stage, b"jobs+a", b"items") == b"1"
    assert figure(stage, b"jobs+a", b"discarded") == b"1"


def test_items_of_a_lazy_child_live_no_longer_than_its_new_max_age() -> None:
    stage = with_child(b"1")

    stage.set_queue("jobs+a", max_age="1s")
    stage.pass_time(5000)

    assert figure(stage, b"jobs+a", b"expired_items") == b"1"
    assert figure(stage, b"jobs", b"items") == b"1"


@pytest.mark.parametrize("discards", [False, True])
def test_a_full_queue_that_becomes_fanout_only_passes_on_what_is_set(discards: bool) -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", max_items=1, discard_old_when_full=discards)
    stage.say("p", b"get jobs+c/peek", b"set jobs 0 0 3", b"own")
    stage.set_queue("jobs", fanout_only=True)
    assert stage.say("p", b"set jobs 0 0 1", b"x") == b"STORED\r\n"
    assert stage.say("p", b"get jobs") == b"VALUE jobs 0 3\r\nown\r\nEND\r\n"
    assert stage.queue("jobs+c").reader.ready.count == 2


def test_a_queue_that_becomes_fanout_only_keeps_what_it_has_and_takes_nothing() -> None:
    stage = with_child(b"1")

    stage.set_queue("jobs", fanout_only=True)
    stage.say("eve", b"set jobs 0 0 1", b"2")

    assert figure(stage, b"jobs", b"items") == b"1"
    assert figure(stage, b"jobs+a", b"items") == b"2"
