"""How long a queue that retains keeps its items: by time, by size, and at a start.

    retain_ms, retain_bytes ──▶ log ──▶ a segment goes ──▶ lose: its ids are retained no more

One rule: which segments are there says what is kept (`RetainedIds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import Snapshot
from journal.write.segment_file import Segment
from kestrelpy.core.index.retained_ids import RetainedIds
from kestrelpy.core.queue.state import QueueState

# How often the time is compared.
_LOOK_MS_LEAST: Final = 1000
_LOOK_MS_MOST: Final = 60_000


class Retention:
    """The rules of one queue about what it retains."""

    __slots__ = ("_queue",)

    def __init__(self, queue: QueueState) -> None:
        self._queue = queue

    def begin(self, readable: IdSet | None = None) -> None:
        """Retain items, or cease to, as the policy says; `readable` is what a start has found."""
        queue = self._queue
        policy, reader, log = queue.policy, queue.reader, queue.log
        if log.backlog is None:
            return  # it lives in memory, or has no log yet
        log.retain(policy.retain_ms, policy.retain_bytes)
        retained, reader.markers.retains = reader.markers.retains, policy.retains
        if not policy.retains:
            queue.retained = None
            if retained:
                reader.markers.keep_only(reader.live)
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
        """If the time of something is over, have a record synced; what is before it goes."""
        retained, retain_ms = self._queue.retained, self._queue.policy.retain_ms
        if retained is None or retained.look_ms is None or retained.look_ms > now_ms:
            return
        if retain_ms:
            retained.look_ms = now_ms + min(max(retain_ms // 4, _LOOK_MS_LEAST), _LOOK_MS_MOST)
        self.let_go(now_ms, False)

    def let_go(self, now_ms: int, is_changed: bool) -> None:
        """Have a record synced, if that lets anything go whose time or size is over."""
        queue = self._queue
        log, unix_ms = queue.log, now_ms + queue.clock.offset_ms
        if log.failure is None and not log.no_room and log.is_over(unix_ms, is_changed):
            # Any record does: this one says again what holds already.
            log.wait_durable(log.tokens(queue.reader.tokens_below, unix_ms))


def found(
    snapshot: Snapshot | None, met: IdSet, live: IdSet, segments: Sequence[Segment]
) -> IdSet:
    """What a start finds in the log: what the snapshot says, and the puts that were `met` behind
    it, as far as their segments are there.

    Of survivors that the snapshot does not know one only knows that all that is alive is in them.
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
        is_survivors = segment.rank not in (0, segment.number)
        if is_survivors and known is not None and segment.number not in known:
            there = ids.between(segment.item_first, segment.item_last)
            needed = live.between(segment.item_first, segment.item_last)
            ids.discard_range(segment.item_first, segment.item_last, needed.both(there))
    ids.discard_range(end + 1, ids.last)
    return ids
