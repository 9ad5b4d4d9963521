"""The segments of one journal in the order of its log: what is alive in each, and which may go.

    [ 3 live ][ none ][ 9 live ][ none ] [ active ]
                 |
                 +-- goes, once the records that emptied it are durable and a snapshot says so

A record that stands for the whole queue (what was declared, the last time of a schedule) is in no
item's segment: while fewer than two snapshots have it, it holds back its segment until it was said
again in a newer one. A put whose origin is open holds back its segment, too, though the item itself
may be gone.

What is done stays as long as `retention` says; then the oldest segments go, or are rewritten.

Numbers are given by the highest that a start finds, and each once: archives and backups may have a
file of it. So survivors with a higher number than the active segment stay until the log is past it.

Of a segment that a crash kept from being sealed only what follows it says where it ends.

One rule: a segment goes only when neither a start nor the loss of the newest snapshot needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from journal.format import HEADER_BYTES, Draft, Tag, decode_meta
from journal.sets.id_set import IdSet
from journal.write.retention import Retention
from journal.write.segment_file import Segment

# Of a journal in which no origin is open.
NONE_OPEN: Final = (1 << 63) - 1
NUMBER_MAX: Final = (1 << 32) - 1  # of a segment


class SegmentList:
    """Segments with records; the last one is being written."""

    __slots__ = (
        "_at_hand", "_held_below", "_standing", "busy", "first_open", "gone", "replaced",
        "retention", "revived_lsn", "segments",
    )  # fmt: skip

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.busy: list[Segment] = []  # being rewritten
        self.replaced: list[str] = []  # paths of what survivors stood for when the daemon started
        self._at_hand: Segment | None = None  # in which items ended last
        self._standing: dict[tuple[int, int, object], tuple[int, Draft]] = {}  # each with its lsn
        # The lsn of the first put whose origin is open.
        self.first_open: Callable[[], int] = lambda: NONE_OPEN
        self.retention = Retention()
        self.revived_lsn = 0  # of the last record by which done items are needed again
        self.gone: list[tuple[int, int]] = []  # first and last item of those that are not there now
        self._held_below = 0  # what stands below this lsn keeps a segment from going; 0: nothing

    def numbered(self, number: int) -> Segment | None:
        """The segment of that number, if it is there."""
        for segment in reversed(self.segments):
            if segment.number == number:
                return segment
        return None

    def holding(self, item: int) -> Segment | None:
        """The segment in which this item was put."""
        at_hand = self._at_hand
        if at_hand is not None and at_hand.item_first <= item <= at_hand.item_last:
            return at_hand
        for segment in reversed(self.segments):
            if segment.item_first <= item <= segment.item_last:
                self._at_hand = segment
                return segment
        return None

    def adopt(self, live: IdSet, live_bytes: int) -> None:
        """After recovery: these are alive, and their bodies have so many bytes together.

        How the bytes are spread over the segments is a guess by their numbers.
        """
        average = live_bytes // len(live) if live else 0
        for segment in self.segments:
            if segment.item_last:
                segment.live = live.count_between(segment.item_first, segment.item_last)
                segment.live_bytes = segment.live * (HEADER_BYTES + average)

    def end(self, item: int, live_bytes: int, lsn: int) -> None:
        """The record `lsn` ends this item, which took so many bytes."""
        segment = self.holding(item)
        if segment is not None:
            segment.live -= 1
            left = segment.live_bytes - live_bytes if segment.live else 0  # after a start: a guess
            segment.live_bytes = max(left, 0)
            segment.emptied_lsn = lsn

    def recount(self, kept: IdSet, lsn: int) -> None:
        """The record `lsn` says of many items at once that they are needed, or are not any more.

        `kept` are those that somebody needs, of all that were put before it.
        """
        for segment in self.segments:
            live = kept.count_between(segment.item_first, segment.item_last)
            if not segment.item_first or live == segment.live:
                continue
            if segment.live:
                segment.live_bytes = segment.live_bytes * live // segment.live
            else:
                segment.live_bytes = live * HEADER_BYTES
            if live > segment.live:
                self.revived_lsn = lsn
            segment.live, segment.emptied_lsn = live, lsn

    def stand(self, draft: Draft, lsn: int) -> None:
        """The record `lsn`, or an earlier one, holds until the next of its kind, reader, scope."""
        scope = decode_meta(draft.meta).get(Tag.SCOPE)
        self._standing[draft.kind, draft.reader, scope] = (lsn, draft)

    def take_held(self) -> list[Draft]:
        """What has to be said again before the next segment may go."""
        below, self._held_below = self._held_below, 0
        return [draft for lsn, draft in self._standing.values() if lsn < below]

    def take_dead(
        self, lsn_durable: int, snapshots: list[int], wall_ms: int = 0, is_short: bool = False
    ) -> list[str]:
        """Paths of segments that may go, in the order in which they may.

        With two snapshots (`snapshots`: their lsns, rising) whatever the older one includes, with
        one only from the front; without any from the front, because what a segment says is undone
        by those behind it. If the disk `is_short` of room, the next one is to have their files.
        """
        dead: list[str] = []
        passed = self._passed(lsn_durable) if not is_short else NUMBER_MAX
        over = self.retention.over(self.segments, wall_ms)
        if len(snapshots) > 1:
            before: Segment | None = None
            for segment in self.segments[:over]:
                settled = 0 < segment.lsn_last <= snapshots[0] and segment not in self.busy
                settled = settled and not segment.unread and segment.number < passed
                settled = settled and (is_short or before is None or not before.is_open)
                if settled and not segment.live and segment.emptied_lsn <= lsn_durable:
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
                break  # no snapshot has it: a start would not know it
            if any(lsn < following.lsn_first for lsn in standing):
                self._held_below = following.lsn_first
                break
            dead.append(segment.path)
            self._remove(segment)
        return dead

    def _passed(self, lsn_durable: int) -> int:
        """A start goes on counting behind this number, whatever a power cut takes: a segment of
        which nothing is durable may be a spare then."""
        return max((s.number for s in self.segments if s.lsn_first <= lsn_durable), default=0)

    def replace(self, chosen: list[Segment], compacted: Segment) -> list[str]:
        """`compacted` stands for these consecutive segments from now on; returns their paths."""
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
    """`fresh` stands for these from now on: what is alive in them now is what is alive in it."""
    fresh.live = sum(s.live for s in chosen)
    fresh.live_bytes = sum(s.live_bytes for s in chosen)
    fresh.emptied_lsn = max(s.emptied_lsn for s in chosen)
