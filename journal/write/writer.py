"""One queue's journal: append, write and sync a batch, rotate, drop dead segments, close.

    append (hot, no I/O) -> write (one write per turn) -> SyncJob.run (on a thread) -> finish_sync
                              |
                              +-- the active segment is full: seal it, go on in the prepared one;
                                  none prepared: the rest waits, and `wants_preallocation` is True

    close: write all -> sync -> an empty batch that says so -> close the files

One rule: nothing is durable before a *finished* sync covered it, and after one failed write or sync
this journal never writes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from journal.errors import JournalFailed
from journal.files import Files, Handle, is_shortage
from journal.format import (
    FOOTER_SPACE_BYTES,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    PLACING,
    Checkpoint,
    Kind,
    RawDraft,
    encode,
    ended_bytes,
    usable_bytes,
)
from journal.sets import IdSet
from journal.write.disk_use import DiskUse, disk_use
from journal.write.group_commit import GroupCommit, SyncJob
from journal.write.preallocation import Preallocation
from journal.write.segment_file import (
    BATCH_BYTES,
    CHECKPOINT_BYTES_MAX,
    PreallocationJob,
    Segment,
    Sizes,
    batch_of,
)
from journal.write.segment_list import NONE_OPEN, SegmentList

# How often `close` tries again after a shortage, with a pause each time.
TRIES_MAX: Final = 20

_PUT: Final = int(Kind.PUT)
# Stands in place of the lsn of a put: the draft changes which of many items are needed.
_RECOUNTED: Final = -1
# These wait until there is room for them and for the confirms and returns to come.
_TAKING_ROOM: Final = frozenset(
    {int(Kind.PUT), int(Kind.LEASED), int(Kind.RENEWED), int(Kind.MOVING)}
)


class Journal:
    """The writing side. Not thread-safe: one thread owns it, jobs run elsewhere."""

    __slots__ = (
        "_flushed", "_pending", "_retired", "_to_sync", "active", "checkpoint", "commit", "files",
        "folder", "has_rotated", "identity", "is_stalled", "preallocation", "room", "segment_list",
        "short_identity", "shortage", "sizes", "turns",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        folder: str,
        identity: bytes,
        sizes: Sizes,
        checkpoint: Callable[[], Checkpoint],
        lsn_last: int = 0,
        segment_last: int = 0,
    ) -> None:
        self.files = files
        self.folder = folder
        self.identity = identity
        self.short_identity = int.from_bytes(identity[:4], "little") or 1
        self.sizes = sizes
        self.checkpoint = checkpoint
        self.commit = GroupCommit(lsn_last)
        self.segment_list = SegmentList()
        self.preallocation = Preallocation(self, segment_last)
        self.room = self.preallocation.room
        self.has_rotated = False  # since the last snapshot was begun
        self.active: Segment | None = None
        self.turns = False  # the next record stands in a segment of its own
        self.is_stalled = False  # the pending records wait for a segment
        self.shortage: OSError | None = None  # why its segment could not be opened for the moment
        self._pending: list[RawDraft] = []
        self._flushed: list[IdSet] = []
        self._to_sync: list[Handle] = []
        self._retired: list[Handle] = []

    def adopt(self, live: IdSet, live_bytes: int) -> None:
        """Set the live items after recovery; their bodies have `live_bytes` bytes together."""
        self.segment_list.adopt(live, live_bytes)
        self.preallocation.count_sealed([s for s in self.segments if s is not self.active])
        self.preallocation.count()

    # -- appending --------------------------------------------------------------------------

    def append(self, draft: RawDraft) -> int:
        """Add a record and return its log sequence number. No I/O; cannot fail."""
        self._pending.append(draft)
        self.room.charge(draft)
        commit = self.commit
        commit.lsn_appended = lsn = commit.lsn_appended + 1
        return lsn

    def append_run(self, drafts: list[RawDraft], body_bytes: int) -> int:
        """Add records of items with nothing but a body, one after the other, and return the log
        sequence number of the last."""
        self._pending += drafts
        self.room.charge_run(drafts, body_bytes)
        commit = self.commit
        commit.lsn_appended = lsn = commit.lsn_appended + len(drafts)
        return lsn

    def append_flush(self, draft: RawDraft, needed: IdSet) -> int:
        """Add a record after which, of all items put so far, just these are needed."""
        self._flushed.append(needed)
        return self.append((*draft[:8], _RECOUNTED))

    @property
    def has_pending(self) -> bool:
        """True if a record is appended that has not been written."""
        return bool(self._pending)

    @property
    def first_pending(self) -> RawDraft | None:
        """The record that is written next."""
        return self._pending[0] if self._pending else None

    @property
    def pending_bytes(self) -> int:
        """The size of the records that are appended and not written."""
        return sum(HEADER_BYTES + len(draft[5]) + len(draft[6]) for draft in self._pending)

    @property
    def can_write(self) -> bool:
        """True if the next `write` will write something. (A turn writes a bounded part.)"""
        return (
            bool(self._pending)
            and not (self.is_stalled or self.shortage)
            and self.active is not None
            and not self.commit.has_failed
        )

    # -- writing ----------------------------------------------------------------------------

    def write(self, time_ms: int) -> None:
        """Hand the pending records to the operating system, as many as have room in this turn.

        Never raises: a failed write is kept in `commit.failure`. If a segment cannot be opened for
        the moment, nothing is written, and `shortage` says why.
        """
        if self.commit.has_failed:
            return
        self.shortage = None
        budget, preallocation = self.sizes.batch_max, self.preallocation
        if self.turns and self._pending and self.active is not None:
            is_early = bool(preallocation.waiting) and not preallocation.may_turn
            if not (is_early or preallocation.is_short or self._rotate(time_ms)):
                return
            self.turns = is_early and not preallocation.is_short
        while self._pending and budget > 0:
            if self.active is None and not self._rotate(time_ms):
                return
            if self._pending[0][0] in _TAKING_ROOM and not self.preallocation.may_accept:
                self.is_stalled = True
                return
            self.is_stalled = False
            assert self.active is not None
            if not self._open(self.active):
                return
            written = self._write_batch(budget, time_ms)
            if self.commit.has_failed:
                return
            budget -= written
            if not written and not self._rotate(time_ms):
                return
        if not self._pending:
            self.preallocation.count()

    def _write_batch(self, budget: int, time_ms: int) -> int:
        """Write one batch into the active segment. Return its bytes; 0: no record fits."""
        segment = self.active
        assert segment is not None
        room = min(usable_bytes(segment.capacity) - segment.at, FRAME_BYTES_MAX)
        pending = self._pending
        commit = self.commit
        journal, number = self.short_identity, segment.number
        offset = start = segment.at
        stop, soft_stop = start + room, start + min(room, budget)
        lsn = commit.lsn_written
        frames: list[bytes] = []
        offset += BATCH_BYTES
        taken = puts = 0
        tally = segment.tally
        counts = tally.counts
        item_first = item_last = place_first = place_last = placed = time_seen = 0
        for draft in pending:
            if offset >= soft_stop and taken:
                break
            if offset + HEADER_BYTES + len(draft[5]) + len(draft[6]) + 7 > stop:
                break
            lsn += 1
            offset += encode(draft, lsn, journal, number, offset, frames)
            taken += 1
            kind = draft[0]
            if draft[4] != time_seen:
                time_seen = draft[4]
                tally.see_time(time_seen)
            if kind == _PUT:
                puts += 1
                item_last = segment.item_last = draft[1]
                item_first = item_first or item_last
                segment.item_first = segment.item_first or item_last
                segment.live += 1
                segment.live_bytes += HEADER_BYTES + len(draft[6])
                if draft[2]:
                    place_last = draft[2]
                    place_first = place_first or place_last
                continue
            counts[kind] += 1
            if draft[8] > 0:
                self.segment_list.end(draft[1], HEADER_BYTES + ended_bytes(draft[3], draft[5]), lsn)
            elif draft[8]:
                self._recount(lsn)
            elif kind in PLACING:
                tally.see_released_ids(placed := draft[2], placed)
        if not taken:
            return 0
        counts[_PUT] += puts
        segment.puts = counts[_PUT]
        tally.see_items(item_first, item_last)
        tally.see_released_ids(place_first, place_last)
        batch = batch_of(commit, journal, segment, offset - start, taken, time_ms) + frames
        del pending[:taken]
        if not self._write_at(segment, start, b"".join(batch)):
            return 0
        segment.at, commit.lsn_written = offset, lsn
        commit.item_written = max(item_last, placed) or commit.item_written
        return offset - start

    def _recount(self, lsn: int) -> None:
        self.segment_list.recount(self._flushed.pop(0), lsn)

    def _open(self, segment: Segment) -> bool:
        """Open the segment for writing, before any record to be written is counted."""
        if segment.handle is not None:
            return True
        try:
            segment.handle = self.files.open(segment.path)
        except OSError as error:
            if is_shortage(error):
                self.shortage = error
            else:
                self.fail("opening", segment.path, error)
        return segment.handle is not None

    def _write_at(self, segment: Segment, offset: int, data: bytes) -> bool:
        handle = segment.handle
        assert handle is not None, "a segment is opened before it is written to"
        if segment.recycled:
            data += segment.stop(offset + len(data))
        try:
            handle.write(offset, data)
        except OSError as error:
            self.fail("writing", segment.path, error)
            return False
        if handle not in self._to_sync:
            self._to_sync.append(handle)
        return True

    def fail(self, doing: str, path: str, error: OSError) -> None:
        """Remember for good that `doing` something to `path` failed."""
        reason = error.strerror or str(error)
        self.commit.fail(JournalFailed(f"{path}: {doing} failed: {reason}"))

    # -- rotating ---------------------------------------------------------------------------

    @property
    def wants_preallocation(self) -> bool:
        """True if another segment is to be prepared now: the room left is too little."""
        return self.preallocation.is_wanted

    def begin_preallocation(self, time_ms: int, reserve_bytes: int = 0) -> PreallocationJob:
        """Return the preparation of the next segment, for a thread.

        Give it to `finish_preallocation` or `preallocation_failed` then. A new file leaves
        `reserve_bytes` of the disk free.
        """
        return self.preallocation.begin(time_ms, reserve_bytes)

    def finish_preallocation(self, job: PreallocationJob, handle: Handle) -> None:
        """The segment is on disk."""
        self.preallocation.finish(job, handle)

    def preallocation_failed(self, job: PreallocationJob, error: OSError | None = None) -> None:
        """The disk had no room for the segment, or a shortage kept it from being made."""
        self.preallocation.failed(job, error)

    def _rotate(self, time_ms: int) -> bool:
        """Seal the active segment and go on in the prepared one; return False if there is none."""
        prepared = self.preallocation.next_for(self._pending[0])
        if prepared is None:
            self.is_stalled = True
            return False
        self.is_stalled = False
        # Open both before writing to either: once the active one is sealed, the log must go on.
        if not self._open(prepared) or (self.active is not None and not self._open(self.active)):
            return False
        if self.active is not None and not self._seal(self.active, time_ms):
            return False
        if not self._open_segment(prepared, time_ms):
            return False
        self.preallocation.taken()
        self.has_rotated = True
        self.active = prepared
        self.segments.append(prepared)
        return True

    def _open_segment(self, segment: Segment, time_ms: int) -> bool:
        out: list[bytes] = []
        first = self.commit.lsn_written + 1
        draft = self.checkpoint().draft(time_ms, self.commit.lsn_appended)
        size = encode(draft, first, self.short_identity, segment.number, segment.at, out)
        assert size <= CHECKPOINT_BYTES_MAX, "a checkpoint is bounded"
        if not self._write_at(segment, segment.at, b"".join(out)):
            return False
        segment.lsn_first = first
        segment.at += size
        return True

    def _seal(self, segment: Segment, time_ms: int) -> bool:
        out: list[bytes] = []
        offset = segment.capacity - FOOTER_SPACE_BYTES
        lsn = self.commit.lsn_written + 1
        footer = segment.footer(lsn, time_ms)
        encode(footer, lsn, self.short_identity, segment.number, offset, out)
        if not self._write_at(segment, offset, b"".join(out)):
            return False
        segment.lsn_last, segment.time_last = lsn - 1, segment.tally.time_max
        if segment.handle is not None:
            self._retired.append(segment.handle)
            segment.handle = None
        return True

    # -- syncing ----------------------------------------------------------------------------

    def begin_sync(self) -> SyncJob | None:
        """Return a job that syncs everything written by now; None: nothing to do, or one is in
        flight.
        """
        return self.sync_job() if self.commit.begin_sync() else None

    def sync_job(self) -> SyncJob:
        """Return a job for the files written since the last one."""
        job = SyncJob(self._to_sync, self._retired)
        self._to_sync, self._retired = [], []
        return job

    def finish_sync(self, error: OSError | None) -> None:
        """End the sync in flight; with an error this journal has failed for good."""
        if error is not None:
            self.fail("syncing", self.folder, error)
        self.commit.finish_sync()

    # -- reclaiming -------------------------------------------------------------------------

    @property
    def segments(self) -> list[Segment]:
        """All segments with records, in the order of the log."""
        return self.segment_list.segments

    @segments.setter
    def segments(self, segments: list[Segment]) -> None:
        self.segment_list.segments = segments

    def segment_numbered(self, number: int) -> Segment | None:
        """Return the segment of that number, if it is still there."""
        return self.segment_list.numbered(number)

    def written_end(self, segment: Segment) -> int:
        """Return where the written records of this segment end."""
        return segment.at if segment is self.active else segment.capacity - FOOTER_SPACE_BYTES

    def take_dead(self, snapshots: list[int], unix_ms: int = 0) -> list[str]:
        """Do as `LogStore.take_dead`; `snapshots` are the lsns of those on disk, rising."""
        segment_list, preallocation = self.segment_list, self.preallocation
        durable = self.commit.lsn_durable
        small, preallocation.passed_over = preallocation.passed_over, []
        for handle in [prepared.handle for prepared in small if prepared.handle is not None]:
            handle.close()
        replaced, segment_list.replaced = segment_list.replaced, []
        dead = segment_list.take_dead(durable, snapshots, unix_ms, preallocation.is_short)
        if dead:
            preallocation.count_again()
        return [prepared.path for prepared in small] + replaced + dead

    def disk_use(self) -> DiskUse:
        """Return what the files of this journal are for."""
        return disk_use(self.segments, self.active, self.preallocation.unused_sizes())

    def disk_bytes(self) -> int:
        """Return the size of all files of this journal."""
        return self.disk_use().total

    # -- resting and closing ----------------------------------------------------------------

    @property
    def is_resting(self) -> bool:
        """True if every appended record is on disk and no work is under way."""
        commit = self.commit
        return (
            commit.lsn_durable == commit.lsn_appended
            and not commit.lsn_in_flight
            and not self.preallocation.is_under_way
            and not commit.has_failed
        )

    def rest(self, time_ms: int) -> None:
        """Say at the end that everything is synced, and hold no descriptors until the next write.

        So a process killed later ends as if it had closed this journal. Only when it `is_resting`.
        """
        if self.active is not None:
            self.write_end(self.active, time_ms)
        self.abandon()
        self._to_sync.clear()

    def write_end(self, segment: Segment, time_ms: int) -> bool:
        """Write an empty batch: all before it is synced. The next batch overwrites it."""
        if segment.at + 2 * BATCH_BYTES >= usable_bytes(segment.capacity) or not segment.handle:
            return False
        out = batch_of(self.commit, self.short_identity, segment, BATCH_BYTES, 0, time_ms)
        return self._write_at(segment, segment.at, b"".join(out))

    def close(self, time_ms: int, pause: Callable[[], None] = lambda: None) -> None:
        """Write, sync, and say at the end that everything is synced. Blocks; raises JournalFailed.

        The last empty batch lets the next start go on in this segment. It is not synced itself: it
        has no item, and if a power cut takes it the next start does the same as after any power
        cut. After a failed sync there is no such batch, or the next start would go on in that very
        file.

        No sync may be in flight. Before each retry after a shortage there is a `pause`.
        """
        commit = self.commit
        assert not commit.lsn_in_flight, "a journal is closed when its syncs are over"
        self.write_all(time_ms, pause)
        self.sync_now()
        if not commit.has_failed:
            self.rest(time_ms)
        else:
            self.abandon()
        if commit.failure is not None:
            raise commit.failure

    def abandon(self) -> None:
        """Close the files and promise nothing."""
        for segment in (*self.segments, *self.preallocation.waiting):
            if segment.handle is not None:
                segment.handle.close()
                segment.handle = None
        for handle in self._retired:
            handle.close()
        self._retired = []

    def end(self) -> None:
        """Drop the references to the queue, and to itself: the journal is no longer used."""
        checkpoint = Checkpoint(b"")
        self.checkpoint = lambda: checkpoint
        self.segment_list.first_open = lambda: NONE_OPEN
        self.segment_list.remembers = lambda: False
        self.preallocation.end()

    def write_all(self, time_ms: int, pause: Callable[[], None] = lambda: None) -> None:
        """Write all pending records, and prepare the segments for them here and now. Blocks.

        Never raises: why some could not be written is in `commit.failure`.
        """
        tries = 0
        while self.has_pending and not self.commit.has_failed:
            short, where = self.shortage, self.folder
            if short is None and (self.active is None or self.is_stalled):
                job = self.begin_preallocation(time_ms)
                try:
                    self.finish_preallocation(job, job.prepare(self.files))
                except OSError as error:
                    self.preallocation_failed(job, error)
                    short, where = error, job.path
            if short is not None:
                tries += 1
                if tries == TRIES_MAX or not is_shortage(short):
                    self.fail("preparing", where, short)
                    return
                pause()
            self.write(time_ms)

    def sync_now(self) -> None:
        """Sync everything written by now. Blocks; a failure is in `commit.failure`."""
        job = self.begin_sync()
        if job is not None:
            self._run(job)

    def _run(self, job: SyncJob) -> None:
        try:
            job.run()
        except OSError as error:
            self.finish_sync(error)
        else:
            self.finish_sync(None)
