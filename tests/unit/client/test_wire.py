"""Answers made of bytes, however they are cut."""

from __future__ import annotations

import pytest

from kestrelpy.client.wire import AnswerReader, ServerRefusal

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


def test_bytes_that_are_no_answer_are_refused() -> None:
    with pytest.raises((ValueError, IndexError)):
        AnswerReader().feed(b"VALUE x\r\n")
