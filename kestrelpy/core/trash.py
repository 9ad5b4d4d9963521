"""Very many objects that nobody needs any more, freed in slices.

    flush, delete ──▶ a structure is replaced by an empty one, at once
                          └──▶ the old one: trash ──▶ a slice of it is freed at each tick

Freeing a million items takes longer than a turn of the loop may.

One rule: nothing looks into the trash; what lies there has ended already.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Final

from kestrelpy.core.timers import Alarm, Timers

# Objects freed in one tick: 2 to 3 ms.
FREED_MAX: Final = 1500
# Smaller structures are freed where they are dropped.
SMALL: Final = 1000
_SOON_MS: Final = 1

Pile = dict[Any, Any] | OrderedDict[Any, Any] | deque[Any] | list[Any] | set[Any]


class Trash:
    """The trash of one broker; its `alarm` rings while there is any."""

    __slots__ = ("_piles", "alarm")

    def __init__(self, timers: Timers[Any]) -> None:
        self._piles: list[Pile] = []
        self.alarm: Alarm[Any] = Alarm(timers, self)

    def __len__(self) -> int:
        """How many objects are still to be freed."""
        return sum(map(len, self._piles))

    def take(self, *piles: Pile) -> None:
        """The caller has replaced these; only the trash has them from now on."""
        large = [pile for pile in piles if len(pile) > SMALL]
        if large:
            self._piles += large
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
