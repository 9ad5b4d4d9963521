"""Work that takes several turns: a generator that yields once per turn.

One rule: a step that has to wait yields nothing, and the conversation takes the next one later.
"""

from __future__ import annotations

from collections.abc import Iterator

Steps = Iterator[bytes] | None  # what is left to do; None: nothing


def begin(steps: Iterator[bytes]) -> Steps:
    """Take the first step and return the others; None if it was the last one."""
    return steps if next(steps, None) is not None else None
