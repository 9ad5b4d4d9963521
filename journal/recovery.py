"""From a folder to records in order: check the chain, cut a torn tail, name the rest.

    segments on disk       scan, newest first until a batch says up to where it was synced
        |                                        |
        v                                        v  lsn_synced
    limits: a newer segment supersedes     walk, oldest first: records below the limit, in order;
    every older record from its first      a gap at or below lsn_synced is corrupt: named, passed;
    lsn on                                 the first gap behind it is torn: the log ends there

What is kept from behind lsn_synced is the *tail*. The page cache is not the disk, so an unclean
end has its tail written again, into a fresh segment, before anything is answered.

One rule: recovery reads. The one file it may write is the fresh segment (and copies of what it
cuts); a crash during recovery leaves everything to the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from journal.checkpoint import Checkpoint
from journal.errors import Damage, DamageKind
from journal.files import Files
from journal.record import Kind, Record, decode
from journal.segment import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    Gap,
    Scan,
    SegmentHeader,
    Tally,
    find_identity,
    scan,
    segment_name,
    segment_number,
)

SET_ASIDE_FOLDER: Final = "set-aside"
MISSING_BEFORE: Final = "records are missing before this segment"
_FRONT_BYTES: Final = 1 << 16  # holds any segment's opening record


@dataclass(slots=True)
class SegmentFile:
    """One segment as found. `lsn_limit`: records from here on are superseded (0: none are)."""

    number: int
    path: str
    header: SegmentHeader | None
    journal: int
    capacity: int
    lsn_first: int = 0
    lsn_limit: int = 0


@dataclass(slots=True)
class Recovery:
    """Reads one queue's journal. Exhaust `records()` first; everything else is known then."""

    files: Files
    folder: str
    identity: bytes = b""
    segments: list[SegmentFile] = field(default_factory=list)
    spares: list[SegmentFile] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    tail: list[Record] = field(default_factory=list)
    checkpoint: Record | None = None
    lsn_synced: int = 0
    lsn_next: int = 1
    append_at: int = FILE_HEADER_BYTES
    tally: Tally = field(default_factory=Tally)
    torn: bool = False
    _scans: dict[int, Scan] = field(default_factory=dict)
    _id_last: int = 0

    @property
    def clean(self) -> bool:
        """Did the journal end with everything synced, and said so, and nothing damaged?"""
        return not self.tail and not self.damages

    def records(self) -> Iterator[Record]:
        """Every record that is kept, in order of lsn."""
        self._find_segments()
        self._find_synced()
        self._set_limits()
        expected = 0
        for segment in self.segments:
            found = self._scans.pop(segment.number, None) or self._scan(segment)
            gaps = list(found.gaps)
            if expected and found.lsn_first > expected and not _superseded(segment, expected):
                gaps.insert(0, Gap(FILE_HEADER_BYTES, FILE_HEADER_BYTES, MISSING_BEFORE,
                                   expected, found.lsn_first))  # fmt: skip
            yield from self._walk(segment, found, gaps, expected)
            if self.torn:
                break
            self.append_at = found.end
            if segment is self.segments[-1]:
                for record in found.records:
                    self.tally.see(record)
            expected = self.lsn_next
            if gaps and gaps[-1].lsn_next == 0 and segment.lsn_limit:
                expected = segment.lsn_limit  # the gap at its end reached up to there
        self.lsn_next = max(self.lsn_next, 1 if self.torn else self.lsn_synced + 1)

    # -- finding out ------------------------------------------------------------------------

    def _find_segments(self) -> None:
        found: list[SegmentFile] = []
        for name in self.files.names(self.folder):
            number = segment_number(name)
            if number is None:
                continue
            path = os.path.join(self.folder, name)
            front = self.files.read(path, 0, FILE_HEADER_BYTES)
            header = SegmentHeader.decode(front, path)
            journal = header.journal if header is not None else 0
            found.append(SegmentFile(number, path, header, journal, self.files.size(path)))
        owner = self._owner(found)
        for segment in found:
            if segment.header is None:
                self._adopt_headless(segment, owner)
            elif segment.header.segment != segment.number or segment.journal != owner:
                self._name_damage(segment, "foreign", "belongs to another journal or place", 0)
                segment.journal = 0
            elif segment.capacity < segment.header.capacity:
                # Named here, whatever the scan finds: the room itself is gone.
                self._name_damage(segment, "truncated", "shorter than it was made",
                                  segment.capacity)  # fmt: skip
        self.segments = [s for s in found if s.journal]

    def _owner(self, found: list[SegmentFile]) -> int:
        """The journal that most of the segments belong to (the newest decides a tie)."""
        votes: dict[int, int] = {}
        for segment in found:
            if segment.header is not None:
                votes[segment.journal] = votes.get(segment.journal, 0) + 1
        if not votes:
            return 0
        most = max(votes.values())
        for segment in reversed(found):
            if votes.get(segment.journal, 0) == most and segment.header is not None:
                self.identity = segment.header.identity
                return segment.journal
        return 0

    def _adopt_headless(self, segment: SegmentFile, owner: int) -> None:
        data = self.files.read(segment.path)
        segment.journal = find_identity(data, segment.number)
        kind: DamageKind = "corrupt" if len(data) >= FILE_HEADER_BYTES else "truncated"
        if owner and segment.journal not in (0, owner):
            kind, segment.journal = "foreign", 0
        elif segment.journal and not self.identity:
            # The long identity is gone with the header; the short one is what frames carry.
            self.identity = segment.journal.to_bytes(4, "little") + bytes(12)
        self._name_damage(segment, kind, "the file header is not readable", FILE_HEADER_BYTES)

    def _find_synced(self) -> None:
        """Newest first, until a batch says up to where the journal was synced."""
        kept: list[SegmentFile] = []
        synced_known = False
        for segment in reversed(self.segments):
            if not synced_known:
                found = self._scans[segment.number] = self._scan(segment)
                if not found.lsn_first:
                    self.spares.append(segment)
                    if not found.gaps:
                        continue
                self.lsn_synced = max(self.lsn_synced, found.lsn_synced)
                synced_known = found.batches > 0
            kept.append(segment)
        self.segments = kept[::-1]
        self.spares.reverse()

    def _set_limits(self) -> None:
        limit = 0
        for segment in reversed(self.segments):
            segment.lsn_limit = limit
            first = self._first_lsn(segment)
            if first and (not limit or first < limit):
                limit = first

    def _first_lsn(self, segment: SegmentFile) -> int:
        known = self._scans.get(segment.number)
        if known is None:
            front = self.files.read(segment.path, 0, _FRONT_BYTES)
            opening = decode(front, FILE_HEADER_BYTES, segment.journal, segment.number)
            if opening is not None:
                return opening.lsn
            known = self._scan(segment)
        return known.lsn_first

    def _scan(self, segment: SegmentFile) -> Scan:
        data = self.files.read(segment.path)
        return scan(data, segment.path, segment.journal, segment.number)

    # -- walking ----------------------------------------------------------------------------

    def _walk(
        self, segment: SegmentFile, found: Scan, gaps: list[Gap], expected: int
    ) -> Iterator[Record]:
        segment.lsn_first = found.lsn_first
        if found.checkpoint is not None and not _superseded(segment, found.checkpoint.lsn):
            self.checkpoint = found.checkpoint
            # Items that its state includes may stand behind it: any of the records up to `as_of`.
            ahead = max(Checkpoint.from_record(found.checkpoint).as_of - found.lsn_first + 1, 0)
            self._id_last = max(self._id_last, found.checkpoint.item - 1 - ahead)
        at = 0
        for record in found.records:
            while at < len(gaps) and gaps[at].offset < record.offset:
                self._judge(segment, found, gaps[at], expected)
                at += 1
                if self.torn:
                    return
            if _superseded(segment, record.lsn):
                return
            if record.kind == Kind.PUT:
                self._id_last = max(self._id_last, record.item)
            if record.lsn > self.lsn_synced:
                self.tail.append(record)
            self.lsn_next = expected = record.lsn + 1
            yield record
        for gap in gaps[at:]:
            self._judge(segment, found, gap, expected)
            if self.torn:
                return

    def _judge(self, segment: SegmentFile, found: Scan, gap: Gap, expected: int) -> None:
        """Torn or corrupt? Decides, names it, and for torn ends the log."""
        first = gap.lsn_expected or expected or 1
        if _superseded(segment, first):
            return
        kind: DamageKind = "truncated" if gap.reason == MISSING_BEFORE else "corrupt"
        if first > self.lsn_synced:
            kind = "torn"
            self.torn = True
        lsn_last = (gap.lsn_next or segment.lsn_limit or self.lsn_synced + 1) - 1
        id_first, id_last = 1, 0
        if kind != "torn" and lsn_last >= first:
            following = (r.item for r in found.records
                         if r.lsn >= (gap.lsn_next or lsn_last + 1) and r.kind == Kind.PUT)  # fmt: skip
            id_first = self._id_last + 1
            id_last = next(following, id_first + lsn_last - first + 1) - 1
        self.damages.append(
            Damage(kind, segment.path, gap.offset, gap.end, gap.reason, first, lsn_last,
                   id_first, id_last)
        )  # fmt: skip

    def _name_damage(self, segment: SegmentFile, kind: DamageKind, reason: str, at: int) -> None:
        end = segment.capacity if kind == "foreign" else max(at, 0)
        start = 0 if kind != "truncated" else at
        self.damages.append(Damage(kind, segment.path, start, end, reason, 1, 0))


def _superseded(segment: SegmentFile, lsn: int) -> bool:
    return bool(segment.lsn_limit) and lsn >= segment.lsn_limit


def set_aside(files: Files, folder: str, damages: list[Damage]) -> list[str]:
    """Keep a copy of every damaged stretch in `set-aside/`, once; return the copies' paths."""
    copies = []
    aside = os.path.join(folder, SET_ASIDE_FOLDER)
    for damage in damages:
        size = damage.end - damage.offset
        name = f"{os.path.basename(damage.path)}.{damage.offset}.{damage.kind}"
        if size <= 0 or name in files.names(aside):
            continue
        files.make_folder(aside)
        data = files.read(damage.path, damage.offset, size)
        copy = os.path.join(aside, name)
        files.create(copy, data, len(data)).close()
        copies.append(copy)
    return copies


def last_segment_number(files: Files, folder: str) -> int:
    """The highest segment number in use in `folder`, whatever state it is in; 0: none."""
    numbers = [segment_number(name) or 0 for name in files.names(folder)]
    return max(numbers, default=0)


def segment_path(folder: str, number: int) -> str:
    """Where segment `number` of the journal in `folder` lives."""
    return os.path.join(folder, segment_name(number))


def usable_bytes(capacity: int) -> int:
    """Where the records of a segment of `capacity` bytes must end."""
    return capacity - FOOTER_SPACE_BYTES
