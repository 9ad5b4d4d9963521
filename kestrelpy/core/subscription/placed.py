"""The entries of a snapshot for items whose place or marker is another number than their id.

One rule: the entries are a copy. The loop copies long structures as they are; the snapshot's thread
works out their meaning when it reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from journal.format import PlacedEntry
from kestrelpy.core.subscription.subscription import Subscription

Where = tuple[int, int, int]  # place, id, size


class Placed:
    """The entries of a subscription that may have many; `few` are in memory, or leased."""

    __slots__ = ("_blocked", "_delayed", "_disk_refs", "_few", "_hidden", "_marker_index")

    def __init__(self, reader: Subscription, few: list[Where]) -> None:
        self._few = few
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
            for id_, place, size in row
            if place != id_
        }
        for where in (self._few, self._disk_refs, sorted(blocked)):
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

    @classmethod
    def of(cls, reader: Subscription) -> Iterable[PlacedEntry]:
        """Return the entries of a subscription at this moment."""
        ready, few = reader.ready, list[Where]()
        if ready.resident:
            few += ready.out_of_order()
        if reader.leases:
            few += [
                (lease.place, lease.item.id, lease.item.size)
                for lease in reader.leases
                if not lease.dead and lease.place != lease.item.id
            ]
        if (
            reader.out_of_order.count or reader.markers.hidden.count or reader.delays.ids.count
            or ready.disk_refs.ids.count or reader.key_gate.keys.blocked.count
        ):  # fmt: skip
            return cls(reader, few)
        # Among thousands of children most have no such structures.
        return [PlacedEntry(id_, place, id_, size) for place, id_, size in few] if few else ()
