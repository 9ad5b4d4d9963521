"""One queue's journal: append, write and sync a batch, rotate, drop what is dead, close.

    append (hot, no I/O) -> write (one write per turn) -> SyncJob.run (on a thread) -> finish_sync
                              |
                              +-- the active segment is full: seal it, go on in the spare;
                                  no spare yet: the rest waits, and `wants_spare` says so

One rule: nothing is durable before a *finished* sync covered it, and after one failed write or
sync this journal never writes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from journal.checkpoint import Checkpoint
from journal.commit import GroupCommit, SyncJob
from journal.errors import JournalFailed
from journal.files import Files, Handle
from journal.record import (
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    PLACING,
    Draft,
    Kind,
    RawDraft,
    encode,
)
from journal.recovery import segment_path, usable_bytes
from journal.rotation import (
    BATCH_BYTES,
    CHECKPOINT_BYTES_MAX,
    Segment,
    Sizes,
    SpareOrder,
    least_capacity,
)
from journal.segment import FOOTER_SPACE_BYTES, SegmentHeader

__all__ = ["Journal", "Segment", "Sizes", "SpareOrder", "SyncJob"]

_BATCH: Final = int(Kind.BATCH)
_PUT: Final = int(Kind.PUT)
_FLUSHED: Final = int(Kind.FLUSHED)


class Journal:
    """The writing side. Not thread-safe: one thread owns it, jobs run elsewhere."""

    __slots__ = (
        "_flushed", "_orphans", "_pending", "_retired", "_spare", "_starved", "_to_sync", "active",
        "checkpoint", "commit", "files", "folder", "identity", "segments", "short_identity",
        "sizes", "spare_number", "spare_ordered",
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
        self.segments: list[Segment] = []
        self.active: Segment | None = None
        self.spare_number = segment_last
        self.spare_ordered = False
        self._spare: Segment | None = None
        self._pending: list[RawDraft] = []
        self._flushed: deque[list[int]] = deque()
        self._orphans: list[str] = []
        self._starved = False
        self._to_sync: list[Handle] = []
        self._retired: list[Handle] = []

    # -- appending --------------------------------------------------------------------------

    def append(self, draft: RawDraft) -> int:
        """Add a record; returns its log sequence number. No I/O, cannot fail."""
        self._pending.append(draft)
        commit = self.commit
        commit.lsn_appended += 1
        return commit.lsn_appended

    def adopt(self, put_lsn: int) -> None:
        """After recovery: the put with this lsn is alive in whichever segment holds it."""
        segment = self._segment_of(put_lsn)
        if segment is not None:
            segment.live += 1

    def append_flush(self, draft: Draft, put_lsns: list[int]) -> int:
        """Add a record that ends many puts at once."""
        self._flushed.append(put_lsns)
        return self.append(draft)

    @property
    def has_pending(self) -> bool:
        """Is anything appended that has not been written?"""
        return bool(self._pending)

    @property
    def can_write(self) -> bool:
        """Is something pending that the next `write` will write? (A turn writes a bounded part.)"""
        return (
            bool(self._pending)
            and not self._starved
            and self.active is not None
            and self.commit.failure is None
        )

    # -- writing ----------------------------------------------------------------------------

    def write(self, time_ms: int) -> None:
        """Hand what is pending to the operating system, as far as there is room and a turn allows.

        Never raises: a failed write is kept in `commit.failure`.
        """
        if self.commit.failure is not None:
            return
        budget = self.sizes.batch_max
        while self._pending and budget > 0:
            if self.active is None and not self._rotate(time_ms):
                return
            written = self._write_batch(budget, time_ms)
            if self.commit.failure is not None:
                return
            budget -= written
            if not written and not self._rotate(time_ms):
                return

    def _write_batch(self, budget: int, time_ms: int) -> int:
        """One batch into the active segment; how many bytes, 0: not even one record fits."""
        segment = self.active
        assert segment is not None
        room = min(usable_bytes(segment.capacity) - segment.at, FRAME_BYTES_MAX)
        pending = self._pending
        commit = self.commit
        journal, number = self.short_identity, segment.number
        offset = start = segment.at
        stop = start + room
        soft_stop = min(stop, start + budget)
        lsn = commit.lsn_written
        frames: list[bytes] = []
        offset += BATCH_BYTES
        taken = 0
        tally = segment.tally
        counts = tally.counts
        puts_before = counts[_PUT]
        item_first = item_last = place_first = place_last = time_seen = 0
        for draft in pending:
            if offset >= soft_stop and taken:
                break
            if offset + HEADER_BYTES + len(draft[5]) + len(draft[6]) + 7 > stop:
                break
            lsn += 1
            offset += encode(draft, lsn, journal, number, offset, frames)
            taken += 1
            kind = draft[0]
            counts[kind] += 1
            if draft[4] != time_seen:
                time_seen = draft[4]
                tally.see_time(time_seen)
            if kind == _PUT:
                item_last = draft[1]
                if not item_first:
                    item_first = item_last
                if draft[2]:
                    place_last = draft[2]
                    if not place_first:
                        place_first = place_last
            elif draft[8]:
                self._end(draft[8], lsn)
            elif kind == _FLUSHED:
                for put_lsn in self._flushed.popleft():
                    self._end(put_lsn, lsn)
            elif kind in PLACING:
                tally.see_places(draft[2], draft[2])
        if not taken:
            return 0
        segment.live += counts[_PUT] - puts_before
        tally.see_items(item_first, item_last)
        tally.see_places(place_first, place_last)
        batch = self._batch(segment, offset - start, taken, time_ms)
        batch.extend(frames)
        del pending[:taken]
        if not self._write_at(segment, start, b"".join(batch)):
            return 0
        segment.at = offset
        commit.lsn_written = lsn
        return offset - start

    def _batch(self, segment: Segment, size: int, count: int, time_ms: int) -> list[bytes]:
        """The record that opens `count` others, `size` bytes in all, and says what is synced."""
        commit, out = self.commit, list[bytes]()
        draft = (_BATCH, size, commit.lsn_durable, count, time_ms, b"", b"", 0, 0)
        lsn = commit.lsn_written + 1
        encode(draft, lsn, self.short_identity, segment.number, segment.at, out)
        return out

    def _write_at(self, segment: Segment, offset: int, data: bytes) -> bool:
        handle = segment.handle
        assert handle is not None
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
    def wants_spare(self) -> bool:
        """Should the next segment be prepared now? (The active one is more than half full.)"""
        if self._spare is not None or self.spare_ordered or self.commit.failure is not None:
            return False
        active = self.active
        if active is None:
            return bool(self._pending)
        return self._starved or active.at * 2 > active.capacity

    def order_spare(self, time_ms: int) -> SpareOrder:
        """The next segment to prepare; give it to `spare_ready` when it is, or `spare_failed`."""
        self.spare_ordered = True
        self.spare_number += 1
        last = self.active.capacity if self.active is not None else 0
        first = self._pending[0] if self._pending else None
        capacity = self.sizes.next_capacity(last, first)
        header = SegmentHeader(
            self.short_identity, self.identity, self.spare_number, capacity, time_ms
        )
        return SpareOrder(segment_path(self.folder, self.spare_number), header)

    def spare_ready(self, order: SpareOrder, handle: Handle) -> None:
        """The ordered segment is on disk."""
        self.spare_ordered = False
        self._spare = Segment(order.header.segment, order.path, order.header.capacity, handle)

    def spare_failed(self) -> None:
        """There was no room for it; it may be ordered again, under the same number."""
        self.spare_ordered = False
        self.spare_number -= 1

    def _rotate(self, time_ms: int) -> bool:
        """Seal the active segment and go on in the spare; False: there is none to go on in."""
        spare = self._spare
        if spare is None:
            self._starved = True
            return False
        if spare.capacity < least_capacity(self._pending[0]):
            # Prepared before this large item came: passed over.
            self._spare = None
            self._starved = True
            self._orphans.append(spare.path)
            if spare.handle is not None:
                self._retired.append(spare.handle)
            return False
        if self.active is not None and not self._seal(self.active, time_ms):
            return False
        if not self._open_segment(spare, time_ms):
            return False
        self._spare = None
        self._starved = False
        self.active = spare
        self.segments.append(spare)
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
        if segment.handle is not None:
            self._retired.append(segment.handle)
            segment.handle = None
        return True

    # -- syncing ----------------------------------------------------------------------------

    def begin_sync(self) -> SyncJob | None:
        """A job that makes durable all that is written now; None: nothing to do, or one runs."""
        if not self.commit.begin_sync():
            return None
        job = SyncJob(self._to_sync, self._retired)
        self._to_sync = []
        self._retired = []
        return job

    def finish_sync(self, error: OSError | None) -> None:
        """The job is over; with an error this journal has failed for good."""
        if error is not None:
            self.fail("syncing", self.folder, error)
        else:
            self.commit.finish_sync()

    # -- reclaiming -------------------------------------------------------------------------

    def take_dead(self) -> list[str]:
        """Segments at the front that hold nothing alive, emptied by records that are durable.

        To be removed in this order, and none behind one that could not be removed: what a segment
        says is undone by those behind it.
        """
        dead, self._orphans = self._orphans, []
        durable = self.commit.lsn_durable
        while len(self.segments) > 1:
            segment, following = self.segments[:2]
            if segment.live or max(segment.emptied_lsn, following.lsn_first) > durable:
                break
            dead.append(segment.path)
            del self.segments[0]
        return dead

    def disk_bytes(self) -> int:
        """The size of all files of this journal."""
        spare = self._spare.capacity if self._spare is not None else 0
        return sum(s.capacity for s in self.segments) + spare

    def _segment_of(self, lsn: int) -> Segment | None:
        for segment in reversed(self.segments):
            if segment.lsn_first <= lsn:
                return segment
        return None

    def _end(self, put_lsn: int, lsn: int) -> None:
        segment = self._segment_of(put_lsn)
        if segment is not None:
            segment.live -= 1
            segment.emptied_lsn = lsn

    # -- closing ----------------------------------------------------------------------------

    def close(self, time_ms: int) -> None:
        """Write, sync, and say at the end that everything is synced. Blocks; raises JournalFailed.

        The last empty batch lets the next start go on in this segment. No sync may be in flight.
        """
        assert not self.commit.lsn_in_flight, "a journal is closed when its syncs are over"
        self._write_all(time_ms)
        self._sync_now()
        segment = self.active
        if segment is not None and segment.at + 2 * BATCH_BYTES < usable_bytes(segment.capacity):
            out = b"".join(self._batch(segment, BATCH_BYTES, 0, time_ms))
            if self.commit.failure is None and self._write_at(segment, segment.at, out):
                self.commit.lsn_in_flight = self.commit.lsn_written
                self._run_sync(SyncJob(self._to_sync, self._retired))
        self.abandon()
        if self.commit.failure is not None:
            raise self.commit.failure

    def _write_all(self, time_ms: int) -> None:
        """Write what is pending to its end, preparing segments here and now."""
        while self._pending and self.commit.failure is None:
            if self.active is None or self._starved:
                order = self.order_spare(time_ms)
                try:
                    self.spare_ready(order, order.prepare(self.files))
                except OSError as error:
                    self.fail("preparing", order.path, error)
                    return
            self.write(time_ms)

    def abandon(self) -> None:
        """Close the descriptors and promise nothing."""
        handles = [s.handle for s in self.segments if s.handle is not None]
        if self._spare is not None and self._spare.handle is not None:
            handles.append(self._spare.handle)
        for handle in [*handles, *self._retired]:
            handle.close()
        for segment in self.segments:
            segment.handle = None

    def _sync_now(self) -> None:
        job = self.begin_sync()
        if job is not None:
            self._run_sync(job)

    def _run_sync(self, job: SyncJob) -> None:
        try:
            job.run()
        except OSError as error:
            self.finish_sync(error)
        else:
            self.finish_sync(None)
