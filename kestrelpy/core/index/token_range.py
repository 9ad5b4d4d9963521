"""The lease tokens of one queue: which may have been issued.

One rule: a queue's own log says which of its tokens may have been issued.
"""

from __future__ import annotations


class TokenRange:
    """What all readers of one queue take their tokens from: those below may have been issued."""

    __slots__ = ("below",)

    def __init__(self) -> None:
        self.below = 1

    def take(self, count: int) -> int:
        """So many for one reader: the first of them."""
        first = self.below
        self.below = first + count
        return first
