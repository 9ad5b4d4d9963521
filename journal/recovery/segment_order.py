"""The files of a journal, their order, and which of them the snapshot makes needless to scan.

    1  2  3  5  [6 to 9]  10 | 11         by rank; a compacted segment is at the first rank it
    covered ................ | scanned    replaces; gaps are segments with no live item
                             ^ the snapshot's lsn

Of a covered segment only its front and its last sector are read, so a start costs the same however
long the history is.

One rule: a compacted segment takes the place of other files only if it is whole.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import Final

from journal.errors import ITEM_MAX, Damage, DamageKind
from journal.files import MEDIUM_ERRORS, Files
from journal.format import (
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    SUFFIX_RECYCLED,
    Kind,
    Record,
    SegmentHeader,
    Tally,
    decode,
    segment_number,
)
from journal.read import Cursor, Scan, find_identity, no_footer, read_footer, scan
from journal.snapshot import (
    SNAPSHOTS_RETAINED,
    SegmentState,
    Snapshot,
    SnapshotDamaged,
    snapshot_lsn,
)

HEADER_LOST: Final = "the file header is not readable"
NOTHING_READABLE: Final = "no record in it is readable"
_FRONT_BYTES: Final = 2048  # holds any segment's header and opening record
# The last segment is read to its end in any case. If it is small, its front is not read apart from
# that: thousands of quiet queues have one such segment each, and nothing else.
_SMALL_BYTES: Final = 128 << 10
_IDENTITY_BYTES: Final = 2 << 20  # holds the first frame of a segment without a header


@dataclass(slots=True)
class SegmentFile:
    """One segment as found. `lsn_limit`: records from here on are superseded (0: none are).

    `is_covered`: a snapshot includes all of it, so no start scans it. `item_first` to `item_last`
    and `puts` are the items put there, `lsn_last` its last record, `time_last` the latest time of
    one, if known (0: not). `footer_lsn` is the next record by its footer (0: it has none).
    `unreadable` is the error of the disk in place of its bytes. `synced` counts its records up to
    the last known sync (None: none are after it). `is_read`: all of it was scanned, and every byte
    was as written.
    """

    number: int
    path: str
    header: SegmentHeader | None
    journal: int
    capacity: int
    lsn_first: int = 0
    lsn_limit: int = 0
    lsn_last: int = 0
    item_first: int = 0
    item_last: int = 0
    puts: int = 0
    time_last: int = 0
    footer_lsn: int = 0
    is_covered: bool = False
    unreadable: str = ""
    is_compacted: bool = False  # what is left of several segments: its lsns have holes
    rank: int = 0  # its place in the log
    rank_last: int = 0  # the last place that it stands for
    synced: Tally | None = None
    is_read: bool = False
    lsn_found: int = 0  # of a file without a header: its first whole record's
    lsn_stated: int = 0  # up to where its first batch states that the log is synced

    def __post_init__(self) -> None:
        self.rank = self.rank_last = self.number
        if self.header is not None:
            self.is_compacted = self.header.role == COMPACTED
            self.rank, self.rank_last = self.header.rank, self.header.last or self.number

    def forget_header(self) -> None:
        """Note that the header is not this file's."""
        self.header, self.lsn_first, self.is_compacted = None, 0, False
        self.rank = self.rank_last = self.number

    @property
    def bytes_missing(self) -> int:
        """How much shorter the file is than its header says."""
        made = self.header.capacity if self.header is not None else FILE_HEADER_BYTES
        return max(made - self.capacity, 0)

    @property
    def is_open(self) -> bool:
        """True if only the next segment says where it ends: it was never sealed, or its footer
        counts records that a power cut has removed.
        """
        return not self.footer_lsn or 0 < self.lsn_limit < self.footer_lsn

    def is_preallocated(self, found: Scan) -> bool:
        """True if the file is whole and no record was written to it."""
        whole = self.header is not None and not self.bytes_missing
        return whole and not (found.lsn_first or found.gaps or found.footer)

    def supersedes(self, lsn: int) -> bool:
        """True if a newer segment repeats the records from `lsn` on."""
        return bool(self.lsn_limit) and lsn >= self.lsn_limit

    def note(self, tally: Tally) -> None:
        """Note the items that were put here."""
        self.item_first, self.item_last = tally.item_first, tally.item_last
        self.puts = tally.counts[Kind.PUT]
        self.time_last = tally.time_max

    def note_records(
        self, found: Scan, before: Tally | None, lsn_cut: int, lsn_synced: int
    ) -> Tally:
        """Note the scanned records below `lsn_cut` (0: all), and return their tally."""
        limit = min(filter(None, (self.lsn_limit, lsn_cut)), default=0)
        tally = found.tally_below(limit, before)
        self.note(tally)
        if found.records and found.records[-1].lsn > lsn_synced:
            self.synced = found.tally_below(min(limit or ITEM_MAX, lsn_synced + 1), before)
        self.footer_lsn = found.footer.lsn if found.footer is not None else 0
        last = max(found.lsn_next - 1, 0)
        self.lsn_last = min(last, limit - 1) if limit else last
        return tally


@dataclass(slots=True)
class SegmentOrder:
    """The files of one journal. `find` fills it; it reads and changes nothing."""

    files: Files
    folder: str
    identity: bytes = b""
    owner: int = 0
    names: list[str] = field(default_factory=list)  # of all files there
    segments: list[SegmentFile] = field(default_factory=list)  # by rank
    replaced: list[SegmentFile] = field(default_factory=list)  # a compacted segment stands for them
    damages: list[Damage] = field(default_factory=list)
    snapshot: Snapshot | None = None
    snapshot_lsns: list[int] = field(default_factory=list)  # of those to keep, newest first
    snapshots_outdated: list[str] = field(default_factory=list)
    snapshots_damaged: list[str] = field(default_factory=list)
    snapshots_unread: list[str] = field(default_factory=list)  # the disk did not give them
    _small: tuple[str, bytes] = ("", b"")  # the last segment, if it is small

    def find(self) -> None:
        """Look at every file's front, and read the newest readable snapshot."""
        names = self.names = self.files.names(self.folder)
        numbered = [(n, name) for name in names if (n := segment_number(name)) is not None]
        last = max((number for number, _ in numbered), default=0)
        found = [self._look_at(number, name, number == last) for number, name in numbered]
        self._find_owner(found)
        self._read_snapshots(
            sorted(((lsn, n) for n in names if (lsn := snapshot_lsn(n)) is not None), reverse=True)
        )
        for segment in found:
            if segment.unreadable:
                if not self.owner:  # no file says whose journal this is: do not begin another one
                    raise OSError(errno.EIO, segment.unreadable, segment.path)
                segment.journal = self.owner
            elif segment.header is None:
                self._adopt_headless(segment)
            elif segment.header.segment != segment.number or segment.journal != self.owner:
                self._look_after_header(segment, last)
        self._place_headless(found)
        self.segments = sorted((s for s in found if s.journal), key=lambda s: (s.rank, s.number))
        self._replace_by_compacted()
        if self.snapshot is not None:
            limit = 0
            for segment in reversed(self.segments):
                self._resolve(segment, self.snapshot, limit)
                limit = segment.lsn_first or limit

    def scan(self, segment: SegmentFile, start: int = 0, lsn_next: int = 0) -> Scan:
        """Return its records and gaps, from `start` on; an unreadable file is one gap.

        A file with an unreadable front is one gap as well: without its header its place is unknown,
        and a compacted segment in the wrong place would supersede good records.
        """
        start = start or FILE_HEADER_BYTES
        made = segment.capacity + segment.bytes_missing
        if segment.unreadable:
            return Scan.of_unreadable(segment.path, segment.number, made, segment.unreadable)
        try:
            data = self.files.read(segment.path, start) if start > FILE_HEADER_BYTES else None
            if data is not None:
                data = bytes(start) + data
            elif segment.path == self._small[0]:
                data = self._small[1]
            else:
                data = self.files.read(segment.path)
        except OSError as error:
            segment.unreadable = _medium_error(error)
            return Scan.of_unreadable(segment.path, segment.number, made, segment.unreadable)
        found = scan(
            data, segment.path, segment.journal, segment.number,
            start, lsn_next, made, segment.is_compacted,
        )  # fmt: skip
        if segment.header is None and not segment.bytes_missing and not found.lsn_first:
            # A file has its header before it has its name: this one was written, and is lost.
            return Scan.of_unreadable(segment.path, segment.number, made, NOTHING_READABLE)
        return found

    def resolve_listed(self) -> None:
        """Take the items of listed segments from the snapshot, where the file does not say them: it
        was never sealed, or newer segments repeat a part of it.
        """
        if self.snapshot is None:
            return
        listed = {s.number: s for s in self.snapshot.segments}
        for segment in self.segments:
            state = listed.get(segment.number)
            if state is None or segment.is_covered:
                continue
            if segment.unreadable:
                segment.is_covered = True
                self._name_unreadable(segment, state, self.snapshot)
            elif (
                segment.lsn_first
                and not segment.bytes_missing
                and 0 < segment.lsn_limit <= self.snapshot.lsn + 1
            ):
                at, data = self._read_zone(segment)
                footer = read_footer(data, at, segment.journal, segment.number)
                segment.is_covered = footer is not None and footer.lsn > segment.lsn_limit
                segment.is_covered |= no_footer(data, at, segment.journal, segment.number)
            if segment.is_covered:
                segment.lsn_last = max(segment.lsn_limit - 1, 0)
                segment.item_first, segment.item_last = state.item_first, state.item_last
                if state.item_first:
                    segment.puts = state.item_last - state.item_first + 1

    def _name_unreadable(
        self, segment: SegmentFile, state: SegmentState, snapshot: Snapshot
    ) -> None:
        """Name a file whose items may be lost; the snapshot knows its other records."""
        alive = snapshot.needed().between(state.item_first, state.item_last)
        ids = (state.item_first, state.item_last) if alive else (1, 0)
        self.damages.append(
            Damage("corrupt", segment.path, 0, segment.capacity, segment.unreadable, 1, 0, *ids)
        )

    # -- files --------------------------------------------------------------------------------

    def _look_at(self, number: int, name: str, is_last: bool) -> SegmentFile:
        path = os.path.join(self.folder, name)
        try:
            size = self.files.size(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            self.files.mode(path)  # raises if the name is gone: a daemon has removed the segment
            return SegmentFile(number, path, None, 0, 0, unreadable="it is a link to no file")
        if is_last and size <= _SMALL_BYTES:
            try:
                self._small = path, self.files.read(path)
            except OSError as error:
                _medium_error(error)  # its front may be readable nevertheless
        try:
            front = self._small[1][:_FRONT_BYTES] if self._small[0] == path else b""
            front = front or self.files.read(path, 0, _FRONT_BYTES)
        except OSError as error:
            return SegmentFile(number, path, None, 0, size, unreadable=_medium_error(error))
        header = SegmentHeader.decode(front, path)
        if header is None:
            return SegmentFile(number, path, None, 0, size)
        segment = SegmentFile(number, path, header, header.journal, size)
        opening = decode(front, FILE_HEADER_BYTES, header.journal, number)
        if opening is not None:
            segment.lsn_first = opening.lsn
            batch = decode(front, opening.end, header.journal, number)
            if batch is not None and batch.kind == Kind.BATCH:
                segment.lsn_stated = batch.number
        return segment

    def _find_owner(self, found: list[SegmentFile]) -> None:
        """Return the journal that most of the segments belong to (the newest decides a tie)."""
        votes: dict[int, int] = {}
        for segment in found:
            if segment.header is not None:
                votes[segment.journal] = votes.get(segment.journal, 0) + 1
        most = max(votes.values(), default=0)
        for segment in reversed(found):
            if segment.header is not None and votes[segment.journal] == most:
                self.identity = segment.header.identity
                self.owner = segment.journal
                return

    def _look_after_header(self, segment: SegmentFile, last: int) -> None:
        """Decide if a file is foreign, or if only its first block is of another file."""
        try:
            data = self.files.read(segment.path, 0, _IDENTITY_BYTES)
        except OSError as error:
            segment.unreadable, segment.journal = _medium_error(error), self.owner
            return
        assert segment.header is not None
        # A segment that is not the last one had records: a whole other file has replaced it.
        is_lost = segment.header.journal == self.owner and segment.number < last
        if is_lost or find_identity(data, segment.number) == self.owner:
            segment.forget_header()
            self._adopt_headless(segment)
        else:
            self._name_file(segment, "foreign", "belongs to another journal or place")
            segment.journal = 0

    def _adopt_headless(self, segment: SegmentFile) -> None:
        try:
            data = self.files.read(segment.path, 0, _IDENTITY_BYTES)
        except OSError as error:
            segment.unreadable, segment.journal = _medium_error(error), self.owner
            return
        frames_of = find_identity(data, segment.number)
        if self.owner and frames_of not in (0, self.owner):
            self._name_file(segment, "foreign", HEADER_LOST)
            return
        segment.journal = frames_of or self.owner
        opening = decode(data, FILE_HEADER_BYTES, segment.journal, segment.number)
        segment.lsn_first = opening.lsn if opening is not None and segment.journal else 0
        found = Cursor.over(data, segment.journal, segment.number, FILE_HEADER_BYTES).next()
        segment.lsn_found = found.lsn if found is not None else 0
        if not self.identity and frames_of:
            # The long identity is gone with the header; the frames have the short one.
            self.identity = frames_of.to_bytes(4, "little") + bytes(12)
        if not segment.journal or not segment.bytes_missing:
            kind: DamageKind = "truncated" if segment.bytes_missing else "corrupt"
            self._name_file(segment, kind, HEADER_LOST)

    def _place_headless(self, found: list[SegmentFile]) -> None:
        """Find the place of a segment without a header.

        A compacted one would look as if it superseded half of the log: up to the snapshot's lsn,
        and up to where older segments state that the log is synced, numbers and lsns rise together,
        except for these.
        """
        covered = self.snapshot.lsn + 1 if self.snapshot is not None else 0
        known = [s for s in found if s.header is not None and s.journal and s.lsn_first > 0]
        for segment in found:
            first = segment.lsn_first or segment.lsn_found
            if segment.header is None and first and any(
                s.number < segment.number
                and first < s.lsn_first
                and (s.lsn_first <= covered or first <= s.lsn_stated)
                for s in known
            ):
                segment.is_compacted = True
                before = (s.rank for s in known if s.lsn_first <= first)
                segment.rank = segment.rank_last = max(before, default=0)

    def _name_file(self, segment: SegmentFile, kind: DamageKind, reason: str) -> None:
        """Name damage to a file as such; its lost records show in the walk, if it is walked."""
        end = segment.capacity if kind == "foreign" else FILE_HEADER_BYTES
        id_last = 0 if segment.journal or kind == "foreign" else ITEM_MAX
        self.damages.append(
            Damage(kind, segment.path, 0, end, reason, 1, id_last, 1, id_last)
        )

    def _replace_by_compacted(self) -> None:
        """Give each whole compacted segment the place of those it stands for, newest first."""
        for compacted in sorted(self.segments, key=lambda s: -s.number):
            if not compacted.is_compacted or compacted not in self.segments:
                continue
            theirs = [
                s for s in self.segments
                if compacted.rank <= s.rank
                and s.rank_last <= compacted.rank_last
                and s.number < compacted.number
            ]  # fmt: skip
            if compacted.header is None:  # its place is a guess
                theirs = [s for s in theirs if not self._follows(compacted, s)]
            if not theirs:
                continue
            found = self.scan(compacted)
            if found.footer is not None and not found.gaps and not compacted.bytes_missing:
                self.replaced += theirs
                self.segments = [s for s in self.segments if s not in theirs]
            else:  # the segments they were made of are still there
                self.segments.remove(compacted)
                reason = compacted.unreadable or "a compacted segment that is not whole; not used"
                self.damages.append(
                    Damage("corrupt", compacted.path, 0, compacted.capacity, reason, 1, 0)
                )

    def _follows(self, headless: SegmentFile, other: SegmentFile) -> bool:
        """True if this compacted segment does not stand for the other one."""
        listed = {s.number for s in self.snapshot.segments} if self.snapshot is not None else set()
        if {headless.number, other.number} <= listed:
            return True
        at, data = self._read_zone(other)
        footer = read_footer(data, at, other.journal, other.number)
        return footer is not None and footer.lsn <= (headless.lsn_first or headless.lsn_found)

    # -- snapshots ----------------------------------------------------------------------------

    def _read_snapshots(self, newest_first: list[tuple[int, str]]) -> None:
        lost: list[tuple[str, int, int, str]] = []
        for lsn, name in newest_first:
            path = os.path.join(self.folder, name)
            if len(self.snapshot_lsns) == SNAPSHOTS_RETAINED:
                self.snapshots_outdated.append(path)
                continue
            if self.snapshot is not None and len(newest_first) <= SNAPSHOTS_RETAINED:
                self.snapshot_lsns.append(lsn)  # kept in reserve: this start does not need it
                continue
            size = self.files.size(path)
            try:
                read = self._read_snapshot(path, size)
            except SnapshotDamaged as error:
                lost.append((path, error.offset, size, error.reason))
                self.snapshots_damaged.append(path)
            except OSError as error:
                lost.append((path, 0, size, _medium_error(error)))
                self.snapshots_unread.append(path)
            else:
                if read is not None:
                    self.snapshot = self.snapshot or read
                    self.snapshot_lsns.append(lsn)
        for path, offset, end, reason in lost:
            # Without any snapshot the whole log is replayed; only reclaimed segments are missing.
            lsn_last = 0 if self.snapshot is not None else snapshot_lsn(os.path.basename(path)) or 0
            self.damages.append(
                Damage("corrupt", path, min(offset, end), end, reason, 1, lsn_last)
            )

    def _read_snapshot(self, path: str, size: int) -> Snapshot | None:
        data = self.files.read(path, 0, size)
        header = SegmentHeader.decode(data[:FILE_HEADER_BYTES], path)
        if header is not None and self.owner not in (0, header.journal):
            reason = "belongs to another journal or place"
            self.damages.append(Damage("foreign", path, 0, size, reason, 1, 0))
            return None
        read = Snapshot.decode(data, path)
        if header is not None and not self.owner:
            self.owner, self.identity = header.journal, header.identity
        return read

    def _resolve(self, segment: SegmentFile, snapshot: Snapshot, limit: int) -> None:
        """Take its items from its footer, unless that counts records from `limit` on, which newer
        segments repeat."""
        if segment.header is None or segment.bytes_missing or not segment.lsn_first:
            return
        at, data = self._read_zone(segment)
        footer: Record | None = read_footer(data, at, segment.journal, segment.number)
        segment.footer_lsn = footer.lsn if footer is not None else 0
        if footer is not None and footer.lsn <= min(limit or footer.lsn, snapshot.lsn + 1):
            segment.is_covered = True
            segment.lsn_last = footer.lsn - 1
            segment.note(Tally.from_footer(footer))

    def _read_zone(self, segment: SegmentFile) -> tuple[int, bytes]:
        """The last sector, where a footer stands, and where it begins."""
        at = max(segment.capacity - FOOTER_SPACE_BYTES, 0)
        try:
            return at, self.files.read(segment.path, at, FOOTER_SPACE_BYTES)
        except OSError as error:
            segment.unreadable = _medium_error(error)
            return at, b"\xff" * FOOTER_SPACE_BYTES


def _medium_error(error: OSError) -> str:
    """Return the reason for bytes that the disk has lost; raise any other error again."""
    if error.errno not in MEDIUM_ERRORS:
        raise error
    return f"reading failed: {error.strerror or error}"


def last_segment_number(names: list[str]) -> int:
    """The highest segment number in use among these files, whatever state it is in; 0: none."""
    numbers = (segment_number(name.removesuffix(SUFFIX_RECYCLED)) for name in names)
    return max((number or 0 for number in numbers), default=0)
