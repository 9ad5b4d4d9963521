"""Delayed items become available when they are due: in one subscription, or in all that have them.

    due ──▶ the next number as its place ──▶ RELEASED in the log ──▶ ready at that place

One rule: an item that was never available gets one place, which is the same in all subscriptions
that have it; an item that was nacked with a delay gets a place in its own ready list alone.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from kestrelpy.core.index import Delays
from kestrelpy.core.log import records
from kestrelpy.core.queue.fanout import FanOut
from kestrelpy.core.queue.lazy_sweep import LazySweep
from kestrelpy.core.queue.state import QueueState
from kestrelpy.core.subscription import Subscription


class DueItems:
    """The delayed items of one queue and of its children.

    `is_needed` says whether any subscription still needs an item.
    """

    __slots__ = ("_fanout", "_is_needed", "_lazy_sweep", "_queue")

    def __init__(
        self, queue: QueueState, fanout: FanOut, lazy_sweep: LazySweep,
        is_needed: Callable[[int], bool],
    ) -> None:
        self._queue = queue
        self._fanout = fanout
        self._lazy_sweep = lazy_sweep
        self._is_needed = is_needed

    def release_due(self, readers: list[Subscription], now_ms: int, steps: int) -> int:
        """Release due items of `readers` and of all together, in order of due time, until `steps`
        steps are taken; return the steps.

        Each item takes a step, and one more for each child that is given it now.
        """
        queue = self._queue
        clock, taken, heap = queue.clock, 0, list[tuple[int, int, int]]()
        sources: list[tuple[Subscription | None, Delays]] = [(r, r.delays) for r in readers]
        if queue.unseen is not None:
            sources.append((None, queue.unseen.due))
        for at, (_, delays) in enumerate(sources):
            first = delays.first(clock) if delays.entry_count else None
            if first is not None and first[0] <= now_ms:
                heappush(heap, (*first, at))
        while heap and taken < steps:
            at = heappop(heap)[2]
            reader, delays = sources[at]
            if reader is not None:
                reader.catch_up()  # the item may have been released for all
            found = delays.pop_due(now_ms, clock)
            if found is None:
                continue
            taken += 1 + len(queue.eager)
            if queue.unseen is not None:
                self.release_shared(reader, *found, now_ms)
            else:
                self.release(*found, now_ms)
            first = delays.first(clock)
            if first is not None and first[0] <= now_ms:
                heappush(heap, (*first, at))
        return taken

    def release(self, id_: int, size: int, now_ms: int) -> int:
        """Make a delayed item available at the next number; return the record to wait for."""
        queue = self._queue
        if queue.unseen is not None:
            return self.release_shared(queue.reader, id_, size, now_ms)
        reader, log, place = queue.reader, queue.log, self._fanout.take_place()
        reader.markers.give(place, id_)
        unlogged, lsn = reader.delays.unlogged, log.lsn_appended
        if id_ in unlogged:  # there is no room for its record, and a restart knows of no delay
            unlogged.remove(id_)
        else:
            lsn = log.append(records.released(id_, place, now_ms + queue.clock.offset_ms))
        item = reader.delays.items.pop(id_, None)
        reader.stand(item, id_, size, place, lsn)
        return lsn

    def release_shared(
        self, owner: Subscription | None, id_: int, size: int, now_ms: int
    ) -> int:
        """Make a delayed item available; return the record to wait for.

        An item that was never available becomes so in every subscription that has it, at one place.
        An item that `owner` nacked becomes available in the ready list of `owner` alone. `owner` is
        None if the item waits for all subscriptions together.
        """
        queue, unseen = self._queue, self._queue.unseen
        assert unseen is not None
        if owner is not None and not owner.markers.is_new(id_):
            return self._release_own(owner, id_, size, now_ms)
        unseen.due.remove(id_, size)
        self._lazy_sweep.released(id_)
        if owner is None and not self._is_needed(id_):
            return queue.log.lsn_appended
        self._fanout.spread()
        at_once: list[Subscription] = [queue.reader, *queue.eager]
        if owner is not None and owner not in at_once:
            at_once.append(owner)
        for reader in at_once:
            reader.catch_up()
        place = self._fanout.take_place(True)
        lsn = queue.log.append(records.released(id_, place, now_ms + queue.clock.offset_ms))
        if queue.children:
            unseen.release(place, id_, size, lsn)
            self._fanout.tell_soon()
        there = [reader for reader in at_once if reader.markers.is_new(id_)]
        for reader in there:
            if id_ in reader.live:
                reader.release(id_, size, place, lsn)
            else:
                reader.markers.give(place, id_)  # done here, and retained: that is its marker
        for reader in at_once:
            reader.catch_up()  # this item is released there already
        for reader in there:
            if reader is not owner and id_ in reader.live and reader.waiters.count:
                reader.serve(now_ms)
        return lsn

    def _release_own(self, owner: Subscription, id_: int, size: int, now_ms: int) -> int:
        """Make an item that was nacked with a delay available again, in this ready list alone."""
        place, unlogged = self._fanout.take_place(), owner.delays.unlogged
        if id_ in unlogged:  # there is no room for its record, and a restart knows of no delay
            unlogged.remove(id_)
            lsn = self._queue.log.lsn_appended
        else:
            unix_ms = now_ms + self._queue.clock.offset_ms
            lsn = owner.append(records.released(id_, place, unix_ms))
        owner.release(id_, size, place, lsn)
        return lsn
