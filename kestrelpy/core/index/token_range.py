"""The lease tokens of one queue that may have been issued.

One rule: a queue's own log says which of its tokens may have been issued.
"""

from __future__ import annotations


class TokenRange:
    """The tokens of all subscriptions of one queue; those below `below` may have been issued."""

    __slots__ = ("below",)

    def __init__(self) -> None:
        self.below = 1

    def take(self, count: int) -> int:
        """Reserve `count` tokens for one subscription; return the first."""
        first = self.below
        self.below = first + count
        return first
