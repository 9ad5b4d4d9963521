"""Keys as bytes: typed, never joined ambiguously, and in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.format.key import (
    as_text,
    in_words,
    is_whole,
    join,
    named_text,
    split,
    text_of,
    texts,
    texts_in,
    value_of,
)

VALUES = st.one_of(
    st.text(max_size=4), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(),
    st.binary(max_size=4),
)  # fmt: skip


def key(*values: object, unordered: bool = False) -> bytes:
    return join(map(value_of, values), unordered)


def test_values_are_typed() -> None:
    keys = {key(1), key(1.0), key("1"), key(True), key(b"1"), key(None), key("")}

    assert len(keys) == 7


def test_values_are_never_joined_ambiguously() -> None:
    keys = {key("ab", "c"), key("a", "bc"), key("abc"), key("a", "b", "c"), key("", "abc")}

    assert len(keys) == 5


def test_the_sequence_of_values_makes_a_difference_unless_the_key_is_unordered() -> None:
    assert key("A", "B") != key("B", "A")
    assert key("A", 1, unordered=True) == key(1, "A", unordered=True)


def test_zero_has_no_sign() -> None:
    assert key(-0.0) == key(0.0)


def test_integers_are_exact_however_large() -> None:
    assert key(10**30) != key(10**30 + 1)


@pytest.mark.parametrize("value", [float("nan"), [], {}, object()])
def test_what_no_key_can_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"^is "):
        value_of(value)


def test_a_named_text_is_the_same_as_the_text_of_a_message() -> None:
    assert text_of("Zürich".encode()) == value_of("Zürich")


@given(st.lists(VALUES))
def test_a_key_splits_into_its_values(values: list[object]) -> None:
    parts = [value_of(value) for value in values]

    assert list(split(join(parts, False))) == parts
    assert is_whole(join(parts, False)) == bool(parts)


@given(st.lists(VALUES, min_size=1), st.lists(VALUES, min_size=1))
def test_keys_in_words_are_one_word_and_the_same_only_for_the_same_key(
    some: list[object], others: list[object]
) -> None:
    said = in_words(key(*some))

    assert said.isascii()
    assert said.isprintable()
    assert " " not in said
    assert said
    assert (said == in_words(key(*others))) == (key(*some) == key(*others))


@given(st.binary())
def test_a_key_of_another_kind_is_one_value_and_is_shown_all_the_same(data: bytes) -> None:
    assert b"".join(split(data)) == data
    assert in_words(data).isascii()
    assert " " not in in_words(data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"A", b"\1\0\0\0A", b"\7\0\0\0\0", b"\3\1\0\0\0x", b"\1\2\0\0\0x",
        text_of(b"A") + b"\1",
    ],
)  # fmt: skip
def test_what_is_no_key_of_ours_is_known(data: bytes) -> None:
    assert not is_whole(data)


def test_keys_read_as_a_producer_names_them() -> None:
    assert in_words(key("A", "B")) == "A,B"
    assert in_words(key("a,b", "c d", "é")) == "a%2Cb,c%20d,%C3%A9"
    assert in_words(key(17, 1.5, True, None, b"\x01")) == "17,1.5,true,null,0x01"
    assert in_words(key("17", "true", "", "0x01", "nan", "-")) == '"17","true","","0x01","nan","-"'
    assert in_words(b"") == ""
    assert as_text(key("a,b", "c d", "é", 1)) == "a,b,c d,é,1"


def test_only_a_key_of_one_named_value_is_a_text() -> None:
    assert named_text(text_of(b"A,B")) == b"A,B"
    for key in (b"", b"A", value_of(1), text_of(b"A") + text_of(b"B"), text_of(b"A")[:-1]):
        assert named_text(key) is None


@given(st.lists(VALUES, min_size=1))
def test_the_texts_of_a_key_are_those_that_name_it_or_there_are_none(values: list[object]) -> None:
    made = key(*values)
    found = texts(made)

    assert found == texts_in(in_words(made).encode())
    if found is None:
        assert not all(isinstance(each, str) for each in values)
    else:
        assert join(map(text_of, found), False) == made


def test_texts_that_look_like_other_types_and_bytes_are_texts_all_the_same() -> None:
    named = [b"1", b"null", b"0x00", b"-", b'"', b"a,b", b"\xff", b""]

    assert texts_in(in_words(join(map(text_of, named), False)).encode()) == named
