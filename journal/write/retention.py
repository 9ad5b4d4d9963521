"""How long a segment stays once no item in it is alive.

    [ 1 ][ 2 ][ 3 ][ 4 ][ 5 ][ active ]   oldest first: 1 and 2 are over, 3 to 5 are retained
      over      | retained: younger than `ms`, or together at most `bytes_most` of done items

No record says what is retained: the segments on disk do, so a start finds the same. An item is
retained for the time of the setting at least, counted from when it was stored. A segment goes as a
whole, so the oldest item in it stays longer, by the time that the items of the segment span.

One rule: no segment is over before an older one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from journal.write.segment_file import Segment

# A log that is retained up to a size has at least about this many segments.
SEGMENTS_LEAST: Final = 8


class Retention:
    """The retention of one journal. `ms`: None forever, 0 not by time; `bytes_most`: 0 not by size.
    """

    __slots__ = ("_count", "_counted", "_reported", "bytes_most", "ms")

    def __init__(self) -> None:
        self.ms: int | None = 0
        self.bytes_most = 0
        self._reported = 0  # the last one whose time was over
        self._count = 0
        self._counted: object = None  # the state of the segments for which `_count` is valid

    def change(self, ms: int | None, bytes_most: int) -> None:
        """Set both limits from now on."""
        self.ms, self.bytes_most = ms, bytes_most
        self._counted = None

    @property
    def is_on(self) -> bool:
        """True if done items are retained at all."""
        return self.ms != 0 or self.bytes_most > 0

    def over(self, segments: Sequence[Segment], unix_ms: int) -> int:
        """Return how many sealed segments, from the oldest on, are retained only for live items.

        The last of `segments` is the active one.
        """
        if not self.is_on:
            return max(len(segments) - 1, 0)
        if self.bytes_most:
            return self._over_by_size(segments)
        if self.ms is None:
            return 0
        before_ms, count = unix_ms - self.ms, 0
        for segment in segments[:-1]:
            if (segment.time_last or unix_ms) > before_ms:
                break
            count += 1
        return count

    def _over_by_size(self, segments: Sequence[Segment]) -> int:
        """Count again when there is another segment, or one has been emptied."""
        state = (len(segments), segments[-1].number, sum(not s.live for s in segments))
        if state != self._counted:
            left, count = self.bytes_most, len(segments) - 1
            while count > 0:
                segment = segments[count - 1]
                left -= max(segment.capacity - segment.live_bytes, 0)
                if left < 0:
                    break
                count -= 1
            self._counted, self._count = state, count
        return self._count

    def largest(self, segment_max: int, segment_min: int) -> int:
        """Return how large a segment may be, so that a part of the log can go."""
        if not self.bytes_most:
            return segment_max
        return min(segment_max, max(segment_min, self.bytes_most // SEGMENTS_LEAST))

    def wants_turn(self, active: Segment | None, unix_ms: int) -> bool:
        """True if the active segment has done items that are old enough to go."""
        if not self.ms or active is None or active.puts <= active.live:
            return False
        return 0 < active.tally.time_min <= unix_ms - self.ms

    def is_news(self, segments: Sequence[Segment], unix_ms: int) -> bool:
        """True if a segment may go, or be rewritten, because its time is over.

        A rewrite is reported once for each segment. The segment with the highest number is no
        news: it stays until another one is written (`SegmentList.take_dead`).
        """
        over = segments[: self.over(segments, unix_ms)] if self.ms else []
        if not over:
            return False
        before, self._reported = self._reported, over[-1].number
        highest = max(segment.number for segment in segments)
        return self._reported != before or any(
            not s.live and not s.unread and s.number < highest for s in over
        )
