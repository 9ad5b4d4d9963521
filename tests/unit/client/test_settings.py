"""The settings of a worker: durations in words or seconds, and one sentence about a wrong one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kestrelpy.client.settings import duration_ms, parse_settings


@pytest.mark.parametrize(
    ("value", "expected"), [("30s", 30_000), (30, 30_000), (0.25, 250), ("5ms", 5), (0, 0)]
)
def test_a_duration_is_a_text_or_seconds(value: Any, expected: int) -> None:
    assert duration_ms(value) == expected


@pytest.mark.parametrize("value", ["30", -1, math.nan, math.inf, True, None, b"5s", 1e300])
def test_other_durations_are_one_sentence_with_the_setting_s_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^lease: ") as error:
        duration_ms(value, "lease")

    assert "\n" not in str(error.value)


def test_the_requests_of_a_worker() -> None:
    settings = parse_settings("q", 5, "1500ms", None, 1, None)

    assert settings.open_key() == "q/open/lease=2s/full/t=5000"
    assert settings.open_key(by_connection=True) == "q/open/full/t=5000"
    assert settings.confirm_and_open_key(7) == "q/close/open/token=7/lease=2s/full"
    assert settings.confirm_and_open_key(7, by_connection=True) == "q/close/open/token=7/full"


@pytest.mark.parametrize("queue", ["", "a b", "q\r\ndelete q", "q/open", ".", "q" * 129])
def test_a_queue_that_no_server_can_have_is_one_sentence(queue: str) -> None:
    with pytest.raises(ValueError, match=r"^queue: .* is not a queue's name: ") as error:
        parse_settings(queue, 5, "1500ms", None, 1, None)

    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("limit", "attempts", "why"),
    [("999ms", None, "work_limit must be at least 1s"), ("1s", None, ""), (None, 1, ""),
     (None, 0, "max_attempts must be at least 1")],
)  # fmt: skip
def test_the_least_limit_and_the_fewest_attempts(
    limit: str | None, attempts: int | None, why: str
) -> None:
    if why:
        with pytest.raises(ValueError, match=why):
            parse_settings("q", 5, 5, limit, 1, attempts)
    else:
        assert parse_settings("q", 5, 5, limit, 1, attempts).limit_seconds == (limit and 1)
