"""A page takes what there is room for."""

from __future__ import annotations

from kestrelpy.operations.reading import Page


def test_a_page_takes_no_second_item_that_is_larger_than_its_room() -> None:
    page = Page(9, 0)
    assert page.add([(1, 1, 0, 0, 0, b"x" * (3 << 20))], [b""])
    assert not page.add([(2, 2, 0, 0, 0, b"x" * (2 << 20))], [b""])
    assert page.is_full
