"""An item whose life is over, and an id whose window is: before the sweep, nobody is shown it and
nobody removes it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

import pytest

from journal.store import Put
from kestrelpy.operations.lists.finding import find
from kestrelpy.operations.lists.items import ItemList
from kestrelpy.operations.reading import LogReader
from kestrelpy.operations.removal import Removal
from kestrelpy.operations.storing import Terms
from kestrelpy.operations.streams import StreamStore, StreamWalk
from tests.support.server_harness import ServerHarness
from tests.support.steps import ended

T = TypeVar("T")


def server_with(*bodies: bytes, **settings: str | int | bool) -> ServerHarness:
    """A server whose queue `jobs` has these items, with ids and a life of one second."""
    server = ServerHarness()
    server.set_queue("jobs", **settings)
    for body in bodies:
        server.say("a", b"set jobs/id=%b/key=K 0 1 1" % body, body)
    return server


def key_of_first(server: ServerHarness) -> tuple[bytes, ...]:
    """The key of the first item, as the journal has it."""
    item = server.queue("jobs").reader.item(1)
    assert item is not None
    return (item.key,)


def at_end(server: ServerHarness) -> None:
    """Nothing but the time has changed: no turn has gone by."""
    server.now_ms += 1000


def reader_of(server: ServerHarness) -> LogReader:
    reader = server.client("z").conversation.browser()
    server.client("z").conversation.last_command_ms = server.now_ms
    assert isinstance(reader, LogReader)
    return reader


def removal_of(server: ServerHarness) -> Removal:
    return Removal(server.queue("jobs"), reader_of(server), lambda: server.now_ms, server)


def read(server: ServerHarness, steps: Generator[bytes, None, T]) -> T:
    """Take all steps, with the reads that they ask for and nothing else."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        server._observe()


class Dots:
    """Words each item as a dot."""

    def lines(self, puts: Sequence[Put]) -> list[bytes]:
        return [b"."] * len(puts)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each queue one item has room in memory."""
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    monkeypatch.setattr("kestrelpy.core.subscription.ready_items.REFILL_ITEMS", 1)


def test_one_in_memory_is_not_removed() -> None:
    server = server_with(b"1")
    assert ended(removal_of(server).would_remove(1))
    at_end(server)
    assert not ended(removal_of(server).would_remove(1))
    assert removal_of(server).cancel(1) is None
    assert removal_of(server).cancel(1) is None, "nothing has changed"


def test_one_that_the_log_alone_has_is_not_removed(small: None) -> None:
    server = server_with(b"1", b"2", b"3", max_memory=1)
    assert removal_of(server).is_logged(3)
    assert read(server, removal_of(server).would_remove(3))
    at_end(server)
    assert not read(server, removal_of(server).would_remove(3))
    assert read(server, removal_of(server).read_and_cancel(3)) is None
    assert 3 in server.queue("jobs").reader.live


def test_a_page_of_items_leaves_it_out() -> None:
    server = server_with(b"1", b"2")
    server.say("a", b"set jobs/key=K 0 0 1", b"3")
    at_end(server)
    found = read(server, reader_of(server).page(server.queue("jobs"), 0, 9, 0, Dots()))
    assert found is not None
    assert [put.id for put in found[0].puts] == [3]


def test_a_list_of_items_leaves_it_out_also_while_it_is_delayed() -> None:
    server = server_with(b"1")
    server.say("a", b"get jobs/open", b"get jobs/abort/delay=1h")
    for ids in ([1], []):
        listed = ItemList(
            server.queue("jobs"), reader_of(server), "delayed", None, 1, lambda: server.now_ms
        )
        assert [each.id for each in read(server, listed.page(0, 9)).items] == ids
        at_end(server)


def test_a_stream_shows_it_no_more() -> None:
    server = server_with(b"1", retain="forever")
    queue, reader = server.queue("jobs"), reader_of(server)
    walk = StreamWalk(server.client("z").conversation, reader)
    item = queue.reader.item(1)
    assert item is not None
    reader_of(server)
    assert walk.is_shown(queue, item)
    at_end(server)
    reader_of(server)
    assert not walk.is_shown(queue, item)


def test_an_id_is_found_until_its_window_is_over() -> None:
    server = server_with(b"1", dedupe_window="1s")
    for kinds in (["id"], []):
        found = ended(find(server.broker, b"1", 9, server.now_ms)).hits
        assert [each.kind for each in found if each.kind == "id"] == kinds
        at_end(server)


def test_a_refusal_names_no_version_whose_window_is_over() -> None:
    server = server_with(dedupe_window="1s")
    server.say("a", b"set jobs/key=K/expect=0 0 0 1", b"1")
    at_end(server)
    terms = Terms(key=key_of_first(server), expects=5)
    done = StreamStore(server.broker, server).append(b"jobs", b"2", terms, server.now_ms)
    assert done.lsn < 0
    assert done.version == 0


def test_a_first_event_after_the_window_makes_the_queue_retain() -> None:
    server = server_with(dedupe_window="1s")
    server.say("a", b"set jobs/key=K/expect=0 0 0 1", b"1")
    at_end(server)
    terms = Terms(key=key_of_first(server), expects=0)
    StreamStore(server.broker, server).append(b"jobs", b"2", terms, server.now_ms)
    assert server.queue("jobs").policy.retains
