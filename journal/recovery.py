"""From a folder to records in order: check the chain, cut a torn tail, name the rest.

    segments on disk       scan, newest first until a batch says up to where it was synced
        |                                        |
        v                                        v  lsn_synced
    limits: a newer segment supersedes     walk, oldest first: records below the limit, in order;
    every older record from its first      records lost at or below lsn_synced are corrupt: named,
    lsn on                                 passed; the first lost behind it are torn: the log
                                           ends there, and what follows is cut

What is kept from behind lsn_synced is the *tail*. The page cache is not the disk, so an unclean
end has its tail written again, into a fresh segment, before anything is answered (`resume`).

One rule: recovery reads and changes nothing; a crash during it leaves everything to the next one.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from journal.errors import ITEM_MAX, Damage, DamageKind
from journal.files import Files
from journal.record import HEADER_BYTES, Kind, Record, decode
from journal.segment import (
    FILE_HEADER_BYTES,
    FOOTER_LOST,
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

MISSING_BEFORE: Final = "records are missing before this segment"
SHORTER: Final = "shorter than it was made"
BEHIND_THE_END: Final = "behind the end of the log"
HEADER_LOST: Final = "the file header is not readable"
_FRONT_BYTES: Final = 1 << 16  # holds any segment's opening record
_item: Final = attrgetter("item")
_lsn: Final = attrgetter("lsn")
_offset: Final = attrgetter("offset")
_OPENING_FRAMES: Final = 2  # the checkpoint and the first batch of any segment


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

    @property
    def bytes_missing(self) -> int:
        """How much shorter the file is than it was made, as far as it says."""
        made = self.header.capacity if self.header is not None else FILE_HEADER_BYTES
        return max(made - self.capacity, 0)

    def is_spare(self, found: Scan) -> bool:
        """Is it whole, and has nothing been written to it?"""
        whole = self.header is not None and not self.bytes_missing
        return whole and not (found.lsn_first or found.gaps or found.footer)

    def supersedes(self, lsn: int) -> bool:
        """Does a newer segment hold what this one says from `lsn` on?"""
        return bool(self.lsn_limit) and lsn >= self.lsn_limit


@dataclass(slots=True)
class Recovery:
    """Reads one queue's journal. Exhaust `records()` first; everything else is known then."""

    files: Files
    folder: str
    identity: bytes = b""
    segments: list[SegmentFile] = field(default_factory=list)  # with records of the log
    superseded: list[SegmentFile] = field(default_factory=list)  # newer segments hold all of it
    spares: list[SegmentFile] = field(default_factory=list)  # hold nothing
    damages: list[Damage] = field(default_factory=list)
    tail: list[Record] = field(default_factory=list)
    checkpoint: Record | None = None
    lsn_synced: int = 0
    lsn_next: int = 1
    append_at: int = FILE_HEADER_BYTES
    tally: Tally = field(default_factory=Tally)
    torn: bool = False  # the log ends in front of bytes that are cut
    _scans: dict[int, Scan] = field(default_factory=dict)
    _last: Scan | None = None
    _lsn: int = 0  # the next record's, as far as we have read; 0: any may be the first
    _item_seen: int = 0  # the latest item that was surely put
    _item_last: int = 0  # the latest that may have been put
    _item_jump: int = 0  # behind a checkpoint the ids may go on from here

    @property
    def clean(self) -> bool:
        """Did the journal end with everything synced, and said so, in a segment to go on in?"""
        if self.tail or self.torn:
            return False
        if self._last is None:
            return True
        sealed = self._last.footer is not None
        return not sealed and all(d.path != self._last.path for d in self.damages)

    def records(self) -> Iterator[Record]:
        """Every record that is kept, in order of lsn."""
        self._find_segments()
        self._find_synced()
        self._sort_out()
        for segment in self.segments:
            found = self._last = self._scans.pop(segment.number, None) or self._scan(segment)
            segment.lsn_first = found.lsn_first or (self._lsn or 1 if found.gaps else 0)
            if self.torn:
                self._cut(found, FILE_HEADER_BYTES, BEHIND_THE_END, segment.lsn_first, 0)
                continue
            if not self._lsn and not (found.gaps and found.gaps[0].offset == FILE_HEADER_BYTES):
                self._lsn = found.lsn_first
            yield from self._walk(segment, found)
        if self._last is not None and self.clean:
            self.append_at = self._last.end
            self.tally.see_all(self._last.records)
        self.lsn_next = max(self._lsn, self.lsn_synced + 1)

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
                self._name_file(segment, "foreign", "belongs to another journal or place")
                segment.journal = 0
        self.segments = [s for s in found if s.journal]

    def _owner(self, found: list[SegmentFile]) -> int:
        """The journal that most of the segments belong to (the newest decides a tie)."""
        votes: dict[int, int] = {}
        for segment in found:
            if segment.header is not None:
                votes[segment.journal] = votes.get(segment.journal, 0) + 1
        most = max(votes.values(), default=0)
        for segment in reversed(found):
            if segment.header is not None and votes[segment.journal] == most:
                self.identity = segment.header.identity
                return segment.journal
        return 0

    def _adopt_headless(self, segment: SegmentFile, owner: int) -> None:
        data = self.files.read(segment.path)
        frames_of = find_identity(data, segment.number)
        if owner and frames_of not in (0, owner):
            self._name_file(segment, "foreign", HEADER_LOST)
            return
        segment.journal = frames_of or owner
        if not self.identity and frames_of:
            # The long identity is gone with the header; the short one is what frames carry.
            self.identity = frames_of.to_bytes(4, "little") + bytes(12)
        if not segment.journal or not segment.bytes_missing:
            kind: DamageKind = "truncated" if segment.bytes_missing else "corrupt"
            self._name_file(segment, kind, HEADER_LOST)

    def _find_synced(self) -> None:
        """Newest first, until a batch says up to where the journal was synced."""
        for segment in reversed(self.segments):
            found = self._scans[segment.number] = self._scan(segment)
            self.lsn_synced = max(self.lsn_synced, found.lsn_synced)
            if found.batches:
                return

    def _sort_out(self) -> None:
        """Newest first: which segments count, up to which lsn, and which hold nothing."""
        oldest = self.segments[0].number if self.segments else 0
        limit = 0
        kept: list[SegmentFile] = []
        for segment in reversed(self.segments):
            segment.lsn_limit = limit
            first = self._first_lsn(segment)
            if first and segment.supersedes(first):
                # And with it those behind it in which no record can be read: theirs came later.
                while kept and not self._first_lsn(kept[0]):
                    self.superseded.insert(0, kept.pop(0))
                self.superseded.insert(0, segment)
            elif not first and segment.is_spare(self._scans[segment.number]):
                self.spares.insert(0, segment)
            else:
                kept.insert(0, segment)
                limit = first or limit
        self.segments = kept
        if self.spares and self.spares[0].number == oldest:
            # A segment goes only when the one behind it is synced. So nothing ever stood before
            # this one: the log begins here, and what was written here, if anything, is lost.
            self._lsn = 1

    def _first_lsn(self, segment: SegmentFile) -> int:
        known = self._scans.get(segment.number)
        if known is None:
            front = self.files.read(segment.path, 0, _FRONT_BYTES)
            opening = decode(front, FILE_HEADER_BYTES, segment.journal, segment.number)
            if opening is not None:
                return opening.lsn
            known = self._scans[segment.number] = self._scan(segment)
        return known.lsn_first

    def _scan(self, segment: SegmentFile) -> Scan:
        data = self.files.read(segment.path)
        return scan(data, segment.path, segment.journal, segment.number)

    # -- walking ----------------------------------------------------------------------------

    def _walk(self, segment: SegmentFile, found: Scan) -> Iterator[Record]:
        opening = found.checkpoint
        if opening is not None and not segment.supersedes(opening.lsn):
            self.checkpoint = opening
            self._item_jump = opening.item - 1
            self._item_last = max(self._item_last, self._item_jump)
        at = 0
        for gap in self._all_gaps(segment, found):
            stop = bisect_left(found.records, gap.offset, at, key=_offset)
            yield from self._keep(segment, found.records[at:stop])
            at = stop
            self._judge(segment, found, gap)
            if self.torn:
                return
        yield from self._keep(segment, found.records[at:] if at else found.records)

    def _keep(self, segment: SegmentFile, records: list[Record]) -> Iterator[Record]:
        """Records between two gaps, as far as they are not superseded."""
        if segment.lsn_limit and records and segment.supersedes(records[-1].lsn):
            records = records[: bisect_left(records, segment.lsn_limit, key=_lsn)]
        if not records:
            return
        synced = self.lsn_synced
        if records[-1].lsn > synced:
            self.tail.extend(records[bisect_right(records, synced, key=_lsn) :])
        self._lsn = records[-1].lsn + 1
        self._item_seen = max(self._item_seen, *map(_item, records))
        put = next((r for r in reversed(records) if r.kind == Kind.PUT), None)
        if put is not None:  # every item before it was put before it
            self._item_last = max(put.item, self._item_jump)
        yield from records

    def _all_gaps(self, segment: SegmentFile, found: Scan) -> list[Gap]:
        """The scan's gaps, and those that show only beside the file: before it, and its end."""
        gaps = list(found.gaps)
        opens_whole = not gaps or gaps[0].offset > FILE_HEADER_BYTES
        if self._lsn and found.lsn_first > self._lsn and opens_whole:
            at = FILE_HEADER_BYTES
            gaps.insert(0, Gap(at, at, MISSING_BEFORE, self._lsn, found.lsn_first))
        if segment.bytes_missing:
            start, lsn = segment.capacity, found.lsn_next
            went_on = start - found.read_to < HEADER_BYTES  # else zeros: the log ended before
            if gaps and gaps[-1].offset >= found.read_to:
                start, went_on = gaps.pop().offset, True
            end = segment.capacity + segment.bytes_missing
            gaps.append(Gap(start, end, SHORTER, lsn, 0 if went_on else lsn or self._lsn or 1))
        return gaps

    def _judge(self, segment: SegmentFile, found: Scan, gap: Gap) -> None:
        """Torn or damaged? Names it; where records behind the last sync are lost, the log ends."""
        first, last = self._lost(segment, gap)
        is_lost = last >= first
        if segment.supersedes(first) and gap.reason not in (FOOTER_LOST, SHORTER):
            return
        if is_lost and first > self.lsn_synced and gap.reason != SHORTER:
            self._cut(found, gap.offset, gap.reason, first, last)
            return
        kind: DamageKind = "corrupt"
        if gap.reason in (SHORTER, MISSING_BEFORE):
            kind = "truncated"
        elif first > self.lsn_synced and gap.reason != FOOTER_LOST:
            kind = "torn"
        self._name(kind, segment.path, gap.offset, gap.end, gap.reason, first, last,
                   *self._items_lost(found, first, last))  # fmt: skip
        self.torn = is_lost and first > self.lsn_synced
        if is_lost and not self.torn:
            self._lsn = last + 1

    def _lost(self, segment: SegmentFile, gap: Gap) -> tuple[int, int]:
        """First and last lsn of what may have been in a gap; a last below its first: nothing."""
        room = (gap.end - gap.offset) // HEADER_BYTES  # for so many records at most
        if gap.offset == FILE_HEADER_BYTES:
            room = max(room - _OPENING_FRAMES, 0)
        elif gap.end == FILE_HEADER_BYTES:  # not even a header: nobody knows how long it was
            room = ITEM_MAX
        first = self._lsn or gap.lsn_expected
        following = gap.lsn_next
        if segment.lsn_limit and not 0 < following < segment.lsn_limit:
            following = segment.lsn_limit
        if following:
            return first or max(following - room, 1), following - 1
        first = first or 1
        return first, min(first + max(room, 1) - 1, ITEM_MAX)

    def _items_lost(self, found: Scan, first: int, last: int) -> tuple[int, int]:
        """The items whose puts may be among these records: ids rise by one from put to put."""
        if last < first:
            return 1, 0
        id_first = self._item_seen + 1
        self._item_last = min(self._item_last + last - first + 1, ITEM_MAX)
        for record in found.records:
            if record.lsn > last and record.kind == Kind.PUT:
                return id_first, min(self._item_last, record.item - 1)
        return id_first, self._item_last

    def _cut(self, found: Scan, offset: int, reason: str, first: int, last: int) -> None:
        """The log ends before `offset`; what was written from there on in this file is cut."""
        self.torn = True
        end = max([found.read_to, *(g.end for g in found.gaps)])
        if end > offset:
            last = max(last, found.lsn_next - 1)
            self._name("torn", found.path, offset, end, reason, first, last,
                       *self._items_lost(found, first, last))  # fmt: skip

    def _name_file(self, segment: SegmentFile, kind: DamageKind, reason: str) -> None:
        """Damage to a file as such; what is lost with it shows in the walk, if it is walked."""
        end = segment.capacity if kind == "foreign" else FILE_HEADER_BYTES
        id_last = 0 if segment.journal or kind == "foreign" else ITEM_MAX
        self._name(kind, segment.path, 0, end, reason, 1, id_last, 1, id_last)

    def _name(self, kind: DamageKind, path: str, offset: int, end: int, reason: str,
              lsn_first: int, lsn_last: int, id_first: int, id_last: int) -> None:  # fmt: skip
        self.damages.append(
            Damage(kind, path, offset, end, reason, lsn_first, lsn_last, id_first, id_last)
        )


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
