"""The recent past of some figures: three rings, from the last minutes to the last day.

    a sample each second ──▶ 300 × 1 s ┬ 360 × 10 s ┬ 1,440 × 1 min
                             each point is the mean of the samples in its time

A time without samples (the process stood still) is a point without a value.

One rule: the time of a sample comes from a clock that never steps, and never falls.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

SECOND_MS: Final = 1000
Typecode = Literal["d", "f"]


class RingRange(NamedTuple):
    """How far back a ring goes: `size` points, `step_ms` apart."""

    step_ms: int
    size: int


RANGES: Final[dict[str, RingRange]] = {
    "5m": RingRange(SECOND_MS, 300),
    "1h": RingRange(10 * SECOND_MS, 360),
    "24h": RingRange(60 * SECOND_MS, 1440),
}


class Points(NamedTuple):
    """What a ring has: the values of each figure, the oldest first; None: no value then.

    `since_ms` is the beginning of the first point, on the clock of the samples.
    """

    step_ms: int
    since_ms: int
    values: dict[str, list[float | None]]


class Ring:
    """The newest points of some figures. `typecode` is the array's: d, or f for half the memory."""

    __slots__ = ("_columns", "_counts", "_first", "_names", "_range", "_slot", "_sums")

    def __init__(self, names: Sequence[str], range_: RingRange, typecode: Typecode = "d") -> None:
        self._names = tuple(names)
        self._range = range_
        self._columns: list[array[float]] = [array(typecode) for _ in names]
        self._slot = -1  # of the newest point, in steps
        self._first = 0  # where the oldest point stands, once the ring is full
        self._counts = [0] * len(self._names)  # values in the newest point
        self._sums = [0.0] * len(self._names)

    def add(self, at_ms: int, values: Sequence[float]) -> None:
        """Count a sample in: one value for each figure; NaN is none."""
        slot = at_ms // self._range.step_ms
        if slot > self._slot:
            if self._slot >= 0:
                for _ in range(min(slot - self._slot - 1, self._range.size)):
                    self._append([math.nan] * len(self._names))
            self._slot = slot
            self._counts = [0] * len(self._names)
            self._sums = [0.0] * len(self._names)
            self._append(values)
        at = (self._first or len(self._columns[0])) - 1
        for number, (column, value) in enumerate(zip(self._columns, values, strict=True)):
            if not math.isnan(value):
                self._counts[number] += 1
                self._sums[number] += value
                column[at] = self._sums[number] / self._counts[number]

    def _append(self, values: Sequence[float]) -> None:
        if len(self._columns[0]) < self._range.size:
            for column, value in zip(self._columns, values, strict=True):
                column.append(value)
            return
        at = self._first % self._range.size
        for column, value in zip(self._columns, values, strict=True):
            column[at] = value
        self._first = at + 1

    def points(self) -> Points:
        """Return all points, the oldest first."""
        step_ms, count = self._range.step_ms, len(self._columns[0])
        first = self._first % self._range.size
        return Points(
            step_ms, (self._slot - count + 1) * step_ms if count else 0,
            {
                name: _shown(column[first:]) + _shown(column[:first])
                for name, column in zip(self._names, self._columns, strict=True)
            },
        )  # fmt: skip

    def tail(self, name: str, step: int) -> list[float | None]:
        """Return each `step`th value of a figure, the oldest first, and its newest value."""
        size = len(column := self._columns[self._names.index(name)])
        if not size:
            return []
        first = self._first % self._range.size
        oldest = self._slot - size + 1  # the slot of the first value
        places = range(-oldest % step, size, step)
        return [_value(column[(first + at) % size]) for at in places] + [self.last()[name]]

    def series(self, name: str) -> list[float | None]:
        """Return all values of one figure, the oldest first."""
        return self.tail(name, 1)[:-1]

    @property
    def step_ms(self) -> int:
        """The time from one point to the next."""
        return self._range.step_ms

    @property
    def at_ms(self) -> int:
        """The beginning of the newest point."""
        return max(self._slot, 0) * self._range.step_ms

    def last(self) -> dict[str, float | None]:
        """Return the newest point; empty if there is none."""
        at = (self._first or len(self._columns[0])) - 1
        if at < 0:
            return {}
        return {
            name: _value(column[at])
            for name, column in zip(self._names, self._columns, strict=True)
        }


def _shown(column: array[float]) -> list[float | None]:
    return [_value(each) for each in column]


def _value(value: float) -> float | None:
    """Return a value of JSON: short, and None where there is none."""
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() else round(value, 3)


class Rings:
    """The same figures in all ranges."""

    __slots__ = ("_rings",)

    def __init__(
        self, names: Sequence[str], ranges: Sequence[str], typecode: Typecode = "d"
    ) -> None:
        self._rings = {each: Ring(names, RANGES[each], typecode) for each in ranges}

    def add(self, at_ms: int, values: Sequence[float]) -> None:
        """Count a sample into each range."""
        for ring in self._rings.values():
            ring.add(at_ms, values)

    def of(self, range_: str) -> Ring:
        """Return the ring of this range, one of RANGES."""
        return self._rings[range_]
