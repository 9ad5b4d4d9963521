"""Making a damaged journal whole: lost bytes are set aside and named, all the rest stays.

    damaged stretch       copied to set-aside/; written over with records that say nothing, in a
                          whole new file under the old name (every other byte stays where it was)
    damaged chunk         keeps its bytes under another name; its entries are forgotten
    damaged snapshot      keeps its bytes under another name; an older one or the log is used
    unreadable or foreign file     keeps its bytes under another name
    missing records       a segment that says nothing stands for them; snapshots forget the items
    damaged end           the log goes on in a fresh segment, as after a start

The records that say nothing are as many as were lost, so the count of the log has no gap; they say
up to where lease tokens may have been issued, so that none is issued twice.

One rule: each step leaves a journal in which everything undamaged can still be read: a crash at any
moment loses nothing more than was damaged, and the next repair goes on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from journal.errors import ITEM_MAX, Damage, JournalError
from journal.files import Files
from journal.format import (
    FILE_HEADER_BYTES,
    TOKENS_SKIPPED,
    Checkpoint,
    Kind,
    ReaderState,
    Record,
    SegmentHeader,
    segment_name,
    segment_number,
    segment_path,
)
from journal.read import Frames, ordered_segments
from journal.recovery import (
    MISSING_BEFORE,
    SET_ASIDE_FOLDER,
    LiveSet,
    Recovery,
    recovered_journal,
    set_aside,
)
from journal.sets import IdSet
from journal.snapshot import Snapshot, SnapshotDamaged, chunk_range, snapshot_lsn
from journal.tools.dump import snapshots
from journal.tools.patch import Nothing, Patch, stand_in
from journal.tools.verify import LOCK, Progress, Report, check_journal, owning_folder, silent
from journal.write import Sizes

# A file that cannot be read at first, without its header, may show more losses in a later round.
_ROUNDS: Final = 6
_SUFFIX_DAMAGED: Final = ".damaged"
_SUFFIX_FOREIGN: Final = ".foreign"


@contextmanager
def owned(files: Files, folder: str) -> Iterator[None]:
    """Own the data directory: `folder`, or the one that it is in. Raises DirectoryLocked."""
    lock = files.lock(os.path.join(owning_folder(files, folder), LOCK))
    try:
        yield
    finally:
        lock.close()


@dataclass(slots=True)
class Repair:
    """The planned repair of one journal. The plan changed nothing; `run` repairs."""

    files: Files
    report: Report

    @property
    def needed(self) -> bool:
        """True if anything is damaged."""
        return bool(self.report.damages)

    def sentences(self) -> Iterator[str]:
        """Yield each damage, and its repair."""
        for damage in self.report.damages:
            yield damage.sentence()
            yield f"  {_what_becomes_of(self.files, damage)}"

    def check(self) -> None:
        """Raise JournalError if the journal is not as it was when this was planned. Blocks."""
        now = check_journal(self.files, self.report.folder)
        if (now.damages, now.lsn_next) != (self.report.damages, self.report.lsn_next):
            raise JournalError(
                f"{self.report.folder}: was written since it was checked; nothing was changed. "
                "Repair it again"
            )

    def run(self, time_ms: int) -> None:
        """Repair the journal. Raises JournalError when something cannot be made whole. Blocks."""
        folder, report = self.report.folder, self.report
        for _ in range(_ROUNDS):
            _Round(self.files, report, time_ms).run()
            report = check_journal(self.files, folder)
            if not report.damages:
                return
        raise JournalError(
            f"{report.damages[0].path}: this could not be made whole; a start serves all that is "
            "not damaged"
        )


def repair_of(files: Files, folder: str, progress: Progress = silent) -> Repair:
    """Return the repair. Raises JournalError for a file that cannot be read."""
    return Repair(files, check_journal(files, folder, progress))


class _Round:
    """One pass over the damage that is there now."""

    def __init__(self, files: Files, report: Report, time_ms: int) -> None:
        self.files = files
        self.folder = report.folder
        self.report = report
        self.time_ms = time_ms
        self.tokens = report.live_set.tokens + TOKENS_SKIPPED

    def run(self) -> None:
        """Set aside first; then one kind of damage after the other."""
        files, there = self.files, [d for d in self.report.damages if self._is_there(d.path)]
        files.make_folder(self.folder)
        if self._forget_chunks():
            return  # the rest comes in the next round
        unwanted = [d for d in there if d.kind == "foreign" or _is_snapshot(d.path)]
        unreadable = [d for d in there if d not in unwanted and _is_unreadable(d)]
        aside = os.path.join(self.folder, SET_ASIDE_FOLDER)
        if set_aside(files, self.folder, [d for d in there if d not in unwanted]):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), aside)
        self._rename(unwanted)
        if unwanted or _goes_on_in_fresh(files, self.report, self.time_ms):
            return  # the next round sees the other damage
        self._rename([d for d in unreadable if self._is_there(d.path)])
        if unreadable:
            return
        self._forget_lost_items()
        before = [d for d in there if d.reason == MISSING_BEFORE]
        for path in sorted({d.path for d in there if d not in before}):
            self._patch(path, [d for d in there if d.path == path])
        for damage in before:
            self._stand_in_before(damage)

    def _forget_chunks(self) -> bool:
        """Forget the entries of damaged chunks: no snapshot lists these any more."""
        lost = [d for d in self.report.damages if chunk_range(os.path.basename(d.path))]
        self._rename([d for d in lost if self._is_there(d.path)])
        names = {os.path.basename(d.path) for d in lost}
        for name in self.files.names(self.folder) if lost else ():
            path = os.path.join(self.folder, name)
            if snapshot_lsn(name) is None:
                continue
            try:
                snapshot = Snapshot.decode(self.files.read(path), path)
            except SnapshotDamaged:
                continue
            header = SegmentHeader.decode(self.files.read(path, 0, FILE_HEADER_BYTES), path)
            kept = [chunk for chunk in snapshot.chunks if chunk.name not in names]
            if len(kept) < len(snapshot.chunks) and header is not None:
                snapshot.chunks = kept
                data = snapshot.encode(header.journal, header.identity, self.time_ms)
                self.files.create(path, data, len(data)).close()
        return bool(lost)

    def _rename(self, damages: list[Damage]) -> None:
        for path, kind in sorted({(d.path, d.kind) for d in damages}):
            suffix = _SUFFIX_FOREIGN if kind == "foreign" else _SUFFIX_DAMAGED
            self.files.rename(path, _free_name(self.files, path + suffix))

    def _is_there(self, path: str) -> bool:
        return os.path.basename(path) in self.files.names(os.path.dirname(path))

    def _forget_lost_items(self) -> None:
        """Forget the lost items in every snapshot, the oldest first: a reader of the newest still
        finds them.
        """
        for name in self.files.names(self.folder):
            path = os.path.join(self.folder, name)
            if snapshot_lsn(name) is None:
                continue
            try:
                snapshot = Snapshot.decode(self.files.read(path), path)
            except SnapshotDamaged:
                continue
            lost = IdSet()
            for damage in self.report.damages:
                for item in snapshot.needed().between(damage.id_first, damage.id_last):
                    lost.add(item)
            for item in list(self._puts_among(lost)):
                lost.discard(item)
            header = SegmentHeader.decode(self.files.read(path, 0, FILE_HEADER_BYTES), path)
            if lost and header is not None:
                self._forget(snapshot, lost)
                data = snapshot.encode(header.journal, header.identity, self.time_ms)
                self.files.create(path, data, len(data)).close()

    def _puts_among(self, items: IdSet) -> Iterator[int]:
        """Yield those whose puts can be read in some segment."""
        for frames, _ in ordered_segments(self.files, self.folder) if items else ():
            for found in frames.walk():
                if isinstance(found, Record) and found.kind == Kind.PUT and found.item in items:
                    yield found.item

    def _forget(self, snapshot: Snapshot, lost: IdSet) -> None:
        lines: list[Snapshot | ReaderState] = [snapshot, *snapshot.readers]
        for line in lines:
            for item in lost:
                line.live.discard(item)
                line.attempts.set(item, 0)
            line.dead = [entry for entry in line.dead if entry.item not in lost]
        kept = snapshot.needed()
        for state in list(snapshot.segments):
            here = list(lost.between(state.item_first, state.item_last))
            if not here:
                continue
            path = segment_path(self.folder, state.number)
            live_bytes = sum(
                len(found.body)
                for found in (Frames(self.files, path).walk() if self._is_there(path) else ())
                if isinstance(found, Record) and found.kind == Kind.PUT
                and found.item in kept
            )  # fmt: skip
            snapshot.live_bytes -= state.live_bytes - live_bytes
            state.live, state.live_bytes = state.live - len(here), live_bytes
            if not self._is_there(path):
                snapshot.segments.remove(state)
        snapshot.checkpoint = replace(snapshot.checkpoint, live_items=len(snapshot.live))

    def _patch(self, path: str, damages: list[Damage], lsn_end: int = 0) -> None:
        """Write a whole file under the same name; it is on disk before it has the name."""
        data = self.files.read(path)
        number = segment_number(os.path.basename(path)) or 0
        frames = Frames(self.files, path)
        header = frames.header or self._header(number, len(data))
        behind = self._lsn_behind(header.rank)
        footer = frames.footer
        if footer is not None:
            lsn_end = footer.lsn
        else:
            lost = [d.lsn_last + 1 for d in damages if d.lsn_first <= d.lsn_last]
            lsn_end = max([lsn_end, self._lsn_snapshot(number, behind), *lost])
        firsts = [d.lsn_first for d in damages if d.lsn_first <= d.lsn_last]
        nothing = Nothing(self.tokens, header.created_ms)
        patch = Patch(frames, header, nothing, min(firsts, default=0), lsn_end, behind)
        whole = patch.patched(data)
        self.files.create(path, whole, len(whole)).close()

    def _lsn_snapshot(self, number: int, behind: int) -> int:
        """Return the lsn up to which, by the newest snapshot, this segment holds the log; 0: it
        holds none of it."""
        kept = list(snapshots(self.files, self.folder))
        if not kept or kept[-1].segment != number:
            return 0
        return min(kept[-1].lsn + 1, behind or kept[-1].lsn + 1)

    def _stand_in(self, number: int, damage: Damage) -> None:
        """Write a segment in place of a missing one; no other segment has its records."""
        count = damage.lsn_last - damage.lsn_first + 1
        nothing = Nothing(self.tokens, self.time_ms)
        data = stand_in(self._header(number, 0), damage.lsn_first, count, nothing)
        self.files.create(segment_path(self.folder, number), data, len(data)).close()

    def _stand_in_before(self, damage: Damage) -> None:
        """Write a segment for records that are missing before this one, or patch the end of the
        previous one."""
        header = Frames(self.files, damage.path).header
        assert header is not None, "the check that missed records before it has read its header"
        earlier = [
            frames
            for frames, _ in ordered_segments(self.files, self.folder)
            if frames.header is not None and frames.header.rank < header.rank
        ]
        last = earlier[-1].header if earlier else None
        least = max(last.rank, last.last) if last is not None else 0
        names = self.files.names(self.folder)
        for number in range(header.rank - 1, least, -1):
            # The number of a compacted segment is not its rank.
            if segment_name(number) not in names:
                self._stand_in(number, damage)
                return
        self._patch(earlier[-1].path, [], damage.lsn_last + 1)

    def _header(self, number: int, capacity: int) -> SegmentHeader:
        """Return a header with the identity of the other files of this journal."""
        for frames, _ in ordered_segments(self.files, self.folder):
            if frames.header is not None:
                return SegmentHeader(
                    frames.header.journal, frames.header.identity, number, capacity, self.time_ms
                )
        raise JournalError(f"{self.folder}: no file says which journal this is")

    def _lsn_behind(self, rank: int) -> int:
        """Return where the log goes on after the segment of this rank; 0: it ends there."""
        following = (
            lsn
            for frames, lsn in ordered_segments(self.files, self.folder)
            if frames.header is not None and frames.header.rank > rank
        )
        return next(following, 0)


def _goes_on_in_fresh(files: Files, report: Report, time_ms: int) -> bool:
    """Go on elsewhere if the log's end is damaged, as at a start. Return True if it was."""
    recovery, live_set = Recovery(files, report.folder), LiveSet()
    for _ in live_set.follow(recovery):
        pass
    if recovery.clean:
        return False
    opening = opening_behind(recovery, live_set, report.name, report.generation)
    recovered_journal(recovery, Sizes(), lambda: opening, time_ms).writer.abandon()
    return True


def opening_behind(
    recovery: Recovery, live_set: LiveSet, name: bytes, generation: int
) -> Checkpoint:
    """Return the opening of a segment that goes on after `recovery`.

    No number that may be among the lost records, and no lease token, is given again.
    """
    newest = recovery.checkpoint
    opening = live_set.checkpoint(
        Checkpoint.from_record(newest) if newest is not None else None, name, generation
    )
    lost = [d.id_last for d in recovery.damages if d.kind != "torn" and d.id_last < ITEM_MAX]
    skipped = max(max(lost, default=0) + 1 - opening.next_item, 0)
    return replace(
        opening,
        next_item=opening.next_item + skipped,
        next_place=opening.next_place + skipped,
        tokens=opening.tokens + TOKENS_SKIPPED,
    )


def _is_snapshot(path: str) -> bool:
    return snapshot_lsn(os.path.basename(path)) is not None


def _is_unreadable(damage: Damage) -> bool:
    """True if the file has nothing to be kept where it is."""
    is_stump = damage.offset < damage.end <= FILE_HEADER_BYTES and damage.kind == "truncated"
    return is_stump or damage.id_last >= ITEM_MAX


def _free_name(files: Files, path: str) -> str:
    """Return the path, or one with a number after it."""
    there = files.names(os.path.dirname(path))
    names = (f"{path}.{n}" if n else path for n in range(len(there) + 1))
    return next(name for name in names if os.path.basename(name) not in there)


def _what_becomes_of(files: Files, damage: Damage) -> str:
    name = os.path.basename(damage.path)
    if chunk_range(name) is not None:
        kept = f"what is there of it is kept as {name}.damaged"
        return f"what only it remembered is forgotten, as if it were never written; {kept}"
    if name not in files.names(os.path.dirname(damage.path)):
        return "its items are gone; snapshots forget them"
    if damage.kind == "foreign" or _is_snapshot(damage.path) or _is_unreadable(damage):
        suffix = _SUFFIX_FOREIGN if damage.kind == "foreign" else _SUFFIX_DAMAGED
        return f"the whole file is kept as {name}{suffix}"
    if damage.reason == MISSING_BEFORE:
        return "a segment that says nothing takes the place of what is missing"
    if damage.kind == "truncated" or damage.end <= damage.offset:
        return "written again at its full length; what is missing stays missing"
    copy = f"{name}.{damage.offset}-{damage.end}.{damage.kind}"
    return f"these bytes are kept as {SET_ASIDE_FOLDER}/{copy}; the rest stays"
