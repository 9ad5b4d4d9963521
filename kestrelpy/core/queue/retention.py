"""How long a queue retains its items: by time, by size, and at a start.

    retain_ms, retain_bytes ──▶ log ──▶ a segment goes ──▶ lose: its ids are retained no more

One rule: the segments that are there determine the items that are retained (`RetainedIds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from journal.sets import IdSet
from journal.store import Segment, Snapshot
from kestrelpy.core.index import RetainedIds
from kestrelpy.core.log import records
from kestrelpy.core.queue.state import QueueState

# How often the queue looks for items past their time.
_LOOK_MS_LEAST: Final = 1000
_LOOK_MS_MOST: Final = 60_000


class QueueRetention:
    """The retention of one queue."""

    __slots__ = ("_queue",)

    def __init__(self, queue: QueueState) -> None:
        self._queue = queue

    def begin(self, readable: IdSet | None = None) -> None:
        """Begin or stop to retain items, as the policy says. A start has found the `readable` ones.
        """
        queue = self._queue
        policy, reader, log = queue.policy, queue.reader, queue.log
        if log.read_ahead is None:
            return  # the queue is in memory, or has no log yet
        log.retain(policy.retain_ms, policy.retain_bytes)
        retained, reader.markers.retains = reader.markers.retains, policy.retains
        if not policy.retains:
            queue.retained = None
            if retained:
                reader.markers.retain_only(reader.live)
            return
        if queue.retained is None:
            queue.retained = RetainedIds(readable or reader.live.copy(), queue.last_number)
            if reader.markers.hidden.count:  # a snapshot may know items that have gone since
                there = IdSet.union([queue.readable, reader.live])
                reader.markers.lose(1, queue.last_number, there)
        queue.retained.look_ms = 0 if policy.retain_ms else None

    def lose(self, first: int, last: int) -> None:
        """Forget the items of a segment that is not there any more."""
        queue = self._queue
        if queue.retained is not None:
            queue.catch_up()
            needed = IdSet.union([reader.live.between(first, last) for reader in queue.readers])
            queue.retained.lose(first, last, needed)
            queue.reader.markers.lose(first, last, needed)

    def look(self, now_ms: int) -> None:
        """If retained items may be past their time, have a record synced: it lets them go."""
        retained, retain_ms = self._queue.retained, self._queue.policy.retain_ms
        if retained is None or retained.look_ms is None or retained.look_ms > now_ms:
            return
        if retain_ms:
            retained.look_ms = now_ms + min(max(retain_ms // 4, _LOOK_MS_LEAST), _LOOK_MS_MOST)
        self.let_go(now_ms, False)

    def let_go(self, now_ms: int, is_changed: bool) -> None:
        """Have a record synced, if that lets items go that are over the time or the size."""
        queue = self._queue
        log, unix_ms = queue.log, now_ms + queue.clock.offset_ms
        if log.failure is None and not log.no_room and log.is_over(unix_ms, is_changed):
            # Any record will do: this one repeats the limit of the tokens, which holds already.
            log.wait_durable(log.append(records.tokens(queue.reader.tokens_below, unix_ms)))


def found(
    snapshot: Snapshot | None, met: IdSet, live: IdSet, segments: Sequence[Segment]
) -> IdSet:
    """Return the items that a start finds in the log: those that the snapshot names, and the puts
    `met` after it, if their segments are there.

    Of a compacted segment that the snapshot does not know, the start knows only that the segment
    has all live items of its range.
    """
    ids = IdSet()
    if snapshot is not None:
        ids = snapshot.retained or ids
    for id_ in met:
        ids.add(id_)
    end = 0
    known = {state.number for state in snapshot.segments} if snapshot is not None else None
    for segment in sorted((s for s in segments if s.item_last), key=lambda s: s.item_first):
        ids.discard_range(end + 1, segment.item_first - 1)
        end = max(end, segment.item_last)
        is_compacted = segment.rank not in (0, segment.number)
        if is_compacted and known is not None and segment.number not in known:
            there = ids.between(segment.item_first, segment.item_last)
            needed = live.between(segment.item_first, segment.item_last)
            ids.discard_range(segment.item_first, segment.item_last, needed.both(there))
    ids.discard_range(end + 1, ids.last)
    return ids
