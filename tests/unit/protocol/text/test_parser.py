"""The parser of the text port: its limits, and that it is never out of step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.errors import ServerError
from kestrelpy.protocol.parse import Bad, Plain, Store
from kestrelpy.protocol.text.parser import PUT_BYTES_MAX, PUT_ITEMS_MAX, TextParser
from kestrelpy.protocol.text.requests import PutBegin, PutEnd

ITEM_LIMIT = 9 << 20


def parser_of(*chunks: bytes) -> TextParser:
    parser = TextParser(lambda name: ITEM_LIMIT if name == b"large" else 100)
    for chunk in chunks:
        parser.feed(chunk)
    return parser


def all_of(parser: TextParser) -> list[object]:
    """Return every command that is complete; a store as its body."""
    found: list[object] = []
    while (command := parser.next()) is not None:
        found.append(command.body if isinstance(command, Store) else command)
    return found


def refusal(parser: TextParser) -> bytes:
    (command, version) = all_of(parser)
    assert isinstance(command, Bad) and isinstance(version, Plain), (command, version)
    return command.line


@given(
    st.lists(st.binary(min_size=1, max_size=5).filter(lambda item: b"\n" not in item), max_size=5),
    st.sampled_from((b"\n", b"\r\n")), st.data(),
)  # fmt: skip
def test_items_are_the_same_however_their_bytes_arrive(
    items: list[bytes], end: bytes, data: st.DataObject
) -> None:
    items = [item for item in items if item != b"\r"]
    stream = b"".join([b"put q:", end, *(item + end for item in items), end, b"version\n"])
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    parser, found = parser_of(), list[object]()
    for begin, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        parser.feed(stream[begin:stop])
        found += all_of(parser)
    begun, *bodies, ended, version = found
    assert isinstance(begun, PutBegin) and isinstance(ended, PutEnd) and isinstance(version, Plain)
    # With LF alone a CR at the end of an item belongs to its line end as well.
    assert bodies == [item if end == b"\r\n" else item.removesuffix(b"\r") for item in items]
    assert parser.buffered == parser.held_bytes == 0


@given(st.lists(st.binary(max_size=40)))
def test_it_takes_anything(chunks: list[bytes]) -> None:
    parser = parser_of()
    for chunk in chunks:
        parser.feed(chunk + b"\n")
        for command in all_of(parser):
            assert command is not None
        assert parser.held_bytes <= len(b"".join(chunks)) + len(chunks)


def test_a_put_of_more_items_than_1024_stores_none() -> None:
    most = b"put q:\n" + b"x\n" * PUT_ITEMS_MAX + b"\n"
    assert len(all_of(parser_of(most))) == PUT_ITEMS_MAX + 2

    line = refusal(parser_of(b"put q:\n" + b"x\n" * (PUT_ITEMS_MAX + 1) + b"\nversion\n"))
    assert line == b"CLIENT_ERROR too many items in one put (1025, limit 1024): nothing was stored"


@pytest.mark.parametrize(
    ("name", "limit"), [(b"q", PUT_BYTES_MAX), (b"large", ITEM_LIMIT)]
)
def test_a_put_that_is_too_large_is_skipped_without_being_stored(name: bytes, limit: int) -> None:
    piece = (b"x" * 999 + b"\n") * 100
    parser, sent = parser_of(b"put " + name + b":\n"), 0
    while sent <= limit:
        assert parser.next() is None and parser.is_in_body
        parser.feed(piece)
        sent += len(piece)
    assert parser.held_bytes > limit
    for _ in range(100):
        assert parser.next() is None
        parser.feed(piece)
    assert parser.next() is None
    assert parser.held_bytes <= 2
    parser.feed(b"\nversion\n")
    line = b"CLIENT_ERROR put too large (limit %d bytes): nothing was stored" % limit
    assert refusal(parser) == line


def test_a_put_of_one_large_item_is_taken_where_its_queue_takes_it() -> None:
    item = b"x" * (ITEM_LIMIT - 1)
    assert all_of(parser_of(b"put large:\n", item, b"\n\n"))[1] == item


@pytest.mark.parametrize("cut", range(8))
def test_a_put_that_is_dropped_is_refused_when_it_is_complete(cut: int) -> None:
    stream = b"a\r\nb\r\n\r\nversion\n"
    parser = parser_of(b"put q:\r\n", stream[:cut])
    assert parser.next() is None
    assert parser.drop_body(ServerError("no memory")) and not parser.drop_body(ServerError("x"))
    assert parser.held_bytes <= 2
    parser.feed(stream[cut:])
    assert refusal(parser) == b"SERVER_ERROR no memory"


def test_the_rest_of_a_put_is_dropped_after_the_first_refusal() -> None:
    parser = parser_of(b"put q:\na\nb\nc\n\nversion\n")
    assert isinstance(parser.next(), PutBegin)
    first = parser.next()
    assert isinstance(first, Store) and first.line.form is not None
    first.line.form.reply(b"NOT_STORED\r\n")
    ended, version = all_of(parser)
    assert isinstance(ended, PutEnd) and isinstance(version, Plain)


def test_nothing_is_left_of_a_client_that_is_gone() -> None:
    parser = parser_of(b"put q:\na\nb\n\nversion\n")
    parser.next()
    parser.clear()
    assert parser.buffered == parser.held_bytes == 0 and parser.next() is None
