"""The end of each answer is found, however its bytes come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.protocol.routing.answer_ends import LINE_BYTES_MAX, AnswerEnds, Unreadable

ANSWERS = (
    b"STORED\r\n", b"END\r\n", b"VALUE a 0 5\r\nEND\r\n\r\nEND\r\n",
    b"VALUE a 0 1 17 0 - 0 ready - -\r\nx\r\nVALUE b 0 0\r\n\r\nEND\r\n", b"HD k1\r\n",
    b"VA 4 f0\r\nEND\r\r\n", b"STAT a 1\r\nSTAT b VALUE\r\nEND\r\n", b"CLIENT_ERROR no\r\n",
    b"12\r\n", b"VALUE a 0 1\r\nx\r\nSERVER_ERROR it failed\r\n",
)  # fmt: skip
BLOCKS = (b"queue 'a' {\r\n  items=1\r\n}\r\nEND\r\n", b"ERROR\r\n", b"VERSION 1\r\nEND\r\n")


def taken(reader: AnswerEnds, until_end: bool) -> list[bytes]:
    """Return the whole answers, and at the end the part of one."""
    found, part = [], b""
    while not reader.is_empty:
        piece, is_whole = reader.take(until_end)
        part += piece
        if not is_whole:
            break
        found.append(part)
        part = b""
    return [*found, part]


@pytest.mark.parametrize(("until_end", "answers"), [(False, ANSWERS), (True, BLOCKS)])
@given(st.data())
def test_answers_are_whole_however_they_are_cut(
    until_end: bool, answers: tuple[bytes, ...], data: st.DataObject
) -> None:
    said = data.draw(st.lists(st.sampled_from(answers), max_size=6))
    rest, reader, found = b"".join(said), AnswerEnds(), [b""]
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        reader.feed(rest[:size])
        rest = rest[size:]
        first, *others = taken(reader, until_end)
        found[-1] += first
        found += others
    assert found == [*said, b""]


def test_a_body_is_passed_on_as_it_comes() -> None:
    reader = AnswerEnds()
    reader.feed(b"VALUE a 0 1000\r\n" + b"x" * 500)
    assert reader.take(False) == (b"VALUE a 0 1000\r\n" + b"x" * 500, False)
    assert reader.is_empty


@pytest.mark.parametrize(
    "data", [b"VALUE a 0 -1\r\n", b"VALUE a 0\r\n", b"VA x\r\n", b"y" * (LINE_BYTES_MAX + 1)]
)
def test_bytes_without_an_end_are_no_answer(data: bytes) -> None:
    reader = AnswerEnds()
    reader.feed(data)
    with pytest.raises(Unreadable):
        reader.take(False)
