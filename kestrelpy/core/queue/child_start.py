"""The items that a new child begins with.

    name child ──▶ sees every later item
    name child from=<marker> ──▶ the same record names the earlier items that it begins with

One rule: the record names the items that a child begins with; replay reads that record and looks at
nothing else, but for the items that the queue itself has without an expiry at that moment.
"""

from __future__ import annotations

from typing import Final

from journal.format import Beginning, DelayedEntry, PlacedEntry
from journal.sets import IdSet
from kestrelpy.core.fanout import Child
from kestrelpy.core.log import on_disk
from kestrelpy.core.queue.browse import Browse
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription import OutOfOrder

# The bodies of a longer ready list are not added up: it would take too long.
_WEIGHED_MAX: Final = 50_000


class ChildStart:
    """The items that a child of this queue may begin with."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def offered(self) -> IdSet:
        """Return the items that a child may begin with: those that some subscription still needs,
        and retained ones.

        Of a segment that is being rewritten only the needed items count: the rewrite leaves out the
        rest.
        """
        queue = self._queue
        needed, log = queue.needed_now(), on_disk(queue.log)
        if queue.retained is None or log is None:
            return needed
        ids = queue.readable.copy()
        for segment in log.journal.segment_list.busy:
            first, last = segment.item_first, segment.item_last
            stays = needed.between(first, last).both(ids.between(first, last))
            ids.discard_range(first, last, stays)
        return ids

    def beginning(self, first: int) -> Beginning:
        """Return the items with a marker from `first` on, and those that have no marker yet."""
        queue = self._queue
        placed, delayed = dict[int, PlacedEntry](), dict[int, DelayedEntry]()
        queue.catch_up()
        ids = self.offered()
        hidden = IdSet.union([reader.markers.hidden for reader in queue.readers]).copy()
        for reader in queue.readers:
            for marker, id_ in reader.markers:
                if marker >= first and id_ in ids and id_ in reader.markers.hidden:
                    placed[id_] = PlacedEntry(id_, marker, marker, 0)
            for entry in reader.delays.entries(queue.clock):
                if reader.markers.is_new(entry.item) and entry.item in ids:
                    delayed[entry.item] = entry._replace(key=b"")
        live = ids.without(hidden).between(max(first, 1), max(ids.last, first, 1))
        for id_ in sorted({*placed, *delayed}):
            live.add(id_)
        return Beginning(live, self._known_bytes(live), [*placed.values()], [*delayed.values()])

    def _known_bytes(self, live: IdSet) -> int:
        """Return the bytes of those bodies that the queue's own ready list has in memory.

        The result is 0 for a long list, and never too much: a child that only seems to be full
        would drop new items.
        """
        queue = self._queue
        ready = queue.reader.ready
        if ready.resident > _WEIGHED_MAX:
            return 0
        return sum(item.size for item in ready if item.id in live)

    def fill(self, child: Child, begins: Beginning) -> None:
        """Fill the child with these items; a child in memory gets the very same objects."""
        queue = self._queue
        child.live, child.live_bytes = begins.live.copy(), begins.live_bytes
        child.total_items = len(begins.live)
        if (disk := on_disk(queue.log)) is not None:
            child.know_unreadable(disk.store.unreadable.both(begins.live))
        child.ageless = queue.reader.ageless.both(begins.live)  # and replay does the same
        out_of_order = OutOfOrder(child)
        out_of_order.restore(begins.delayed, begins.placed)
        assert queue.unseen is not None
        new = {entry.item for entry in begins.delayed}
        queue.reader.delays.share(new.__contains__, queue.unseen.due)
        child.ready_items.begin(*out_of_order.finish(queue.unseen.due.__contains__))
        if child.log.read_ahead is not None:
            return
        places = {each.item: each.place for each in begins.placed}
        views = [Browse(queue, reader) for reader in queue.readers]
        found = [(id_, view.item(id_)) for id_ in begins.live for view in views]
        items = {id_: item for id_, item in found if item is not None}
        child.ready.clear(child.residency.trash)
        child.live_bytes = sum(item.size for item in items.values())
        for id_, item in items.items():
            if id_ in child.delays:
                child.delays.items[id_] = child.bound(item)
            else:
                child.ready_items.put_back(child.bound(item), places.get(id_, id_))
