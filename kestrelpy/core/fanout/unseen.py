"""What idle children have missed, beside items that were put for all and available at once.

    number  7     8           9            10             11           12
            put   put, due    set on a     8 is due: 10   put          a place in one line
            for   later       child alone  is its place   for all      alone
            all   delayed     passed       released                    passed

A queue with children gives each number once, and notes here what it was given for, if that is not
the first of these. A child that looks takes it all in, many of them the same (`Digest`). When an
item that was never available is due, `due` says once for all that have it.

One rule: what is noted here was given a number that some child may not have seen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from journal.sets.id_set import IdSet
from kestrelpy.core.index.delayed import Delays
from kestrelpy.core.index.markers import Release
from kestrelpy.core.index.sorted_table import ENTRY, DueTimes

# So many are kept before the children are told, a few in each tick; then they are forgotten.
UNSEEN_MAX: Final = 256


class Digest:
    """What came after one number: `ids` of items that are for all, of which those in `delayed`
    were put off; `plain` of them with `first_plain` are not, and `released` are due since.

    `released_ids` are the latter, `disk_refs` as they stand in a line, `delayed_bytes` and
    `released_bytes` the bodies.
    """

    __slots__ = (
        "delayed",
        "delayed_bytes",
        "disk_refs",
        "first_plain",
        "ids",
        "plain",
        "released",
        "released_bytes",
        "released_ids",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ids = IdSet()
        self.delayed = IdSet()
        self.delayed_bytes = 0
        self.first_plain = 0
        self.plain = 0
        self.released: list[Release] = []
        self.released_ids = IdSet()
        self.released_bytes = 0
        self.disk_refs = b""


class Unseen:
    """Of one queue with children. `due` are the items that were never available, for all readers
    that have them, and `expiries` when those of them expire that do: ids, with seconds of the wall
    clock for sizes.
    """

    __slots__ = ("_digest", "_events", "_known", "_numbers", "_passed", "due", "expiries")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._events: list[int | Release | None] = []  # the size of what was put off; None: passed
        self._passed: set[int] = set()
        self._known = (0, 0)  # behind which number up to which `_digest` goes
        self._digest = Digest()
        self.due = Delays()
        self.expiries = DueTimes()

    def __len__(self) -> int:
        return len(self._numbers)

    def delay(self, id_: int, size: int) -> None:
        """This number is that of an item for all, which is not due yet."""
        self._numbers.append(id_)
        self._events.append(size)

    def pass_number(self, number: int) -> None:
        """This one is given to nothing that is for all."""
        self._numbers.append(number)
        self._events.append(None)
        self._passed.add(number)

    def release(self, place: int, id_: int, size: int, lsn: int) -> None:
        """This one is the place of an item that is due, for all that have it."""
        self._numbers.append(place)
        self._events.append(Release(place, id_, size, lsn))

    def is_passed(self, number: int) -> bool:
        """Was it given to nothing that is for all, so that somebody may not have seen it?"""
        return number in self._passed

    def forget(self, number: int) -> None:
        """Everybody has seen what was given up to this one."""
        count = bisect_right(self._numbers, number)
        self._passed.difference_update(self._numbers[:count])
        del self._numbers[:count], self._events[:count]

    def between(self, taken: int, last: int) -> Digest | None:
        """What was given behind `taken`, up to `last`; None: all that is plain."""
        numbers = self._numbers
        if not numbers or numbers[-1] <= taken or numbers[0] > last:
            return None
        if self._known != (taken, last):
            self._digest, self._known = self._look(taken, last), (taken, last)
        return self._digest

    def _look(self, taken: int, last: int) -> Digest:
        found, at = Digest(), taken + 1
        low, high = bisect_right(self._numbers, taken), bisect_left(self._numbers, last + 1)
        for number, event in zip(self._numbers[low:high], self._events[low:high], strict=True):
            if at < number:
                found.first_plain = found.first_plain or at
                found.plain += number - at
            found.ids.add_range(at, number - 1)
            at = number + 1
            if isinstance(event, int):
                found.ids.add(number)
                found.delayed.add(number)
                found.delayed_bytes += event
            elif event is not None:
                found.released.append(event)
        if at <= last:
            found.first_plain = found.first_plain or at
            found.plain += last + 1 - at
            found.ids.add_range(at, last)
        for id_ in sorted(each.id for each in found.released):
            found.released_ids.add(id_)
        found.released_bytes = sum(each.size for each in found.released)
        found.disk_refs = stubs_of(found.released)
        return found


def stubs_of(released: list[Release]) -> bytes:
    """As `DueTimes` has them."""
    return b"".join(ENTRY.pack(each.place, each.id, each.size) for each in released)
