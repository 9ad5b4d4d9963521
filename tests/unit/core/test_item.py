"""An item is what was stored, and the numbers it is known by."""

from __future__ import annotations

import pytest

from kestrelpy.core.item import Item
from tests.support.core_harness import WALL_MS, make_queue


def test_items_are_numbered_from_one_and_each_number_is_used_once() -> None:
    q = make_queue()
    q.put(b"a", b"b")
    q.take()
    q.take()
    q.put(b"c")
    assert q.open().item.id == 3


def test_an_item_keeps_its_body_its_time_and_its_expiry() -> None:
    q = make_queue(now_ms=500)
    q.queue.put(b"\0any\r\nbytes", 0xFFFFFFFF, WALL_MS + 7000, q.now_ms)
    item = q.open().item
    assert (item.body, item.flags) == (b"\0any\r\nbytes", 0xFFFFFFFF)
    assert (item.stored_ms, item.expires_ms) == (WALL_MS, WALL_MS + 7000)


def test_the_first_place_is_the_marker_for_good() -> None:
    q = make_queue()
    q.put(b"a", b"b")
    q.abort(q.open())
    assert q.open().item.marker == 1
    assert q.open().item.marker == 2


def test_an_item_has_room_for_nothing_else() -> None:
    with pytest.raises(AttributeError):
        Item(1, 1, b"", 0, 0, 0).remark = "slots only"
