"""Durations and sizes: valid ones, refused ones, and that writing and reading agree."""

import string
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.durations import (
    MAX_DURATION_MS,
    MAX_SIZE_BYTES,
    format_duration_ms,
    format_size_bytes,
    parse_duration_ms,
    parse_size_bytes,
    shown,
)

NOT_DURATIONS = ["", "s", "1.5h", "-1s", "+1s", "1 s", " 1s", "1s\n", "1S", "1w", "1h30m", "١s"]
NOT_SIZES = ["", "KiB", "1.5GiB", "-1", "+1", "1 KiB", "64KB", "64kib", "64k", "1TiB", "0x10", "١"]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("60ms", 60),
        ("60s", 60_000),
        ("30m", 1_800_000),
        ("1h", 3_600_000),
        ("30d", 2_592_000_000),
        ("0s", 0),
        ("007s", 7000),
        ("36500d", MAX_DURATION_MS),
    ],
)
def test_a_duration_is_a_whole_number_with_a_unit(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms
    assert parse_duration_ms(text, bare_ms=True) == ms


def test_a_bare_number_is_refused_with_the_allowed_forms() -> None:
    with pytest.raises(ValueError, match=r'^"60" is not a duration: .*say 60s or 60ms\)$'):
        parse_duration_ms("60")


def test_a_bare_number_counts_milliseconds_only_where_the_caller_says_so() -> None:
    assert parse_duration_ms("250", bare_ms=True) == 250
    assert parse_duration_ms("0", bare_ms=True) == 0


@pytest.mark.parametrize("bare_ms", [False, True])
@pytest.mark.parametrize("text", NOT_DURATIONS)
def test_a_wrong_duration_is_refused_with_the_allowed_forms(text: str, bare_ms: bool) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_duration_ms(text, bare_ms=bare_ms)

    assert str(refusal.value).startswith(f"{shown(text)} is not a duration: it must be a whole")
    assert ("a bare number of milliseconds" in str(refusal.value)) is bare_ms


@pytest.mark.parametrize("text", ["36501d", "9" * 16 + "d", "9" * 50 + "ms"])
def test_a_duration_beyond_a_century_is_too_long(text: str) -> None:
    with pytest.raises(ValueError, match=rf'^"{text}" is too long: a duration is at most 36500d$'):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [
        ("0", 0),
        ("512", 512),
        (512, 512),
        (0, 0),
        ("16KiB", 16_384),
        ("8MiB", 8_388_608),
        ("1GiB", 1_073_741_824),
        (MAX_SIZE_BYTES, MAX_SIZE_BYTES),
    ],
)
def test_a_size_is_a_number_with_an_optional_unit(size: str | int, size_bytes: int) -> None:
    assert parse_size_bytes(size) == size_bytes


@pytest.mark.parametrize("size", [*NOT_SIZES, -1, True, 10**40])
def test_a_wrong_size_is_refused_with_the_allowed_forms(size: str | int) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_size_bytes(size)

    assert str(refusal.value).startswith(f"{shown(size)} is not a size: it must be a whole number")
    assert "KiB, MiB or GiB" in str(refusal.value)


def test_a_number_too_long_to_print_is_no_size() -> None:
    with pytest.raises(ValueError, match=r"^a very long number is not a size: it must be"):
        parse_size_bytes(1 << 100_000)


@pytest.mark.parametrize("size", [MAX_SIZE_BYTES + 1, "9007199254740992", "8388608GiB", "9" * 5000])
def test_a_size_of_2_to_the_53_or_more_is_too_large(size: str | int) -> None:
    with pytest.raises(ValueError, match=r"is too large: a size is at most \d+ bytes$"):
        parse_size_bytes(size)


@given(st.integers(0, MAX_DURATION_MS) | st.integers(0, 36_500).map(lambda days: days * 86_400_000))
def test_a_duration_that_was_written_is_read_back_as_itself(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


@given(st.integers(0, MAX_SIZE_BYTES) | st.integers(0, 1 << 20).map(lambda kib: kib << 10))
def test_a_size_that_was_written_is_read_back_as_itself(size_bytes: int) -> None:
    assert parse_size_bytes(format_size_bytes(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0ms"), (90_000, "90s"), (3_600_000, "1h"), (86_400_000, "1d"), (1, "1ms")]
)
def test_a_duration_is_written_in_its_largest_whole_unit(ms: int, text: str) -> None:
    assert format_duration_ms(ms) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0"), (1000, "1000"), (65_536, "64KiB"), (1 << 30, "1GiB")]
)
def test_a_size_is_written_in_its_largest_whole_unit(size_bytes: int, text: str) -> None:
    assert format_size_bytes(size_bytes) == text


@given(st.text() | st.text("0123456789smhdKiBMG"), st.booleans())
def test_any_text_is_read_or_refused_in_one_printable_line(
    text: str, bare_ms: bool
) -> None:
    for read in (partial(parse_duration_ms, bare_ms=bare_ms), parse_size_bytes):
        try:
            assert 0 <= read(text) <= MAX_SIZE_BYTES
        except ValueError as refusal:
            assert type(refusal) is ValueError
            assert set(str(refusal)) <= set(string.printable) - set("\r\n\t\v\f")
            assert len(str(refusal)) < 600


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "true"),
        (5, "5"),
        (1.5, "1.5"),
        ({}, "a table"),
        ([], "[]"),
        (["a", "a", 5, True, {}, [[]]], '["a", "a", 5, true, a table, a list]'),
        (["x" * 60], "a list"),
        ([1] * 9, "a list"),
        ("a\r\nb", '"a\\r\\nb"'),
        ("\x7f\ud800", '"\\u007f\\ud800"'),
        ("x" * 61, f'"{"x" * 60}..."'),
    ],
)
def test_a_refused_value_is_shown_as_in_toml(value: object, words: str) -> None:
    assert shown(value) == words
