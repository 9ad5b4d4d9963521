"""Long work in slices, run to its end."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from types import FrameType
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_STEPS_MAX = 1_000_000


def ended(steps: Generator[bytes, None, T]) -> T:
    """Run the steps to their end, which yield nothing but pauses; return the result."""
    return counted(steps)[0]


def counted(steps: Generator[bytes, None, T]) -> tuple[T, int]:
    """Take all steps as `ended` does; return the number of pauses as well."""
    for pauses in range(_STEPS_MAX):
        try:
            assert next(steps) == b""
        except StopIteration as end:
            found: T = end.value
            return found, pauses
    raise AssertionError("no end")


class Work:
    """Counts the lines of Python that run inside a `with`, and what `sorted` is given: a measure of
    work that is the same on every machine."""

    def __init__(self) -> None:
        self.steps = 0

    def __enter__(self) -> Work:
        self._patch = pytest.MonkeyPatch()
        plain = sorted

        def counting(items: Iterable[Any], **options: Any) -> list[Any]:
            found = plain(items, **options)
            self.steps += len(found)
            return found

        self._patch.setattr("builtins.sorted", counting)
        self._before = sys.gettrace()
        sys.settrace(self._look)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)
        self._patch.undo()

    def _look(self, frame: FrameType, event: str, argument: object) -> Any:
        if "/tests/" in frame.f_code.co_filename:
            return None  # a stand-in is not what is measured
        self.steps += event == "line"
        return self._look
