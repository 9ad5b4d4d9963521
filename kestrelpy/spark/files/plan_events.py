"""Plan a read of events: the files with each journal's history, and the splits to read.

    places          live folder       archive          backup
                    4  6  7  8:       1  2  3  5       3  4  5  7         segments there
                          └ compacted: the records of 2 to 5 that were still needed
    by journal      1  2  3  4  5  7  8:                                  each once, the best copy
    lsns            |--|--|--|--|--|--|     6 adds nothing: its originals are there

Every numbered record in any of the files is in one split, once per journal and lsn. One of several
copies is read. A newer segment supersedes older records from its own first lsn on. A compacted
segment gives the records whose originals are in no file. Planning reads fronts, ends and snapshots;
it reads a segment whole only where the log may have a torn end, after the last known sync.

One rule: a plan is fixed. The records that a daemon writes afterwards are for the next plan.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

import numpy as np

from journal.errors import ITEM_MAX, Damage, JournalError
from journal.files import Disk, Files
from journal.format import FILE_HEADER_BYTES, UNNUMBERED, Kind, Tally
from journal.read import Scan, scan
from journal.recovery import MISSING_BEFORE, SHORTER, SegmentFile
from journal.tools import RESTARTS_MAX, live_files
from kestrelpy.spark.files.decode import CHUNK_BYTES, GapCheck, right_frames, whole_frames
from kestrelpy.spark.files.discovery import (
    Contents,
    FoundSegment,
    best_copies,
    by_journal,
    discover,
    server_and_queue,
)
from kestrelpy.spark.files.frame_headers import FrameHeaders
from kestrelpy.spark.files.plan import History, PlannedJournal
from kestrelpy.spark.files.readers import (
    ReaderName,
    in_order,
    reader_names_among,
    reader_names_in,
    reader_names_of,
)
from kestrelpy.spark.files.split import Range, Split, SplitGone, without

_UNNUMBERED: Final = tuple(sorted(UNNUMBERED))
_number: Final = attrgetter("file.number")
_offset: Final = attrgetter("offset")


def plan_events(paths: Sequence[str], files: Files | None = None) -> History:
    """Return the splits with every record under these paths.

    Raises JournalError if there is no journal.
    """
    disk = live_files(files if files is not None else Disk())
    for _ in range(RESTARTS_MAX):
        contents, problems = discover(disk, paths)
        with suppress(FileNotFoundError):  # a daemon removed it meanwhile: look again
            journals = [_Plan(group).made() for group in by_journal(contents, problems)]
            return History(journals, problems)
    raise JournalError(
        f"{', '.join(paths)}: segments were removed {RESTARTS_MAX} times while they were looked at"
    )


def look_again(
    gone: SplitGone, split: Split, paths: Sequence[str], files: Files | None = None
) -> tuple[list[Split], list[Range]]:
    """Return where the records of a split that has gone are now, and which are nowhere.

    A compacted segment has the puts of live items; the other records are nowhere, unless the
    segment was archived. Records that the split leaves to others are not looked for.
    """
    wanted = (gone.lsn_first, gone.lsn_last)
    found: list[Split] = []
    missing = without([wanted], *split.skip)
    try:
        history = plan_events(paths, files)
    except JournalError:
        return [], missing
    for journal in history.journals:
        if journal.identity != split.identity:
            continue
        for each in journal.splits:
            if each.lsn_first <= wanted[1] and wanted[0] <= each.lsn_last:
                same = replace(
                    each, live_items=split.live_items, skip=(*each.skip, *split.skip)
                )
                found.append(same.only(*wanted))
                if not each.is_compacted:
                    missing = without(missing, (each.lsn_first, each.lsn_last))
    return found, missing


# -- one journal --------------------------------------------------------------------------------


class _Plan:
    """One journal's splits."""

    def __init__(self, group: list[Contents]) -> None:
        self._group = group
        self._scans: dict[int, Scan] = {}
        self._surveys: dict[int, Survey] = {}
        best = best_copies(group)
        newest_first = sorted(best, key=_number, reverse=True)
        server, queue, generation = server_and_queue(newest_first)
        folders = list(dict.fromkeys(each.location.folder for each in group))
        identity = group[0].segment_order.identity
        self.journal = PlannedJournal(identity, server, queue, generation, folders)
        self._logs = [f for f in best if not f.file.is_compacted]
        self._compacted = [f for f in best if f.file.is_compacted]
        self._known = max(each.lsn_known for each in group)
        self._expected = 0  # the next record's lsn, if the records before it are known

    def made(self) -> PlannedJournal:
        """Plan it."""
        journal = self.journal
        journal.damages = [d for each in self._group for d in each.damages if d.kind != "foreign"]
        self._find_synced()
        self._find_limits()
        splits = []
        for found in self._logs:
            split, is_short = self._split(found), found.file.bytes_missing
            if split is not None and (is_short or split.lsn_last >= split.lsn_first):
                splits.append(split)
            if journal.torn:
                break  # the log ends here
        covered = [(p.lsn_first, p.lsn_last) for p in splits]
        for found in self._compacted:
            if (extra := self._of_compacted(found, covered)) is not None:
                splits.append(extra)
                covered.append((extra.lsn_first, extra.lsn_last))
        journal.splits = sorted(splits, key=lambda p: (p.lsn_first, p.segment))
        reader_names = self._reader_names()
        journal.splits = [replace(each, reader_names=reader_names) for each in journal.splits]
        if covered:
            journal.lsn_gaps = without([(min(covered)[0], max(c[1] for c in covered))], *covered)
        return journal

    def _reader_names(self) -> tuple[ReaderName, ...]:
        """Return the readers that the journal's records and snapshots name."""
        found: list[ReaderName] = []
        for each in self._group:
            if each.segment_order.snapshot is not None:
                found += reader_names_of(each.segment_order.snapshot)
        for log in self._logs:
            counts = Tally.from_footer(log.footer).counts if log.footer is not None else None
            if counts is None or any(counts[Kind.READER : Kind.READER + 1]):
                surveyed = self._survey(log)
                found += surveyed.reader_names
                found += reader_names_among(surveyed.rest.records)
        return in_order(each for each in found if each.lsn < self.journal.lsn_next)

    def _scan(self, found: FoundSegment) -> Scan:
        number = found.file.number
        scanned = self._scans.get(number)
        if scanned is None:
            order = next(e.segment_order for e in self._group if e.location is found.location)
            scanned = self._scans[number] = order.scan(found.file)
            scanned.path = found.path
        return scanned

    def _survey(self, found: FoundSegment) -> Survey:
        """Return the same, read in bulk."""
        file = found.file
        number = file.number
        surveyed = self._surveys.get(number)
        if surveyed is None:
            try:
                data = found.location.read(file.path)
            except OSError:
                surveyed = Survey(self._scan(found))  # which reports the error
            else:
                made = file.capacity + file.bytes_missing
                surveyed = survey(data, found.path, file.journal, number, made)
            self._surveys[number] = surveyed
        return surveyed

    def _find_synced(self) -> None:
        """Find the last known sync as `Recovery` does: newest first, until a batch names it."""
        synced, before_unreadable = self._known, False
        for found in reversed(self._logs):
            if found.footer is not None and found.footer.lsn <= self._known + 1:
                break
            if self._is_blank(found):
                continue
            scanned = self._survey(found).rest
            synced = max(synced, scanned.lsn_synced)
            if before_unreadable:
                synced = max(synced, scanned.lsn_next - 1)
            before_unreadable = before_unreadable or scanned.unreadable
            if scanned.batches or 0 < found.file.lsn_first <= self._known + 1:
                break
        self.journal.lsn_synced = synced

    def _is_blank(self, found: FoundSegment) -> bool:
        """True if no record was ever written to the segment."""
        file = found.file
        survey = self._survey(found)
        return not (file.lsn_first or file.unreadable) and file.is_preallocated(survey.rest)

    def _find_limits(self) -> None:
        """Find up to which lsn each segment counts, newest first; drop those that do not count."""
        limit = 0
        counting: list[FoundSegment] = []
        for found in reversed(self._logs):
            file = found.file
            if not file.lsn_first and not file.unreadable:
                file.lsn_first = self._survey(found).rest.lsn_first
            after = (f.file.lsn_first for f in self._compacted if f.file.rank > file.rank)
            # A compacted segment supersedes from its first lsn on, even before the next log.
            file.lsn_limit = min((lsn for lsn in (limit, *after) if lsn), default=0)
            first = file.lsn_first
            if first and file.supersedes(first):
                while counting and not counting[0].file.lsn_first:
                    counting.pop(0)
            elif first or not self._is_blank(found):
                counting.insert(0, found)
                limit = first or limit
        self._logs = counting

    # -- splits -------------------------------------------------------------------------------

    def _split(self, found: FoundSegment) -> Split | None:
        """Return the split of a segment; None if the log ended before it."""
        file, footer, synced = found.file, found.footer, self.journal.lsn_synced
        last = footer.lsn - 1 if footer is not None else file.lsn_limit - 1
        if file.lsn_limit:
            last = min(last, file.lsn_limit - 1)
        first = file.lsn_first
        if self._is_cut_before(found, first):
            return None
        before, self._expected = self._expected, max(self._expected, last + 1)
        if file.unreadable:
            self._name_unreadable(found, before)
            return self._made(found, 1, 0)
        split = self._made(found, first or before or max(last, 1), last)
        split = replace(split, lsn_before=before)
        is_known = footer is not None or (file.lsn_limit and not self._is_alone(file))
        if last <= synced and (is_known or file.bytes_missing):
            return split
        return self._with_end(found, split)

    def _is_alone(self, file: SegmentFile) -> bool:
        """True if the segments after it may have been reclaimed.

        Then, if it was never sealed, only its own records show where it ends.
        """
        return 0 < file.lsn_limit <= self._known + 1

    def _is_cut_before(self, found: FoundSegment, first: int) -> bool:
        """True if records are missing before this segment and the log ended there.

        Missing records before the last known sync are noted as damage, and the log goes on.
        """
        if not first or first <= self._known + 1 or not 0 < self._expected < first:
            return False
        lost = (max(self._expected, self._known + 1), first - 1)
        theirs = [(s.file.lsn_first, s.footer.lsn - 1) for s in self._compacted if s.footer]
        if not without([lost], *theirs):
            return False
        at = FILE_HEADER_BYTES
        if lost[0] > self.journal.lsn_synced:
            self.journal.torn.append(
                Damage("torn", found.path, at, found.file.capacity, MISSING_BEFORE, *lost)
            )
            return True
        if lost[1] >= lost[0]:
            self.journal.damages.append(
                Damage("truncated", found.path, at, at, MISSING_BEFORE, *lost)
            )
        return False

    def _with_end(self, found: FoundSegment, split: Split) -> Split | None:
        """Read a split that may have the log's torn end in it, and cut it there."""
        limit, surveyed = found.file.lsn_limit, self._survey(found)
        if limit and surveyed.lsn_last >= limit:
            surveyed = Survey(self._scan(found))
        scanned, tally = surveyed.rest, surveyed.tally
        records = scanned.records
        if limit:
            records = records[: bisect_left(records, limit, key=attrgetter("lsn"))]
        is_alone = self._is_alone(found.file)
        synced = scanned.lsn_synced if is_alone else split.lsn_synced
        alone = replace(split, lsn_last=0, lsn_synced=synced)
        gap_check, cut = GapCheck(alone, surveyed.lsn_next, tally.item_last), None
        done = 0
        for gap in gap_check.gaps(scanned, found.file.capacity, records):
            after = bisect_left(records, gap.offset, done, key=_offset)
            gap_check.see(records[done:after])
            done = after
            is_end, damage = gap_check.verdict(found.path, gap, 0)
            if is_end:
                cut, records = gap, records[:after]
                if not is_alone:  # else the log went on in another segment
                    self.journal.torn.append(
                        damage or Damage("torn", found.path, gap.offset, gap.end, gap.reason,
                                         gap_check.expected or 1, max(scanned.lsn_next - 1, 0))
                    )  # fmt: skip
                break
        first = surveyed.lsn_first if surveyed.count else 0
        if not (records or first):
            is_short = cut is not None and cut.reason == SHORTER  # the task reports it
            return None if cut and not is_short else replace(split, lsn_last=split.lsn_first - 1)
        tally.see_all(records)
        last = records[-1].lsn if records else surveyed.lsn_last
        end = records[-1].end if records else surveyed.last_end
        self._expected = last + 1
        split = replace(
            split, lsn_first=first or records[0].lsn, lsn_last=last,
            records=surveyed.count + len(records),
            item_first=tally.item_first, item_last=tally.item_last,
            time_first=tally.time_min, time_last=tally.time_max,
        )  # fmt: skip
        if not found.file.bytes_missing and (cut is not None or found.footer is None):
            is_lost_after = cut is None and any(g.offset >= end for g in scanned.gaps)
            split = replace(split, stop=scanned.read_to if is_lost_after else end)
        return split

    def _name_unreadable(self, found: FoundSegment, before: int) -> None:
        limit = found.file.lsn_limit
        last = limit - 1 if limit else ITEM_MAX
        self.journal.damages.append(
            Damage("corrupt", found.path, 0, found.file.capacity, found.file.unreadable,
                   before or 1, last, 1, ITEM_MAX)
        )  # fmt: skip

    def _of_compacted(self, found: FoundSegment, covered: list[Range]) -> Split | None:
        """Return the records of a compacted segment whose originals are gone; None: no record."""
        file, footer = found.file, found.footer
        if file.unreadable:
            self._name_unreadable(found, file.lsn_first)
            return None
        after = [f.file.lsn_first for f in self._logs if f.file.rank > file.rank_last]
        limit = min((lsn for lsn in after if lsn), default=0)
        last = footer.lsn - 1 if footer is not None else limit - 1
        if last < 1:
            last = self._scan(found).lsn_next - 1
        first = file.lsn_first or self._scan(found).lsn_first or 1
        left = without([(first, last)], *covered)
        if not left:
            return None
        skip = without([(first, last)], *left)
        made = self._made(found, first, last)
        return replace(made, is_compacted=True, lsn_limit=limit, skip=tuple(skip))

    def _tally(self, found: FoundSegment) -> Tally:
        """Return what its footer says, else only the items whose puts can be read in it."""
        if found.footer is not None:
            return Tally.from_footer(found.footer)
        tally = Tally()
        if found.file.unreadable:
            return tally
        records = self._scan(found).records if found.file.is_compacted else []
        if not found.file.is_compacted:
            surveyed = self._survey(found)
            tally.see_items(surveyed.tally.item_first, surveyed.tally.item_last)
            records = surveyed.rest.records
        puts = [record.item for record in records if record.kind == Kind.PUT]
        if puts:
            tally.see_items(puts[0], puts[-1])
        return tally

    def _made(self, found: FoundSegment, first: int, last: int) -> Split:
        file, journal = found.file, self.journal
        server, queue, generation = journal.server, journal.queue, journal.generation
        if found.opening is not None and found.opening.name:
            server, queue, generation = server_and_queue([found])
        tally = self._tally(found)
        return Split(
            found.path, journal.identity, file.journal, file.number,
            file.capacity + file.bytes_missing, first, last, server, queue, generation,
            copies=tuple(each.path for each in found.copies), version=found.version,
            is_headless=file.header is None, lsn_limit=file.lsn_limit,
            lsn_synced=journal.lsn_synced, item_first=tally.item_first,
            item_last=tally.item_last, time_first=tally.time_min, time_last=tally.time_max,
            records=sum(tally.counts),
        )  # fmt: skip


@dataclass(slots=True)
class Survey:
    """The front of a segment that may hold the end of the log, surveyed in bulk.

        | frame after frame, as it should be ...  | the rest
          numbers, ranges, "synced up to"           `journal.read.scan`: record by record

    It has the records `lsn_first` to `lsn_last` (0: none), up to byte `end`; from the first byte
    that continues no frame on, `journal.read.scan` reads.

    `lsn_next` is the lsn that the next frame should have. `rest` is the scan of the bytes after
    `end`.
    """

    rest: Scan
    end: int = FILE_HEADER_BYTES
    lsn_first: int = 0
    lsn_last: int = 0
    lsn_next: int = 0
    last_end: int = 0  # where the last record ends
    count: int = 0
    batches: int = 0
    lsn_synced: int = 0
    tally: Tally = field(default_factory=Tally)
    reader_names: list[ReaderName] = field(default_factory=list)

    def see(self, headers: FrameHeaders) -> None:
        """Take in the next frames, all of them right."""
        self.lsn_first = self.lsn_first or int(headers.lsn[0])
        batches = headers.kind == Kind.BATCH
        if batches.any():
            self.batches += int(batches.sum())
            self.lsn_synced = max(self.lsn_synced, int(headers.number[batches].max()))
        numbered = ~np.isin(headers.kind, _UNNUMBERED)
        self.lsn_next = int(headers.lsn[-1]) + int(numbered[-1])
        self.end = int(headers.offsets[-1] + (headers.lengths[-1] + 7 & ~7))
        if not numbered.any():
            return
        records = headers.pick(numbered)
        self.count += len(records)
        self.lsn_last = int(records.lsn[-1])
        self.last_end = int(records.offsets[-1] + (records.lengths[-1] + 7 & ~7))
        self.tally.see_time(int(records.time_ms.min()))
        self.tally.see_time(int(records.time_ms.max()))
        self.reader_names += reader_names_in(records)
        puts = records.item[records.kind == Kind.PUT]
        if len(puts):
            self.tally.see_items(int(puts[0]), int(puts[-1]))


def survey(data: bytes, path: str, journal: int, segment: int, made: int) -> Survey:
    """Survey a segment's bytes; `made` is the file's full size. Not for compacted segments."""
    found = Survey(Scan(path, segment))
    at, size = FILE_HEADER_BYTES, CHUNK_BYTES
    while at < len(data):
        part = data[at : at + size]
        offsets, _ = whole_frames(part)
        if offsets:
            headers = FrameHeaders(part, at, np.array(offsets, np.int64))
            right = right_frames(headers, journal, segment, found.lsn_next, False)
            good = len(right) if right.all() else int(right.argmin())
            if good:
                found.see(headers.pick(slice(0, good)))
                at, size = found.end, CHUNK_BYTES
            if good < len(right):
                break
            continue
        if size >= len(data):
            break
        size = len(data)  # a record larger than a chunk, or the end
        if not any(part[:64]):
            break
    rest = found.rest = scan(data, path, journal, segment, at, found.lsn_next, made)
    rest.lsn_first = found.lsn_first or rest.lsn_first
    rest.batches += found.batches
    rest.lsn_synced = max(rest.lsn_synced, found.lsn_synced)
    return found
