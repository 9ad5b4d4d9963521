"""What a letter between slices carries is what was said."""

from __future__ import annotations

import pytest

from journal.format import ItemHeader
from kestrelpy.core import Delay
from kestrelpy.errors import ClientError
from kestrelpy.operations import Terms
from kestrelpy.protocol.mail import reply_of, request_of, terms_bytes, terms_of

HEADER = ItemHeader(b"id", b"scope", 7, texts=((1, b"text"),), of_key=True)
SAID = Terms(3, 4, (b"a", b"b"), Delay(5, is_date=True), HEADER, 6, only_if_empty=True)


@pytest.mark.parametrize("terms", [Terms(), SAID])
def test_the_conditions_of_a_hand_off_arrive_as_they_were_said(terms: Terms) -> None:
    found = terms_of(terms_bytes(b"add", terms))

    assert found.verb == b"add"
    assert found.terms == terms


def test_each_condition_is_said_in_this_test() -> None:
    assert not any(said == usual for said, usual in zip(SAID, Terms(), strict=True))


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x90", b"x" * 100])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    for read in (terms_of, request_of):
        with pytest.raises(ClientError, match="cannot be read"):
            read(data)
    with pytest.raises(ValueError):
        reply_of(data)
