"""What a client is told when the answer is no."""

from __future__ import annotations

from kestrelpy.errors import ClientError, LeaseExpired, Refused, ServerError


def test_each_refusal_has_memcaches_word_for_its_class() -> None:
    assert ClientError("no such option").line() == b"CLIENT_ERROR no such option"
    assert ServerError("disk full").line() == b"SERVER_ERROR disk full"


def test_a_lease_that_is_over_says_so_first() -> None:
    assert LeaseExpired(b"jobs").line().startswith(b"SERVER_ERROR lease expired")


def test_a_refusal_is_one_line_of_printable_ascii() -> None:
    for refusal in (Refused("caf\u00e9"), ClientError("x\u2028y")):
        assert all(0x20 <= byte < 0x7F for byte in refusal.line())
