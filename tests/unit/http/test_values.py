"""The values of query parameters, and JSON that can be read in one way only."""

from __future__ import annotations

import pytest

from kestrelpy.errors import ClientError
from kestrelpy.http.answers import HttpError
from kestrelpy.http.values import (
    duration_ms,
    members,
    parsed,
    queue_name,
    refuse_repeated,
    whole,
)


def test_a_bare_number_counts_seconds() -> None:
    assert [duration_ms("wait", text) for text in ("5", "5s", "5ms", "0")] == [5000, 5000, 5, 0]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "5 s", "9" * 17, "\u0661"])
def test_a_bad_duration_is_named(text: str) -> None:
    with pytest.raises(HttpError, match=r"^wait: "):
        duration_ms("wait", text)


def test_whole_numbers_have_limits() -> None:
    assert whole("count", "5", 1, 5) == 5
    for text in ("0", "6", "", "x", "-1", "1.0"):
        with pytest.raises(HttpError, match="from 1 to 5"):
            whole("count", text, 1, 5)


@pytest.mark.parametrize("text", ["", "a b", "a/b", "\u00fc", "a+b+c", "x" * 129])
def test_a_bad_name_of_a_queue_is_refused(text: str) -> None:
    with pytest.raises(ClientError):
        queue_name(text)
    assert queue_name("a+b") == b"a+b"


def test_json_is_read() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    body = b'{"a": [%d, %d, 1.5, null, {"a": true}], "b": {"a": ""}}' % (least, most)
    assert parsed(body) == {"a": [least, most, 1.5, None, {"a": True}], "b": {"a": ""}}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"a": 1, "a": 2}', "twice"), (b'[{"b": {"a": 1, "\\u0061": 1}}]', "\"a\" twice"),
        (b"NaN", "NaN"), (b'{"a": -Infinity}', "-Infinity"),
        (b"9223372036854775808", "64 bits"), (b"-9223372036854775809", "64 bits"),
        (b"9" * 5000, "64 bits"), (b"[" * 100_000, "too deeply"), (b"\xff", "UTF-8"),
        (b"{", "not JSON"), (b"", "not JSON"), (b"\xef\xbb\xbf1", "not JSON"),
    ],
)  # fmt: skip
def test_json_that_is_none_or_can_be_read_in_two_ways_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(HttpError, match=why) as error:
        parsed(body)
    assert error.value.status == 400
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{}", []), ("{ }", []), ('{"a":1}', ["a"]),
        (' { "a" : {"c": "}"} , "b\\"" : [1, "{"], "\\u0061": null } ', ["a", 'b"', "a"]),
    ],
)  # fmt: skip
def test_the_members_of_an_object_are_named_as_often_as_they_are_there(
    text: str, names: list[str]
) -> None:
    assert members(text.strip()) == names


def test_a_name_that_is_there_twice_is_said() -> None:
    refuse_repeated(["a", "b"])
    with pytest.raises(HttpError, match="\"b\" twice"):
        refuse_repeated(["a", "b", "b"])
