"""Answers made of bytes, however they are cut."""

from __future__ import annotations

import pytest

from kestrelpy.wire.answers import FULL_WORDS, LINE_BYTES_MAX, AnswerReader, BadAnswer
from kestrelpy.wire.refusals import ServerRefusal

BODY = b"a\r\nEND\r\nb"
SAID = (
    b"VALUE q/open/full 7 %d 12 1700000000000 - 3 lent a%%20b,c 4%%2F7\r\n%b\r\nEND\r\n"
    b"END\r\nTOUCHED\r\nSTAT a 1\r\nSTAT b c d\r\nEND\r\nCLIENT_ERROR lease expired: of q\r\n"
    b"SERVER_ERROR disk full\r\n" % (len(BODY), BODY)
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_answers_are_the_same_however_their_bytes_come(size: int) -> None:
    reader = AnswerReader()
    answers = []
    for start in range(0, len(SAID), size):
        answers += reader.feed(SAID[start : start + size])

    item, nothing, touched, stats, over, full = answers
    found = item.found()
    assert found is not None
    assert (found.body, found.flags, found.token, found.attempts) == (BODY, 7, 12, 3)
    assert (found.key, found.id, found.stored_ms, found.expires_ms) == (
        "a%20b,c", "4/7", 1_700_000_000_000, 0,
    )  # fmt: skip
    assert nothing.found() is None
    assert touched.line == b"TOUCHED"
    assert stats.facts == {b"a": b"1", b"b": b"c d"}
    with pytest.raises(ServerRefusal, match="lease expired: of q") as error:
        over.check()
    assert error.value.is_lease_over and not error.value.may_pass
    with pytest.raises(ServerRefusal, match=r"^disk full$") as error:
        full.found()
    assert error.value.may_pass and not error.value.is_lease_over


@pytest.mark.parametrize(
    "line",
    [
        b"VALUE x", b"VALUE x 0", b"VALUE x 0 y", b"VALUE x 0 -9", b"VALUE x 0 -2", b"VALUE x 0 ",
        b"VALUE x 0 " + b"9" * 5000, b"STAT a",
    ],
)  # fmt: skip
def test_bytes_that_are_no_answer_are_refused(line: bytes) -> None:
    with pytest.raises(BadAnswer, match="bytes that are no answer") as error:
        AnswerReader().feed(b"STAT a 1\r\n" + line + b"\r\n")
    assert error.value.line == line
    assert not error.value.is_endless


def test_a_body_that_does_not_end_where_its_line_says_is_refused() -> None:
    with pytest.raises(BadAnswer):
        AnswerReader().feed(b"VALUE x 0 2\r\nabc\r\nEND\r\n")


def test_a_line_without_an_end_is_refused_and_a_body_of_that_size_is_not() -> None:
    reader = AnswerReader()
    assert reader.feed(b"x" * LINE_BYTES_MAX) == []
    with pytest.raises(BadAnswer) as error:
        reader.feed(b"x")
    assert error.value.is_endless

    reader = AnswerReader()
    body = b"x" * (3 * LINE_BYTES_MAX)
    assert reader.feed(b"VALUE x 0 %d\r\n%b" % (len(body), body)) == []
    (answer,) = reader.feed(b"\r\nEND\r\n")
    assert answer.bodies == [body]


def test_a_reader_that_asked_for_full_items_takes_no_others() -> None:
    reader = AnswerReader()
    reader.value_words = FULL_WORDS
    (answer,) = reader.feed(SAID[: SAID.index(b"END\r\nEND") + 5])
    assert [len(words) for words in answer.values] == [FULL_WORDS]
    with pytest.raises(BadAnswer):
        reader.feed(b"VALUE q 0 5\r\n")


def test_an_answer_that_is_not_whole_shows_what_came_of_it() -> None:
    reader = AnswerReader()
    assert reader.feed(b"STAT a 1\r\nSTAT a 2\r\nSTAT") == []
    assert reader.begun.stats == [(b"a", b"1"), (b"a", b"2")]
    assert reader.begun.facts == {b"a": b"2"}


def test_nothing_of_an_answer_is_left_for_the_next() -> None:
    reader = AnswerReader()
    first, second, third = reader.feed(
        b"VALUE x 0 1\r\na\r\nEND\r\nSTAT a 1\r\nEND\r\nVALUE x 7 1\r\nb\r\nEND\r\n"
    )
    assert (first.items, first.stats) == ([([b"0", b"1"], b"a")], [])
    assert (second.items, second.facts) == ([], {b"a": b"1"})
    assert (third.items, third.stats) == ([([b"7", b"1"], b"b")], [])


def test_a_body_that_comes_slowly_is_taken_out_once_it_is_whole() -> None:
    reader = AnswerReader()
    pieces = (b"END\r\nVALUE x 0 4\r\na", b"bc", b"d\r", b"\n")
    assert [len(reader.feed(each)) for each in pieces] == [1, 0, 0, 0]
    assert reader.begun.bodies == [b"abcd"]
    (answer,) = reader.feed(b"VALUE x 0 1\r\ne\r\nEND\r\n")
    assert answer.bodies == [b"abcd", b"e"]


@pytest.mark.parametrize(
    "words",
    [b"7 1", b"7 1 x 17 - 3 leased k i", b"7 1 12 17 - 3 leased k i j", b"x 1 12 17 - 3 l k i"],
)
def test_an_item_with_other_words_is_an_error_of_the_connection(words: bytes) -> None:
    (answer,) = AnswerReader().feed(b"VALUE q %b\r\nx\r\nEND\r\n" % words)
    with pytest.raises(ConnectionError, match="bytes that are no answer"):
        answer.found()
