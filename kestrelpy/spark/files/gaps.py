"""Gaps, bytes that are no record: they are the end of the log, damage, or nothing.

    ... r5 r6 | gap | r9 ...     synced up to 12: records 7 and 8 are lost, and named
    ... r5 r6 | gap | r9 ...     synced up to 6:  torn, the log ends after 6

The rules are those of `journal.recovery.recovery`, for a segment that is read alone.

One rule: only bytes after the last known sync may be called torn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from journal.errors import ITEM_MAX, Damage, DamageKind
from journal.format import HEADER_BYTES, Kind, Record
from journal.read import FOOTER_LOST, Gap, Scan
from journal.recovery import MISSING_BEHIND, SHORTER
from kestrelpy.spark.files.split import Split


@dataclass(slots=True)
class GapCheck:
    """Checks the gaps of one split; sees its records in order. `expected`: the next lsn, 0: any."""

    split: Split
    expected: int = 0
    item: int = 0  # the last one put

    def see(self, records: Sequence[Record]) -> None:
        """Note the records before the next gap."""
        if records:
            self.expected = max(self.expected, records[-1].lsn + 1)
            puts = (r.item for r in reversed(records) if r.kind == Kind.PUT)
            self.item = max(self.item, next(puts, 0))

    def gaps(self, found: Scan, file_bytes: int, records: Sequence[Record]) -> list[Gap]:
        """Return the scan's gaps within the split, and a gap at its end that no scan sees.

        `records` are the split's own records.
        """
        split = self.split
        stop = split.stop or max(split.size, file_bytes)
        gaps = [gap for gap in found.gaps if gap.offset < stop]
        if file_bytes < min(split.size, stop):
            start, lsn = file_bytes, found.lsn_next
            went_on = start - found.read_to < HEADER_BYTES  # else zeros: the log ended before
            if gaps and gaps[-1].offset >= found.read_to:
                start, went_on = gaps.pop().offset, True
            after = 0 if went_on else lsn or self.expected or 1
            gaps.append(Gap(start, split.size, SHORTER, lsn, after))
        elif not gaps and not split.is_compacted:
            lsn = max(self.expected, records[-1].lsn + 1 if records else 0) or split.lsn_first
            if lsn <= split.lsn_last:
                gaps.append(Gap(found.end, found.end, MISSING_BEHIND, lsn, split.lsn_last + 1))
        return gaps

    def verdict(self, path: str, gap: Gap, following: int) -> tuple[bool, Damage | None]:
        """Return True if the log ends before this gap, and the damage if the gap is one.

        `following` is the first item put after the gap; 0: none is known.
        """
        split = self.split
        first, last = gap.lost(self.expected or split.lsn_before, split.lsn_limit)
        is_lost = last >= first
        is_superseded = bool(split.lsn_limit) and first >= split.lsn_limit
        if is_superseded and gap.reason not in (FOOTER_LOST, SHORTER):
            return False, None
        is_behind = first > split.lsn_synced
        if is_lost and is_behind and gap.reason != SHORTER:
            return True, None
        kind: DamageKind = "corrupt"
        if gap.reason in (SHORTER, MISSING_BEHIND):
            kind = "truncated"
        elif is_behind and gap.reason != FOOTER_LOST:
            kind = "torn"
        id_first, id_last = 1, 0
        if is_lost:
            id_first = (self.item or max(split.item_first - 1, 0)) + 1
            id_last = following - 1 if following else min(id_first + last - first, ITEM_MAX)
            id_last = max(id_last, id_first - 1)
        damage = Damage(
            kind, path, gap.offset, gap.end, gap.reason, first, last, id_first, id_last
        )
        if is_lost and not is_behind:
            self.expected = last + 1
        return is_lost and is_behind, damage
