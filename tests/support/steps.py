"""Long work in slices, run to its end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
_STEPS_MAX = 1_000_000


def ended(steps: Generator[bytes, None, T]) -> T:
    """Run the steps to their end, which yield nothing but pauses; return the result."""
    return counted(steps)[0]


def counted(steps: Generator[bytes, None, T]) -> tuple[T, int]:
    """As `ended`; return the number of pauses as well."""
    for pauses in range(_STEPS_MAX):
        try:
            assert next(steps) == b""
        except StopIteration as end:
            found: T = end.value
            return found, pauses
    raise AssertionError("no end")
