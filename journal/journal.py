"""One queue's journal: append, write and sync a batch, rotate, drop what is dead, close.

    append (hot, no I/O) -> write (one write per turn) -> SyncJob.run (on a thread) -> finish_sync
                              |
                              +-- the active segment is full: seal it, go on in the spare;
                                  no spare yet: the rest waits, and `wants_spare` says so

One rule: nothing is durable before a *finished* sync covered it, and after one failed write or
sync this journal never writes again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from journal.checkpoint import Checkpoint
from journal.commit import GroupCommit
from journal.errors import JournalFailed
from journal.files import Files, Handle
from journal.record import (
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    PLACING,
    Draft,
    Kind,
    RawDraft,
    Record,
    encode,
    encode_meta,
    padded,
)
from journal.recovery import Recovery, last_segment_number, segment_path, set_aside, usable_bytes
from journal.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, SegmentHeader, Tally

_PUT: Final = int(Kind.PUT)
_FLUSHED: Final = int(Kind.FLUSHED)
GROWTH: Final = 4  # each segment is this many times the last one, up to the largest
_BATCH_BYTES: Final = HEADER_BYTES
# What a segment needs beside its largest record: header, checkpoint, a batch record, the footer.
_OVERHEAD_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class Sizes:
    """Segment sizes and the most bytes one `write` hands to the disk."""

    segment_min: int = 64 << 10
    segment_max: int = 64 << 20
    batch_max: int = 4 << 20


@dataclass(slots=True)
class Segment:
    """A segment as its writer knows it. `live` counts the puts in it that no record has ended."""

    number: int
    path: str
    capacity: int
    handle: Handle | None
    lsn_first: int = 0
    at: int = FILE_HEADER_BYTES
    live: int = 0
    emptied_lsn: int = 0
    tally: Tally = field(default_factory=Tally)


@dataclass(slots=True)
class SyncJob:
    """What one sync has to do, in order; `run` blocks and belongs on a thread."""

    handles: list[Handle]
    sealed: list[Handle]

    def run(self) -> None:
        """Sync every file written since the last sync; raises OSError, and then never again."""
        for handle in self.handles:
            handle.sync()
        for handle in self.sealed:
            handle.close()


@dataclass(frozen=True, slots=True)
class SpareOrder:
    """A segment to be prepared; `prepare` blocks and belongs on a thread."""

    path: str
    header: SegmentHeader

    def prepare(self, files: Files) -> Handle:
        """Write the zeros, the header and the name; on disk on return."""
        files.make_folder(os.path.dirname(self.path))
        return files.create(self.path, self.header.encode(), self.header.capacity)


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
        offset += _BATCH_BYTES
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
        first = commit.lsn_written + 1
        batch: list[bytes] = []
        encode(
            Draft(
                Kind.BATCH, offset - start, commit.lsn_durable, taken, time_ms, b"", b"", 0, 0
            ),
            first, journal, number, start, batch,
        )  # fmt: skip
        batch.extend(frames)
        if taken == len(pending):
            pending.clear()
        else:
            del pending[:taken]
        if not self._write_at(segment, start, b"".join(batch)):
            return 0
        segment.at = offset
        commit.lsn_written = lsn
        return offset - start

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
        capacity = min(max(last * GROWTH, self.sizes.segment_min), self.sizes.segment_max)
        needed = max((len(d[5]) + len(d[6]) for d in self._pending[:1]), default=0)
        capacity = max(capacity, padded(needed + _OVERHEAD_BYTES))
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
        first = self._pending[0]
        needed = _OVERHEAD_BYTES + padded(HEADER_BYTES + len(first[5]) + len(first[6]))
        if spare.capacity < needed:
            # Prepared before this large item came: passed over.
            self._spare = None
            self._starved = True
            self._orphans.append(spare.path)
            if spare.handle is not None:
                self._retired.append(spare.handle)
            return False
        if self.active is not None and not self._seal(self.active, time_ms):
            return False
        self._spare = None
        self._starved = False
        self.active = spare
        self.segments.append(spare)
        return self._open_segment(spare, time_ms)

    def _open_segment(self, segment: Segment, time_ms: int) -> bool:
        out: list[bytes] = []
        first = self.commit.lsn_written + 1
        draft = self.checkpoint().draft(time_ms, self.commit.lsn_appended)
        size = encode(draft, first, self.short_identity, segment.number, segment.at, out)
        if not self._write_at(segment, segment.at, b"".join(out)):
            return False
        segment.lsn_first = first
        segment.at += size
        return True

    def _seal(self, segment: Segment, time_ms: int) -> bool:
        out: list[bytes] = []
        offset = segment.capacity - FOOTER_SPACE_BYTES
        lsn = self.commit.lsn_written + 1
        tally = segment.tally
        draft = Draft(
            Kind.FOOTER, lsn - segment.lsn_first, tally.place_last, segment.live, time_ms,
            encode_meta(tally.meta()), b"", 0, 0,
        )  # fmt: skip
        encode(draft, lsn, self.short_identity, segment.number, offset, out)
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
        """Segments at the front that hold nothing alive, emptied by records that are durable."""
        dead, self._orphans = self._orphans, []
        durable = self.commit.lsn_durable
        while len(self.segments) > 1:
            segment = self.segments[0]
            if segment.live or segment.emptied_lsn > durable or self.segments[1].lsn_first > durable:
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

        The last empty batch lets the next start go on in this segment.
        """
        while self._pending and self.commit.failure is None:
            if self.wants_spare:
                order = self.order_spare(time_ms)
                try:
                    self.spare_ready(order, order.prepare(self.files))
                except OSError as error:
                    self.fail("preparing", order.path, error)
                    break
            self.write(time_ms)
        self._sync_now()
        segment = self.active
        if segment is not None and segment.at + 2 * _BATCH_BYTES < usable_bytes(segment.capacity):
            out: list[bytes] = []
            lsn = self.commit.lsn_durable
            draft = Draft(Kind.BATCH, _BATCH_BYTES, lsn, 0, time_ms, b"", b"", 0, 0)
            encode(draft, lsn + 1, self.short_identity, segment.number, segment.at, out)
            if self.commit.failure is None and self._write_at(segment, segment.at, b"".join(out)):
                self.commit.lsn_in_flight = lsn
                self._run_sync(SyncJob(self._to_sync, self._retired))
        self.abandon()
        if self.commit.failure is not None:
            raise self.commit.failure

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


def recovered_journal(
    recovery: Recovery, sizes: Sizes, checkpoint: Callable[[], Checkpoint], time_ms: int
) -> Journal:
    """The journal that goes on where `recovery` ended. Blocks; its `records()` must be exhausted.

    After an unclean end the tail is on disk, in a fresh segment, when this returns.
    """
    files, folder = recovery.files, recovery.folder
    set_aside(files, folder, recovery.damages)
    journal = Journal(
        files, folder, recovery.identity or os.urandom(16), sizes, checkpoint,
        lsn_last=recovery.lsn_next - 1, segment_last=last_segment_number(files, folder),
    )  # fmt: skip
    empty = [s.path for s in recovery.segments if not s.lsn_first]
    for path in {*empty, *(s.path for s in recovery.spares)}:
        files.remove(path)
    for found in recovery.segments:
        if found.lsn_first:
            journal.segments.append(
                Segment(found.number, found.path, found.capacity, None, lsn_first=found.lsn_first)
            )
    if not journal.segments:
        return journal
    if recovery.clean:
        active = journal.segments[-1]
        active.handle = files.open(active.path)
        active.at = recovery.append_at
        active.tally = recovery.tally
        journal.active = active
    else:
        _write_tail(journal, recovery, time_ms)
    return journal


def _write_tail(journal: Journal, recovery: Recovery, time_ms: int) -> None:
    """What is kept from behind the last known sync, into a fresh segment, synced with its folder."""
    tail: list[Record] = recovery.tail
    size = sum(padded(r.end - r.offset) for r in tail) + _OVERHEAD_BYTES + FOOTER_SPACE_BYTES
    capacity = max(padded(size), journal.sizes.segment_min)
    journal.spare_number += 1
    number = journal.spare_number
    header = SegmentHeader(
        journal.short_identity, journal.identity, number, capacity, time_ms
    )
    first = tail[0].lsn if tail else recovery.lsn_next
    pieces = [header.encode()]
    at = FILE_HEADER_BYTES
    opening = journal.checkpoint().draft(time_ms, journal.commit.lsn_appended)
    at += encode(opening, first, journal.short_identity, number, at, pieces)
    if tail:
        size = _BATCH_BYTES + sum(r.end - r.offset for r in tail)
        batch = Draft(Kind.BATCH, size, recovery.lsn_synced, len(tail), time_ms, b"", b"", 0, 0)
        at += encode(batch, first, journal.short_identity, number, at, pieces)
    for record in tail:
        draft = Draft(*record[:8], 0)
        at += encode(draft, record.lsn, journal.short_identity, number, at, pieces)
    path = segment_path(journal.folder, number)
    handle = journal.files.create(path, b"".join(pieces), capacity)
    segment = Segment(number, path, capacity, handle, lsn_first=first, at=at)
    for record in tail:
        segment.tally.see(record)
    superseded = [s for s in journal.segments if s.lsn_first >= first]
    journal.segments = [s for s in journal.segments if s.lsn_first < first]
    journal.segments.append(segment)
    journal.active = segment
    for old in superseded:
        journal.files.remove(old.path)

