"""Every state has a sentence that says why the item is not delivered; an unknown fact is None."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kestrelpy.errors import ClientError
from kestrelpy.operations import item_facts as looking
from kestrelpy.operations.item_facts import (
    GoneFacts,
    Inspection,
    ItemFacts,
    check_assigned,
    death_facts,
)
from tests.support.server_harness import ServerHarness

JOBS = "jobs"


@pytest.fixture
def server() -> ServerHarness:
    made = ServerHarness()
    made.set_queue(max_attempts=2)
    made.store(b"one", b"two", b"three")
    return made


def look(server: ServerHarness, id_: int) -> ItemFacts | GoneFacts:
    """Inspect an item; the server reads the parts that only the log has."""
    browser = server.client("z").conversation.browser()
    inspection = Inspection(server.queue(JOBS), id_, server.mode, browser)
    steps = inspection.read()
    while True:
        try:
            next(steps)
            server.work()
        except StopIteration as ended:
            return inspection.facts(*ended.value, server.now_ms)


def leased(server: ServerHarness) -> str:
    server.say("a", b"get jobs/open")
    deadline = server.unix_ms + 60_000
    return f"lent to {server.client('a').conversation.holder.name} until {deadline}"


def leased_by_token(server: ServerHarness) -> str:
    answer = server.say("a", b"gets jobs/open/lease=10s")
    token = answer.split(b"\r\n")[0].rsplit(b" ", 1)[1].decode()
    return f"lent by token {token} until {server.unix_ms + 10_000}"


def paused(server: ServerHarness) -> str:
    server.say("a", b"pause jobs")
    return "paused"


def dead(server: ServerHarness) -> str:
    server.say("a", b"get jobs/open")
    server.say("a", b"get jobs/abort/dead=too%20big")
    return "dead: too%20big"


def delayed(server: ServerHarness) -> str:
    server.say("a", b"get jobs/open")
    server.say("a", b"get jobs/defer/delay=5s")
    return f"delayed until {server.unix_ms + 5000}"


def quiescent(server: ServerHarness) -> str:
    server.say("a", b"status quiescent")
    return "the server is quiescent"


def at_its_limit(server: ServerHarness) -> str:
    server.set_queue(JOBS, max_leased=1)
    server.say("a", b"get jobs/open")
    server.say("b", b"delete jobs/item=2")
    return "max_leased 1 is reached"


def nothing(server: ServerHarness) -> str:
    return "it is next"


@pytest.mark.parametrize(
    ("act", "id_"),
    [(leased, 1), (leased_by_token, 1), (paused, 1), (dead, 1), (delayed, 1), (quiescent, 1),
     (at_its_limit, 3), (nothing, 1)],
)  # fmt: skip
def test_every_state_has_its_reason(
    server: ServerHarness, act: Callable[[ServerHarness], str], id_: int
) -> None:
    server.set_queue(lease="60s")
    why = act(server)
    assert look(server, id_).why == why


def test_what_is_not_known_is_none(server: ServerHarness) -> None:
    found = look(server, 2)

    assert isinstance(found, ItemFacts)
    assert (found.id, found.marker, found.state, found.attempts) == (2, 2, "ready", 0)
    assert found.why == "behind 1 other"
    assert found.bytes == 3
    nones = (found.token, found.holder, found.lease_left_ms, found.expires_ms, found.key,
             found.origin, found.died_ms, found.reason)  # fmt: skip
    assert set(nones) == {None}


def test_an_item_that_went_is_gone(server: ServerHarness) -> None:
    server.say("a", b"get jobs")
    assert look(server, 1) == GoneFacts(1, "gone", "confirmed, expired or removed")


def test_a_number_that_no_item_has_yet_is_refused(server: ServerHarness) -> None:
    assert check_assigned(server.queue(JOBS), 3) == 0
    with pytest.raises(ClientError, match="item 4 of jobs is not assigned yet, the latest is 3"):
        check_assigned(server.queue(JOBS), 4)


def test_an_item_that_is_not_stored_yet_names_the_record_to_wait_for(server: ServerHarness) -> None:
    server.hold_syncs()
    server.say("a", b"set jobs 0 0 1", b"x")
    queue = server.queue(JOBS)
    assert check_assigned(queue, 4) == queue.log.lsn_appended > queue.log.lsn_stored


def test_a_dead_letter_has_its_reason_as_bytes(server: ServerHarness) -> None:
    dead(server)
    reader = server.queue(JOBS).reader
    (death,) = reader.dead.deaths.values()

    facts = death_facts(reader, death)

    assert (facts.attempts, facts.reason, facts.bytes, facts.state) == (1, b"too big", 3, "dead")
    server.say("b", b"get jobs/dead/open")
    assert death_facts(reader, death).state == "lent"


def test_those_before_an_item_are_counted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "_COUNTED_PER_SLICE", 2)
    server = ServerHarness()
    server.set_queue(max_attempts=2)
    for _ in range(20):
        server.say("a", b"set jobs 0 0 1", b"x")
    for name in "cdefghi":
        server.say(name, b"get jobs/open")
    for name in "cde":
        server.hang_up(name)
        server.say(name, b"get jobs/open")
    for name in "cd":
        server.hang_up(name)  # twice: they are dead

    assert look(server, 20).why == "behind 12 others"  # 19, less 5 leased and 2 dead
