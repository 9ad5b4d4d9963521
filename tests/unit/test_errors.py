"""Refusals: their words for each class of error, and their limits."""

from __future__ import annotations

from kestrelpy.errors import ClientError, InvalidToken, LeaseExpired, Refused, ServerError


def test_each_refusal_has_memcaches_word_for_its_class() -> None:
    assert ClientError("no such option").line() == b"CLIENT_ERROR no such option"
    assert ServerError("disk full").line() == b"SERVER_ERROR disk full"


def test_a_lease_that_is_over_says_so_first() -> None:
    assert LeaseExpired(b"jobs").line().startswith(b"CLIENT_ERROR lease expired")


def test_a_refusal_is_one_line_of_printable_ascii() -> None:
    for refusal in (Refused("caf\u00e9"), ClientError("x\u2028y")):
        assert all(0x20 <= byte < 0x7F for byte in refusal.line())


def test_a_line_is_not_longer_than_what_a_client_takes() -> None:
    for size in (327, 328, 10_000):  # with the word before it, 340 bytes and one more
        line = ClientError("x" * size).line()
        assert len(line) == 340
        assert line.endswith(b"xxx" if size == 327 else b"x...")


def test_a_long_line_is_cut_between_two_words() -> None:
    line = ClientError("word " * 100).line()
    assert 330 < len(line) <= 340
    assert line.endswith(b" word ...")


def test_a_token_that_names_no_lease_is_the_clients_race() -> None:
    said = InvalidToken(77, b"jobs").line()
    assert said == b"CLIENT_ERROR token 77 of jobs is not valid: confirmed, expired or never issued"
