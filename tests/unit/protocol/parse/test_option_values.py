"""The options of a browse, for any input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.errors import ClientError
from kestrelpy.protocol.parse.commands import Target
from kestrelpy.protocol.parse.option_values import COUNT_MAX, MARKER_BELOW, BrowseView
from kestrelpy.protocol.parse.options import parse_target


def view(raw: bytes) -> BrowseView:
    target: Target = parse_target(raw)
    assert target.view is not None
    return target.view


@pytest.mark.parametrize(
    ("option", "since_ms"),
    [
        (b"1789000000", 1789000000000),
        (b"1789000000.5", 1789000000500),
        (b"1789000000.0001", 1789000000001),
        (b"0", 0),
        (b"1789000000%2E5", 1789000000500),
    ],
)
def test_seconds_are_rounded_up_to_whole_milliseconds(option: bytes, since_ms: int) -> None:
    assert view(b"q/peek/since=" + option).since_ms == since_ms


@given(st.integers(0, MARKER_BELOW - 1), st.integers(1, COUNT_MAX))
def test_every_marker_and_count_in_bounds_is_understood(after: int, count: int) -> None:
    found = view(b"q/peek/n=%d/after=%d" % (count, after))
    assert (found.after, found.most, found.since_ms) == (after, count, 0)


@given(st.sampled_from([b"after", b"since", b"n"]), st.binary(max_size=30))
def test_anything_else_is_refused_in_one_line_of_ascii(word: bytes, text: bytes) -> None:
    raw = b"q/peek/after=0/" + word + b"=" + text.replace(b"/", b"")
    try:
        parse_target(raw.replace(b"after=0/after", b"after"))
    except ClientError as refused:
        line = refused.line()
        assert line.isascii()
        assert b"\n" not in line
