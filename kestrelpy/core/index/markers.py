"""The markers of items whose marker is not their id: the place of an item's first release.

    id      2    9    4    (7: not due yet, no marker)       hidden: 2 4 7 9
    marker  11   12   30

For every other item, id and marker are one number. An observer meets a released item once, at its
marker.

One rule: a marker is given once and stays; an item that is released again keeps its first one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from journal.sets import IdSet

_COMPACT_ABOVE: Final = 1024
_COMPACT_AT_ONCE: Final = 1024  # entries checked when one is forgotten: half a millisecond


class Release(NamedTuple):
    """The record `lsn` gave `place` to this item."""

    place: int
    id: int
    size: int
    lsn: int


class MarkerIndex:
    """The marker index. `hidden` are the ids of present items whose ids are no markers."""

    __slots__ = (
        "_compacted",
        "_ids",
        "_markers",
        "_retained",
        "hidden",
        "latest",
        "retains",
    )  # fmt: skip

    def __init__(self) -> None:
        self._markers = array("Q")
        self._ids = array("Q")
        self._retained: dict[int, int] = {}
        self._compacted = 0  # this round has checked the entries up to here
        self.hidden = IdSet()
        self.retains = False  # True if markers of done items are still needed
        self.latest = 0  # the last marker given

    def hide(self, id_: int) -> None:
        """Add an item that was put and is not due yet."""
        self.hidden.add(id_)

    def give(self, marker: int, id_: int) -> None:
        """Note the release of an item at this marker, which is higher than any before."""
        if id_ in self.hidden and id_ not in self._retained:
            self._markers.append(marker)
            self._ids.append(id_)
            self.latest = marker

    def give_all(self, released: list[Release]) -> None:
        """Note the first release of each of these items, at its place."""
        if released:
            self._markers.extend([each.place for each in released])
            self._ids.extend([each.id for each in released])
            self.latest = released[-1].place

    def remember(self, id_: int, marker: int) -> None:
        """Store the marker of an item whose latest place is another; 0: it has none."""
        if marker != id_:
            self._retained[id_] = marker

    def of(self, id_: int, place: int) -> int:
        """Return the marker of an item with this latest place; 0: it has none yet."""
        return self._retained.get(id_, place) if id_ in self.hidden else id_

    def is_new(self, id_: int) -> bool:
        """True if a delayed item was never available."""
        return id_ in self.hidden and id_ not in self._retained

    def marker_of(self, id_: int) -> int:
        """Return the marker of this hidden item; 0: it has none yet. Searches all entries."""
        with suppress(ValueError):
            return self._markers[self._ids.index(id_)]
        return 0

    def forget(self, id_: int) -> None:
        """Forget the marker of a done item; with retention the marker stays."""
        if self.retains:
            self._retained.pop(id_, None)
        elif self.hidden.discard(id_):
            self._retained.pop(id_, None)
            if not self.hidden.count:
                self._forget_all()
            elif len(self._ids) > _COMPACT_ABOVE and len(self._ids) > 2 * self.hidden.count:
                self._compact(_COMPACT_AT_ONCE)

    def retain_only(self, ids: IdSet) -> None:
        """Forget the markers of all items but `ids`: the others are done.

        (A KNOWN FLAW: it looks at all markers in one step if some of their items stay: 0.1 s for
        300,000.)
        """
        if not self.hidden.count:
            return
        if not self.retains:
            self.hidden.discard_range(1, self.hidden.last, ids.both(self.hidden))
        self._retained = {
            id_: m for id_, m in self._retained.items() if id_ in ids and id_ in self.hidden
        }
        if not self.hidden.count:
            self._forget_all()
        self._compacted = 0
        self._compact(len(self._ids))

    def _forget_all(self) -> None:
        """Drop all entries: no item with one of these markers is present any more."""
        del self._ids[:], self._markers[:]
        self._compacted = 0

    def lose(self, first: int, last: int, live: IdSet) -> None:
        """Forget the items from `first` to `last` that are not live: they are not retained."""
        self.hidden.discard_range(first, last, live.between(first, last).both(self.hidden))
        gone = 0
        while gone < len(self._ids) and self._ids[gone] not in self.hidden:
            gone += 1  # mostly, the oldest go first
        del self._ids[:gone], self._markers[:gone]
        self._compacted = max(self._compacted - gone, 0)
        self._compact(_COMPACT_AT_ONCE)

    def copy(self) -> MarkerIndex:
        """Return an independent copy."""
        other = MarkerIndex()
        other._markers, other._ids = self._markers[:], self._ids[:]
        other._retained, other.hidden = dict(self._retained), self.hidden.copy()
        other.retains = self.retains
        return other

    def restore(self, markers: list[tuple[int, int]]) -> None:
        """After replay, set the pairs of a marker and its item; each item is hidden."""
        markers.sort()
        self._markers = array("Q", (marker for marker, _ in markers))
        self._ids = array("Q", (id_ for _, id_ in markers))

    def _compact(self, count: int) -> None:
        """Of the next `count` entries, drop those whose items are gone."""
        start = self._compacted if self._compacted < len(self._ids) else 0
        part = slice(start, start + count)
        some = zip(self._markers[part], self._ids[part], strict=True)
        there = [(m, i) for m, i in some if i in self.hidden]
        self._markers[part] = array("Q", (marker for marker, _ in there))
        self._ids[part] = array("Q", (id_ for _, id_ in there))
        self._compacted = start + len(there)

    # -- for observers ----------------------------------------------------------------------

    def first_from(self, marker: int) -> int:
        """Return the first marker from `marker` on whose item is present; 0: none."""
        for at in range(bisect_left(self._markers, marker), len(self._markers)):
            if self._ids[at] in self.hidden:
                return self._markers[at]
        return 0

    def id_of(self, marker: int) -> int:
        """Return the present item with this marker that is not its id; 0: none."""
        at = bisect_left(self._markers, marker)
        if at < len(self._markers) and self._markers[at] == marker:
            return self._ids[at] if self._ids[at] in self.hidden else 0
        return 0

    def behind(self, marker: int) -> list[int]:
        """Return the items with a marker above `marker` that is not their id."""
        return list(self._ids[bisect_right(self._markers, marker) :])

    def between(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the markers from `first` to `last` whose items are present, with the items."""
        low, high = bisect_left(self._markers, first), bisect_right(self._markers, last)
        found = zip(self._markers[low:high], self._ids[low:high], strict=True)
        return [(marker, id_) for marker, id_ in found if id_ in self.hidden]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each marker with its item, rising, including items that are gone."""
        return zip(self._markers, self._ids, strict=True)
