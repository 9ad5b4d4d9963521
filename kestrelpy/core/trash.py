"""Large structures that are no longer needed, freed in slices.

    flush, delete ──▶ a structure is replaced by an empty one, at once
                          └──▶ the old one: trash ──▶ a slice of it is freed at each tick

Freeing a million items at once would block the loop for too long.

One rule: nothing looks into the trash; every item in it has ended already. (A pile that is
`Passing` is no longer needed either once it is empty: its owner takes the rest out of it.)
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

from kestrelpy.core.timers import Alarm, Timers

# Objects freed in one tick: 2 to 3 ms.
FREED_MAX: Final = 1500
# Smaller structures are freed at once, by the code that drops them.
SMALL: Final = 1000
_SOON_MS: Final = 1



class Passing(Protocol):
    """A structure with entries that are still needed: `pop` takes the next entry out, and puts it
    where it belongs."""

    def __len__(self) -> int: ...

    def pop(self) -> object:
        """Remove the next entry."""


Pile = dict[Any, Any] | OrderedDict[Any, Any] | deque[Any] | list[Any] | set[Any] | Passing


class Trash:
    """The trash of one broker; its `alarm` rings until the trash is empty."""

    __slots__ = ("_piles", "alarm")

    def __init__(self, timers: Timers[Any]) -> None:
        self._piles: list[Pile] = []
        self.alarm: Alarm[Any] = Alarm(timers, self)

    def __len__(self) -> int:
        """Return how many objects are still to be freed."""
        return sum(map(len, self._piles))

    def take(self, *piles: Pile) -> None:
        """Take over structures that the caller has replaced and no longer refers to."""
        large = [pile for pile in piles if len(pile) > SMALL]
        if large:
            self._piles += large
            self.alarm.need(0)

    def take_all(self, piles: Sequence[Pile], count: int) -> None:
        """As `take`, of the parts of one structure that has `count` objects."""
        if count > SMALL:
            self._piles += piles
            self.alarm.need(0)

    def free(self, now_ms: int) -> None:
        """Free the next slice."""
        self.alarm.silence()
        left = FREED_MAX
        while left and self._piles:
            pile = self._piles[-1]
            count = min(left, len(pile))
            pop = pile.popitem if isinstance(pile, dict) else pile.pop
            for _ in range(count):
                pop()
            left -= count
            if not pile:
                self._piles.pop()
        if self._piles:
            self.alarm.need(now_ms + _SOON_MS)
