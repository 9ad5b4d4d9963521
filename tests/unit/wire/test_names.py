"""Names of queues are checked before they are sent."""

from __future__ import annotations

import pytest

from kestrelpy.wire.names import NAME_BYTES_MAX, is_name


@pytest.mark.parametrize("name", ["q", "a:b.c-d_e", "!~", "a+b", "...", ".a", "q" * NAME_BYTES_MAX])
def test_printable_ascii_is_a_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "a b", "q\r\ndelete q", "q\n", "a/b", "a\x7f", "ü", ".", "..", "..+a", "q" * 129],
)
def test_anything_else_is_none(name: str) -> None:
    assert not is_name(name)
