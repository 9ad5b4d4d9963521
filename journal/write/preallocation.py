"""Segments prepared ahead: when, how large, and how many, so that confirms always find room.

    active [######......]  prepared [............]  ([...])   removed: a file to be used again

While there is room, one segment is prepared before the active one is full. When the next one cannot
be prepared, the disk is full: the room left is then for confirms. Each further attempt asks for
less, so that storing resumes as soon as a small segment has room.

One rule: an item is accepted while there is room for the confirms of all items of any one segment.
When these are written the segment is empty, and its own file is the room for the next confirms. So
that file is removed only if the confirms have enough room without it: another program may take the
room at once. (`room` counts the items that are accepted and not written yet.) Segments that stay
until snapshots cover them give no room back, so all of their confirms have room at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final, Protocol, cast

from journal.files import Handle, is_shortage
from journal.format import RawDraft, SegmentHeader, segment_path, usable_bytes
from journal.write.group_commit import GroupCommit
from journal.write.room import CONFIRM_BYTES, PUT_BYTES, Room, room_in
from journal.write.segment_file import (
    GROWTH,
    PreallocationJob,
    Segment,
    Sizes,
    least_capacity,
    whole_sectors,
)
from journal.write.segment_list import SegmentList

# The next segment is prepared as soon as the room for items is less than this many times the bytes
# written. That is long before the active segment is full, which also has room for its confirms. The
# factor is larger below SMALL_BYTES: the queue may grow fast, and a slow disk syncs several times
# for a file.
AHEAD: Final = 2
SMALL_BYTES: Final = 1 << 20
SMALL_AHEAD: Final = 3
SMALL_USED_BYTES: Final = 4096  # not for the header and the checkpoint alone
RECYCLED_TIMES_MAX: Final = 4  # a file is not used again for a segment that needs far less


class Log(Protocol):
    """The journal that the segments are for: the part that this module needs."""

    folder: str
    identity: bytes
    short_identity: int
    sizes: Sizes
    commit: GroupCommit
    segment_list: SegmentList
    active: Segment | None
    turns: bool
    is_stalled: bool

    @property
    def has_pending(self) -> bool:
        """True if anything is appended that has not been written."""

    @property
    def first_pending(self) -> RawDraft | None:
        """The record that is written next."""

    @property
    def pending_bytes(self) -> int:
        """The size of the records that are appended and not written."""


class _Ended:
    """Stands for a journal that is no longer used."""

    __slots__ = ("commit", "folder", "identity", "segment_list", "short_identity", "sizes")

    active: ClassVar[Segment | None] = None
    turns: ClassVar[bool] = False
    is_stalled: ClassVar[bool] = False
    has_pending: ClassVar[bool] = False
    first_pending: ClassVar[RawDraft | None] = None
    pending_bytes: ClassVar[int] = 0

    def __init__(self, journal: Log) -> None:
        self.folder, self.sizes = journal.folder, journal.sizes
        self.identity, self.short_identity = journal.identity, journal.short_identity
        self.commit, self.segment_list = journal.commit, journal.segment_list


class Preallocation:
    """The prepared segments of one journal. `number` is the highest that any segment ever had."""

    __slots__ = (
        "_failed", "_failed_bytes", "_has_folder", "_holds", "_journal", "_need_more", "_need_most",
        "_spread", "count_leases", "count_scattered", "count_workers", "is_short", "is_under_way",
        "number", "passed_over", "prepared", "recycled", "room", "shrinks", "waiting",
    )  # fmt: skip

    def __init__(self, journal: Log, number: int) -> None:
        self._journal = journal
        self.number = number
        self.is_under_way = False
        self.is_short = False  # the last one could not be prepared
        self.prepared = 0  # the number of the last segment for which the disk had room
        # Number and size of the segment that could not be prepared. The next attempt takes the same
        # number, because a missing one looks like a loss, and asks for less.
        self._failed = 0
        self._failed_bytes = 0
        self._has_folder = False  # this process has made sure that the folder is on disk
        self.waiting: deque[Segment] = deque()
        self.room = Room(self.waiting, room_in(self._largest()))
        self.passed_over: list[Segment] = []  # to be removed
        self.recycled: list[tuple[str, int]] = []  # files to go on in, and their sizes
        # The queue is idle: the next segment is small, and files of finished ones are not kept.
        self.shrinks = False
        # Room for the confirms of live items in sealed segments: of the segment with most, and
        # what the others need beyond the room they give back.
        self._need_most = self._need_more = 0
        self._holds = False  # segments wait for two snapshots: see `count_sealed`
        self._spread = 0  # how many segments may stay, each for one item that ends late
        # The nack of a lease by token is written even on a full disk: else a restart would restore
        # the lease, and its token would be valid again.
        self.count_leases: Callable[[], int] = int
        # Further subscriptions that confirm each item, and items that are not in their order.
        self.count_workers: Callable[[], int] = int
        self.count_scattered: Callable[[], int] = int

    def end(self) -> None:
        """Drop the reference to the journal, which is no longer used."""
        self._journal = cast("Log", _Ended(self._journal))
        self.count_leases = self.count_workers = self.count_scattered = int

    @property
    def is_wanted(self) -> bool:
        """True if another segment is to be prepared now."""
        journal = self._journal
        active = journal.active
        if self.is_under_way or journal.commit.has_failed:
            return False
        if active is None:
            return (journal.has_pending or self.room.asked > 0) and not self.waiting
        if journal.is_stalled or self.room.asked or (journal.turns and not self.may_turn):
            return True
        needed = self._needed(active)
        left = self._room(active) - needed
        times = SMALL_AHEAD if active.capacity < SMALL_BYTES else AHEAD
        if active.at < SMALL_USED_BYTES:
            times = 1
        return left < needed // 4 or (not self.waiting and left < times * active.at)

    @property
    def may_accept(self) -> bool:
        """True if there is room for the confirms of one more item.

        Also true when the disk is short: no reserve can be made then, and the items that are
        pending took their room when they were accepted (`Room`).
        """
        active = self._journal.active
        return self.is_short or active is None or self._room(active) >= self._needed(active)

    @property
    def may_turn(self) -> bool:
        """True if the rest of the active segment can be given up."""
        return self.room.free >= max(self.room.tail, 0)

    @property
    def may_recycle(self) -> bool:
        """True if the next segment can use the file of a finished one, or the confirms need it.

        While the disk has room a second such file would not be used. On a full disk one may wait
        even if there is a prepared segment, which may be too small. A file is kept as well if the
        confirms need it: the disk may be full already, and would not give the room again.
        """
        is_next = not (self.waiting or self.is_under_way or self.shrinks)
        if not self.recycled and (self.is_short or is_next):
            return True
        active = self._journal.active
        if active is None:
            return False
        needed = self._needed(active)
        kept = sum(max(room_in(size), 0) for _, size in self.recycled)
        return self.room.free + kept < needed // 4

    def _room(self, active: Segment) -> int:
        return usable_bytes(active.capacity) - active.at + sum(s.capacity for s in self.waiting)

    def _needed(self, active: Segment) -> int:
        confirms, leases = CONFIRM_BYTES * active.live, CONFIRM_BYTES * self.count_leases()
        if self._holds or self._spread:
            return confirms + self._need_most + self._need_more + leases
        needed = max(confirms, self._need_most) + leases
        return needed + max(confirms - self._given(active.capacity), 0) + self._need_more

    def _given(self, capacity: int) -> int:
        """Return the room that the file of a finished segment is: `CONFIRM_BYTES` are more than a
        confirm takes, and what each file needs beside its records is less than that."""
        return capacity if capacity >= self._journal.sizes.recycled_min else 0

    def count(self) -> None:
        """Count anew the room that new items may take. Nothing is pending."""
        active, segment_list = self._journal.active, self._journal.segment_list
        if active is not None:
            self.room.put_bytes = PUT_BYTES + CONFIRM_BYTES * self.count_workers()
            if self._holds != segment_list.holds or self._spread != self._spreads():
                self.count_sealed([s for s in segment_list.segments if s is not active])
            self.room.recount(active, self._needed(active))

    def _largest(self) -> int:
        """Return how large a segment may be."""
        sizes, retention = self._journal.sizes, self._journal.segment_list.retention
        return retention.largest(sizes.segment_max, sizes.segment_min)

    def begin(self, time_ms: int, reserve_bytes: int) -> PreallocationJob:
        """Return the next preparation. A new file leaves `reserve_bytes` of the disk free."""
        journal = self._journal
        self.is_under_way = True
        number, self._failed = self._failed, 0
        if not number:
            self.number = number = self.number + 1
        last = journal.active.capacity if journal.active is not None else 0
        self.shrinks = self.shrinks and journal.turns
        if journal.turns and journal.active is not None:
            # It was sealed for its age, not because it was full.
            last = self._needed(journal.active) if self.shrinks else journal.active.at // GROWTH
        first, room = journal.first_pending, self.room
        if room.asked and last < SMALL_BYTES:  # it grows faster than segments are prepared
            last *= GROWTH
        # Many items that came at once may come again.
        last, most = max(last, journal.pending_bytes + room.asked), self._largest()
        least = max(least_capacity(first), whole_sectors(room.least_capacity()))
        if journal.active is None and not self.waiting:
            taken = room.first_capacity()
            least = max(least, whole_sectors(min(taken, most)))
            if not self.is_short:  # a burst may have begun: more is on its way
                others = taken - least_capacity(first)
                last = max(last, min(others * GROWTH, SMALL_BYTES // GROWTH))
        if self._failed_bytes:
            most = min(most, max(self._failed_bytes // GROWTH, journal.sizes.segment_min))
        capacity = max(journal.sizes.next_capacity(last, first, most), least)
        recycle = ""
        for path, size in self.recycled:
            # On a full disk the log goes on in any file that there is.
            if least <= size and (self.is_short or size <= capacity * RECYCLED_TIMES_MAX):
                self.recycled.remove((path, size))
                recycle, capacity = path, size
                break
        room.begins(capacity)
        header = SegmentHeader(
            journal.short_identity, journal.identity, number, capacity, time_ms
        )
        path = segment_path(journal.folder, number)
        return PreallocationJob(path, header, recycle, reserve_bytes, self._has_folder)

    def finish(self, job: PreallocationJob, handle: Handle) -> None:
        """Note that the prepared segment is on disk."""
        self.is_under_way = self.is_short = False
        self._failed_bytes = 0
        self._has_folder = True
        header = job.header
        if not job.recycle:
            self.prepared = header.segment
        self.waiting.append(
            Segment(
                header.segment, job.path, header.capacity, handle, recycled=bool(job.recycle)
            )
        )
        self.room.prepared(header.capacity)

    def failed(self, job: PreallocationJob, error: OSError | None = None) -> None:
        """Note that the segment could not be prepared; it may be tried again under the same number.

        After a shortage of descriptors or memory the room will be there: puts wait for it, and so
        does the file that was to be recycled.
        """
        self.is_under_way = False
        self._failed = job.header.segment
        if error is None or not is_shortage(error):
            self.is_short = True
            self._failed_bytes = job.header.capacity
            self.room.forget_asked()  # they are refused, and a file for a confirm may be smaller
        elif job.recycle:
            self.recycled.append((job.recycle, job.header.capacity))

    # -- of an idle journal -----------------------------------------------------------------

    def unused_sizes(self) -> list[int]:
        """Return the sizes of the files without a record."""
        return [segment.capacity for segment in self.waiting] + [size for _, size in self.recycled]

    @property
    def small_bytes(self) -> int:
        """The size of the next segment of a journal that shrinks."""
        journal, sizes = self._journal, self._journal.sizes
        needed = self._needed(journal.active) if journal.active is not None else 0
        most = journal.segment_list.retention.largest(sizes.segment_max, sizes.segment_min)
        return sizes.next_capacity(needed, None, most)

    def next_unused(self, most: int) -> int:
        """Return the size of the file without a record that the log goes on in; 0: there is none of
        up to `most` bytes."""
        if self.waiting:
            size = self.waiting[0].capacity
            return size if size <= most else 0
        return next((size for _, size in self.recycled if size <= most), 0)

    def take_unused(self, most: int) -> list[str]:
        """Give up the files without a record; return their paths, which the caller removes. The
        file of `next_unused` stays, and so do those that the confirms need.

        Nothing may be pending, and no preparation under way.
        """
        unused: list[str] = []
        stays = self.next_unused(most)
        while len(self.waiting) > bool(stays) and self._lacks(self.waiting[-1].capacity) <= 0:
            prepared = self.waiting.pop()
            if prepared.handle is not None:
                prepared.handle.close()
            unused.append(prepared.path)
        lacks = self._lacks(0)
        for path, size in sorted(self.recycled, key=lambda each: -each[1]):
            if lacks > 0:  # a start leaves prepared segments so
                lacks -= size
            elif self.waiting or size != stays:
                self.recycled.remove((path, size))
                unused.append(path)
            else:
                stays = 0
        self.count()
        return unused

    def _lacks(self, less: int) -> int:
        """Return the missing room for all confirms, and a little more, after `less` bytes of it
        are given up."""
        active = self._journal.active
        if active is None:
            return 0
        needed = self._needed(active)
        return needed + needed // 4 + 2 * CONFIRM_BYTES - self._room(active) + less

    # -- rotating ---------------------------------------------------------------------------

    def next_for(self, first: RawDraft) -> Segment | None:
        """Return the next segment with room for this record; one prepared earlier may be too small.

        It stays the next until it is `taken`.
        """
        while self.waiting and self.waiting[0].capacity < least_capacity(first):
            small = self.waiting.popleft()
            self.room.left(small)
            self.passed_over.append(small)
        return self.waiting[0] if self.waiting else None

    def taken(self) -> None:
        """Make the next segment the active one; those before it are sealed."""
        self.room.left(self.waiting.popleft())
        self.count_sealed(self._journal.segment_list.segments)

    def _spreads(self, more: int = 0) -> int:
        """Return how many segments may stay for items out of order, if there are `more` of them."""
        return min(self.count_scattered() + more, len(self._journal.segment_list.segments))

    def count_sealed(self, segments: list[Segment]) -> None:
        """Count the room that the confirms of live items in these sealed segments need.

        While ids are remembered, or while fewer than two snapshots have a child or an origin, a
        segment stays until two snapshots cover it. A full disk may have no room for these, nor for
        a file of the ids, so the file of the segment does not count as room for confirms.
        A segment also stays while a late item is in it, for instance a delayed one. Each late item
        may be in another segment: the count assumes that they are in those with most confirms.
        """
        self._count_sealed(segments, self._journal.segment_list.holds, self._spreads())

    def _count_sealed(self, segments: list[Segment], holds: bool, spread: int) -> None:
        self._holds, self._spread = holds, spread
        covered, more = self._journal.segment_list.covered_lsn, 0
        needs = list[tuple[int, int]]()
        for segment in segments:
            need = CONFIRM_BYTES * segment.live
            if holds and segment.lsn_last > covered:
                more += need
            elif need:
                needs.append((need, segment.capacity))
        if spread:
            needs.sort(reverse=True)
            more += sum(need for need, _ in needs[:spread])
            del needs[:spread]
        self._need_most = max((need for need, _ in needs), default=0)
        self._need_more = more + sum(max(n - self._given(size), 0) for n, size in needs)

    def begin_to_hold(self, scatters: bool = False) -> bool:
        """Reserve the room that confirms need when ids begin to be remembered, or for one more item
        out of order (`scatters`). Return False if it is not there: the next segment must have it.
        """
        active = self._journal.active
        holds = self._holds or not scatters
        spread = max(self._spreads(int(scatters)), self._spread)
        if active is None or (holds == self._holds and spread == self._spread):
            return True
        before = self._holds, self._spread, self._need_most, self._need_more
        needed = self._needed(active)
        segments = self._journal.segment_list.segments
        self._count_sealed([s for s in segments if s is not active], holds, spread)
        more = max(self._needed(active) - needed, 0)
        if more > max(self.room.free, 0):
            self._holds, self._spread, self._need_most, self._need_more = before
            self.room.ask(more)
            return False
        self.room.free -= more
        return True

    def count_again(self) -> None:
        """Count both anew: sealed segments are gone, or another one stands for them."""
        journal = self._journal
        active = journal.active
        if active is None:
            return
        before = self._needed(active)
        self.count_sealed([s for s in journal.segment_list.segments if s is not active])
        if journal.has_pending:
            self.room.free -= max(self._needed(active) - before, 0)
        else:
            self.count()
