"""Stretches of a file, joined where they meet: which bytes of it are here.

    add 0..4, add 8..9, add 4..8   ──▶   0..9

One rule: no two stretches touch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Ranges:
    """Half-open stretches of bytes, in order. Appending to the last one takes constant time."""

    __slots__ = ("_ends", "_starts", "bytes")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.bytes = 0  # in all stretches together

    def add(self, start: int, end: int) -> None:
        """Add the bytes from `start` to `end`; those that are there already stay."""
        if start >= end:
            return
        if self._ends and self._starts[-1] <= start <= self._ends[-1]:  # as appending does
            self.bytes += max(end - self._ends[-1], 0)
            self._ends[-1] = max(end, self._ends[-1])
            return
        first = bisect_left(self._ends, start)  # the first that ends at our start or later
        last = bisect_right(self._starts, end)  # the first that begins after our end
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
            joined = zip(self._starts[first:last], self._ends[first:last], strict=True)
            self.bytes -= sum(e - s for s, e in joined)
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        self.bytes += end - start

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the stretches between `start` and `end` that are not there, in order."""
        found = []
        at = bisect_right(self._ends, start)  # the first that ends after our start
        while start < end and at < len(self._starts) and self._starts[at] < end:
            if start < self._starts[at]:
                found.append((start, self._starts[at]))
            start = self._ends[at]
            at += 1
        if start < end:
            found.append((start, end))
        return found

    def clear(self) -> None:
        """Forget all stretches."""
        self._starts.clear()
        self._ends.clear()
        self.bytes = 0
