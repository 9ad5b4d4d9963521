"""Facts are values, not words: an unknown fact is None, and texts have their blanks."""

from __future__ import annotations

from journal.errors import JournalFailed
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.queue.queue import Queue
from kestrelpy.operations.lists.survey import survey
from kestrelpy.operations.stats_facts import (
    ServerFacts,
    lease_facts,
    marker_facts,
    queue_facts,
    schedule_facts,
    server_facts,
)
from tests.support.server_harness import ServerHarness
from tests.support.steps import ended


def whole(server: ServerHarness) -> ServerFacts:
    """Return the facts of the server."""
    totals = ended(survey(server.broker, server.now_ms))
    return server_facts(server.broker, server, totals, server.now_ms)


def only_lease(queue: Queue) -> Lease:
    (lease,) = queue.reader.leases.all()
    return lease


def test_those_of_a_queue_are_numbers_and_truths(server: ServerHarness) -> None:
    server.say("a", b"get jobs/open")
    server.pass_time(400)
    server.say("a", b"pause jobs")

    facts = queue_facts(server.queue("jobs"), server.now_ms)

    assert (facts.items, facts.bytes, facts.leased, facts.age) == (2, 8, 1, 400)
    assert (facts.paused, facts.failed, facts.state, facts.reason) == (True, False, "ok", None)


def test_a_reason_has_its_blanks(server: ServerHarness) -> None:
    server.has_room = False
    server.queue("jobs").log.failure = JournalFailed("the disk  said no")

    facts = queue_facts(server.queue("jobs"), server.now_ms)

    assert (facts.state, facts.failed, facts.reason) == ("failed", True, "the disk  said no")
    assert whole(server).health == "failed"


def test_those_of_the_server_add_the_queues_up(server: ServerHarness) -> None:
    server.say("a", b"set mail 0 0 1", b"x")

    facts = whole(server)

    assert (facts.curr_items, facts.total_items, facts.bytes) == (4, 4, 12)
    assert (facts.cmd_set, facts.queue_creates) == (4, 2)
    assert facts.version == server.version


def test_a_lease_of_a_connection_has_no_token_and_no_end(server: ServerHarness) -> None:
    server.set_queue(lease="none")
    server.say("a", b"get jobs/open")
    server.pass_time(1500)
    queue = server.queue("jobs")

    facts = lease_facts(queue, only_lease(queue), server.now_ms)

    assert (facts.id, facts.marker, facts.state) == (1, 1, "lent")
    assert facts.token is None
    assert facts.lease_left_ms is None
    assert facts.age_ms == 1500
    assert facts.holder == server.client("a").conversation.holder.name


def test_a_lease_by_token_has_both(server: ServerHarness) -> None:
    server.say("a", b"gets jobs/open/lease=10s")
    server.pass_time(4000)
    queue = server.queue("jobs")
    lease = only_lease(queue)

    facts = lease_facts(queue, lease, server.now_ms)

    assert (facts.token, facts.lease_left_ms) == (lease.token, 6000)


def test_markers_are_the_readable_ones(server: ServerHarness) -> None:
    server.say("a", b"get jobs")

    facts = marker_facts(server.queue("jobs"))

    assert (facts.marker_earliest, facts.marker_latest, facts.kept_bytes) == (2, 3, 8)


def test_a_schedule_has_its_line_as_it_was_written(server: ServerHarness) -> None:
    server.set_schedule("nightly", queue="jobs", cron="0 3 * * *", body="clean")
    server.work()

    facts = schedule_facts(server.timetable.running[b"nightly"])

    assert (facts.queue, facts.cron, facts.waiting) == ("jobs", "0 3 * * *", 0)
    assert facts.next is not None
