"""What a read of the log tells when its segment was rewritten meanwhile, or when the disk failed.

For each read, at each of its waits: a read whose segment is gone is repeated and tells the same, a
shortage is refused, and what the disk does not give is passed over.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from typing import Any, Final, cast

import pytest

from journal.write.segment_file import Segment
from journal.write.segment_list import SegmentList
from kestrelpy.errors import ServerError
from kestrelpy.operations.item_life import ItemLife, LostPlace
from kestrelpy.operations.reading import READINGS_MAX, LogReader, NoShape, Page
from tests.support.server_harness import WALL_MS, ServerHarness

Steps = Generator[bytes, None, Any]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ServerHarness:
    """The log alone has the items 3, and 4, which came back later."""
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    monkeypatch.setattr("kestrelpy.core.subscription.ready_items.REFILL_ITEMS", 1)
    server = ServerHarness()
    server.set_queue("jobs", max_memory=1, retain="forever")
    for number in range(1, 5):
        server.now_ms += 1000
        delay = b"/delay=1s" if number == 4 else b""
        server.say("a", b"set jobs%b 0 0 1" % delay, b"%d" % number)
    server.now_ms += 2000
    server.say("a", b"set jobs 0 0 1", b"5")
    assert server.queue("jobs").reader.item(3) is None
    return server


def reader_of(server: ServerHarness) -> LogReader:
    talk = server.client("z").conversation
    talk.last_command_ms = server.now_ms
    reader = talk.browser()
    assert isinstance(reader, LogReader)
    return reader


def shown(found: Any) -> Any:
    """What a page has; anything else as it is."""
    is_page = isinstance(found, tuple) and isinstance(found[0], Page)
    return [put.body for put in found[0].puts] if is_page else found


def _page(server: ServerHarness) -> Steps:
    return reader_of(server).page(server.queue("jobs"), 0, 9, 0, NoShape())


def _find(server: ServerHarness) -> Steps:
    return reader_of(server).find(server.queue("jobs"), 3)


def _item(server: ServerHarness) -> Steps:
    item = yield from reader_of(server).item(server.queue("jobs"), 3)
    return item.put if item is not None else None


def _search(server: ServerHarness) -> Steps:
    return reader_of(server).search(server.queue("jobs"), WALL_MS + 2500)


def _begin(server: ServerHarness) -> Steps:
    return reader_of(server).find_begin(server.queue("jobs"), WALL_MS + 2500)


READS: Final[dict[str, Callable[[ServerHarness], Steps]]] = {
    "page": _page, "find": _find, "item": _item, "search": _search, "begin": _begin,
}  # fmt: skip


def _end(server: ServerHarness) -> Steps:
    return reader_of(server).find_begin(server.queue("jobs"), server.unix_ms + 1)


class Waits:
    """Takes the steps of a read; at its nth wait for the disk something happens."""

    def __init__(self, server: ServerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self._gone = 0  # so often a segment is looked for in vain
        real = SegmentList.numbered

        def numbered(segments: SegmentList, number: int) -> Segment | None:
            if self._gone:
                self._gone -= 1
                return None
            return real(segments, number)

        monkeypatch.setattr(SegmentList, "numbered", numbered)

    def run(self, steps: Steps, nth: int, happens: str) -> tuple[Any, int]:
        """Return the result, and how many waits there were."""
        waits = 0
        for _ in range(10 * READINGS_MAX):
            try:
                next(steps)
            except StopIteration as end:
                return shown(end.value), waits
            works, self.server._observing = self.server._observing, []
            for work in works:
                waits += 1
                if waits != nth or happens == "nothing":
                    work.run(self.server.disk)
                elif happens == "rewritten":
                    self._gone = 1
                else:
                    cast(Any, work).error = OSError(getattr(errno, happens), "as the test says")
                work.is_over = True
        raise AssertionError("no end")


def test_a_read_tells_what_the_log_has(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(server, monkeypatch)
    found = {name: waits.run(steps(server), 0, "nothing")[0] for name, steps in READS.items()}
    assert found["page"] == [b"1", b"2", b"3", b"5", b"4"]
    assert (found["find"].body, found["item"].body) == (b"3", b"3")
    assert (found["search"], found["begin"]) == (1, 3)  # the search stops where its segment begins
    assert waits.run(_end(server), 0, "nothing")[0] == 7


@pytest.mark.parametrize("name", READS)
def test_a_read_whose_segment_was_rewritten_meanwhile_is_repeated(
    name: str, server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(server, monkeypatch)
    expected, count = waits.run(READS[name](server), 0, "nothing")
    assert expected
    assert count
    for nth in range(1, count + 1):
        assert waits.run(READS[name](server), nth, "rewritten") == (expected, count + 1)


@pytest.mark.parametrize("name", READS)
def test_a_shortage_at_any_read_is_refused(
    name: str, server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(server, monkeypatch)
    _, count = waits.run(READS[name](server), 0, "nothing")
    for nth in range(1, count + 1):
        with pytest.raises(ServerError, match="cannot be read now"):
            waits.run(READS[name](server), nth, "EMFILE")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("page", [b"4"]), ("find", None), ("item", None)],
)
def test_what_the_disk_does_not_give_is_passed_over(
    name: str, expected: object, server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(server, monkeypatch)
    said = waits.run(READS[name](server), 1, "EIO")
    assert said[0] == expected


def _life(server: ServerHarness) -> Steps:
    """The life of an item in the journal, as the words for its events."""
    reader = reader_of(server)
    life = ItemLife(server.queue("jobs"), 3, server.client("z").conversation, reader)
    part = yield from life.part(None)
    return [each.what for each in part.events]


def test_the_life_of_an_item_is_not_guessed_where_its_journal_is_not_read(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(server, monkeypatch)
    assert waits.run(_life(server), 0, "nothing") == (["stored"], 1)
    with pytest.raises(LostPlace):
        waits.run(_life(server), 1, "rewritten")
    with pytest.raises(ServerError, match="cannot be read now"):
        waits.run(_life(server), 1, "EMFILE")
    assert waits.run(_life(server), 1, "EIO") == ([], 1)
