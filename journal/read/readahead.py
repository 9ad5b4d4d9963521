"""Read-ahead: items whose bodies are only in the log, read back in the order of their ids. Memory
has no room for some bodies, and after a start it has none of them.

    order ──▶ SegmentRead.run (blocks: on a thread) ──▶ arrived ──▶ take (no I/O) ──▶ puts, in order
      ^                                                               |
      +---- when nothing more can be taken, or little is left --------+

The place to begin at is found by halving (`seek`).

One rule: a record is handed out only after its checksum and its position are checked. Bytes that do
not parse are passed over and named, and nothing is guessed about them.
"""

from __future__ import annotations

from typing import Final

from journal.errors import ITEM_MAX, Damage
from journal.files import is_shortage
from journal.format import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    Kind,
    Record,
)
from journal.read.cursor import Cursor
from journal.read.seek import PIECE_BYTES, Extent
from journal.read.segment_read import SegmentRead
from journal.write import Journal, Segment

_PUT: Final = int(Kind.PUT)
_NOT_WHOLE: Final = "not a whole record"


class ReadAhead:
    """The reading side of one journal that is being written. Owned by the loop's thread.

    `_cursor` is in segment `_number` (None: where the item is has to be found); the last put before
    it is `_seen`. Bytes that do not parse are kept in `_lsn_gaps` until the items after them are
    known.
    """

    __slots__ = (
        "_cursor",
        "_hole_at",
        "_is_over",
        "_is_reading",
        "_journal",
        "_life",
        "_limit",
        "_lsn_gaps",
        "_number",
        "_seen",
        "damages",
    )  # fmt: skip

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._life = 0  # goes up with each reset: the result of an older read is dropped
        self.damages: list[Damage] = []
        self.reset()

    def reset(self) -> None:
        """Search for the next item again: it is not the expected one."""
        self._number = 0  # 0: to be looked for
        self._life += 1
        self._is_reading = False
        self._limit = 0
        self._begin(-1, 0)

    def _begin(self, start: int, seen: int) -> None:
        self._cursor = self._cursor_at(start) if start >= 0 else None
        self._seen = seen
        self._hole_at = -1  # where the current bytes stopped being records
        self._lsn_gaps: list[tuple[int, int, str]] = []
        self._is_over = False  # nothing more of this segment can be read, or is needed

    def _cursor_at(self, start: int) -> Cursor:
        return Cursor(None, self._journal.short_identity, self._number, start, start)

    # -- reading ----------------------------------------------------------------------------

    def next_read(self, item: int) -> tuple[int, SegmentRead] | None:
        """Return the next bytes to read, so that `item` and later ones can be taken; None: nothing
        now.

        Give the read back with `arrived` or `failed`.
        """
        cursor = self._cursor
        if self._is_reading or (cursor and cursor.left >= PIECE_BYTES and self.has_more):
            return None
        segment = self._find_segment(item)
        if segment is None:
            return None
        cursor = self._cursor
        start = cursor.base + len(cursor.data) if cursor else -1
        stop = self._stop(segment)
        if start >= stop:
            return None
        self._is_reading = True
        size = max(PIECE_BYTES, cursor.lacking if cursor else 0)
        short = self._journal.short_identity
        extent = Extent(segment.path, short, segment.number, stop)
        return self._life, SegmentRead(extent, start, size, item)

    @property
    def is_reading(self) -> bool:
        """True if a read is under way."""
        return self._is_reading

    @property
    def has_more(self) -> bool:
        """True if more was read than has been taken."""
        cursor = self._cursor
        if cursor is None or cursor.left < HEADER_BYTES or cursor.lacking or self._is_over:
            return False
        segment = self._journal.segment_numbered(self._number)
        return segment is not None and not self._has_all(segment)

    def lost_up_to(self, item: int) -> int:
        """Return the last of the items from `item` on that are lost: everything was read, and they
        did not come. 0: none is lost.
        """
        if self._is_reading or self.has_more:
            return 0
        has_pending = self._journal.has_pending
        segment = self._journal.segment_numbered(self._number) if self._number else None
        if segment is None:
            return 0 if has_pending or self._number else ITEM_MAX
        segments = self._journal.segments
        behind = segments[segments.index(segment) + 1 :]
        if not self._has_ended(segment) or any(s.item_last >= item for s in behind):
            return 0
        if not has_pending:
            return ITEM_MAX
        return segment.item_last if segment.item_last >= item else 0

    def give_up(self) -> None:
        """Name the lost items, and look for the next item anew."""
        segment = self._journal.segment_numbered(self._number)
        if segment is not None:
            if self._hole_at >= 0 and self._seen < segment.item_last:
                self._lose(_NOT_WHOLE)
            self._name(segment, segment.item_last)
        self.reset()

    def _has_ended(self, segment: Segment) -> bool:
        """True if no written record of this segment is left."""
        if self._is_over or self._has_all(segment):
            return True
        return self._cursor is not None and self._cursor.at + HEADER_BYTES > self._stop(segment)

    def _has_all(self, segment: Segment) -> bool:
        """True if the last put of this segment was taken. The records after it only end items."""
        return segment is not self._journal.active and self._seen >= segment.item_last

    def arrived(self, life: int, start: int, data: bytes) -> None:
        """Take the bytes that were read; no bytes: the file ends there."""
        if life != self._life:
            return
        self._is_reading = False
        if not data:
            self._lose("the file ends here")
            return
        if self._cursor is None:
            self._cursor = self._cursor_at(start)
        self._cursor.feed(data)

    def failed(self, life: int, error: OSError) -> None:
        """Skip the rest of that segment, and name it: it could not be read.

        After a shortage nothing is known to be lost, and the read may be tried again.
        """
        if life != self._life:
            return
        self._is_reading = False
        if not is_shortage(error):
            self._lose(f"cannot be read: {error.strerror or error}")

    def rest(self) -> None:
        """Drop the bytes and keep the position: nothing is needed for now."""
        if not self._is_reading and self._cursor is not None and self._cursor.left <= 0:
            self._cursor = self._cursor_at(self._cursor.at)

    def _lose(self, reason: str) -> None:
        """Give up the rest of this segment."""
        segment = self._journal.segment_numbered(self._number)
        if segment is None:
            self.reset()  # rewritten or removed meanwhile: look for the item again
            return
        at = self._cursor.at if self._cursor is not None else 0
        start = self._hole_at if self._hole_at >= 0 else at
        self._hole_at = -1
        self._lsn_gaps.append((start, self._stop(segment), reason))
        self._is_over = True

    def _find_segment(self, item: int) -> Segment | None:
        """Return the segment to read, after those that are at their end."""
        if self._number:
            segment = self._journal.segment_numbered(self._number)
            if segment is not None:
                return self._go_on(segment, item)
            self.reset()
        segments = self._journal.segments
        for at, segment in enumerate(segments):
            if segment.item_last >= item:
                self._enter(at, -1, max(item, segment.item_first) - 1)
                return segment
        return None

    def _enter(self, at: int, start: int, seen: int) -> None:
        segments = self._journal.segments
        self._number = segments[at].number
        # Records from this lsn on are superseded by the next segment; 0: none are.
        self._limit = segments[at + 1].lsn_first if at + 1 < len(segments) else 0
        self._begin(start, seen)

    def _go_on(self, segment: Segment, item: int) -> Segment | None:
        """Return this segment, or at its end the next with items; None: nothing more yet."""
        if not self._has_ended(segment):
            return segment
        if segment is self._journal.active:
            return None
        if self._hole_at >= 0 and not self._has_all(segment):
            self._lose(_NOT_WHOLE)
        self._name(segment, segment.item_last)
        segments = self._journal.segments
        for at in range(segments.index(segment) + 1, len(segments)):
            if segments[at].item_last >= item:
                self._enter(at, FILE_HEADER_BYTES, max(self._seen, segments[at].item_first - 1))
                return segments[at]
        return None

    def _stop(self, segment: Segment) -> int:
        if segment is self._journal.active:
            return segment.at
        return segment.capacity - FOOTER_SPACE_BYTES

    # -- taking -----------------------------------------------------------------------------

    def take(self, item: int, most: int) -> list[Record]:
        """Return puts from `item` on, `most` at most, that have been read."""
        out: list[Record] = []
        cursor = self._cursor
        segment = self._journal.segment_numbered(self._number) if cursor is not None else None
        if cursor is None or segment is None or self._is_over or self._has_all(segment):
            return out
        cursor.stop = self._stop(segment)
        while len(out) < most:
            record = cursor.take()
            if record is None:
                if cursor.lacking:
                    break
                self._hole_at = self._hole_at if self._hole_at >= 0 else cursor.at
                cursor.skip()
                continue
            if self._hole_at >= 0:
                self._lsn_gaps.append((self._hole_at, record.offset, _NOT_WHOLE))
                self._hole_at = -1
            if record.kind != _PUT:
                continue
            if self._limit and record.lsn >= self._limit:
                self._is_over = True  # newer segments repeat the rest
                break
            if self._lsn_gaps:
                self._name(segment, record.item - 1)
            self._seen = record.item
            if record.item >= item:
                out.append(record)
            if self._has_all(segment):
                break
        return out

    def _name(self, segment: Segment, item_last: int) -> None:
        """Name the items up to `item_last` that the holes may have held."""
        first = self._seen + 1
        for start, end, reason in self._lsn_gaps:
            self.damages.append(
                Damage("corrupt", segment.path, start, end, reason, 1, 1, first, item_last)
            )
            self._seen = max(self._seen, item_last)
        self._lsn_gaps = []
