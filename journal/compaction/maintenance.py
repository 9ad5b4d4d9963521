"""The maintenance of a journal: it makes the jobs for threads, and takes over their results.

    snapshots   when: `journal.snapshot.is_due`    the job: `journal.snapshot.SnapshotJob`
    merges      of files of remembered ids         the job: `journal.snapshot.MergeJob`
    compaction  of segments with little alive      the job: `CompactionJob`; which ones: `choose`

One rule: at most one job of each kind is under way, and a result counts once it is on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from journal.compaction.compaction import CompactionJob
from journal.compaction.picker import choose
from journal.format import COMPACTED, SegmentHeader, segment_path
from journal.sets import IdSet
from journal.snapshot import (
    SNAPSHOTS_RETAINED,
    Chunk,
    MergeJob,
    PendingEntries,
    QueueCopy,
    RememberedIds,
    SegmentState,
    Snapshot,
    SnapshotJob,
    choose_merge,
    earliest,
    is_due,
    snapshot_name,
)
from journal.write import Journal, Segment

NEVER: Final = 1 << 62


class Maintenance:
    """When a journal is due for a snapshot or a compaction, and the results of both.

    `snapshots` are the lsns of those on disk, rising.
    """

    __slots__ = (
        "_begun_at", "_begun_lsn", "_forgotten", "_is_merging", "_journal", "_leased",
        "_refused_at", "_snapshot_bytes", "_tried_lsn", "chunks", "goes_on", "is_asked",
        "lost_chunks", "snapshots",
    )  # fmt: skip

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._begun_lsn = 0  # of the snapshot being written; 0: none is
        self._tried_lsn = 0  # of the last snapshot that was begun
        self._leased = 0  # leases in the latest snapshot
        self.goes_on = 0, 0  # where the log goes on after the newest snapshot: segment, offset
        self._snapshot_bytes = 0  # of the newest snapshot's file
        self._begun_at = 0  # the last prepared segment at the beginning of the latest snapshot
        self._refused_at = NEVER  # the same, if that snapshot could not be written
        self.is_asked = False  # segments may go as soon as a new snapshot covers them
        self.snapshots: list[int] = []
        self.chunks: list[Chunk] = []  # of ids and versions, in the order of their records
        self.lost_chunks: list[Chunk] = []  # these are lost; named until they would be forgotten
        self._is_merging = False
        # Chunks that new snapshots do not list, and how many of these must be written before each
        # chunk goes.
        self._forgotten: list[tuple[Chunk, int]] = []

    @property
    def wants_snapshot(self) -> bool:
        """True if a snapshot now would make the next start much shorter, or let segments go."""
        journal = self._journal
        commit = journal.commit
        if self._begun_lsn or journal.has_pending or commit.failure or journal.active is None:
            return False
        records = commit.lsn_written - (self.snapshots[-1] if self.snapshots else 0)
        segments = len(journal.segments) if journal.has_rotated else 0
        limit, is_long = journal.sizes.snapshot_bytes, False
        if limit:
            is_long, segments = self._bytes_after() >= max(limit, self._snapshot_bytes), 0
        return (
            self.is_asked or is_due(records, self._leased, segments) or is_long or self._holds_room
            or self._refused_at < journal.preallocation.prepared  # there is room again
        ) and not self._misses_items

    def _bytes_after(self) -> int:
        """Return how many bytes of segments a start would read, after the newest snapshot."""
        journal, (number, offset) = self._journal, self.goes_on
        newest = self.snapshots[-1] if self.snapshots else 0
        found = 0
        for segment in reversed(journal.segments):
            found += journal.written_end(segment) - (offset if segment.number == number else 0)
            if segment.lsn_first <= newest + 1:
                break
        return found

    @property
    def is_snapshotting(self) -> bool:
        """True if a snapshot is being written."""
        return self._begun_lsn > 0

    @property
    def _holds_room(self) -> bool:
        """True if the disk is full and snapshots keep a segment whose file confirms may need.

        A snapshot is tried again only after another record: then it covers more, or has room.
        """
        journal, snapshots = self._journal, self.snapshots
        if not (journal.preallocation.is_short and snapshots):
            return False
        if journal.commit.lsn_written <= max(snapshots[-1], self._tried_lsn):
            return False
        return any(not s.live and s.lsn_last > snapshots[0] for s in journal.segments[:-1])

    def is_over(self, unix_ms: int, is_changed: bool = False) -> bool:
        """True if the retention of something is over. It goes at the next write and sync.

        `is_changed`: the retention has just been set.
        """
        journal, retention = self._journal, self._journal.segment_list.retention
        if retention.wants_turn(journal.active, unix_ms):
            journal.turns = True
            return True
        self.is_asked |= retention.is_news(journal.segments, unix_ms)
        self.is_asked |= is_changed and retention.over(journal.segments, unix_ms) > 0
        return self.is_asked

    @property
    def _misses_items(self) -> bool:
        """True if the disk did not give a segment at the start whose items no snapshot knows.

        A snapshot now would say that they are gone, and the disk may give them at the next start.
        """
        newest = self.snapshots[-1] if self.snapshots else 0
        return any(s.unread and not 0 < s.lsn_last <= newest for s in self._journal.segments)

    @property
    def lsns(self) -> list[int]:
        """The snapshots that a start may find; the first may still be on its way to the disk."""
        return self.snapshots or ([self._begun_lsn] if self._begun_lsn else [])

    def begin_snapshot(self, state: QueueCopy, time_ms: int) -> SnapshotJob:
        """Return a job with the state as of now, to be written once its lsn is durable.

        Give the job to `finish_snapshot`. Nothing may be pending.
        """
        journal = self._journal
        active = journal.active
        assert active is not None and not journal.has_pending
        self._begun_lsn = self._tried_lsn = journal.commit.lsn_written
        journal.has_rotated = False
        self.is_asked, self._refused_at = False, NEVER
        self._begun_at = journal.preallocation.prepared
        self._leased = len(state.leased)
        segments = [
            SegmentState(s.number, s.item_first, s.item_last, s.live, s.live_bytes)
            for s in journal.segments
            if s is not active
        ]
        snapshot = Snapshot(
            journal.commit.lsn_written, active.number, active.at, state.checkpoint, state.live,
            state.live_bytes, state.attempts, state.dead, segments, active.tally.copy(),
            state.leased, state.standing, state.delayed, state.placed,
            state.watermarks, state.held, state.origins, state.readers, state.passes_on,
            state.retained,
        )  # fmt: skip
        snapshot.is_tombstone = state.is_tombstone
        snapshot.floor, snapshot.ageless = state.floor, state.ageless
        batch, memory = PendingEntries(), state.memory
        if memory is not None:
            batch = memory.fresh.take()
            self._forget(memory, time_ms)
            snapshot.scopes, snapshot.chunks = memory.scopes, [*self.lost_chunks, *self.chunks]
        return SnapshotJob(
            journal.folder, self._outdated(), snapshot, journal.short_identity, journal.identity,
            time_ms, memory, batch,
        )  # fmt: skip

    def _outdated(self) -> str:
        """Return the path of the snapshot that the next one may be written over; empty: none.

        While that is being written a start has only the other one, or the log alone.
        """
        if self.snapshots and (
            len(self.snapshots) == SNAPSHOTS_RETAINED or self._journal.segment_list.is_whole
        ):
            return self._path(self.snapshots[0])
        return ""

    def finish_snapshot(self, job: SnapshotJob, done: bool) -> list[str]:
        """Note that the snapshot is on disk, or was not written. Return paths that are outdated."""
        self._begun_lsn = 0
        if not done:
            self._refused_at = self._begun_at
            if job.is_lost:
                self.snapshots.pop(0)
                self.note_covered()
            if job.memory is not None:
                job.memory.fresh.give_back(job.batch)
            return []
        if job.chunk is not None:
            self.chunks.append(job.chunk)
        if job.is_over:
            self.snapshots.pop(0)
        if self.snapshots[-1:] == [job.snapshot.lsn]:
            self.note_covered()
            return []  # nothing was written since the newest: it stands in that one's file
        self.snapshots.append(job.snapshot.lsn)
        self.goes_on = job.snapshot.segment, job.snapshot.offset
        self._snapshot_bytes = job.file_bytes
        outdated = []
        if len(self.snapshots) > SNAPSHOTS_RETAINED:
            outdated.append(self._path(self.snapshots.pop(0)))
        self.note_covered()
        self._forgotten = [(chunk, left - 1) for chunk, left in self._forgotten]
        outdated += [self._chunk_path(chunk) for chunk, left in self._forgotten if left <= 0]
        self._forgotten = [(chunk, left) for chunk, left in self._forgotten if left > 0]
        return outdated

    def note_covered(self) -> None:
        """Note up to where two snapshots cover the log."""
        is_covered = len(self.snapshots) == SNAPSHOTS_RETAINED
        self._journal.segment_list.covered_lsn = self.snapshots[0] if is_covered else 0
        self._journal.preallocation.count_again()

    def _forget(self, memory: RememberedIds, time_ms: int) -> None:
        """Let go the chunks whose entries are all forgotten, once no snapshot lists them."""
        epochs = memory.epochs
        self.lost_chunks = [c for c in self.lost_chunks if memory.needs(c, epochs, time_ms)]
        if self._is_merging:
            return
        gone = [chunk for chunk in self.chunks if not memory.needs(chunk, epochs, time_ms)]
        self.chunks = [chunk for chunk in self.chunks if chunk not in gone]
        self._forgotten += [(chunk, SNAPSHOTS_RETAINED) for chunk in gone]

    def begin_merge(self, snapshot: SnapshotJob, pause: Callable[[], None]) -> MergeJob | None:
        """Return a job that merges some chunks, for a thread; give it to `finish_merge`."""
        memory = snapshot.memory
        if memory is None or self._is_merging or self._begun_lsn:
            return None
        lost = max((chunk.last for chunk in self.lost_chunks), default=0)
        # A chunk merged from both sides of a lost one would seem to cover the lost one as well.
        chosen = choose_merge([c for c in self.chunks if c.first > lost], memory.keys)
        if not chosen:
            return None
        self._is_merging = True
        return MergeJob(
            self._journal.folder, chosen, self._journal.identity, memory.epochs,
            earliest(memory.ids_window_ms, snapshot.time_ms),
            earliest(memory.keys_window_ms, snapshot.time_ms), snapshot.time_ms, pause,
        )  # fmt: skip

    def finish_merge(self, job: MergeJob, merged: Chunk | None) -> list[str]:
        """Note the merged chunk, if there is one. Return the paths of the chunks it stands for."""
        self._is_merging = False
        if merged is None:
            return []
        at = self.chunks.index(job.chosen[0])
        self.chunks[at : at + len(job.chosen)] = [merged]
        return [self._chunk_path(chunk) for chunk in job.chosen]

    def _chunk_path(self, chunk: Chunk) -> str:
        return os.path.join(self._journal.folder, chunk.name)

    def _path(self, lsn: int) -> str:
        return os.path.join(self._journal.folder, snapshot_name(lsn))

    def choose(self, live_lsn: int, unix_ms: int = 0) -> list[Segment]:
        """Return the segments to be rewritten because they are mostly done; empty: there are none.

        Segments that are retained for their done items stay as they are.

        The live items will be those as of `live_lsn`, so every put in the segments is older. (Newer
        snapshots may be on disk by now.)
        """
        journal, segments = self._journal, self._journal.segment_list
        if segments.busy or len(self.snapshots) < SNAPSHOTS_RETAINED or journal.commit.failure:
            return []
        if live_lsn < segments.revived_lsn:
            return []  # the live set is older than a record by which done items are needed again
        covered_lsn = min(self.snapshots[0], live_lsn)
        over = journal.segment_list.retention.over(journal.segments, unix_ms)
        chosen = choose(journal.segments[:over], covered_lsn, journal.sizes.segment_max)
        durable = journal.commit.lsn_durable
        if any(not s.live and s.emptied_lsn > durable for s in chosen):
            return []  # a power cut may still bring back items of one of them
        return chosen

    def begin_compaction(
        self, chosen: list[Segment], live: IdSet, pause: Callable[[], None], time_ms: int
    ) -> CompactionJob:
        """Return the compaction of these, for a thread; give it to `finish_compaction`.

        `live` are the items of a snapshot on disk: an item confirmed since is rewritten as well,
        because a power cut may take that confirm away.
        """
        journal = self._journal
        journal.segment_list.busy = chosen
        journal.preallocation.number += 1
        number = journal.preallocation.number
        header = SegmentHeader(
            journal.short_identity, journal.identity, number, 0, time_ms, COMPACTED
        )
        behind = journal.segments[journal.segments.index(chosen[-1]) + 1]
        part = live.between(
            min(s.item_first for s in chosen if s.item_first), max(s.item_last for s in chosen)
        )
        opening = journal.checkpoint().draft(time_ms, journal.commit.lsn_appended)
        path = segment_path(journal.folder, number)
        return CompactionJob.of(chosen, behind.lsn_first, part, path, header, opening, pause)

    def finish_compaction(
        self, chosen: list[Segment], job: CompactionJob, compacted: Segment | None
    ) -> list[str]:
        """Put the new segment in their place, if there is one. Return the paths it stands for."""
        segment_list = self._journal.segment_list
        segment_list.busy = []
        if len(job.measures) == len(chosen):
            job.measure(chosen)
        if compacted is None:
            return []
        replaced = segment_list.replace(chosen, compacted)
        self._journal.preallocation.count_again()
        return replaced
