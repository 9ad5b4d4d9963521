"""Words of a command line that are no number and no name."""

from __future__ import annotations

import pytest

from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.usage import queue_key, queue_name, whole


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("65535", 65535)])
def test_a_whole_number_within_its_bounds_is_taken(text: str, number: int) -> None:
    assert whole("--port", 0, 65535)(text) == number
    assert whole("--port", 0, 65535)(number) == number


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "65536", "²", " 1", "1_0", "9" * 5000])
def test_another_word_is_refused_with_the_bounds(text: str) -> None:
    with pytest.raises(CommandError, match=r"^--port: .* must be a whole number from 0 to 65535$"):
        whole("--port", 0, 65535)(text)


def test_without_an_upper_bound_the_refusal_names_the_lower_one() -> None:
    with pytest.raises(CommandError, match=r'^ID: "0" must be a whole number of at least 1$'):
        whole("ID", 1)("0")


@pytest.mark.parametrize("name", ["q", "orders+audit", "a.b-c_d", "~", "!", "x" * 128])
def test_a_name_that_a_queue_can_have_is_taken(name: str) -> None:
    assert queue_name(name) == queue_key(name) == name


@pytest.mark.parametrize("name", ["", "a b", "ü", "a\r\nflush_all", "x" * 129, "\x7f", "/open"])
def test_a_name_that_no_queue_can_have_is_refused(name: str) -> None:
    for check in (queue_name, queue_key):
        with pytest.raises(CommandError, match=r"is not a queue's name: it must be 1 to 128"):
            check(name)


def test_options_of_the_protocol_go_with_some_commands_alone() -> None:
    assert queue_key("q/key=A") == "q/key=A"
    for key in ("q/key=A B", "q/a\r\nflush_all", "q/ü"):
        with pytest.raises(CommandError):
            queue_key(key)
    with pytest.raises(CommandError, match="or /"):
        queue_name("q/key=A")
