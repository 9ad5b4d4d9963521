"""Who is next: items by place.

    returned   [3 5]          a small heap of what came back, by place
    line       8 9 10 11 ...  a deque of what arrived, places growing

One rule: the next item is the one with the lowest place, wherever it stands; so what came back
stands before everything younger, in its original order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from kestrelpy.core.item import Item

_COMPACT_ABOVE: Final = 64


class Ready:
    """A line of items. Removing from its middle is lazy: the id is noted and passed over later."""

    __slots__ = ("_line", "_removed", "_returned", "bytes", "count")

    def __init__(self) -> None:
        self._line: deque[Item] = deque()
        self._returned: list[tuple[int, Item]] = []
        self._removed: set[int] = set()
        self.count = 0
        self.bytes = 0

    def push(self, item: Item) -> None:
        """An arrival: its place is its marker, higher than any before."""
        self._line.append(item)
        self.count += 1
        self.bytes += len(item.body)

    def give_back(self, place: int, item: Item) -> None:
        """An item that was popped, or one whose place is not its marker."""
        if item.id in self._removed:
            self._compact()  # it was removed and is back before it was passed over
        heappush(self._returned, (place, item))
        self.count += 1
        self.bytes += len(item.body)

    def pop(self) -> tuple[int, Item] | None:
        """The next item with its place; None: the line is empty."""
        if not self.count:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._line, self._returned
        if returned and (not line or returned[0][0] < line[0].marker):
            first = heappop(returned)
        else:
            item = line.popleft()
            first = (item.marker, item)
        self.count -= 1
        self.bytes -= len(first[1].body)
        return first

    def first(self) -> Item | None:
        """What `pop` would return."""
        if not self.count:
            return None
        if self._removed:
            self._pass_over()
        line, returned = self._line, self._returned
        if returned and (not line or returned[0][0] < line[0].marker):
            return returned[0][1]
        return line[0]

    def remove(self, item: Item) -> None:
        """Take out an item that is in the line, wherever it stands."""
        self.count -= 1
        self.bytes -= len(item.body)
        if self._line and self._line[0] is item:
            self._line.popleft()
            return
        removed = self._removed
        removed.add(item.id)
        if len(removed) > _COMPACT_ABOVE and len(removed) > self.count:
            self._compact()

    def take_all(self) -> list[Item]:
        """Empty the line; what it held, in no particular order."""
        items = list(self)
        self._line.clear()
        self._returned.clear()
        self._removed.clear()
        self.count = self.bytes = 0
        return items

    def __iter__(self) -> Iterator[Item]:
        removed = self._removed
        for _, item in self._returned:
            if item.id not in removed:
                yield item
        for item in self._line:
            if item.id not in removed:
                yield item

    def _compact(self) -> None:
        removed = self._removed
        self._line = deque(i for i in self._line if i.id not in removed)
        self._returned = [e for e in self._returned if e[1].id not in removed]
        heapify(self._returned)
        removed.clear()

    def _pass_over(self) -> None:
        """Drop what was removed from both fronts."""
        line, returned, removed = self._line, self._returned, self._removed
        while line and line[0].id in removed:
            removed.discard(line.popleft().id)
        while returned and returned[0][1].id in removed:
            removed.discard(heappop(returned)[1].id)
