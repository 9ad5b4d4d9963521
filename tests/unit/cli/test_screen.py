"""Units, and what is for a terminal alone."""

from __future__ import annotations

import pytest

from kestrelpy.cli import screen
from kestrelpy.cli.errors import CommandError


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.0KiB"), (10 * 1024, "10KiB"), (1536 << 20, "1.5GiB"),
     (1 << 40, "1.0TiB"), (1 << 62, "4096PiB")],
)  # fmt: skip
def test_a_size_has_the_largest_unit_that_fits(count: int, text: str) -> None:
    assert screen.size(count) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0ms"), (999, "999ms"), (1500, "1.5s"), (9_999, "9.999s"), (10_999, "10s"),
     (90_000, "1m30s"), (3_600_000, "1h"), (3_660_000, "1h1m"), (86_400_000 + 60_000, "1d"),
     (90 * 86_400_000 + 7_200_000, "90d2h")],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(milliseconds: int, text: str) -> None:
    assert screen.duration(milliseconds) == text


def test_a_bad_state_has_a_colour_and_a_good_one_has_none() -> None:
    assert "red" in str(screen.state("failed").style)
    assert "yellow" in str(screen.state("paused").style)
    assert not screen.state("ok").style


def test_without_an_interval_a_print_is_made_once() -> None:
    prints = list[int]()
    screen.repeated(None, lambda: prints.append(1))
    assert prints == [1]


def test_ctrl_c_ends_a_repeated_print_without_an_error() -> None:
    prints = list[int]()

    def draw() -> None:
        prints.append(1)
        if len(prints) == 2:
            raise KeyboardInterrupt

    screen.repeated("100ms", draw)
    assert prints == [1, 1]


@pytest.mark.parametrize(("text", "said"), [("1", "is not a duration"), ("50ms", "too often")])
def test_an_interval_is_a_duration_that_a_server_can_bear(text: str, said: str) -> None:
    with pytest.raises(CommandError, match=f"^--watch: .*{said}"):
        screen.repeated(text, lambda: None)
