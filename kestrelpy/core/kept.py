"""What is kept of a queue, as an observer sees it: every item that is there, by marker.

    marker   1     2     3     4     5     6     7 ...
             done  lent  gone  ready dead  ready ready      after=2 sees 4, 5, 6, 7 ...

An item is given its number and its marker at once, when it is put, so the set of those that are
there (`Reader.live`) says it all. Their bodies are in memory or in the log: `item` finds the one,
`journal.gather` the other. A queue that lives in memory has all of them here.

One rule: looking changes nothing, not even what has expired: that is passed over, and cleared away
by those whose work it is.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.item import Item
from kestrelpy.core.reader import Reader

READY: Final = b"ready"
LENT: Final = b"lent"
DEAD: Final = b"dead"

# Ids looked through at once, for each item that may be found there.
_SPAN: Final = 4
_SPAN_LEAST: Final = 1000


class Kept:
    """The view of one reader."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def first(self, after: int) -> int:
        """The first marker behind this one; 0: there is none."""
        return self._reader.live.first_from(after + 1)

    def has(self, marker: int) -> bool:
        """Is it there?"""
        return marker in self._reader.live

    def item(self, marker: int) -> Item | None:
        """This item, if it is in memory with its body."""
        reader = self._reader
        lease = reader.leases.of(marker)
        if lease is not None:
            found: Item | None = lease.item
        elif marker in reader.dead.deaths:
            found = reader.dead.at(marker)
        else:
            found = reader.ready.at(marker) or reader.keyed.whole.get(marker)
        return found if found is not None and found.is_whole else None

    def has_expired(self, marker: int, expires_ms: int, wall_ms: int) -> bool:
        """Is it past its expiry, and neither lent nor dead? Then it is not kept any more."""
        reader = self._reader
        return (
            0 < expires_ms <= wall_ms
            and marker not in reader.leases
            and marker not in reader.dead.deaths
        )

    def state(self, marker: int) -> tuple[bytes, int]:
        """Where it is, and its attempts: the deliveries that have ended."""
        reader = self._reader
        lease = reader.leases.of(marker)
        if lease is not None:
            return LENT, lease.attempts
        death = reader.dead.deaths.get(marker)
        if death is not None:
            return DEAD, death.attempts
        return READY, reader.attempts.get(marker)

    @property
    def is_plain(self) -> bool:
        """Is everything ready, and was nothing ever given back?"""
        reader = self._reader
        return not (reader.leases or reader.dead.deaths or reader.attempts)

    def are_all(self, count: int, first: int, last: int) -> bool:
        """Are `count` items all that is there between these two?"""
        return self._reader.live.count_between(first, last) == count

    def note_gap(self, after: int, shown: int) -> None:
        """An observer at `after` is shown this item: was its marker older than what is kept?

        Then what stood right behind it is gone, with all before the oldest item: that is one gap.
        Holes that consumers leave between kept items are none, nor is the beginning, `after` 0.
        """
        if 0 < after < shown - 1 and self.first(0) > after:
            self._reader.counters.gaps += 1

    # -- a queue in memory ------------------------------------------------------------------

    def gather(
        self, after: int, most: int, bytes_most: int, since_ms: int
    ) -> tuple[list[Item], int]:
        """Items behind this marker, at most so many (one in any case), and how far was looked.

        They are stored at `since_ms` or later once the first such one was met.
        """
        reader = self._reader
        last = after + max(most * _SPAN, _SPAN_LEAST)
        arrived = reader.ready.behind(after + 1)
        at, out, size = next(arrived, None), list[Item](), 0
        for marker in reader.live.between(after + 1, last):
            item: Item | None
            if marker in reader.leases or marker in reader.dead.deaths:
                item = self.item(marker)
            else:
                while at is not None and at.id < marker:
                    at = next(arrived, None)
                here = at is not None and at.id == marker
                item = at if here else reader.keyed.whole.get(marker)
            if item is None or item.stored_ms < since_ms:
                continue
            size += item.size
            if len(out) == most or (out and size > bytes_most):
                return out, out[-1].id
            since_ms = 0
            out.append(item)
        return out, last

    def since(self, since_ms: int) -> int:
        """The marker to begin at, so that nothing stored at this time or later is missed."""
        low, high = 1, self._reader.live.last + 1
        while low < high:
            middle = (low + high) // 2
            marker = self.first(middle - 1)
            item = self.item(marker) if marker else None
            if item is not None and item.stored_ms < since_ms:
                low = marker + 1
            else:
                high = middle
        return low
