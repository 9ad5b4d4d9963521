"""How an idle journal frees disk space, one step at a time.

    [ done 64 MiB ][ done 64 MiB ][ active ##......... 64 MiB ]   prepared [ 64 MiB ]
      1  files without a record are removed, except the room that confirms need
      2  the active segment is sealed, and the log goes on in a small one
      3  snapshots are taken, so that segments go, and others are compacted

Steps 2 and 3 begin with a record that changes nothing; the writer and the maintenance do the rest
as always. A journal is idle when it has written less than the reserve within IDLE_MS. Each step
looks at the files there are, so after a restart the next process goes on with them. A round that
freed too little is repeated when there is more to free, or when the log is in another segment.

One rule: this file removes only files without a record of their present life; every other segment
goes by the rules of `SegmentList.take_dead` and of compaction.
"""

from __future__ import annotations

from typing import Final

from journal.compaction.maintenance import Maintenance
from journal.compaction.picker import choose, compacted_bytes, live_frame_bytes, run_capacity
from journal.write import GROWTH, Journal, Segment

# An idle journal may have this much room beside its items: enough for the first segments of the
# next burst, and no more than a gigabyte for a thousand queues.
RESERVE_BYTES: Final = 1 << 20
# Longer than the time between two runs of most schedules: a burst must write freed room again.
IDLE_MS: Final = 15 * 60 * 1000
# Steps of one round: two segments turned, files removed, snapshots until the older one is newer.
STEPS_MAX: Final = 8


class Reclaim:
    """What one journal frees while it is idle."""

    __slots__ = ("_at", "_gave_up", "_journal", "_maintenance", "_number", "_steps")

    def __init__(self, journal: Journal, maintenance: Maintenance) -> None:
        self._journal = journal
        self._maintenance = maintenance
        self._number = self._at = 0  # where the log was, by segment and offset
        self._steps = 0
        self._gave_up = (0, 0)  # the bytes that the last round left, and the segment it ended in

    # -- is it idle -------------------------------------------------------------------------

    @property
    def may_have_some(self) -> bool:
        """True if the journal may have something to free: `surplus` says how much."""
        journal = self._journal
        active, unused = journal.active, journal.preallocation.unused_sizes()
        least = max(RESERVE_BYTES, journal.sizes.segment_min)
        is_large = active is not None and active.capacity > least
        return is_large or len(journal.segments) > 1 or bool(unused)

    def mark(self, now_ms: int) -> int:
        """Remember where the log is now; return when to see if it `writes_little`."""
        active = self._journal.active
        self._number, self._at = (active.number, active.at) if active is not None else (0, 0)
        return now_ms + IDLE_MS

    @property
    def writes_little(self) -> bool:
        """True if less than the reserve was written since the mark."""
        active = self._journal.active
        number, at = (active.number, active.at) if active is not None else (0, 0)
        return number == self._number and at - self._at < RESERVE_BYTES

    @property
    def is_ready(self) -> bool:
        """True if all is on disk, and no job of this journal is under way."""
        return (
            self._journal.is_resting
            and not self._maintenance.is_snapshotting
            and not self._journal.segment_list.busy
        )

    # -- what there is ----------------------------------------------------------------------

    def surplus(self, unix_ms: int) -> int:
        """Return how many bytes the journal can free. Above the reserve it stops counting, so the
        result may be too low."""
        journal = self._journal
        active = journal.active
        total = sum(journal.preallocation.unused_sizes())
        total -= journal.preallocation.next_unused(self._next_most)
        if active is not None and self._may_turn(active):
            total += active.capacity - active.live_bytes - journal.preallocation.small_bytes
        over = journal.segments[: journal.segment_list.retention.over(journal.segments, unix_ms)]
        before: Segment | None = None  # the last that stays; an open one needs the next for its end
        for segment in over:
            if segment.live:
                before = segment
            elif not segment.unread and (before is None or not before.is_open):
                total += segment.capacity
        while total <= RESERVE_BYTES and (
            run := choose(over, journal.commit.lsn_durable, journal.sizes.segment_max)
        ):
            total += run_capacity(run) - compacted_bytes(sum(live_frame_bytes(s) for s in run))
            over = over[over.index(run[-1]) + 1 :]
        return total

    def is_worth_it(self, unix_ms: int) -> bool:
        """True if there is more than the reserve to free, and no round has failed to."""
        self._count_confirms()
        left, number = self._gave_up
        surplus, active = self.surplus(unix_ms), self._journal.active
        is_new = active is not None and active.number != number
        return surplus > RESERVE_BYTES and (is_new or surplus >= left + RESERVE_BYTES)

    def _count_confirms(self) -> None:
        """Count anew the room that the confirms of sealed segments need. The last count was made
        when a segment was sealed."""
        journal = self._journal
        journal.preallocation.count_sealed([s for s in journal.segments if s is not journal.active])

    def _may_turn(self, active: Segment) -> bool:
        """True if the log can go on in a smaller segment, so that this one may go."""
        journal = self._journal
        if journal.segment_list.retention.is_on:
            return False  # its done items stay, and the sealed segment would not be smaller
        small = journal.preallocation.small_bytes
        return active.live_bytes * 2 < active.capacity and small * 2 <= active.capacity

    @property
    def _next_most(self) -> int:
        """The largest prepared file in which the log may go on; 0: it goes on in a new one."""
        active = self._journal.active
        if active is None or self._may_turn(active):
            return 0
        return active.capacity * GROWTH

    @property
    def _is_outnumbered(self) -> bool:
        """True if a segment with nothing alive stays until a small log has a higher number."""
        journal = self._journal
        active = journal.active
        if active is None or active.capacity > RESERVE_BYTES:
            return False
        if journal.segment_list.retention.is_on:
            return False
        return any(not s.live and s.number > active.number for s in journal.segments)

    # -- freeing it ------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Begin with the first step."""
        self._steps = 0

    def next_step(self, unix_ms: int, may_write: bool) -> list[str] | None:
        """Return the files that the next step of this round removes, in any order. An empty list
        means: append a record (`begin_turn`). None: the round is over. Call it when `is_ready`.

        `may_write`: the log has room for records that no client asked for.
        """
        self._count_confirms()
        journal = self._journal
        preallocation, active = journal.preallocation, journal.active
        is_over = self._steps == STEPS_MAX or self.surplus(unix_ms) <= RESERVE_BYTES
        if not is_over:
            self._steps += 1
            if paths := preallocation.take_unused(self._next_most):
                preallocation.shrinks = True
                return paths
            if may_write and active is not None:
                return []
        self._gave_up = self.surplus(unix_ms), active.number if active is not None else 0
        return None

    def has_room(self, free_bytes: int) -> bool:
        """True if the disk has room for the files that follow `begin_turn`."""
        return free_bytes >= RESERVE_BYTES + self._journal.preallocation.small_bytes

    def begin_turn(self) -> None:
        """The record that is appended next begins a small segment, or lets a snapshot be taken."""
        journal = self._journal
        active = journal.active
        journal.preallocation.shrinks = True
        if active is not None and (self._may_turn(active) or self._is_outnumbered):
            journal.turns = True  # the next record stands in a segment of its own
        elif journal.segments[:-1]:
            self._maintenance.is_asked = True
        self._maintenance.is_asked |= bool(self._maintenance.lsns)

    def went_on(self) -> None:
        """Move the mark if a step of this round has made the log go on in another segment."""
        active = self._journal.active
        if active is not None and active.number != self._number:
            self._number, self._at = active.number, 0
