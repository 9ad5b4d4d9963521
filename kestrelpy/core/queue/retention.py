"""What a queue that retains keeps: the ids of all whose puts are in its log, done or not.

    log      [ 1 2 3 ][ 4 6 7 ][ 8 9 12 | active ]      5, 10 and 11 are places: no item has them
    retained            4 6 7    8 9 12                  the first segment went: 1 to 3 are gone

A put costs nothing here: the numbers that were given since somebody looked are added in one piece.

One rule: which segments are there says what is kept; nothing else takes an id out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from journal.store import Segment
    from kestrelpy.core.queue.queue import Queue

# How often one looks whether the time of something is over.
_LOOK_MS_LEAST: Final = 1000
_LOOK_MS_MOST: Final = 60_000


class Retained:
    """Of one queue. `look_ms`: when to look at the time again; None: that makes no difference."""

    __slots__ = ("_ids", "_seen", "look_ms")

    def __init__(self, ids: IdSet, last_number: int) -> None:
        """`last_number` was given last: what is not in `ids` up to there is not kept."""
        self._ids = ids
        self._seen = last_number
        self.look_ms: int | None = None

    def up_to(self, last_number: int) -> IdSet:
        """All that is kept; this number was given last."""
        if last_number > self._seen:
            self._ids.add_range(self._seen + 1, last_number)
            self._seen = last_number
        return self._ids

    def skip(self, place: int) -> None:
        """This number is given to no item."""
        self.up_to(place - 1)
        self._seen = place

    def lose(self, first: int, last: int, needed: IdSet) -> None:
        """Of the items from `first` to `last` only those that are needed are in the log now."""
        self.up_to(last)
        there = self._ids.between(first, last)  # what a child alone was given is not
        self._ids.discard_range(first, last, needed.between(first, last).both(there))


def retain(queue: Queue, kept: IdSet | None = None) -> None:
    """Begin or cease to keep what is done, as the policy says; `kept` is what a start has found."""
    policy, reader, log = queue.policy, queue.reader, queue.log
    if log.backlog is None:
        return  # it lives in memory, or has no log yet
    log.retain(policy.retain_ms, policy.retain_bytes)
    retained, reader.marks.retains = reader.marks.retains, policy.retains
    if not policy.retains:
        queue.retained = None
        if retained:
            reader.marks.keep_only(reader.live)
        return
    if queue.retained is None:
        queue.retained = Retained(kept or reader.live.copy(), queue.last_number)
        if reader.marks.hidden.count:  # a snapshot may know what has gone since
            there = IdSet.union([queue.kept, reader.live])
            reader.marks.lose(1, queue.last_number, there)
    queue.retained.look_ms = 0 if policy.retain_ms else None


def lose(queue: Queue, first: int, last: int) -> None:
    """The segment in which these were put is not there any more."""
    if queue.retained is not None:
        queue.catch_up()
        needed = IdSet.union([reader.live.between(first, last) for reader in queue.readers])
        queue.retained.lose(first, last, needed)
        queue.reader.marks.lose(first, last, needed)


def look(queue: Queue, now_ms: int) -> None:
    """Is the time of something over? Then a record is synced, and what is behind that goes."""
    retained, retain_ms = queue.retained, queue.policy.retain_ms
    if retained is None or retained.look_ms is None or retained.look_ms > now_ms:
        return
    if retain_ms:
        retained.look_ms = now_ms + min(max(retain_ms // 4, _LOOK_MS_LEAST), _LOOK_MS_MOST)
    let_go(queue, now_ms, False)


def let_go(queue: Queue, now_ms: int, is_changed: bool) -> None:
    """What is over goes behind a record that is synced now."""
    log, wall_ms = queue.log, now_ms + queue.wall.offset_ms
    if log.failure is None and not log.no_room and log.is_over(wall_ms, is_changed):
        # Any record does: this one says again what holds already.
        log.wait_durable(log.tokens(queue.reader.tokens_below, wall_ms))


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
