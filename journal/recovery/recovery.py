"""From a folder to records in order: check the segments, cut a torn tail, name the rest.

    files on disk          `SegmentOrder`: order, owner, snapshot, covered segments
        |
        v                  scan, newest first until a batch says up to where it was synced
    limits: a newer segment supersedes           |
    every older record from its first            v  lsn_synced
    lsn on                 walk, oldest first: records below the limit, in order; records lost at
                           or below lsn_synced are corrupt: named, passed; the first lost after it
                           are torn: the log ends there, and the rest is cut

The records kept from after lsn_synced are the *tail*. The page cache is not the disk, so an unclean
end has its tail written again, into a fresh segment, before the first answer (`reopen`).

With a snapshot only records after its lsn are read; without one, everything.

One rule: recovery reads and changes nothing; a crash during it leaves everything to the next one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from journal.errors import ITEM_MAX, Damage, DamageKind
from journal.files import Files
from journal.format import (
    FILE_HEADER_BYTES,
    HEADER_BYTES,
    PLACING,
    Kind,
    Record,
    Tally,
    number_given,
)
from journal.read import FOOTER_LOST, Gap, Scan
from journal.recovery.bodies import BodyCheck
from journal.recovery.lost_segments import LostSegments
from journal.recovery.segment_order import HEADER_LOST, NOTHING_READABLE, SegmentFile, SegmentOrder
from journal.sets import IdSet
from journal.snapshot import Snapshot

MISSING_BEFORE: Final = "records are missing before this segment"
MISSING_BEHIND: Final = "records are missing at its end"
SHORTER: Final = "shorter than it was made"
BEHIND_THE_END: Final = "behind the end of the log"
_TRUNCATED: Final = frozenset({SHORTER, MISSING_BEFORE, MISSING_BEHIND})
_item: Final = attrgetter("item")
_lsn: Final = attrgetter("lsn")
_offset: Final = attrgetter("offset")


@dataclass(slots=True)
class Recovery:
    """Reads one queue's journal. Exhaust `records()` first; everything else is known then.

    With a snapshot `records()` yields those after `snapshot.lsn`; `whole`: all records on disk,
    with every byte checked. `snapshot_lsns` are those of the snapshots to keep, newest first.
    """

    files: Files
    folder: str
    whole: bool = False
    identity: bytes = b""
    snapshot: Snapshot | None = None
    snapshot_lsns: list[int] = field(default_factory=list)
    obsolete: list[str] = field(default_factory=list)  # snapshots that are damaged or too old
    snapshots_unread: list[str] = field(default_factory=list)  # the disk did not give them
    segments: list[SegmentFile] = field(default_factory=list)  # with records of the log
    superseded: list[SegmentFile] = field(default_factory=list)  # newer segments hold all of it
    replaced: list[SegmentFile] = field(default_factory=list)  # a compacted segment stands for them
    preallocated: list[SegmentFile] = field(default_factory=list)  # hold nothing
    damages: list[Damage] = field(default_factory=list)
    tail: list[Record] = field(default_factory=list)
    checkpoint: Record | None = None
    lsn_synced: int = 0
    lsn_next: int = 1
    names: list[str] = field(default_factory=list)  # of all files there
    append_at: int = FILE_HEADER_BYTES
    append_dirty: bool = False  # bytes of an earlier life follow `append_at`
    tally: Tally = field(default_factory=Tally)
    torn: bool = False  # the log ends where cut bytes begin
    _open_ended: int = -1  # the damage in this place has no item after it yet
    _segment_order: SegmentOrder = field(init=False)
    _scans: dict[int, Scan] = field(default_factory=dict)
    _last: Scan | None = None
    _lsn: int = 0  # the lsn expected next; 0: the first record may have any
    _lsn_known: int = 0  # a snapshot includes the records up to here
    _item_covered: int = 0  # the latest item put in a segment that was passed
    # Items and places share one sequence of numbers: these are numbers of either.
    _item_seen: int = 0  # the latest that was certainly given
    _item_last: int = 0  # the latest that may have been given
    _item_jump: int = 0  # after a checkpoint they may go on from here

    @property
    def beginnings(self) -> int:
        """Return how often its records begin again: never, as no one changes the files."""
        return 1

    @property
    def is_sealed(self) -> bool:
        """True if the log ends in a segment that is not written to any more."""
        return self._last is not None and self._last.footer is not None

    @property
    def clean(self) -> bool:
        """True if the journal ended with everything synced, and said so, in a segment to go on in.
        """
        if self.tail or self.torn:
            return False
        if self._last is None:
            return not self.segments
        return not self.is_sealed and all(d.path != self._last.path for d in self.damages)

    def records(self) -> Iterator[Record]:
        """Yield every record that is kept, in order of lsn."""
        self._find()
        self._find_synced()
        self._sort_out()
        if not self.whole:
            self._segment_order.resolve_listed()
        missing = LostSegments(self.snapshot, self.segments) if self.snapshot is not None else None
        for segment in self.segments:
            self._last = None
            if segment.is_covered and not self.whole:
                self._item_covered = max(self._item_covered, segment.item_last)
                continue
            found = self._last = self._scans.pop(segment.number, None) or self._scan(segment)
            is_whole = not (found.gaps or segment.bytes_missing)
            segment.is_read = is_whole and found.start == FILE_HEADER_BYTES
            for record in self._counting_records(segment, found):
                if missing and record.lsn > self._lsn_known:
                    missing.see(record)
                yield record
        if self._last is not None and self.clean:
            self.append_at, self.append_dirty = self._last.end, self._last.dirty
        self.lsn_next = max(self._lsn, self.lsn_synced + 1)
        if missing:
            self.damages += missing.damages(self.folder)
        lost = {damage.path for damage in self.damages if damage.reason == NOTHING_READABLE}
        self.damages = [d for d in self.damages if d.reason != HEADER_LOST or d.path not in lost]

    def unread(self) -> set[str]:
        """Return the files that the disk did not give, and may give later."""
        found = {segment.path for segment in self.segments + self.superseded if segment.unreadable}
        return found.union(self.snapshots_unread)

    def lost_for_good(self) -> list[Damage]:
        """Return the damage of bytes that are readable and wrong. Other damage may not last: a disk
        may give a file later, and numbers that seem lost may be a jump after such a file."""
        unread = self.unread()
        return [d for d in self.damages if d.end > d.offset and d.path not in unread]

    def bodies(self, needed: IdSet) -> BodyCheck:
        """Return a check that these items have a readable body; exhaust `records()` first."""
        return BodyCheck(self.folder, self.segments, needed)

    # -- finding out ------------------------------------------------------------------------

    def _find(self) -> None:
        order = self._segment_order = SegmentOrder(self.files, self.folder)
        order.find()
        self.identity, self.segments, self.damages = order.identity, order.segments, order.damages
        self.snapshot, self.snapshot_lsns = order.snapshot, order.snapshot_lsns
        self.obsolete = order.snapshots_outdated + order.snapshots_damaged
        self.snapshots_unread = order.snapshots_unread
        self.replaced, self.names = order.replaced, order.names
        snapshot = self.snapshot
        if snapshot is None:
            return
        self.lsn_synced = self._lsn_known = snapshot.lsn
        if not self.whole:
            self._lsn = snapshot.lsn + 1
            opening = snapshot.checkpoint.draft(0, snapshot.lsn)
            self.checkpoint = Record(*opening[:8], snapshot.lsn + 1, 0, 0, 0)
            self._item_seen = self._item_last = self._item_jump = opening.item - 1

    def _find_synced(self) -> None:
        """Look, newest first, for a batch that says up to where the journal was synced.

        Everything before a file that the disk does not give counts as synced. Otherwise the tail
        written again would begin before that file, and supersede its records when the disk gives
        it later.
        """
        before_unreadable = False
        for segment in reversed(self.segments):
            if segment.is_covered:
                return
            found = self._scans[segment.number] = self._scan(segment)
            self.lsn_synced = max(self.lsn_synced, found.lsn_synced)
            if before_unreadable:
                self.lsn_synced = max(self.lsn_synced, found.lsn_next - 1)
            before_unreadable = before_unreadable or found.unreadable
            if found.batches or 0 < segment.lsn_first <= self._lsn_known + 1:
                return

    def _sort_out(self) -> None:
        """Decide, newest first, which segments count, up to which lsn, and which are empty."""
        oldest = self.segments[0].number if self.segments else 0
        limit = 0
        kept: list[SegmentFile] = []
        for segment in reversed(self.segments):
            segment.lsn_limit = limit
            first = self._first_lsn(segment)
            if first and segment.supersedes(first):
                # The next segments without a readable record as well: theirs came later.
                while kept and not self._first_lsn(kept[0]):
                    self.superseded.insert(0, kept.pop(0))
                self.superseded.insert(0, segment)
            elif not first and segment.is_preallocated(self._scans[segment.number]):
                self.preallocated.insert(0, segment)
            else:
                kept.insert(0, segment)
                limit = first or limit
        self.segments = self._segment_order.segments = kept
        if self.preallocated and self.preallocated[0].number == oldest and not self._lsn:
            # A segment goes only when the next one is synced. So there was never one before
            # this one: the log begins here, and the records written here, if any, are lost.
            self._lsn = 1

    def _first_lsn(self, segment: SegmentFile) -> int:
        if segment.lsn_first:
            return segment.lsn_first
        known = self._scans.get(segment.number)
        if known is None:
            known = self._scans[segment.number] = self._scan(segment)
        return known.lsn_first

    def _scan(self, segment: SegmentFile) -> Scan:
        """Scan from where the snapshot says that the log goes on, if it does; else all of it."""
        snapshot = self.snapshot
        if (
            snapshot is not None
            and not self.whole
            and snapshot.tally is not None
            and segment.number == snapshot.segment
            and FILE_HEADER_BYTES < snapshot.offset <= segment.capacity
        ):
            lsn = snapshot.lsn + 1
            found = self._segment_order.scan(segment, snapshot.offset, lsn)
            begins_whole = not found.gaps or found.gaps[0].offset > snapshot.offset
            if found.lsn_first == lsn and begins_whole:
                return found
        return self._segment_order.scan(segment)

    # -- walking ----------------------------------------------------------------------------

    def _counting_records(self, segment: SegmentFile, found: Scan) -> Iterator[Record]:
        """Yield the records of one segment that count."""
        opened = segment.lsn_first or found.lsn_first
        segment.lsn_first = opened or (self._lsn or 1 if found.gaps else 0)
        if self.torn:
            if found.unreadable:
                self._name_unreadable(segment, found, found.gaps[0])
            else:
                self._cut(found, FILE_HEADER_BYTES, BEHIND_THE_END, segment.lsn_first, 0)
            return
        if not self._lsn and not (found.gaps and found.gaps[0].offset == FILE_HEADER_BYTES):
            self._lsn = found.lsn_first
        yield from self._walk(segment, found)
        self._note_tally(segment, found)
        if segment.is_compacted and found.footer is not None:
            self._lsn = max(self._lsn, found.footer.lsn)  # after all that it stands for

    def _note_tally(self, segment: SegmentFile, found: Scan) -> None:
        """Note the items put in a segment, from its footer or by counting."""
        before = self.snapshot.tally if self.snapshot else None
        cut = self._lsn if self.torn else 0
        self.tally = tally = segment.note_records(found, before, cut, self.lsn_synced)
        self._item_covered = max(self._item_covered, tally.item_last)

    def _walk(self, segment: SegmentFile, found: Scan) -> Iterator[Record]:
        opening = found.checkpoint
        if opening is not None and not segment.supersedes(opening.lsn):
            self._open(segment, opening)
        opens_whole = not found.gaps or found.gaps[0].offset > FILE_HEADER_BYTES
        if opens_whole and found.lsn_first <= self._lsn_known + 1:  # holes here were reclaimed
            self._lsn = max(self._lsn, found.lsn_first)
        at = 0
        for gap in self._all_gaps(segment, found):
            stop = bisect_left(found.records, gap.offset, at, key=_offset)
            yield from self._wanted_records(segment, found.records[at:stop])
            at = stop
            self._judge(segment, found, gap)
            if self.torn:
                return
        yield from self._wanted_records(segment, found.records[at:] if at else found.records)

    def _open(self, segment: SegmentFile, opening: Record) -> None:
        """Take over the opening state of a segment, unless something newer is known."""
        if segment.is_compacted:
            self.checkpoint = self.checkpoint or opening  # names the queue; counts nothing
        elif self._is_new(segment, opening.lsn):
            self.checkpoint = opening
            self._item_jump = opening.item - 1
            self._item_last = max(self._item_last, self._item_jump)

    def _is_new(self, segment: SegmentFile, lsn: int) -> bool:
        """True if a segment that begins with this lsn begins after the snapshot."""
        if self.snapshot is None or self.whole:
            return True
        return lsn > self._lsn_known and segment.number != self.snapshot.segment

    def _wanted_records(self, segment: SegmentFile, records: list[Record]) -> Iterator[Record]:
        """Yield the records between two gaps that are wanted and not superseded."""
        if segment.lsn_limit and records and segment.supersedes(records[-1].lsn):
            records = records[: bisect_left(records, segment.lsn_limit, key=_lsn)]
        if records and records[0].lsn <= self._lsn_known and not self.whole:
            records = records[bisect_right(records, self._lsn_known, key=_lsn) :]
        if not records:
            return
        synced = self.lsn_synced
        if records[-1].lsn > synced:
            self.tail.extend(records[bisect_right(records, synced, key=_lsn) :])
        self._lsn = records[-1].lsn + 1
        self._item_seen = max(self._item_seen, *map(_item, records))
        last = next((number_given(r) for r in reversed(records) if r.kind in PLACING), 0)
        if last and self._open_ended >= 0:
            self._bound_lost(next(number_given(r) for r in records if r.kind in PLACING))
        if last:  # every number before it was given before it
            self._item_last = max(last, self._item_jump)
            self._item_seen = max(self._item_seen, last)
        yield from records

    def _all_gaps(self, segment: SegmentFile, found: Scan) -> list[Gap]:
        """Yield the scan's gaps, and those at its beginning and its end."""
        gaps = list(found.gaps)
        opens_whole = not gaps or gaps[0].offset > FILE_HEADER_BYTES
        if self._lsn and found.lsn_first > self._lsn and opens_whole:
            at = FILE_HEADER_BYTES
            expected = max(self._lsn, self._lsn_known + 1)
            gaps.insert(0, Gap(at, at, MISSING_BEFORE, expected, found.lsn_first))
        snapshot = self.snapshot
        if snapshot is not None and segment.number == snapshot.segment and not found.gaps:
            behind = min(segment.lsn_limit or snapshot.lsn + 1, snapshot.lsn + 1)
            if found.lsn_next < behind and not segment.bytes_missing:
                gaps.append(Gap(found.end, found.end, MISSING_BEHIND, found.lsn_next, behind))
        if segment.bytes_missing:
            start, lsn = segment.capacity, found.lsn_next
            went_on = start - found.read_to < HEADER_BYTES  # else zeros: the log ended before
            if gaps and gaps[-1].offset >= found.read_to:
                start, went_on = gaps.pop().offset, True
            end = segment.capacity + segment.bytes_missing
            gaps.append(Gap(start, end, SHORTER, lsn, 0 if went_on else lsn or self._lsn or 1))
        return gaps

    def _judge(self, segment: SegmentFile, found: Scan, gap: Gap) -> None:
        """Name a gap as torn or damaged. Where records after the last sync are lost, the log ends.
        """
        if self._is_known(segment, found, gap):
            return
        if found.unreadable:
            self._name_unreadable(segment, found, gap)
            return
        first, last = gap.lost(self._lsn, segment.lsn_limit)
        is_lost = last >= first
        if segment.supersedes(first) and gap.reason not in (FOOTER_LOST, SHORTER):
            return
        if is_lost and first > self.lsn_synced and gap.reason != SHORTER:
            self._cut(found, gap.offset, gap.reason, first, last)
            return
        kind: DamageKind = "corrupt"
        if gap.reason in _TRUNCATED:
            kind = "truncated"
        elif first > self.lsn_synced and gap.reason != FOOTER_LOST:
            kind = "torn"
        ids = self._items_lost(found, first, last)
        if is_lost and segment.is_compacted:
            ids = ids[0], max(_compacted_last(found, last), ids[1])
        self._name(kind, segment.path, gap.offset, gap.end, gap.reason, first, last, *ids)
        self.torn = is_lost and first > self.lsn_synced
        if is_lost and not self.torn:
            self._lsn = last + 1

    def _is_known(self, segment: SegmentFile, found: Scan, gap: Gap) -> bool:
        """True if the snapshot includes all records that were lost here. Then at most bodies are
        lost: name those.

        A gap that reaches beyond the snapshot is judged like any other.
        """
        snapshot, known = self.snapshot, self._lsn_known
        if snapshot is None or self.whole:
            return False
        state = next((s for s in snapshot.segments if s.number == segment.number), None)
        if state is None and (gap.lsn_expected or segment.lsn_first) > known:
            return False
        puts = [(r.offset, r.item) for r in found.records if r.kind == Kind.PUT]
        before, behind = self._item_covered, snapshot.checkpoint.next_item
        if state is not None:
            before, behind = state.item_first - 1, state.item_last + 1
        low = max((item for at, item in puts if at < gap.offset), default=before) + 1
        high = min((item for at, item in puts if at >= gap.end), default=behind)
        has_puts = gap.reason != FOOTER_LOST
        alive = list(snapshot.needed().between(low, high - 1)) if has_puts else []
        ids = (alive[0], alive[-1]) if alive else (1, 0)
        self._name("truncated" if gap.reason in _TRUNCATED else "corrupt", segment.path,
                   gap.offset, gap.end, gap.reason, 1, 0, *ids)  # fmt: skip
        return state is not None or 0 < gap.following(segment.lsn_limit) <= known + 1

    def _name_unreadable(self, segment: SegmentFile, found: Scan, gap: Gap) -> None:
        """Name an unreadable file: it may have been full of records. The log goes on after the last
        number that they may have had.
        """
        first = self._lsn or 1
        last = min(first + gap.room() - 1, ITEM_MAX)
        last = segment.lsn_limit - 1 if segment.lsn_limit else last
        self._open_ended = len(self.damages)
        self._name("corrupt", segment.path, gap.offset, gap.end, gap.reason, first, last,
                   *self._items_lost(found, first, last))  # fmt: skip
        self._lsn = max(self._lsn, last + 1)

    def _bound_lost(self, following: int) -> None:
        """Bound the items of a segment without a record by the next number that was given."""
        named, self._open_ended = self.damages[self._open_ended], -1
        if named.id_first < following <= named.id_last:
            self.damages[self.damages.index(named)] = replace(named, id_last=following - 1)

    def _items_lost(self, found: Scan, first: int, last: int) -> tuple[int, int]:
        """Return the items whose puts may be among these records: a record gives one number at
        most.
        """
        if last < first:
            return 1, 0
        id_first = self._item_seen + 1
        more = last - first + 1 if last < ITEM_MAX else ITEM_MAX  # then the number is unknown
        self._item_last = min(self._item_last + more, ITEM_MAX)
        for record in found.records:
            if record.lsn > last and record.kind in PLACING:
                return id_first, min(self._item_last, number_given(record) - 1)
        return id_first, self._item_last

    def _cut(self, found: Scan, offset: int, reason: str, first: int, last: int) -> None:
        """End the log before `offset`; the later bytes of this file are cut."""
        self.torn = True
        end = max([found.read_to, *(g.end for g in found.gaps)])
        if end > offset:
            last = max(last, found.lsn_next - 1)
            self._name("torn", found.path, offset, end, reason, first, last,
                       *self._items_lost(found, first, last))  # fmt: skip

    def _name(self, kind: DamageKind, path: str, offset: int, end: int, reason: str,
              lsn_first: int, lsn_last: int, id_first: int, id_last: int) -> None:  # fmt: skip
        self.damages.append(
            Damage(kind, path, offset, end, reason, lsn_first, lsn_last, id_first, id_last)
        )


def _compacted_last(found: Scan, lsn_last: int) -> int:
    """Return the last item of a compacted segment that may have been put in records up to this one:
    the number of missing records says nothing of items there."""
    following = (r.item for r in found.records if r.lsn > lsn_last and r.kind == Kind.PUT)
    if (item := next(following, 0)) or found.footer is None:
        return max(item - 1, 0)
    return Tally.from_footer(found.footer).item_last
