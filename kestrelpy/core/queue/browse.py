"""The readable items of a queue, as an observer sees them: live or retained, by marker.

    marker   1     2       3     4      5     6      7 ...
             done  leased  gone  ready  dead  ready  ready      after=2 sees 4, 5, 6, 7 ...

A done item is readable until the queue retains it no more. An item that is available at once has
its id for a marker, so the set of readable ids (`Queue.readable`) is enough to find it; an item
that was delayed first has another marker (`Subscription.markers`). The bodies are in memory or in
the log: `item` finds the first, `journal.read.range_scan` and `lookup` the second. A queue in
memory has all bodies in memory.

One rule: browsing changes nothing. It passes over expired items; the tick and the consumers clear
them away.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.item import Item
from kestrelpy.core.queue.child_queue import AnyQueue
from kestrelpy.core.subscription import Subscription, Where

# Ids that one `range_scan` looks through for each item that it may return.
_SPAN: Final = 4
_SPAN_LEAST: Final = 1000


class Browse:
    """The readable items of a queue, in the view of one subscription. Each look makes a new one."""

    __slots__ = ("_reader", "ids")

    def __init__(self, queue: AnyQueue, reader: Subscription | None = None) -> None:
        self._reader = reader or queue.reader
        self.ids = queue.readable

    def first(self, after: int) -> int:
        """Return the first marker after `after`; 0: there is none."""
        reader = self._reader
        if not reader.markers.hidden.count:
            return self.ids.first_from(after + 1)
        plain = self.ids.first_without(after + 1, reader.markers.hidden)
        other = reader.markers.first_from(after + 1)
        return min(plain, other) if plain and other else plain or other

    def id_of(self, marker: int) -> int:
        """Return the id of the item with this marker; 0: it is not there."""
        reader = self._reader
        if marker in self.ids and marker not in reader.markers.hidden:
            return marker
        return reader.markers.id_of(marker)

    def released(self, first: int, last: int, most: int) -> list[tuple[int, int]]:
        """Return markers and ids from `first` to `last`, `most` at most, where the marker is not
        the id; stop before the first item that has its id for a marker."""
        reader = self._reader
        plain = self.ids.first_without(first, reader.markers.hidden)
        return reader.markers.between(first, min(last, plain - 1) if plain else last)[:most]

    def has(self, id_: int) -> bool:
        """True if this item is readable."""
        return id_ in self.ids

    def item(self, id_: int) -> Item | None:
        """Return this item, if it is in memory with its body."""
        found = self._reader.item(id_)
        return found if found is not None and found.is_whole else None

    def expires_here(self, id_: int, expires_ms: int) -> int:
        """Return when an item expires here (0: never), given the expiry of its put."""
        return self._reader.expires_here(id_, expires_ms)

    def has_expired(self, id_: int, expires_ms: int, unix_ms: int) -> bool:
        """True if an item is past its expiry, and neither leased nor dead: observers do not see it
        any more, done or not."""
        reader = self._reader
        expires_ms = reader.expires_here(id_, expires_ms)
        is_over = 0 < expires_ms <= unix_ms
        return is_over and reader.where(id_) not in (Where.LEASED, Where.DEAD)

    def state(self, id_: int) -> tuple[bytes, int]:
        """Return where this item is, and its attempts: the deliveries that have ended."""
        return self._reader.state_of(id_)

    @property
    def is_plain(self) -> bool:
        """True if every readable item is ready, and none has attempts."""
        reader = self._reader
        return self.ids.count == reader.live.count and not (
            reader.leases or reader.dead.deaths or reader.attempts or reader.delays.count
        )

    def are_all(self, count: int, first: int, last: int) -> bool:
        """True if from `first` to `last` there are `count` items, each with its id for a marker."""
        hidden = self._reader.markers.hidden
        if hidden.count and hidden.count_between(first, last):
            return False
        return self.ids.count_between(first, last) == count

    def note_gap(self, after: int, shown: int) -> None:
        """Count a gap if an observer at `after`, which is shown the item `shown`, lost items.

        If `after` is older than the oldest readable item, the items right after it are gone, with
        all others before the oldest: that is one gap. Holes that consumers leave between readable
        items are no gaps, nor is the beginning, `after` 0.
        """
        if 0 < after < shown - 1 and self.first(0) > after:
            self._reader.counters.gaps += 1

    # -- a queue in memory ------------------------------------------------------------------

    def range_scan(
        self, after: int, most: int, bytes_most: int, since_ms: int
    ) -> tuple[list[Item], int]:
        """Return items after this marker, and the marker up to which the call has looked.

        There are at most `most` items with `bytes_most` bytes, but one in any case. The call skips
        items before the first one that was stored at `since_ms` or later.
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
        # Items that come next have higher markers than all that were given.
        return out, max(after, min(last, self._reader.latest_marker))

    def since(self, since_ms: int) -> int:
        """Return the marker to begin at so as to see all items stored at `since_ms` or later.

        It goes by ids, which are in the order of storing; the marker of a delayed item is higher.
        Where all items are older, it is the marker after all that were given.
        """
        low, high = 1, self.ids.last + 1
        while low < high:
            middle = (low + high) // 2
            id_ = self.ids.first_from(middle)
            item = self.item(id_) if id_ else None
            if item is not None and item.stored_ms < since_ms:
                low = id_ + 1
            else:
                high = middle
        if not self.ids.count or self.ids.first_from(low):
            return low
        return max(low, self._reader.latest_marker + 1)
