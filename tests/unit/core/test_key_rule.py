"""The key of an item: as its producer names it, else as the rule finds it in the body."""

from __future__ import annotations

import pytest

from journal.format.key import KEY_BYTES_MAX, text_of
from kestrelpy.core.key_rule import NAMED_ONLY, NO_KEY, KeySettings
from kestrelpy.errors import ClientError

A, B = text_of(b"A"), text_of(b"B")


class Words:
    """A rule: each word of the body is a value; an empty body does not parse."""

    def values(self, body: bytes) -> list[bytes]:
        if not body:
            raise ValueError("does not parse: it is empty")
        return [text_of(word) for word in body.split() if word != b"-"]


BY_RULE = KeySettings(Words())


def test_without_a_rule_and_a_name_an_item_has_no_key() -> None:
    assert NAMED_ONLY.key_of(b"q", (), b"A B") == NO_KEY


def test_a_body_without_key_fields_has_no_key() -> None:
    assert BY_RULE.key_of(b"q", (), b"-") == NO_KEY


def test_the_body_s_fields_are_the_key_and_a_named_key_wins_over_them() -> None:
    assert BY_RULE.key_of(b"q", (), b"A B") == A + B
    assert BY_RULE.key_of(b"q", (B,), b"A") == B
    assert BY_RULE.key_of(b"q", (B, A), b"") == B + A, "the body is not even read"


def test_unordered_values_make_one_key_in_any_sequence() -> None:
    unordered = KeySettings(Words(), unordered=True)
    assert unordered.key_of(b"q", (B, A), b"") == unordered.key_of(b"q", (), b"A B") == A + B
    assert NAMED_ONLY.key_of(b"q", (B, A), b"") == B + A


def test_a_body_that_the_rule_cannot_read_is_refused_with_the_queue_and_the_reason() -> None:
    with pytest.raises(ClientError, match=r"queue jobs: the message does not parse: it is empty$"):
        BY_RULE.key_of(b"jobs", (), b"")


def test_a_key_has_an_upper_limit_named_or_found() -> None:
    fits = text_of(b"x" * (KEY_BYTES_MAX - len(text_of(b""))))
    assert NAMED_ONLY.key_of(b"q", (fits,), b"") == fits

    too_long = rf"queue q: key too long \(\d+ bytes, limit {KEY_BYTES_MAX}\)$"
    for named in (fits + b"x",), (fits, A):
        with pytest.raises(ClientError, match=too_long):
            NAMED_ONLY.key_of(b"q", named, b"")
    with pytest.raises(ClientError, match=too_long):
        BY_RULE.key_of(b"q", (), b"x" * KEY_BYTES_MAX)
