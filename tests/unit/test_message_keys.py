"""Keys from messages: names and pointers, types, absent keys and refused ones.

Promise key-found: any bytes; transcripts.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.format.key import KEY_BYTES_MAX, in_words, join, value_of
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.errors import ClientError
from kestrelpy.message_keys import MessageKey, path_of


def words(body: bytes, *fields: str, format_: str = "json", free: bool = False) -> str:
    """The key in words."""
    return in_words(join(MessageKey(format_, fields, free).values(body), False))


def refusal(body: bytes, *fields: str, format_: str = "json", free: bool = False) -> str:
    with pytest.raises(ValueError) as told:
        MessageKey(format_, fields, free).values(body)
    return str(told.value)


def packed(message: Any) -> bytes:
    return msgspec.msgpack.encode(message)


def test_a_field_is_named_or_pointed_at() -> None:
    body = b'{"src_id": "A", "dst_id": 7, "deep": {"er": [1, {"x": "y"}]}, "a/b": true}'

    assert words(body, "src_id", "dst_id") == "A,7"
    assert words(body, "/dst_id", "/deep/er/1/x") == "7,y"
    assert words(body, "a/b", "/a~1b") == "true,true"


def test_messagepack_has_the_same_keys_as_json() -> None:
    message = {"a": "A", "b": [1.5, None, True, -3]}
    fields = ("a", "/b/0", "/b/1", "/b/2", "/b/3")

    assert words(packed(message), *fields, format_="msgpack") == "A,1.5,null,true,-3"
    assert words(msgspec.json.encode(message), *fields) == "A,1.5,null,true,-3"
    assert words(packed({"a": b"\x01"}), "a", format_="msgpack") == "0x01"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"1", "1"), (b"1.0", "1.0"), (b'"1"', '"1"'), (b"-0.0", "0.0"), (b"-0", "0"),
        (b"1e2", "100.0"), (b"123456789012345678901234567890", "123456789012345678901234567890"),
        (b"18446744073709551616", "18446744073709551616"), (b"null", "null"),
        (b'"\\u00e9"', "%C3%A9"), ("\"é\"".encode(), "%C3%A9"), (b'"a\\u0000"', "a%00"),
    ],
)  # fmt: skip
def test_values_have_their_type_and_all_their_digits(value: bytes, said: str) -> None:
    assert words(b'{"k": %b}' % value, "k") == said


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b"3", b"null", b'{"j": 1}', b'{"k": {"j": 1}}', b'{"k": []}', b'{"k": [1]}'],
)
def test_a_field_that_is_absent_is_named_or_frees_its_message(body: bytes) -> None:
    assert refusal(body, "/k/1") == 'has no field "/k/1", which its key needs'
    assert words(body, "/k/1", free=True) == ""


def test_one_field_of_several_is_not_a_key() -> None:
    assert refusal(b'{"a": 1}', "a", "b") == 'has no field "b", which its key needs'
    assert words(b'{"a": 1}', "a", "b", free=True) == ""


@pytest.mark.parametrize("step", ["01", "-1", "-", "1e0", "²", "9" * 30])
def test_what_is_no_index_is_not_there(step: str) -> None:
    assert "has no field" in refusal(b'{"k": [1, 2]}', f"/k/{step}")


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("value", [b"{}", b"[]", b'[{"k": 1}]'])
def test_a_field_that_is_no_single_value_is_refused(value: bytes, free: bool) -> None:
    said = refusal(b'{"k": %b}' % value, "k", free=free)

    assert said.startswith('has a field "k" that is neither a text, a number')


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"hello", b'{"k": 1', b'{"k": 1} x', b'{"k": NaN}', b'{"k": 1e400}', b"\x80",
        b'{"k": "\xff"}', b'{"k": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"k": ' + b"1" * 5000 + b"}", b'{"k": "\\ud800"}',
    ],
)  # fmt: skip
def test_a_message_that_does_not_parse_is_refused(body: bytes, free: bool) -> None:
    said = refusal(body, "k", free=free)

    assert said.startswith('does not parse as JSON, so its key "k" is not known: ')
    assert "\n" not in said
    assert said.isascii()


def test_a_number_that_is_none_is_refused() -> None:
    body = packed({"k": float("nan")})

    assert refusal(body, "k", format_="msgpack") == 'has a field "k" that is not a number'


def test_a_map_with_other_keys_than_texts_is_read_all_the_same() -> None:
    assert words(packed({1: 2, "k": 3}), "k", format_="msgpack") == "3"


@given(st.binary())
def test_whatever_comes_is_read_or_refused(body: bytes) -> None:
    for format_ in ("json", "msgpack"):
        try:
            values = MessageKey(format_, ("k", "/0"), False).values(body)
        except ValueError:
            continue
        assert len(values) == 2


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), min_size=1))
def test_every_field_of_a_message_can_be_pointed_at(message: dict[str, int | str]) -> None:
    body = msgspec.json.encode(message)
    fields = ["/" + name.replace("~", "~0").replace("/", "~1") for name in message]

    assert words(body, *fields) == in_words(join(map(value_of, message.values()), False))
    assert [path_of(field) for field in fields] == [(name,) for name in message]


@pytest.mark.parametrize("field", ["", "/a~", "/a~2", "/~~0"])
def test_what_is_no_pointer_is_refused(field: str) -> None:
    with pytest.raises(ValueError):
        path_of(field)


def test_a_float_of_messagepack_is_not_the_integer() -> None:
    body = b"\x81\xa1k\xcb" + struct.pack(">d", 1.0)

    assert words(body, "k", format_="msgpack") == "1.0"


def test_the_queue_is_named_where_a_message_is_refused() -> None:
    keys = KeySettings(MessageKey("json", ("k",), False))

    with pytest.raises(ClientError, match=r'^queue jobs: the message has no field "k"'):
        keys.key_of(b"jobs", (), b"{}")


def test_what_the_producer_names_wins_over_the_body() -> None:
    keys = KeySettings(MessageKey("json", ("k",), False))
    named = MessageKey("json", ("k",), False).values(b'{"k": "A"}')

    assert in_words(keys.key_of(b"jobs", tuple(named), b"not JSON")) == "A"


def test_a_key_that_is_too_long_is_refused() -> None:
    keys = KeySettings(MessageKey("json", ("k",), False))

    with pytest.raises(ClientError, match=f"key too long .* limit {KEY_BYTES_MAX}"):
        keys.key_of(b"jobs", (), b'{"k": "%b"}' % (b"x" * KEY_BYTES_MAX))


def test_an_unordered_key_is_the_same_both_ways() -> None:
    keys = KeySettings(MessageKey("json", ("a", "b"), False), unordered=True)

    assert keys.key_of(b"q", (), b'{"a":1,"b":2}') == keys.key_of(b"q", (), b'{"b":1,"a":2}')
