"""The numbers that lazy children have not seen, except those of items available at once for all.

    number  7     8           9            10             11           12
            put   put, due    set on a     8 is due: 10   put          a place in one
            for   later       child alone  is its place   for all      ready list alone
            all   delayed     passed       released                    passed

A queue with children gives each number once. It notes here the use of each number, unless that is
the first of these uses: an item put for all and available at once. A child that looks takes in all
notes since its last look; many children take in the same ones (`Digest`). `due` holds the due time
of an item that was never available, once for all subscriptions that have the item.

One rule: every number noted here is one that some child may not have seen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from journal.sets import IdSet
from kestrelpy.core.index import ENTRY, Delays, DueTimes, Release

# With more notes than this the children take them in, a few children in each tick; then the notes
# are forgotten.
UNSEEN_MAX: Final = 256
_DIGESTS_MAX: Final = 2 * UNSEEN_MAX


class Digest:
    """The notes after one number. `ids` are the items for all: those in `delayed` were put with a
    delay; the others, `plain` in number and from `first_plain` on, were available at once.

    `released` are the items that came due since, `released_ids` their ids, and `disk_refs` the same
    items as disk references. `delayed_bytes` and `released_bytes` are the bytes of the bodies.
    """

    __slots__ = (
        "delayed", "delayed_bytes", "disk_refs", "first_plain", "ids", "plain", "released",
        "released_bytes", "released_ids",
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


class Arrivals:
    """The items for all after the number `taken`, up to `last`, for several children.

    A child that has not seen the number `last_unplain` has to take in a digest: some of the items
    were not available at once.
    """

    __slots__ = ("ids", "last", "last_unplain", "taken")

    def __init__(self, ids: IdSet, taken: int, last: int, last_unplain: int = 0) -> None:
        self.ids = ids
        self.taken = taken
        self.last = last
        self.last_unplain = last_unplain

    def add_to(self, live: IdSet, taken: int) -> int:
        """Add those after `taken` to these items, which are up to it; return their number."""
        if self.ids.count == self.last - self.taken:  # no number is that of anything else
            live.add_range(taken + 1, self.last)
            return self.last - taken
        some = self.ids if taken == self.taken else self.ids.between(taken + 1, self.last)
        live.add_above(some)
        return some.count


class Unseen:
    """The unseen numbers of one queue with children.

    `due` are the items that were never available, for all subscriptions that have them. `expiries`
    are the expiries of those among them that expire: ids, with seconds of the wall clock in the
    place of sizes.
    """

    __slots__ = ("_digests", "_events", "_known", "_numbers", "_passed", "due", "expiries")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._events: list[int | Release | None] = []  # the size of a delayed item; None: passed
        self._passed: set[int] = set()
        # Digests of the notes up to `_known`, by the number that each begins after: children that
        # looked at the same time share one, and thousands look at few different times.
        self._known = 0
        self._digests: dict[int, Digest] = {}
        self.due = Delays()
        self.expiries = DueTimes()

    def __len__(self) -> int:
        return len(self._numbers)

    def delay(self, id_: int, size: int) -> None:
        """Note the number of an item for all that is not due yet."""
        self._numbers.append(id_)
        self._events.append(size)

    def pass_number(self, number: int) -> None:
        """Note a number that is given to no item for all."""
        self._numbers.append(number)
        self._events.append(None)
        self._passed.add(number)

    def release(self, place: int, id_: int, size: int, lsn: int) -> None:
        """Note the place of an item that is due, for all subscriptions that have the item."""
        self._numbers.append(place)
        self._events.append(Release(place, id_, size, lsn))

    def is_passed(self, number: int) -> bool:
        """True if no item for all has this number, and some child may not have seen it."""
        return number in self._passed

    def forget(self, number: int) -> None:
        """Forget the notes up to this number: every child has seen them."""
        count = bisect_right(self._numbers, number)
        self._passed.difference_update(self._numbers[:count])
        del self._numbers[:count], self._events[:count]
        self._digests.clear()

    def between(self, taken: int, last: int) -> Digest | None:
        """Return the notes after `taken`, up to `last`; None: all those items are plain."""
        numbers = self._numbers
        if not numbers or numbers[-1] <= taken or numbers[0] > last:
            return None
        if self._known != last or len(self._digests) >= _DIGESTS_MAX:
            self._known = last
            self._digests.clear()
        digest = self._digests.get(taken)
        if digest is None:
            digest = self._digests[taken] = self._look(taken, last)
        return digest

    def looked_at(self) -> None:
        """Drop the digests: all children have been looked at."""
        self._digests.clear()

    def arrivals(self, taken: int, last: int) -> Arrivals:
        """Return the arrivals after `taken`, up to `last`."""
        self._digests.clear()
        found = self.between(taken, last)
        if found is None:
            ids = IdSet()
            ids.add_range(taken + 1, last)
            return Arrivals(ids, taken, last)
        notes = zip(reversed(self._numbers), reversed(self._events), strict=True)
        unplain = next((number for number, event in notes if event is not None), 0)
        return Arrivals(found.ids, taken, last, unplain)

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
        found.disk_refs = disk_refs_of(found.released)
        return found


def disk_refs_of(released: list[Release]) -> bytes:
    """Return these as packed disk references, in the format of `DueTimes`."""
    return b"".join(ENTRY.pack(each.place, each.id, each.size) for each in released)
