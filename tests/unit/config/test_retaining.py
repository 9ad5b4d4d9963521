"""The setting `retain`: an age, a size, for ever, or nothing."""

from __future__ import annotations

import pytest

from kestrelpy.config.retaining import NOT_RETAINED, Retain, read_retain
from kestrelpy.durations import MAX_DURATION_MS

DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("none", NOT_RETAINED),
        ("forever", Retain(None)),
        ("7d", Retain(7 * DAY_MS)),
        ("1ms", Retain(1)),
        ("36500d", Retain(MAX_DURATION_MS)),
        ("10GiB", Retain(0, 10 << 30)),
        ("1KiB", Retain(0, 1024)),
    ],
)
def test_a_value_is_read_and_shown_in_one_form(value: str, expected: Retain) -> None:
    found = read_retain(value)

    assert found == expected
    assert str(found) == value
    assert bool(found) == (value != "none")


@pytest.mark.parametrize("value", ["5", "0", "", "0s", "0ms", "0GiB", "7", "1.5d", "ever", "10GB"])
def test_a_bare_number_and_nothing_at_all_are_refused(value: str) -> None:
    with pytest.raises(ValueError):
        read_retain(value)


@pytest.mark.parametrize("value", [7, 7.5, True, None, ["7d"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        read_retain(value)
