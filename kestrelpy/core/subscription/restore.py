"""The out-of-order items during replay: delayed ones, and those at a place of their own.

    PUT, RETURNED with a due time ──▶ delayed ──▶ RELEASED ──▶ placed ──▶ any end
                                         ▲                        |
                                         └──── RETURNED, due ─────┘

One rule: the latest record about an item says where it is; this module never needs the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from journal.format import (
    DelayedEntry,
    Kind,
    PlacedEntry,
    Record,
    Tag,
    decode_meta,
    heard_ms,
)
from journal.sets import IdSet
from kestrelpy.core.index import pack
from kestrelpy.core.subscription.state import SubscriptionState


class OutOfOrder:
    """Fills a subscription's delays, markers and disk references once all records are known."""

    __slots__ = (
        "_delayed", "_marker_index", "_numbers", "_positions", "_reader", "_sizes", "heard_ms",
    )  # fmt: skip

    def __init__(self, reader: SubscriptionState) -> None:
        self._reader = reader
        self._delayed: dict[int, DelayedEntry] = {}
        self._positions: dict[int, int] = {}
        self._sizes: dict[int, int] = {}  # of the bodies of either
        self._marker_index: list[tuple[int, int]] = []
        self._numbers: list[int] = []  # numbers that were given as places
        self.heard_ms = 0  # the latest time of the running clock in a record

    def restore(self, delayed: Iterable[DelayedEntry], placed: Iterable[PlacedEntry]) -> None:
        """Begin with the entries of a snapshot."""
        markers, live = self._reader.markers, self._reader.live
        for entry in delayed:
            self._delayed[entry.item] = entry
            self._sizes[entry.item] = entry.body_bytes
            markers.hide(entry.item)
        for item, place, marker, size in placed:
            if item not in live:  # done, and retained
                markers.hide(item)
                self._marker_index += [(marker, item)] if marker else []
                continue
            if place:
                self._positions[item] = place
                self._sizes[item] = size
            if marker == item:
                markers.hidden.discard(item)  # the item was available before
                continue
            markers.hide(item)
            self._marker_index.append((marker, item))
            if marker != place:
                markers.remember(item, marker)

    def hear(self, running_ms: int) -> None:
        """Note that the running clock was at this time."""
        self.heard_ms = max(self.heard_ms, running_ms)

    def put(self, record: Record, size: int) -> None:
        """Note an item that is stored and not available yet."""
        self._reader.markers.hide(record.item)
        self._delay(record, size)

    def delay(self, record: Record) -> None:
        """Note that an item was nacked, to its place or with a due time."""
        id_, markers = record.item, self._reader.markers
        if not record.meta or not self._delay(record, 0):
            return
        place = self._positions.pop(id_, 0)
        if place:
            markers.remember(id_, markers.of(id_, place))

    def release(self, id_: int, place: int, size: int, is_there: bool) -> None:
        """Note that an item is at `place` from now on, and at no other."""
        self._numbers.append(place)
        if not is_there:
            return
        delayed = self._delayed.pop(id_, None)
        size = delayed.body_bytes if delayed is not None else self._sizes.get(id_, size)
        self._positions[id_], self._sizes[id_] = place, size
        markers = self._reader.markers
        if id_ in markers.hidden and markers.of(id_, 0) == 0:
            self._marker_index.append((place, id_))

    def mark(self, id_: int, place: int) -> None:
        """Keep the marker of an item that becomes available to other subscriptions.

        Here the item is done, if this subscription ever had it.
        """
        if id_ in self._reader.markers.hidden:
            self._marker_index.append((place, id_))

    def leased(self, id_: int) -> None:
        """Note that an item was leased, and so was released before."""
        self._delayed.pop(id_, None)

    def leave(self, id_: int) -> None:
        """Note that an item is gone, or dead."""
        if self._delayed or self._positions:
            self._delayed.pop(id_, None)
            place = self._positions.pop(id_, 0)
            if place and id_ in self._reader.live:
                markers = self._reader.markers
                markers.remember(id_, markers.of(id_, place))

    @property
    def ids(self) -> set[int]:
        """The items that are delayed, or stand at a place of their own."""
        return self._delayed.keys() | self._positions.keys()

    def behind(self, marker: int) -> set[int]:
        """Return the items that are delayed, dead, or have a marker that is not their id and is
        above `marker`."""
        behind = {id_ for given, id_ in self._marker_index if given > marker}
        return behind | self._delayed.keys() | self._reader.dead.deaths.keys()

    def is_new(self, id_: int) -> bool:
        """True if the item is delayed and was never available."""
        return id_ in self._delayed and self._reader.markers.is_new(id_)

    def retain_only(self, ids: Iterable[int], up_to: int) -> None:
        """Retain only `ids` of all items up to `up_to`; no item of `ids` is delayed."""
        stay = set(ids)
        self._delayed = {i: e for i, e in self._delayed.items() if i > up_to}
        self._positions = {i: p for i, p in self._positions.items() if i in stay or i > up_to}

    def take_new(self, shared: dict[int, DelayedEntry]) -> None:
        """Add the entries of items that were never available to `shared`: all subscriptions share
        them."""
        markers = self._reader.markers
        new = {id_: entry for id_, entry in self._delayed.items() if markers.is_new(id_)}
        shared.update(new)

    def finish(self, shared: Callable[[int], bool] | None = None) -> tuple[list[int], int]:
        """Fill the subscription, now that all records are known.

        Return the disk references of ready items, and the bytes of all out-of-order bodies. A
        lease by token gets the place of its item. The queue holds the due times of items that are
        `shared` and were never available, for all subscriptions together.
        """
        reader, leases, markers = self._reader, self._reader.leases, self._reader.markers
        own = list[DelayedEntry]()
        for id_, entry in self._delayed.items():
            if shared is not None and shared(id_) and markers.is_new(id_):
                reader.delays.add_shared(id_, entry.body_bytes)
            else:
                own.append(entry)
        reader.delays.restore(own)
        if reader.number:
            reader.restored = reader.delays.ids.copy()  # a child may have a `max_age` of its own
        else:
            reader.restored = IdSet.of(e.item for e in own if not markers.is_new(e.item))
        disk_refs = []
        for id_, place in self._positions.items():
            if id_ in leases.entries:
                leases.places[id_] = place
            else:
                disk_refs.append(pack(place, id_, self._sizes[id_]))
        for id_ in sorted(self._delayed.keys() | (self._positions.keys() - leases.entries.keys())):
            reader.out_of_order.add(id_)
        hidden = reader.markers.hidden
        reader.markers.restore([(m, i) for m, i in self._marker_index if i in hidden])
        size = sum(packed & 0xFFFFFFFF for packed in disk_refs)
        return disk_refs, size + reader.delays.bytes

    def _delay(self, record: Record, size: int) -> bool:
        meta = decode_meta(record.meta)
        due_ms, said, runs_ms = meta.get(Tag.DUE_MS), meta.get(Tag.BYTES), meta.get(Tag.RUNS_MS)
        if not isinstance(due_ms, int):
            return False
        runs_ms = runs_ms if isinstance(runs_ms, int) else 0
        self.hear(heard_ms(record.time_ms, due_ms, runs_ms))
        if record.kind == Kind.RETURNED:  # in a put, BYTES is the size of its origin's body
            size = said if isinstance(said, int) else size
            key = meta.get(Tag.KEY)
            if isinstance(key, bytes):
                self._reader.held_keys[record.item] = key
        self._delayed[record.item] = DelayedEntry(record.item, due_ms, size, b"", runs_ms)
        self._sizes[record.item] = size
        return True
