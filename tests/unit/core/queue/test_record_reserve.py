"""The number of records that must find room: never too small, and not counted at each write."""

from __future__ import annotations

from random import Random

import pytest

from kestrelpy.core.queue.record_reserve import FEW_CHILDREN, RecordReserve
from tests.support.server_harness import ServerHarness

CHILDREN = FEW_CHILDREN + 8


def family() -> ServerHarness:
    stage = ServerHarness()
    stage.set_server(max_open_reads=50)
    for number in range(CHILDREN):
        stage.say("a", b"get jobs+c%d/peek" % number)
    return stage


@pytest.mark.parametrize("seed", range(8))
def test_with_many_children_never_too_few_records_find_room(seed: int) -> None:
    random, stage = Random(seed), family()
    counts = stage.queue("jobs").reserve
    for _ in range(400):
        name = random.choice([b"jobs"] + [b"jobs+c%d" % n for n in range(CHILDREN)])
        request = random.choice([
            b"set jobs 0 0 1\r\nx", b"set jobs 0 0 1\r\nx", b"set %b/delay=1s 0 0 1\r\nx" % name,
            b"set %b 0 0 1\r\nx" % name, b"gets %b/open/lease=1m" % name, b"get %b/open" % name,
            b"get %b/abort" % name, b"get %b/abort/delay=2s" % name, b"get %b/close" % name,
            b"get %b" % name, b"flush %b" % name, b"delete jobs+c0", b"get jobs+c0/peek/from=1",
        ])  # fmt: skip
        stage.say(random.choice(["a", "b", "c"]), request)
        if not random.randrange(10):
            stage.pass_time(500)
        assert counts.count() >= RecordReserve(stage.queue("jobs")).exact(), request


def test_a_lease_by_token_does_not_count_what_all_children_have_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = family()
    stage.say("a", *[b"set jobs 0 0 1", b"x"] * 50)
    for number in range(CHILDREN):
        stage.say("b", b"get jobs+c%d/open" % number)
    stage.say("a", b"gets jobs/open/lease=1m")
    counted = []
    exact = RecordReserve.exact
    monkeypatch.setattr(RecordReserve, "exact", lambda self: counted.append(1) or exact(self))

    for _ in range(20):
        assert stage.say("a", b"gets jobs/open/lease=1m") != b"END\r\n"

    assert counted == [], "each of them is written, and each write asks"


def test_a_child_that_begins_its_work_is_counted_at_once() -> None:
    stage = family()
    stage.say("a", *[b"set jobs 0 0 1", b"x"] * 100)
    counts = stage.queue("jobs").reserve
    assert counts.count() <= 100 + counts.more_at_most
    for number in range(3):
        stage.say("b", b"get jobs+c%d/open" % number)
    assert counts.count() >= 400


def test_a_child_at_work_is_one_however_often_it_is_counted() -> None:
    stage = family()
    stage.say("a", b"set jobs 0 0 1", b"x")
    stage.say("b", b"get jobs+c0/open")
    counts = stage.queue("jobs").reserve
    for _ in range(3):
        counts.exact()
        assert counts.workers() == 1


def test_as_the_queue_grows_a_bounded_number_too_many_finds_room() -> None:
    stage = family()
    counts = stage.queue("jobs").reserve
    for number in range(200):
        stage.say("a", b"set jobs 0 0 1", b"x")
        stage.say("b", b"gets jobs+c%d/open/lease=1m" % (number % CHILDREN))
        exact, found = RecordReserve(stage.queue("jobs")).exact(), counts.count()
        assert exact <= found <= exact + counts.more_at_most


def test_what_a_flush_has_ended_needs_no_room_any_more() -> None:
    stage = family()
    stage.say("a", *[b"set jobs 0 0 1", b"x"] * 100)
    for number in range(3):
        stage.say("b", b"get jobs+c%d/open" % number)
    counts = stage.queue("jobs").reserve
    assert counts.count() >= 400
    for number in range(3):
        stage.say("b", b"get jobs+c%d/close" % number, b"flush jobs+c%d" % number)
    stage.pass_time(100)  # what many children need is counted once for all of these flushes
    assert counts.count() == counts.exact() == 100, "those of the queue's own subscription"


@pytest.mark.parametrize(("children", "taken_from", "count"), [
    (0, 0, 0), (1, 0, 20), (1, 1, 20), (2, 0, 20), (2, 1, 40), (2, 2, 40), (3, 1, 40),
])  # fmt: skip
def test_all_confirms_but_those_of_the_last_subscription_find_room_of_their_own(
    children: int, taken_from: int, count: int
) -> None:
    """The last one may be a child that no client has taken from: its items stay, and so does each
    segment."""
    stage = ServerHarness()
    for number in range(children):
        stage.say("a", b"get jobs+c%d/peek" % number)
    stage.say("a", *[b"set jobs 0 0 1", b"x"] * 20)
    for number in range(taken_from):
        assert stage.say("b", b"get jobs+c%d/open" % number).startswith(b"VALUE")
        assert stage.say("b", b"get jobs+c%d/abort" % number) == b"END\r\n"
    assert stage.queue("jobs").reserve.count() == count
