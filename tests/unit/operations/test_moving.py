"""Items move to another queue on request, or the request is refused with its reason."""

from __future__ import annotations

import pytest

from journal.errors import JournalFailed
from kestrelpy.errors import ClientError, Refused, ServerError
from kestrelpy.operations.moving import Moving
from tests.support.server_harness import ServerHarness

JOBS = b"jobs"


@pytest.fixture
def moving(server: ServerHarness) -> Moving:
    return Moving(server.broker, server)


def test_ready_items_move_in_sequence(server: ServerHarness, moving: Moving) -> None:
    owner = server.client("a").conversation
    request = moving.move(server.queue("jobs"), b"later", 2, owner)
    server.work()
    assert moving.outcome(request) == 2
    assert b"one" in server.say("b", b"get later")
    assert b"three" in server.say("b", b"get jobs")


def test_dead_letters_move_by_their_numbers(server: ServerHarness, moving: Moving) -> None:
    for _ in range(2):
        server.say("a", b"get jobs/open")
        server.say("a", b"get jobs/abort")
    owner = server.client("a").conversation
    request = moving.redrive(server.queue("jobs"), b"later", [2, 3], owner)
    server.work()
    assert moving.outcome(request) == 1, "the third is not dead"
    assert b"two" in server.say("b", b"get later")
    assert list(server.queue("jobs").reader.dead.deaths) == [1]


def test_a_refused_first_item_is_the_reason(server: ServerHarness, moving: Moving) -> None:
    server.set_queue("small", max_item_size=1)
    request = moving.move(server.queue("jobs"), b"small", 1, server.client("a").conversation)
    server.work()
    with pytest.raises(Refused, match="too large"):
        moving.outcome(request)
    assert server.queue("jobs").reader.ready.count == 3


def test_where_items_may_not_go_is_said(server: ServerHarness, moving: Moving) -> None:
    server.set_alias("all", ["jobs"])
    assert moving.source(b"none", b"later", is_child=False) is None
    assert moving.source(JOBS, b"later", is_child=False) is server.queue("jobs")
    assert moving.source(JOBS, JOBS, is_child=True) is server.queue("jobs")
    with pytest.raises(ClientError, match="a fan-out child of one"):
        moving.source(JOBS, b"mail+audit", is_child=True)
    with pytest.raises(ClientError, match="all is an alias"):
        moving.source(JOBS, b"all", is_child=False)
    server.mode = "quiescent"
    with pytest.raises(ServerError, match="quiescent: this server moves nothing now"):
        moving.source(JOBS, b"later", is_child=False)
    server.mode = "up"
    server.queue("jobs").log.failure = JournalFailed("the disk said no")
    with pytest.raises(ServerError, match="the disk said no"):
        moving.source(JOBS, b"later", is_child=False)
