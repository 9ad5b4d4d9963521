"""Ids are read as they were written, and rubbish names nothing."""

from __future__ import annotations

import pytest

from kestrelpy.http.zaqar.ids import ClaimId, Marker, MessageId, claim_id, marker, message_id

RUBBISH = ["", "-", "1", "1-", "-1", "1-x", "1--1", "+1-1", "1-1-1-1", "1-9007199254740992", "٣-١"]


def test_ids_are_read_as_they_were_written() -> None:
    assert message_id(str(MessageId(5, 7))) == MessageId(5, 7)
    assert marker(str(Marker(5, 7))) == Marker(5, 7)
    assert marker(str(Marker(5, 0))) == Marker(5, 0)
    assert marker(str(Marker(5, 7, 9))) == Marker(5, 7, 9)
    assert claim_id(str(ClaimId(5, 20))) == ClaimId(5, 20)


@pytest.mark.parametrize("text", RUBBISH)
def test_rubbish_is_no_id(text: str) -> None:
    assert (message_id(text), marker(text), claim_id(text)) == (None, None, None)


def test_no_message_has_the_number_0_and_no_claim_more_than_20_tokens() -> None:
    assert (message_id("5-0"), claim_id("5-0"), claim_id("0-5"), claim_id("5-21")) == (None,) * 4


def test_a_claim_has_its_tokens_and_no_others() -> None:
    claim = ClaimId(5, 2)
    assert [token for token in range(10) if token in claim] == list(claim.tokens) == [5, 6]
