"""The dead line: items whose attempts are used up, with what is known about why.

One rule: a dead item keeps its body until somebody confirms it from the dead line; nothing expires
here.
"""

from __future__ import annotations

from dataclasses import dataclass

from kestrelpy.core.item import Item
from kestrelpy.core.ready import Ready


@dataclass(frozen=True, slots=True)
class Death:
    """Why and when, wall clock; `order` is its place in the dead line."""

    order: int
    attempts: int
    reason: bytes
    died_ms: int


class DeadLine:
    """Dead items in the order in which they died."""

    __slots__ = ("_order", "deaths", "line")

    def __init__(self) -> None:
        self.line = Ready()
        self.deaths: dict[int, Death] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self.deaths)

    def bury(self, item: Item, attempts: int, reason: bytes, died_ms: int) -> None:
        """To the end of the dead line."""
        self._order += 1
        self.deaths[item.id] = Death(self._order, attempts, reason, died_ms)
        self.line.give_back(self._order, item)

    def forget(self, item: Item) -> None:
        """It was confirmed from the dead line (and popped from it before)."""
        del self.deaths[item.id]
