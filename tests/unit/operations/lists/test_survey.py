"""The walk over all queues: it leaves turns to others, and names what is not well."""

from __future__ import annotations

import pytest

from journal.errors import JournalFailed
from kestrelpy.operations.lists.survey import QUEUES_PER_SLICE, survey
from tests.support.server_harness import ServerHarness
from tests.support.steps import counted, ended


def test_a_walk_over_many_queues_pauses_between_its_slices() -> None:
    server = ServerHarness()
    for number in range(QUEUES_PER_SLICE * 2 + 1):
        server.broker.create(b"q%d" % number, server.now_ms)

    totals, pauses = counted(survey(server.broker, server.now_ms))

    assert (totals.queues, totals.items, totals.health, pauses) == (401, 0, "ok", 2)


def test_the_worst_state_and_the_names_of_unwell_queues_are_given() -> None:
    server = ServerHarness()
    for name in (b"a", b"b"):
        server.say("x", b"set %b 0 0 2" % name, b"hi")
    server.queue("b").log.failure = JournalFailed("the disk said no")

    totals = ended(survey(server.broker, server.now_ms))

    assert (totals.health, totals.unwell, totals.items, totals.bytes) == ("failed", ["b"], 2, 4)


@pytest.mark.parametrize(
    ("failure", "no_room", "refusal", "health", "reason"),
    [
        (None, "", "", "no_new_queue", "no room for it"),
        (None, "disk full", "", "disk_full", "no room for it"),
        (JournalFailed("EIO"), "", "", "failed", "no room for it"),
        (None, "", "the data is gone", "failed", "the data is gone"),
    ],
)
def test_a_server_without_new_queues_is_not_ok_unless_something_is_worse(
    failure: JournalFailed | None, no_room: str, refusal: str, health: str, reason: str
) -> None:
    server = ServerHarness()
    server.say("x", b"set a 0 0 2", b"hi")
    server.broker.no_new_queue, server.broker.refusal = "no room for it", refusal
    log = server.queue("a").log
    log.failure, log.no_room = failure, no_room

    totals = ended(survey(server.broker, server.now_ms))

    assert (totals.health, totals.reason) == (health, reason)
    server.broker.no_new_queue = server.broker.refusal = ""
    log.failure, log.no_room = None, ""
    totals = ended(survey(server.broker, server.now_ms))
    assert (totals.health, totals.reason) == ("ok", None)


def test_a_queue_that_goes_during_the_walk_is_passed_over() -> None:
    server = ServerHarness()
    for number in range(QUEUES_PER_SLICE + 1):
        server.broker.create(b"q%d" % number, server.now_ms)
    steps = survey(server.broker, server.now_ms)
    next(steps)
    server.broker.delete(b"q%d" % QUEUES_PER_SLICE, server.now_ms)

    assert ended(steps).health == "ok"
