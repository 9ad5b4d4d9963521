"""Counts of calls: a bound on work that a test can check without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Calls:
    """`count` of them were made."""

    count: int = 0


@contextmanager
def counted(owner: type, name: str) -> Iterator[Calls]:
    """Count the calls of this method; it does what it does."""
    calls, method = Calls(), getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        calls.count += 1
        return method(*args, **options)

    setattr(owner, name, call)
    try:
        yield calls
    finally:
        setattr(owner, name, method)


def calls_of(action: Callable[[], object]) -> int:
    """Return how many calls of Python and built-in functions an action makes."""
    count = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count
