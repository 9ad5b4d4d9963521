"""A batch is read in one way only, and the bodies in it are not looked into."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from kestrelpy.http.answers import HttpError
from kestrelpy.http.zaqar import batch
from kestrelpy.http.zaqar.batch import batch_of, may_repeat, refuse_repeats


def run(steps: Generator[bytes, None, None]) -> int:
    """Take all steps; return how often the work paused for others."""
    return sum(1 for _ in steps)


def read(body: bytes) -> bool:
    """Check a batch as a post does; True if the members were read one by one."""
    if not may_repeat(body, batch_of(body)):
        return False
    run(refuse_repeats(body))
    return True


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [], "messages": [{"body": 1}]}',
        b'{"messages": [{"body": 1, "body": 2}]}',
        b'{"messages": [{"body": 1, "ttl": 60, "ttl": 70}]}',
        b'{"messages": [{"body": 1, "ttl": null, "ttl": 70}]}',
        b'{"messages": [{"body": 1, "ttl": 60, "ttl": null}, {"body": 1, "ttl": 60}]}',
        b'{"messages": [{"body": 1}, {"body": 1, "delay": 1, "delay": 0}]}',
        b'{"messages": [{"body": 1, "b\\u006fdy": 2}]}',
        b'{"messages": [{"body": 1}], "\\u006dessages": [{"body": 2}]}',
        b'{"messages": [{"body": 1, "\\u0074tl": 70, "ttl": 60}]}',
    ],
)
def test_a_member_that_is_there_twice_is_refused(body: bytes) -> None:
    with pytest.raises(HttpError, match="twice in one object"):
        read(body)


@pytest.mark.parametrize(
    ("messages", "is_slow"),
    [
        ([{"body": {"a": "a body"}, "ttl": 60}, {"body": "\u00fc \u2713", "delay": 5}], False),
        ([{"body": {"body": 1, "ttl": [{"ttl": 2}], "messages": {}}}], True),
        ([{"body": 1, "ttl": None}], True),
    ],
)
def test_what_is_within_a_body_does_not_count(messages: list[Any], is_slow: bool) -> None:
    assert read(json.dumps({"messages": messages}).encode()) is is_slow


def test_a_number_beyond_64_bits_is_refused_wherever_it_is() -> None:
    for number in ((1 << 63) - 1, -(1 << 63)):
        assert not read(b'{"messages": [{"body": {"a": [%d]}}]}' % number)
    for number in (1 << 63, -(1 << 63) - 1, 10**30):
        with pytest.raises(HttpError, match="64 bits"):
            read(b'{"messages": [{"body": {"a": [%d]}}]}' % number)


def test_a_body_may_have_a_member_twice() -> None:
    assert read(b'{"messages": [{"body": {"body": 1, "body": 2, "a": 1, "a": 2}}]}')


def test_a_long_batch_leaves_time_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_CHECKED_PER_SLICE", 2)
    body = json.dumps({"messages": [{"body": n} for n in range(5)]}).encode()
    assert run(refuse_repeats(body)) == 2


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(HttpError, match="too deeply"):
        run(refuse_repeats(b'{"messages": [{"body": ' + deep + b"}]}"))
