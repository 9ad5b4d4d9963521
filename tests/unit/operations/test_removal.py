"""An item that waits is removed, wherever its body is; no other is touched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrelpy.errors import ServerError
from kestrelpy.operations.removal import Removal
from kestrelpy.operations.rests import Rests
from tests.support.server_harness import ServerHarness


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerHarness]:
    """A server whose memory has room for one item of a queue."""
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    monkeypatch.setattr("kestrelpy.core.subscription.ready_items.REFILL_ITEMS", 1)
    made = ServerHarness()
    made.set_queue(max_memory=1)
    made.store(b"one", b"two", b"three")
    yield made


def removal_of(server: ServerHarness) -> Removal:
    browser = server.client("z").conversation.browser()
    return Removal(server.queue("jobs"), browser, lambda: server.now_ms, server)


def read_and_cancel(server: ServerHarness, id_: int) -> Rests | None:
    steps = removal_of(server).read_and_cancel(id_)
    while True:
        try:
            next(steps)
            server.work()
        except StopIteration as ended:
            found: Rests | None = ended.value
            return found


def live(server: ServerHarness) -> list[int]:
    return list(server.queue("jobs").reader.live)


def test_an_item_in_memory_goes_at_once(server: ServerHarness) -> None:
    removal = removal_of(server)
    assert not removal.is_logged(2)
    rests = removal.cancel(2)
    assert rests is not None
    assert rests.stored > rests.log.lsn_stored, "it is told when its record is stored"
    assert live(server) == [1, 3]


def test_an_item_that_only_the_log_has_is_read_first(small: ServerHarness) -> None:
    assert removal_of(small).is_logged(3)
    assert removal_of(small).unstored(3) is None
    assert read_and_cancel(small, 3) is not None
    assert live(small) == [1, 2]


def test_an_item_that_is_not_stored_yet_is_waited_for(server: ServerHarness) -> None:
    server.hold_syncs()
    server.say("a", b"set jobs 0 0 4", b"four")
    unstored = removal_of(server).unstored(4)
    assert unstored is not None
    assert unstored.stored == server.queue("jobs").log.lsn_appended


def test_one_that_was_taken_while_it_was_read_is_left_alone(small: ServerHarness) -> None:
    steps = removal_of(small).read_and_cancel(3)
    next(steps)
    for holder in "bcd":
        small.say(holder, b"get jobs/open")
    with pytest.raises(StopIteration) as ended:
        for _ in range(9):
            small.work()
            next(steps)
    assert ended.value.value is None
    assert live(small) == [1, 2, 3]


def test_leased_dead_and_unknown_items_do_not_wait(server: ServerHarness) -> None:
    server.say("b", b"get jobs/open")
    server.say("c", b"get jobs/open")
    server.say("c", b"get jobs/abort")
    removal = removal_of(server)
    assert [removal.cancel(id_) for id_ in (1, 2, 99)] == [None, None, None]
    assert live(server) == [1, 2, 3]


def test_only_a_dead_letter_that_nobody_holds_is_purged(server: ServerHarness) -> None:
    for _ in range(2):
        server.say("b", b"get jobs/open")
        server.say("b", b"get jobs/abort")
    server.say("c", b"get jobs/dead/open")
    removal = removal_of(server)
    assert removal.purge(1) is None
    assert removal.purge(2) is not None
    assert removal.purge(3) is None
    assert live(server) == [1, 3]


def test_what_may_not_be_removed_now_is_refused(server: ServerHarness) -> None:
    assert Removal.check(server.broker, server, b"none") is None
    assert Removal.check(server.broker, server, b"jobs") is server.queue("jobs")
    server.mode = "readonly"
    with pytest.raises(ServerError, match="readonly: this server removes nothing now"):
        Removal.check(server.broker, server, b"jobs")
