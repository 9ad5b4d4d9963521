"""What a journal needs beside its records, done on threads: snapshots of its queue's state, and
the rewriting of segments that are mostly done with.

    a write that leaves nothing pending ──▶ State, copied ──▶ its lsn is durable ──▶ SnapshotJob.run

One rule: a snapshot never says more than the log has on disk; so it is written only once the log is
durable up to its lsn, and it has its name only when it is whole.
"""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.apart import DelayedEntry, PlacedEntry
from journal.carry import CarryJob
from journal.checkpoint import Checkpoint
from journal.files import Files
from journal.ids import IdCounts, IdSet
from journal.lending import LeaseEntry
from journal.moving import Origin
from journal.reclaim import choose
from journal.rotation import Segment
from journal.segment import SURVIVORS, SegmentHeader, segment_path
from journal.snapshot import DeadEntry, SegmentState, Snapshot, snapshot_name

if TYPE_CHECKING:
    from journal.journal import Journal

# A start reads the records behind the newest snapshot: so many take about half a second.
SNAPSHOT_RECORDS: Final = 50_000
# The older one is there in case the newer one is damaged.
SNAPSHOTS_KEPT: Final = 2
# A journal of so few segments is read whole.
UNSETTLED_SEGMENTS: Final = 2


@dataclass(frozen=True, slots=True)
class State:
    """All there is to know of a queue but the bodies, as a copy: it is read on a thread."""

    checkpoint: Checkpoint
    live: IdSet
    live_bytes: int
    attempts: IdCounts
    dead: list[DeadEntry]
    leased: list[LeaseEntry] = field(default_factory=list)
    paused: bool = False
    declared: bytes = b""
    delayed: Iterable[DelayedEntry] = ()
    placed: Iterable[PlacedEntry] = ()
    epochs: dict[bytes, int] = field(default_factory=dict)
    held: dict[int, bytes] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """One snapshot to be written. `outdated` goes for it; on a full disk its room is taken."""

    folder: str
    outdated: str
    snapshot: Snapshot
    short_identity: int
    identity: bytes
    time_ms: int

    def run(self, files: Files) -> None:
        """It is on disk, with its name, on return. Blocks; raises OSError."""
        data = self.snapshot.encode(self.short_identity, self.identity, self.time_ms)
        path = os.path.join(self.folder, snapshot_name(self.snapshot.lsn))
        try:
            files.create(path, data, len(data)).close()
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.outdated:
                raise
            files.create_over(self.outdated, path, data)


class Upkeep:
    """When a journal is due for a snapshot or a rewriting, and what has come of it.

    `snapshots` are the lsns of those on disk, rising.
    """

    __slots__ = ("_begun_lsn", "_journal", "has_rotated", "snapshots")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._begun_lsn = 0  # of the snapshot being written; 0: none is
        self.has_rotated = False
        self.snapshots: list[int] = []

    @property
    def wants_snapshot(self) -> bool:
        """Would a snapshot now make the next start much shorter, or let segments go?"""
        journal = self._journal
        commit = journal.commit
        if self._begun_lsn or journal.has_pending or commit.failure or journal.active is None:
            return False
        records = commit.lsn_written - (self.snapshots[-1] if self.snapshots else 0)
        is_due = records >= SNAPSHOT_RECORDS or (
            self.has_rotated and len(journal.segments) > UNSETTLED_SEGMENTS
        )
        return is_due and not self._misses_items

    @property
    def _misses_items(self) -> bool:
        """Did the disk not give a segment at the start whose items no snapshot knows?

        A snapshot now would say that they are gone, and the disk may give them at the next start.
        """
        newest = self.snapshots[-1] if self.snapshots else 0
        return any(s.unread and not 0 < s.lsn_last <= newest for s in self._journal.segments)

    @property
    def lsns(self) -> list[int]:
        """Of the snapshots that a start may find; the first may still be on its way to the disk."""
        return self.snapshots or ([self._begun_lsn] if self._begun_lsn else [])

    def begin_snapshot(self, state: State, time_ms: int) -> SnapshotJob:
        """The state as of now, to be written once its lsn is durable.

        Give the job to `finish_snapshot`. Nothing may be pending.
        """
        journal = self._journal
        active = journal.active
        assert active is not None and not journal.has_pending
        self._begun_lsn, self.has_rotated = journal.commit.lsn_written, False
        segments = [
            SegmentState(s.number, s.item_first, s.item_last, s.live, s.live_bytes)
            for s in journal.segments
            if s is not active
        ]
        snapshot = Snapshot(
            journal.commit.lsn_written, active.number, active.at, state.checkpoint, state.live,
            state.live_bytes, state.attempts, state.dead, segments, copy.deepcopy(active.tally),
            state.leased, state.paused, state.declared, state.delayed, state.placed,
            state.epochs, state.held, state.origins,
        )  # fmt: skip
        outdated = self._path(self.snapshots[0]) if len(self.snapshots) == SNAPSHOTS_KEPT else ""
        return SnapshotJob(
            journal.folder, outdated, snapshot, journal.short_identity, journal.identity, time_ms
        )

    def finish_snapshot(self, job: SnapshotJob, done: bool) -> str:
        """It is on disk, or was not written. Returns the path of one that is superfluous now."""
        self._begun_lsn = 0
        if not done:
            return ""
        self.snapshots.append(job.snapshot.lsn)
        if len(self.snapshots) <= SNAPSHOTS_KEPT:
            return ""
        return self._path(self.snapshots.pop(0))

    def _path(self, lsn: int) -> str:
        return os.path.join(self._journal.folder, snapshot_name(lsn))

    def choose(self, live_lsn: int) -> list[Segment]:
        """Segments that are mostly done with, to be rewritten; none: there are none.

        What is alive will be told as of `live_lsn`, so all that was put in them is older. (Newer
        snapshots may be on disk by now.)
        """
        journal = self._journal
        if journal.ledger.busy or len(self.snapshots) < SNAPSHOTS_KEPT or journal.commit.failure:
            return []
        settled_lsn = min(self.snapshots[0], live_lsn)
        chosen = choose(journal.segments, settled_lsn, journal.sizes.segment_max)
        durable = journal.commit.lsn_durable
        if any(not s.live and s.emptied_lsn > durable for s in chosen):
            return []  # a power cut may yet bring back what is in one of them
        return chosen

    def begin_carry(
        self, chosen: list[Segment], live: IdSet, pause: Callable[[], None], time_ms: int
    ) -> CarryJob:
        """The rewriting of what is alive in them, for a thread; give it to `finish_carry`.

        `live` are the items of a snapshot that is on disk: one that was confirmed since is carried
        too, because a power cut may take that confirm away.
        """
        journal = self._journal
        journal.ledger.busy = chosen
        journal.spares.number += 1
        number = journal.spares.number
        header = SegmentHeader(
            journal.short_identity, journal.identity, number, 0, time_ms, SURVIVORS
        )
        behind = journal.segments[journal.segments.index(chosen[-1]) + 1]
        part = live.between(
            min(s.item_first for s in chosen if s.item_first), max(s.item_last for s in chosen)
        )
        opening = journal.checkpoint().draft(time_ms, journal.commit.lsn_appended)
        path = segment_path(journal.folder, number)
        return CarryJob.of(chosen, behind.lsn_first, part, path, header, opening, pause)

    def finish_carry(
        self, chosen: list[Segment], job: CarryJob, survivors: Segment | None
    ) -> list[str]:
        """It is over. Returns the paths of what the new segment stands for, if there is one."""
        ledger = self._journal.ledger
        ledger.busy = []
        if len(job.weights) == len(chosen):
            job.weigh(chosen)
        return ledger.replace(chosen, survivors) if survivors is not None else []
