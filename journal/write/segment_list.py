"""The segments of one journal in the order of its log: the live items of each, and which may go.

    [ 3 live ][ none ][ 9 live ][ none ] [ active ]
                 |
                 +-- goes once the records that emptied it are durable and in a snapshot

A record about the whole queue (declared settings, the watermark of a schedule) belongs to no item.
Its segment stays until two snapshots have the record, or until it is repeated in a newer segment.
The segment of a put whose origin is open stays as well, even if the item is done.

Done items stay for the time of `retention`; then the oldest segments go, or are rewritten.

Numbers go on from the highest that a start finds, and are given once: archives and backups may have
a file of that number. So a compacted segment with a higher number than the active one stays until
the log is past it.

The end of a segment that a crash kept from being sealed is known only from the next segment.

One rule: a segment goes only when neither a start nor the loss of the newest snapshot needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from journal.format import HEADER_BYTES, RawDraft, Tag, decode_meta
from journal.sets import IdSet
from journal.write.retention import Retention
from journal.write.segment_file import Segment

# The first open origin of a journal that has none.
NONE_OPEN: Final = (1 << 63) - 1
NUMBER_MAX: Final = (1 << 32) - 1  # of a segment


class SegmentList:
    """Segments with records. The last one is being written."""

    __slots__ = (
        "_at_hand", "_held_below", "_standing", "busy", "covered_lsn", "first_open", "gone",
        "remembers", "replaced", "retention", "revived_lsn", "segments",
    )  # fmt: skip

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.busy: list[Segment] = []  # being rewritten
        self.replaced: list[str] = []  # paths that a compacted segment stood for at the start
        self._at_hand: Segment | None = None  # the segment in which items ended last
        # Each with the lsn of its latest record.
        self._standing: dict[tuple[int, int, object], tuple[int, RawDraft]] = {}
        # The lsn of the first put whose origin is open.
        self.first_open: Callable[[], int] = lambda: NONE_OPEN
        # True if ids or versions are remembered: a segment goes once two snapshots cover it.
        self.remembers: Callable[[], bool] = lambda: False
        self.covered_lsn = 0  # up to here two snapshots cover the log
        self.retention = Retention()
        self.revived_lsn = 0  # of the last record by which done items are needed again
        self.gone: list[tuple[int, int]] = []  # first and last item of each removed segment
        self._held_below = 0  # records about the queue below this lsn hold segments; 0: none do

    @property
    def holds(self) -> bool:
        """True if no segment goes before two snapshots cover it."""
        if self.remembers():
            return True
        return not self.covered_lsn and self.first_open() != NONE_OPEN

    def numbered(self, number: int) -> Segment | None:
        """Return the segment of that number, if it is there."""
        for segment in reversed(self.segments):
            if segment.number == number:
                return segment
        return None

    def segment_of(self, item: int) -> Segment | None:
        """Return the segment in which this item was put."""
        at_hand = self._at_hand
        if at_hand is not None and at_hand.item_first <= item <= at_hand.item_last:
            return at_hand
        for segment in reversed(self.segments):
            if segment.item_first <= item <= segment.item_last:
                self._at_hand = segment
                return segment
        return None

    def adopt(self, live: IdSet, live_bytes: int) -> None:
        """Set the live items after recovery; their bodies have `live_bytes` bytes together.

        The bytes of each segment are an estimate from its number of items.
        """
        average = live_bytes // len(live) if live else 0
        for segment in self.segments:
            if segment.item_last:
                segment.live = live.count_between(segment.item_first, segment.item_last)
                segment.live_bytes = segment.live * (HEADER_BYTES + average)

    def end(self, item: int, live_bytes: int, lsn: int) -> None:
        """Note that the record `lsn` ends this item of `live_bytes` bytes."""
        segment = self.segment_of(item)
        if segment is not None:
            segment.live -= 1
            # After a start `live_bytes` is an estimate.
            left = segment.live_bytes - live_bytes if segment.live else 0
            segment.live_bytes = max(left, 0)
            segment.emptied_lsn = lsn

    def recount(self, needed: IdSet, lsn: int) -> None:
        """Note that the record `lsn` changes which items are needed, many at once.

        `needed` are the items needed of all that were put before it.
        """
        for segment in self.segments:
            live = needed.count_between(segment.item_first, segment.item_last)
            if not segment.item_first or live == segment.live:
                continue
            if segment.live:
                segment.live_bytes = segment.live_bytes * live // segment.live
            else:
                segment.live_bytes = live * HEADER_BYTES
            if live > segment.live:
                self.revived_lsn = lsn
            segment.live, segment.emptied_lsn = live, lsn

    def stand(self, draft: RawDraft, lsn: int) -> None:
        """Note a record that holds until the next one of its kind, reader and scope."""
        kind, _, _, _, _, meta, _, reader, _ = draft
        self._standing[kind, reader, decode_meta(meta).get(Tag.SCOPE)] = (lsn, draft)

    def take_held(self) -> list[RawDraft]:
        """Return the records to be repeated before the next segment may go."""
        below, self._held_below = self._held_below, 0
        return [draft for lsn, draft in self._standing.values() if lsn < below]

    def take_dead(
        self, lsn_durable: int, snapshots: list[int], unix_ms: int = 0, is_short: bool = False
    ) -> list[str]:
        """Return the paths of segments that may go, in the order in which they may.

        With two snapshots (`snapshots`: their lsns, rising) any segment that the older one includes
        may go; with one, only from the front. Without any, only from the front as well, because
        later segments undo what an earlier one says. If the disk `is_short` of room, the next
        segment is to have their files.
        """
        dead: list[str] = []
        passed = self._passed(lsn_durable) if not is_short else NUMBER_MAX
        over = self.retention.over(self.segments, unix_ms)
        if len(snapshots) > 1:
            before: Segment | None = None
            for segment in self.segments[:over]:
                may_go = 0 < segment.lsn_last <= snapshots[0] and segment not in self.busy
                may_go = may_go and not segment.unread and segment.number < passed
                may_go = may_go and (is_short or before is None or not before.is_open)
                if may_go and not segment.live and segment.emptied_lsn <= lsn_durable:
                    dead.append(segment.path)
                    self._remove(segment)
                else:
                    before = segment
            return dead
        for segment, following in pairwise(self.segments[: over + 1]):
            standing = [lsn for lsn, _ in self._standing.values()]
            needed_lsn = max(segment.emptied_lsn, following.lsn_first, *standing)
            if segment.live or needed_lsn > lsn_durable or segment in self.busy or segment.unread:
                break
            if segment.number >= passed:
                break
            if snapshots and not 0 < segment.lsn_last <= snapshots[0]:
                break
            if self.first_open() < following.lsn_first:
                break  # it has an open origin that no snapshot has: a start would not know it
            if any(lsn < following.lsn_first for lsn in standing):
                self._held_below = following.lsn_first
                break
            dead.append(segment.path)
            self._remove(segment)
        return dead

    @property
    def is_whole(self) -> bool:
        """True if a start without a snapshot finds all that it needs: only segments at the front
        are gone, none is compacted, and their records about the whole queue were repeated."""
        first = self.segments[0].lsn_first
        if self.first_open() < first or any(lsn < first for lsn, _ in self._standing.values()):
            return False
        if any(s.unread or s.damaged or s.rank not in (0, s.number) for s in self.segments):
            return False
        return all(a.lsn_last + 1 == b.lsn_first for a, b in pairwise(self.segments))

    def _passed(self, lsn_durable: int) -> int:
        """Return the number after which a start certainly goes on, even after a power cut.

        A segment with nothing durable in it may look like a prepared one then.
        """
        return max((s.number for s in self.segments if s.lsn_first <= lsn_durable), default=0)

    def replace(self, chosen: list[Segment], compacted: Segment) -> list[str]:
        """Put `compacted` in the place of these consecutive segments; return their paths."""
        take_place(compacted, chosen)
        at = self.segments.index(chosen[0])
        for segment in chosen:
            self._remove(segment)
        self.segments.insert(at, compacted)
        self.retention.change(self.retention.ms, self.retention.bytes_most)
        return [segment.path for segment in chosen]

    def _remove(self, segment: Segment) -> None:
        self.segments.remove(segment)
        if segment.item_last:
            self.gone.append((segment.item_first, segment.item_last))
        if self._at_hand is segment:
            self._at_hand = None


def take_place(fresh: Segment, chosen: Sequence[Segment]) -> None:
    """Let `fresh` stand for these: its live items are those alive in them now."""
    fresh.live = sum(s.live for s in chosen)
    fresh.live_bytes = sum(s.live_bytes for s in chosen)
    fresh.emptied_lsn = max(s.emptied_lsn for s in chosen)
