"""The values of query parameters."""

from __future__ import annotations

import pytest

from kestrelpy.errors import ClientError
from kestrelpy.http.answers import HttpError
from kestrelpy.http.values import duration_ms, queue_name, whole


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
