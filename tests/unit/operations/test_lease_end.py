"""A lease ends, or is renewed, and its client is told when the policy says so."""

from __future__ import annotations

import pytest

from journal.errors import JournalFailed
from kestrelpy.errors import ServerError
from kestrelpy.operations.lease_end import LeaseEnd, ended
from tests.support.server_harness import ServerHarness

JOBS = b"jobs"


@pytest.fixture
def server() -> ServerHarness:
    made = ServerHarness()
    made.store(b"one", b"two")
    return made


def token_of(server: ServerHarness) -> int:
    answer = server.say("a", b"gets jobs/open/lease=10s")
    return int(answer.split(b"\r\n")[0].rsplit(b" ", 1)[1])


@pytest.mark.parametrize("confirms", ["written", "synced"])
def test_the_end_rests_on_its_record_as_the_policy_says(
    server: ServerHarness, confirms: str
) -> None:
    server.set_queue(confirms=confirms)
    queue = server.queue("jobs")
    expected = (0, 7) if confirms == "written" else (7, 0)
    assert ended(queue, 7)[1:] == expected


def test_a_lease_is_named_by_its_token_until_it_is_over(server: ServerHarness) -> None:
    ends, queue, token = LeaseEnd(server.broker), server.queue("jobs"), token_of(server)
    lease = ends.named(queue, token, server.now_ms)
    assert lease is not None
    assert ends.named(queue, token + 1, server.now_ms) is None
    assert ends.named(None, token, server.now_ms) is None
    assert ends.named(queue, token, server.now_ms + 10_000) is None, "its time is over"

    rests = ends.confirm(queue, lease, server.now_ms)

    assert rests.written == queue.log.lsn_appended
    assert list(queue.reader.live) == [2]
    assert ends.named(queue, token, server.now_ms) is None


def test_a_renewed_lease_lasts_from_now_on(server: ServerHarness) -> None:
    ends, queue, token = LeaseEnd(server.broker), server.queue("jobs"), token_of(server)
    server.pass_time(9_000)
    lease = ends.named(queue, token, server.now_ms)
    assert lease is not None
    ends.renew(queue, lease, 10_000, server.now_ms)
    server.pass_time(9_000)
    assert ends.named(queue, token, server.now_ms) is lease


def test_without_room_for_its_record_a_lease_by_token_is_not_renewed(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, queue, token = LeaseEnd(server.broker), server.queue("jobs"), token_of(server)
    lease = ends.named(queue, token, server.now_ms)
    assert lease is not None
    monkeypatch.setattr(queue.log, "no_room", "the disk is full")
    with pytest.raises(ServerError, match="the disk is full"):
        ends.renew(queue, lease, 20_000, server.now_ms)
    assert lease.deadline_ms == server.now_ms + 10_000


def test_a_failed_journal_is_refused(server: ServerHarness) -> None:
    ends = LeaseEnd(server.broker)
    assert ends.queue(b"none") is None
    server.queue("jobs").log.failure = JournalFailed("the disk said no")
    with pytest.raises(ServerError, match="the disk said no"):
        ends.queue(JOBS)
