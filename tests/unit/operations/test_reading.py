"""A page takes what there is room for; a read is repeated while its queue is there."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from journal.store import Put
from kestrelpy.operations import reading
from kestrelpy.operations.reading import READINGS_MAX, ItemRead, LogReader, Page
from tests.support.steps import ended


def test_a_page_takes_no_second_item_that_is_larger_than_its_room() -> None:
    page = Page(9, 0)
    assert page.add([Put(1, 1, 0, 0, b"x" * (3 << 20))], [b""])
    assert not page.add([Put(2, 2, 0, 0, b"x" * (2 << 20))], [b""])
    assert page.is_full


class Rewritten(LogReader):
    """Each of its reads finds nothing: meanwhile the segment was rewritten."""

    __slots__ = ("deletes", "queue", "reads")

    def __init__(self, queue: Any, deletes: bool) -> None:
        super().__init__(cast(Any, None))
        self.queue, self.deletes, self.reads = queue, deletes, 0

    def _run(self, log: object, reading: ItemRead) -> Generator[bytes, None, ItemRead]:
        self.reads += 1
        yield b""
        self.queue.deleted = self.deletes
        return reading


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("what", ["find", "item"])
def test_a_read_is_not_repeated_in_a_queue_that_was_deleted_meanwhile(
    what: str, deletes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = SimpleNamespace(extent=SimpleNamespace(number=7))
    log = SimpleNamespace(
        journal=SimpleNamespace(segment_numbered=lambda _: None),
        store=SimpleNamespace(one=lambda _: job),
    )
    queue = SimpleNamespace(log=log, deleted=False)
    nothing = SimpleNamespace(record=None, found=None)
    browse = SimpleNamespace(item=lambda _: None, ids=None)
    monkeypatch.setattr(reading, "on_disk", lambda log: log)
    monkeypatch.setattr(reading, "Browse", lambda _: browse)
    monkeypatch.setattr(reading, "RangeScan", SimpleNamespace(of=lambda *_: job))
    monkeypatch.setattr(reading, "ItemRead", lambda *_: nothing)
    reader = Rewritten(queue, deletes)
    assert ended(getattr(reader, what)(queue, 1)) is None
    assert reader.reads == (1 if deletes else READINGS_MAX)


def test_nothing_is_looked_for_in_a_queue_that_was_deleted_during_its_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue: Any = SimpleNamespace(log=SimpleNamespace(), deleted=False)

    class Searching(LogReader):
        def search(self, queue: Any, since_ms: int) -> Generator[bytes, None, int]:
            yield b""
            queue.deleted = True
            return 5

    monkeypatch.setattr(reading, "on_disk", lambda log: log)
    monkeypatch.setattr(reading, "Browse", lambda _: None)
    monkeypatch.setattr(reading, "ChildStart", lambda _: pytest.fail("looked into it"))
    assert ended(Searching(cast(Any, None)).find_begin(queue, 1000)) == 5
