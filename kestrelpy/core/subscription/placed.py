"""The entries of a snapshot for items whose place or marker is another number than their id.

One rule: the entries are a copy. The loop copies long structures as they are; the snapshot's thread
works out their meaning when it reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from journal.format import PlacedEntry
from kestrelpy.core.index import Lease
from kestrelpy.core.item import Item
from kestrelpy.core.subscription.subscription import Subscription

Where = tuple[int, int, int]  # place, id, size
_FEW: Final = 64  # items that the loop looks at itself


class Placed:
    """The entries of one subscription; there may be many."""

    __slots__ = (
        "_blocked", "_delayed", "_disk_refs", "_hidden", "_leases", "_marker_index", "_returned",
    )  # fmt: skip

    def __init__(self, reader: Subscription) -> None:
        self._returned = reader.ready.all_returned()
        self._leases = reader.leases.all()
        self._blocked = reader.key_gate.keys.rows()
        self._disk_refs = reader.ready.disk_refs.copy()
        self._marker_index = reader.markers.copy()
        self._hidden = self._marker_index.hidden
        self._delayed = reader.delays.ids.copy()

    def __iter__(self) -> Iterator[PlacedEntry]:
        markers, marker_of = self._marker_index, dict[int, int]()
        for marker, id_ in markers:
            if id_ in self._hidden:
                marker_of[id_] = marker
        known = set(marker_of) if markers.retains else set()
        blocked = {
            (place, id_, size)
            for row in self._blocked
            if not isinstance(row, int)
            for id_, place, size in row
            if place != id_
        }
        few = _in_memory(self._returned, self._leases)
        for where in (few, self._disk_refs, sorted(blocked)):
            for place, id_, size in where:
                yield PlacedEntry(id_, place, marker_of.pop(id_, id_), size)
        for id_ in self._delayed.without(self._hidden):
            yield PlacedEntry(id_, 0, id_, 0)
        for id_, marker in marker_of.items():
            yield PlacedEntry(id_, 0, marker, 0)
        if markers.retains:
            for id_ in self._hidden:
                if id_ not in self._delayed and id_ not in known:
                    yield PlacedEntry(id_, 0, 0, 0)  # done before it was ever available

    def piles(self) -> Sequence[list[Any]]:
        """Return the copies with an object for each item; the entries are made of them."""
        return self._returned, self._leases, self._blocked

    @classmethod
    def of(cls, reader: Subscription) -> Iterable[PlacedEntry]:
        """Return the entries of a subscription at this moment."""
        ready = reader.ready
        in_memory = ready.returned + len(reader.leases)
        if (
            reader.out_of_order.count or reader.markers.hidden.count or reader.delays.ids.count
            or ready.disk_refs.ids.count or reader.key_gate.keys.blocked.count
            or in_memory > _FEW
        ):  # fmt: skip
            return cls(reader)
        # Most of thousands of children have no such structures.
        if not in_memory:
            return ()
        few = _in_memory(ready.all_returned(), reader.leases.all())
        return [PlacedEntry(id_, place, id_, size) for place, id_, size in few]


def _in_memory(returned: list[tuple[int, Item]], leases: list[Lease]) -> list[Where]:
    """Return where these items are whose place is not their id."""
    where = [(place, item.id, item.size) for place, item in returned if place != item.id]
    where += [
        (lease.place, lease.item.id, lease.item.size)
        for lease in leases
        if not lease.dead and lease.place != lease.item.id
    ]
    return where
