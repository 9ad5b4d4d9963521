"""Pages of items: by state, by key, with bodies that are cut."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from kestrelpy.operations.lists import items
from kestrelpy.operations.lists.items import ItemList, ItemPage
from kestrelpy.operations.reading import LogReader
from tests.support.server_harness import ServerHarness
from tests.support.steps import ended


@pytest.fixture
def server() -> ServerHarness:
    """The states in memory: ready 2 4 6, leased 1, delayed 5, dead 3."""
    made = ServerHarness()
    made.set_queue("jobs", durable=False)
    made.set_server(max_open_reads=10)
    for number in range(1, 7):
        option = b"/key=A" if number % 2 else b""
        option += b"/delay=1h" if number == 5 else b""
        made.say("a", b"set jobs%b 0 0 2" % option, b"b%d" % number)
    made.say("a", b"get jobs/open")
    return made


def page(
    server: ServerHarness, state: str = "", key: str | None = None, after: int = 0, most: int = 9
) -> ItemPage:
    reader = server.client("reader").conversation.browser()
    assert isinstance(reader, LogReader)
    found = ItemList(server.queue("jobs"), reader, state, key, 1, lambda: server.now_ms)
    steps = found.page(after, most)
    return read(server, steps) if server.queue("jobs").policy.durable else ended(steps)


def read(server: ServerHarness, steps: Generator[bytes, None, ItemPage]) -> ItemPage:
    """Take all steps of a listing; the server does the reads that they ask for."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: ItemPage = end.value
            return found
        server.work()


def ids(found: ItemPage) -> list[int]:
    return [each.id for each in found.items]


def test_each_state_has_its_items(server: ServerHarness) -> None:
    assert ids(page(server, "ready")) == [2, 3, 4, 6]
    assert ids(page(server, "leased")) == [1]
    assert ids(page(server, "delayed")) == [5]
    assert ids(page(server, "dead")) == []
    assert ids(page(server)) == [1, 2, 3, 4, 6]
    server.say("a", b"get jobs/abort/dead=why")
    assert ids(page(server, "dead")) == [1]


def test_a_key_chooses_items_in_any_state(server: ServerHarness) -> None:
    assert ids(page(server, "", "A")) == [1, 3]
    assert ids(page(server, "delayed", "A")) == [5]
    assert ids(page(server, "delayed", "B")) == []


def test_a_body_is_cut_and_says_so(server: ServerHarness) -> None:
    item = page(server, "ready").items[0]
    assert (item.body, item.is_cut, item.bytes, item.key) == (b"b", True, 2, None)


def test_pages_have_each_item_once(server: ServerHarness) -> None:
    seen, after = list[int](), 0
    for _ in range(9):
        found = page(server, "ready", after=after, most=2)
        seen += ids(found)
        if found.next is None:
            break
        after = found.next
    assert seen == [2, 3, 4, 6]


def test_a_page_stops_looking_at_its_bound_and_has_a_cursor(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "LOOKED_MAX", 2)
    monkeypatch.setattr(items, "_PER_READ", 2)
    found = page(server, "ready", "none")
    assert (found.items, found.next) == ([], 2)


def test_a_time_chooses_the_first_item_and_no_later_one_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(items, "_PER_READ", 1)
    made = ServerHarness()
    made.set_queue("jobs", durable=False)
    for step_ms in (0, 5000, -3000):  # the clock is set back after the second one
        made.broker.clock.offset_ms += step_ms
        made.say("a", b"set jobs 0 0 1", b"x")
    reader = made.client("reader").conversation.browser()
    assert isinstance(reader, LogReader)
    since_ms = made.now_ms + made.broker.clock.offset_ms + 2000
    found = ItemList(
        made.queue("jobs"), reader, "", None, 1, lambda: made.now_ms, since_ms=since_ms
    )
    assert ids(ended(found.page(0, 1))) == [2]
    assert ids(ended(found.page(0, 9))) == [2, 3]


# The end of a lease of an item whose marker is not its id, and the state of the item then.
STATES: dict[str, tuple[bytes, str]] = {
    "given back late": (b"get jobs/abort/delay=1h", "delayed"),
    "dead": (b"get jobs/abort/dead=why", "dead"),
    "leased": (b"get jobs/close", "leased"),  # of another item: nothing
}


@pytest.mark.parametrize("ends", ["", "kill", "restart"])
@pytest.mark.parametrize("memory", ["64MiB", 1])
@pytest.mark.parametrize("how", STATES)
@pytest.mark.parametrize("delay", [b"", b"/delay=1s"])
def test_an_item_is_listed_with_the_marker_that_it_keeps(
    delay: bytes, how: str, memory: object, ends: str
) -> None:
    server = ServerHarness()
    server.set_queue("jobs", max_memory=memory)
    server.say("a", b"set jobs%b 0 0 1" % delay, b"x")
    server.say("a", b"set jobs/delay=2h 0 0 1", b"y")
    server.pass_time(1000)
    line, state = STATES[how]
    assert server.say("a", b"gets jobs/open/lease=1h").startswith(b"VALUE jobs")
    token = server.queue("jobs").reader.leases.of(1)
    assert token is not None
    if how != "leased":
        server.say("a", line + b"/token=%d" % token.token)
    if ends:
        getattr(server, ends)()
        server.work()
    marker = 3 if delay else 1
    found = [each for each in page(server, state).items if each.id == 1]
    assert [each.marker for each in found] == [marker]
    assert b"STAT marker %d\r\n" % marker in server.say("a", b"stats jobs/item=1")
    assert [each.marker for each in page(server).items if each.id == 1] == [marker]
    assert [each.marker for each in page(server, "delayed").items if each.id == 2] == [None]
