"""What is kept of a queue, as an observer sees it: every item that is there, by marker.

    marker   1     2     3     4     5     6     7 ...
             done  lent  gone  ready dead  ready ready      after=2 sees 4, 5, 6, 7 ...

What is done is there too, as long as the queue retains it. An item that is put at once has its id
for a marker, so the set of those that are kept (`Queue.readable`) says it all; one that was delayed
first has another (`Subscription.markers`). Their bodies are in memory or in the log: `item` finds
the one, `journal.read.range_scan` and `lookup` the other. A queue that lives in memory has all of
them here.

One rule: looking changes nothing, not even what has expired: that is passed over, and cleared away
by those whose work it is.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.item import Item
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.subscription import Subscription

# Ids looked through at once, for each item that may be found there.
_SPAN: Final = 4
_SPAN_LEAST: Final = 1000


class Browse:
    """What is kept in a queue, in the view of one of its readers. It is made for each look."""

    __slots__ = ("_reader", "ids")

    def __init__(self, queue: Queue, reader: Subscription | None = None) -> None:
        self._reader = reader or queue.reader
        self.ids = queue.readable

    def first(self, after: int) -> int:
        """The first marker behind this one; 0: there is none."""
        reader = self._reader
        if not reader.markers.hidden.count:
            return self.ids.first_from(after + 1)
        plain = self.ids.first_without(after + 1, reader.markers.hidden)
        other = reader.markers.first_from(after + 1)
        return min(plain, other) if plain and other else plain or other

    def id_of(self, marker: int) -> int:
        """The item with this marker; 0: it is not there."""
        reader = self._reader
        if marker in self.ids and marker not in reader.markers.hidden:
            return marker
        return reader.markers.id_of(marker)

    def released(self, first: int, last: int, most: int) -> list[tuple[int, int]]:
        """Those from this marker on whose markers are no ids, until one comes that is plain."""
        reader = self._reader
        plain = self.ids.first_without(first, reader.markers.hidden)
        return reader.markers.between(first, min(last, plain - 1) if plain else last)[:most]

    def has(self, id_: int) -> bool:
        """Is this item there?"""
        return id_ in self.ids

    def item(self, id_: int) -> Item | None:
        """This item, if it is in memory with its body."""
        reader = self._reader
        lease = reader.leases.of(id_)
        if lease is not None:
            found: Item | None = lease.item
        elif id_ in reader.dead.deaths:
            found = reader.dead.at(id_)
        else:
            found = reader.ready.at(id_) or reader.delays.items.get(id_)
            found = found or reader.key_gate.whole.get(id_)
        return found if found is not None and found.is_whole else None

    def has_expired(self, id_: int, expires_ms: int, unix_ms: int) -> bool:
        """Is it past its expiry, and neither lent nor dead? Then it is not kept any more, done or
        not."""
        reader = self._reader
        return (
            0 < expires_ms <= unix_ms
            and id_ not in reader.leases
            and id_ not in reader.dead.deaths
        )

    def state(self, id_: int) -> tuple[bytes, int]:
        """Where this item is, and its attempts: the deliveries that have ended."""
        return self._reader.state_of(id_)

    @property
    def is_plain(self) -> bool:
        """Is everything that is kept ready, and was nothing ever given back?"""
        reader = self._reader
        return self.ids.count == reader.live.count and not (
            reader.leases or reader.dead.deaths or reader.attempts or reader.delays.count
        )

    def are_all(self, count: int, first: int, last: int) -> bool:
        """Are `count` items all that is there between these two, each at its own number?"""
        hidden = self._reader.markers.hidden
        if hidden.count and hidden.count_between(first, last):
            return False
        return self.ids.count_between(first, last) == count

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
        last, marker = after + max(most * _SPAN, _SPAN_LEAST), after
        out, size = list[Item](), 0
        while (marker := self.first(marker)) and marker <= last:
            item = self.item(self.id_of(marker))
            if item is None or item.stored_ms < since_ms:
                continue
            size += item.size
            if len(out) == most or (out and size > bytes_most):
                return out, out[-1].marker
            since_ms = 0
            out.append(item)
        return out, last

    def since(self, since_ms: int) -> int:
        """The marker to begin at, so that nothing stored at this time or later is missed."""
        low, high = 1, self.ids.last + 1
        while low < high:
            middle = (low + high) // 2
            marker = self.first(middle - 1)
            item = self.item(self.id_of(marker)) if marker else None
            if item is not None and item.stored_ms < since_ms:
                low = marker + 1
            else:
                high = middle
        return low
