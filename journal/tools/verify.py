"""The check of a journal: every frame of every file, also while a daemon writes there.

    what a start would read     judged by `recovery`, as a start would judge it
    files before that           (segments that a snapshot made superfluous to read, older
                                snapshots) walked frame by frame: they are not written any more
    every item that is there    its put was met in one of these, or it cannot be read

The records that a start would read are in memory as at a start: one segment at a time. Without a
snapshot that is every segment, and 64 MiB of 100-byte items take 430 MiB; the walk takes 17.

One rule: a report is facts. The caller decides how to print it; nothing is changed here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from journal.errors import Damage, JournalError
from journal.files import Files
from journal.format import (
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    UNNUMBERED,
    Kind,
    Record,
    SegmentHeader,
    Tag,
    decode_counts,
    decode_meta,
    segment_number,
)
from journal.read import FEWER_THAN_COUNTED, FOOTER_LOST, NOT_WHOLE, Frames, Hole, ordered_segments
from journal.recovery import BodyCheck, LiveSet, Recovery, SegmentFile
from journal.sets import IdSet
from journal.snapshot import (
    Snapshot,
    SnapshotDamaged,
    is_ours,
    read_chunks,
    snapshot_lsn,
    snapshot_name,
)
from journal.tools.view import RESTARTS_MAX, JournalView

LOCK: Final = "lock"
_DIRECTORY_FILES: Final = frozenset({LOCK, "server-id"})  # of a data directory; one may be gone
_PROGRESS_RECORDS: Final = 5_000

# Called with the bytes checked and those there are.
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Report:
    """One journal, checked. `items` is None if ids alone do not tell how many are live.

    `items` counts those that can be read; `unreadable` are the others, and those that may have been
    put in damaged bytes.
    """

    folder: str
    name: bytes
    generation: int
    segments: int
    snapshots: int
    lsn_snapshot: int  # of the snapshot that a start uses; 0: none
    records: int
    items: int | None
    bytes: int
    lsn_next: int
    lsn_synced: int
    records_behind_sync: int
    damages: list[Damage]
    torn: list[Damage]
    unreadable: IdSet
    past: list[Damage] = field(repr=False)  # the damages that a start would not see
    live_set: LiveSet = field(repr=False)

    @property
    def ending(self) -> str:
        """The state of its end, in a few words."""
        if self.damages:
            return "damaged"
        if self.torn or self.records_behind_sync:
            plural = "" if self.records_behind_sync == 1 else "s"
            return f"{self.records_behind_sync} record{plural} behind the last known sync"
        return "clean"


def silent(done: int, total: int) -> None:
    """Report no progress."""


def owning_folder(files: Files, folder: str) -> str:
    """Return the data directory: `folder`, or the one above when this is one queue's."""
    is_queue = any(segment_number(name) is not None for name in files.names(folder))
    if not is_queue:
        return folder
    above = os.path.dirname(os.path.abspath(folder))
    is_data = not _DIRECTORY_FILES.isdisjoint(files.names(above))
    return above if is_data or files.is_owned(os.path.join(above, LOCK)) else folder


def is_running(files: Files, folder: str) -> bool | None:
    """True if a daemon (or a tool) owns this data directory. None: it was never owned, or that is
    unknown.
    """
    with suppress(OSError):
        data_dir = owning_folder(files, folder)
        if files.is_owned(os.path.join(data_dir, LOCK)):
            return True
        if LOCK in files.names(data_dir):
            return False
    return None


def check_journal(files: Files, folder: str, progress: Progress = silent) -> Report:
    """Check one journal. Raises JournalError for a file that cannot be read."""
    total = sum(_sizes(files, folder).values())
    try:
        return _checked(files, folder, total, progress)
    except OSError as error:
        where = error.filename or folder
        raise JournalError(f"{where}: {error.strerror or error}") from error
    finally:
        progress(total, total)


def _checked(files: Files, folder: str, total: int, progress: Progress) -> Report:
    view, live_set = StartView(files, folder), LiveSet()
    done = segment = at = 0
    for record in live_set.follow(view):
        if record.segment != segment:
            done, segment = done + at, record.segment
        at = record.end
        if view.count % _PROGRESS_RECORDS == 0:
            progress(min(done + at, total - 1), total)
    # If ids alone do not tell which items are live, no item is known to be needed.
    bodies = view.bodies(live_set.needed() if live_set.known else IdSet())
    past = Past(files, folder, live_set, view.covered, bodies.see, view.lsn_synced, view.identity)
    past.check(lambda more: progress(min(done + at + more, total - 1), total))
    bodies.run(files, [*view.damages, *past.damages])
    unreadable = IdSet.union([bodies.unreadable, live_set.lost(view.damages)])
    live_set.lose(bodies.unreadable)
    return Report(
        folder, view.name, view.generation, view.segment_count, past.snapshots,
        view.snapshot.lsn if view.snapshot is not None else 0,
        view.count + past.records, len(live_set.items) if live_set.known else None, total,
        view.lsn_next, view.lsn_synced, view.records_behind_sync,
        _without_repeats([*view.damages, *past.damages, *bodies.damages]), view.torn,
        unreadable, [*past.damages, *bodies.damages], live_set,
    )  # fmt: skip


class StartView(JournalView):
    """A journal as a start would read it: of covered segments, only front and end."""

    __slots__ = ("_recovery",)

    def __init__(self, files: Files, folder: str) -> None:
        super().__init__(files, folder, live=True)
        self._recovery = Recovery(self._files, folder)

    @property
    def covered(self) -> list[SegmentFile]:
        """The segments that were not read, because a snapshot knows their records."""
        return [one for one in self._recovery.segments if one.is_covered]

    def bodies(self, needed: IdSet) -> BodyCheck:
        """Return a check that these items have a readable body."""
        return self._recovery.bodies(needed)

    def records(self) -> Iterator[Record]:
        """Yield every record that a start would read, in order of lsn, each once."""
        for _ in range(RESTARTS_MAX):
            recovery = self._recovery = Recovery(self._files, self.folder)
            try:
                yield from self._new_of(recovery)
            except FileNotFoundError:
                continue
            self._finish(recovery)
            return
        raise JournalError(
            f"{self.folder}: its segments were removed {RESTARTS_MAX} times while they were read"
        )


class Past:
    """The files that a snapshot has made superfluous to read at a start, checked frame by frame."""

    def __init__(
        self, files: Files, folder: str, live_set: LiveSet, covered: list[SegmentFile],
        met: Callable[[int], None], lsn_synced: int, identity: bytes,
    ) -> None:  # fmt: skip
        """`covered` are the segments that a start did not read; `met` gets the item of each put."""
        self._covered = {one.path: one for one in covered}
        self._met = met
        self._lsn_synced = lsn_synced
        self._identity = identity
        self.damages: list[Damage] = []
        self.records = 0
        self.snapshots = 0
        self._files = files
        self._folder = folder
        self._items = live_set.items

    def check(self, progress: Callable[[int], None] = lambda done: None) -> None:
        """Check all of these files; one that a daemon removes meanwhile does not count any more."""
        done, in_order = 0, ordered_segments(self._files, self._folder)
        newest = self._newest_snapshot()
        if newest is None:
            self.damages += self._lost_footers(in_order)
            return
        # Newer segments repeat the records from this lsn on.
        limits = {one.path: lsn for (one, _), (_, lsn) in pairwise(in_order)}
        for name in self._files.names(self._folder):
            if segment_number(name) is None:
                continue
            path = os.path.join(self._folder, name)
            try:
                frames = Frames(self._files, path)
                for _ in self._past_of(frames, newest, limits.get(path, 0)):
                    progress(done)
                done += frames.size
            except FileNotFoundError:
                if name in self._files.names(self._folder):
                    raise
        self.damages += self._lost_footers(in_order) + self._lost_chunks()

    def _lost_footers(self, segments: list[tuple[Frames, int]]) -> list[Damage]:
        """Return the damage of sealed segments without a footer. A segment that a daemon removes
        meanwhile is not damaged."""
        found = list[Damage]()
        for one, _ in segments:
            with suppress(FileNotFoundError):
                if one.header is not None and one.header.role == COMPACTED and one.footer is None:
                    found.append(_without_footer(one))
        for (one, _), (two, lsn) in pairwise(segments):
            with suppress(FileNotFoundError):
                if lsn <= self._lsn_synced and _was_sealed(one, two, lsn) and one.footer is None:
                    found.append(_without_footer(one))
        return found

    def _lost_chunks(self) -> list[Damage]:
        """Return the damage of the chunks of remembered ids and versions in the newest snapshot."""
        found: list[Damage] = []
        for _ in range(RESTARTS_MAX):
            newest = self._newest_snapshot()
            if newest is None:
                return []
            path = os.path.join(self._folder, snapshot_name(newest.lsn))
            try:
                header = SegmentHeader.decode(self._files.read(path, 0, FILE_HEADER_BYTES), path)
                identity = header.identity if header is not None else b""
                found = read_chunks(
                    self._files, self._folder, identity, newest.chunks, lambda frame: None
                ).damages
            except FileNotFoundError:
                continue  # merged, or a newer snapshot was written
            if not found or self._newest_lsn() == newest.lsn:
                break
        return found

    def _newest_lsn(self) -> int:
        return max((snapshot_lsn(n) or 0 for n in self._files.names(self._folder)), default=0)

    def _newest_snapshot(self) -> Snapshot | None:
        newest, self.snapshots = None, 0
        for name in self._files.names(self._folder):
            if snapshot_lsn(name) is None:
                continue
            path = os.path.join(self._folder, name)
            try:
                newest = Snapshot.decode(self._files.read(path), path)
                self.snapshots += 1
            except SnapshotDamaged as error:
                with suppress(FileNotFoundError):
                    size = self._files.size(path)
                    self.damages.append(
                        Damage("corrupt", path, error.offset, size, error.reason, 1, 0)
                    )
            except FileNotFoundError:
                continue
        return newest

    def _is_here(self, header: SegmentHeader, path: str) -> bool:
        """True if this header belongs to this file, not to another one in its place."""
        is_its = header.segment == segment_number(os.path.basename(path))
        return is_its and self._identity[:4] in (b"", header.identity[:4])

    def _past_of(self, frames: Frames, newest: Snapshot, limit: int) -> Iterator[None]:
        """Walk the part of one segment that `newest` has made superfluous, up to the lsn `limit`
        (0: all of it); yield now and then, as a sign of life."""
        header, footer = frames.header, frames.footer
        if header is None or not self._is_here(header, frames.path):
            return  # named by recovery
        covered = self._covered.get(frames.path)
        if header.segment == newest.segment:
            stop, item_last = newest.offset, newest.checkpoint.next_item - 1
            lsn_end = min(newest.lsn + 1, limit or newest.lsn + 1)
        elif footer is not None and footer.lsn <= newest.lsn + 1:
            stop, lsn_end = footer.offset, min(footer.lsn, limit or footer.lsn)
            last = decode_meta(footer.meta).get(Tag.ITEM_LAST, 0)
            item_last = last if isinstance(last, int) else 0
        elif covered is not None:  # it was never sealed, or its footer is lost
            stop, lsn_end = frames.size - FOOTER_SPACE_BYTES, covered.lsn_limit
            item_last = covered.item_last
        else:
            return  # read by recovery
        lost = _Lost(frames.path, self._items)
        lsn, before, at = 0, self.records, FILE_HEADER_BYTES
        for found in frames.walk(FILE_HEADER_BYTES, stop):
            if isinstance(found, Hole):
                lost.lsn_gaps.append(found)
                continue
            if lsn and found.lsn > lsn and header.role != COMPACTED and not lost.lsn_gaps:
                lost.lsn_gaps.append(Hole(found.offset, found.offset))
            if 0 < limit <= found.lsn:
                break
            lost.judge(lsn, found.lsn)
            lsn = found.lsn + (found.kind not in UNNUMBERED)
            if found.kind == Kind.PUT:
                lost.put_seen(found.item)
                if covered is None or covered.item_first <= found.item <= covered.item_last:
                    self._met(found.item)  # else a start does not look for it here
            at = found.end
            self.records += found.kind not in UNNUMBERED
            if self.records % _PROGRESS_RECORDS == 0:
                yield
        if lsn_end and footer is not None and self.records - before >= _counted(footer):
            lost.lsn_gaps.clear()  # all are there; after them stands an earlier life of this file
        elif 0 < limit <= lsn:
            lost.lsn_gaps.clear()  # a power cut may have taken those records
        elif lsn < lsn_end and header.role != COMPACTED and not lost.lsn_gaps:
            lost.lsn_gaps.append(Hole(at, stop))
        lost.judge(lsn, lsn_end)
        lost.put_seen(item_last + 1)
        self.damages += lost.damages


class _Lost:
    """The records that may have been in the holes of one segment: items between the puts around
    them.
    """

    def __init__(self, path: str, items: IdSet) -> None:
        self.lsn_gaps: list[Hole] = []
        self.damages: list[Damage] = []
        self._path = path
        self._items = items
        self._open: list[Damage] = []
        self._put = 0

    def judge(self, lsn: int, lsn_behind: int) -> None:
        """Judge the holes since the last record: they are between these two lsns."""
        for hole in self.lsn_gaps:
            reason = NOT_WHOLE if hole.end > hole.offset else FEWER_THAN_COUNTED
            lsns = (lsn, lsn_behind - 1) if lsn else (1, 0)
            self._open.append(
                Damage("corrupt", self._path, hole.offset, hole.end, reason, *lsns)
            )
        self.lsn_gaps.clear()

    def put_seen(self, item: int) -> None:
        """Note the put of this item. The items between the put before the holes and this one were
        put in the holes."""
        if self._open:
            first = self._items.first_from(self._put + 1)
            ids = self._items.between(self._put + 1, item - 1) if 0 < first < item else IdSet()
            last = max(ids, default=0)
            self.damages += (
                replace(each, id_first=first, id_last=last) if last else each
                for each in self._open
            )
            self._open.clear()
        self._put = item


def _was_sealed(one: Frames, two: Frames, lsn: int) -> bool:
    """Return whether the writer that began segment `two`, at `lsn`, had sealed `one` before.

    A start begins a segment after a crash as well: its first batch says so.
    """
    if any(each.header is None or each.header.role == COMPACTED for each in (one, two)):
        return False
    opening = two.record(FILE_HEADER_BYTES)
    batch = two.record(opening.end) if opening is not None else None
    if batch is None or batch.kind != Kind.BATCH or not batch.small or batch.number >= lsn:
        return False
    records = [r for r in one.walk() if isinstance(r, Record) and r.kind not in UNNUMBERED]
    return bool(records) and records[-1].lsn == lsn - 1


def _without_footer(frames: Frames) -> Damage:
    at = max(frames.size - FOOTER_SPACE_BYTES, 0)
    return Damage("corrupt", frames.path, at, frames.size, FOOTER_LOST, 1, 0)


def _counted(footer: Record) -> int:
    """Return how many records a footer counts."""
    counts = decode_meta(footer.meta).get(Tag.COUNTS, b"")
    return sum(decode_counts(counts if isinstance(counts, bytes) else b"").values())


def _sizes(files: Files, folder: str) -> dict[str, int]:
    """Return every file with records or a state, and its size; vanished ones do not count."""
    found = {}
    for name in files.names(folder):
        if is_ours(name):
            with suppress(OSError):
                found[name] = files.size(os.path.join(folder, name))
    return found


def _without_repeats(damages: list[Damage]) -> list[Damage]:
    """Leave out damage that recovery has named already."""
    kept: list[Damage] = []
    for damage in damages:
        if not any(
            (damage.path, damage.offset, damage.kind) == (one.path, one.offset, one.kind)
            and (damage.id_last < damage.id_first
                 or one.id_first <= damage.id_first <= damage.id_last <= one.id_last)
            for one in kept
        ):
            kept.append(damage)
    return kept
