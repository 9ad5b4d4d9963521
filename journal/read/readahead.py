"""Read-ahead: items that are only in the log, read back in the order of their ids. These are the
bodies that memory has no room for, and after a start all of them.

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
    ALIGN_BYTES,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    Kind,
    Record,
    decode,
    padded,
)
from journal.read.seek import PIECE_BYTES, find_frame
from journal.read.segment_read import PLACED, SegmentRead
from journal.write import Journal, Segment

_PUT: Final = int(Kind.PUT)
_NOT_WHOLE: Final = "not a whole record"


class ReadAhead:
    """The reading side of one journal that is being written. Owned by the loop's thread.

    `_data` are bytes of segment `_number` from `_base` on, taken up to `_at`; the last put among
    them is `_seen`. Bytes that do not parse are kept in `_lsn_gaps` until the items after them are
    known.
    """

    __slots__ = (
        "_at",
        "_base",
        "_data",
        "_hole_at",
        "_is_over",
        "_is_reading",
        "_journal",
        "_life",
        "_limit",
        "_lsn_gaps",
        "_needed",
        "_number",
        "_seen",
        "damages",
    )  # fmt: skip

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._life = 0  # a read of an earlier life is not wanted any more
        self.damages: list[Damage] = []
        self.reset()

    def reset(self) -> None:
        """Look for the next item anew: it is another one than expected."""
        self._number = 0  # 0: to be looked for
        self._life += 1
        self._is_reading = False
        self._limit = 0
        self._begin(-1, 0)

    def _begin(self, base: int, seen: int) -> None:
        self._base = base  # -1: where the item is has to be found
        self._data = b""
        self._at = 0
        self._needed = 0  # bytes that the current frame still lacks
        self._seen = seen
        self._hole_at = -1  # where the current bytes ceased to be records
        self._lsn_gaps: list[tuple[int, int, str]] = []
        self._is_over = False  # nothing more of this segment can be read, or is needed

    # -- reading ----------------------------------------------------------------------------

    def next_read(self, item: int) -> tuple[int, SegmentRead] | None:
        """Return the next bytes to read, so that `item` and later ones can be taken; None: nothing
        now.

        Give the read back with `arrived` or `failed`.
        """
        left = len(self._data) - self._at
        if self._is_reading or (left >= PIECE_BYTES and self.has_more):
            return None
        segment = self._find_segment(item)
        if segment is None:
            return None
        start = self._base + len(self._data)  # no bytes are here while the place is to be found
        stop = self._stop(segment)
        if start >= stop:
            return None
        self._is_reading = True
        size = max(PIECE_BYTES, self._needed)
        short = self._journal.short_identity
        return self._life, SegmentRead(segment.path, short, segment.number, start, stop, size, item)

    @property
    def is_reading(self) -> bool:
        """True if a read is under way."""
        return self._is_reading

    @property
    def has_more(self) -> bool:
        """True if more was read than has been taken."""
        if len(self._data) - self._at < HEADER_BYTES or self._needed or self._is_over:
            return False
        segment = self._journal.segment_numbered(self._number)
        return segment is not None and not self._has_all(segment)

    def lost_up_to(self, item: int) -> int:
        """Return up to which item, from `item` on, none will come: everything was read. 0: none is
        lost.
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
        return self._base >= 0 and self._base + self._at + HEADER_BYTES > self._stop(segment)

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
        if self._base < 0:
            self._base = start
        taken = min(self._at, len(self._data))  # padding may lie behind what was read
        self._data = self._data[taken:] + data
        self._base += taken
        self._at -= taken
        self._needed = 0

    def failed(self, life: int, error: OSError) -> None:
        """Pass over the rest of that segment, and name it: it could not be read.

        After a shortage nothing is known to be lost, and the read may be ordered again.
        """
        if life != self._life:
            return
        self._is_reading = False
        if not is_shortage(error):
            self._lose(f"cannot be read: {error.strerror or error}")

    def rest(self) -> None:
        """Keep the place, and no bytes: nothing is needed for now."""
        if not self._is_reading and self._at >= len(self._data):
            self._base += self._at if self._base >= 0 else 0
            self._data, self._at = b"", 0

    def _lose(self, reason: str) -> None:
        """Give up the rest of this segment."""
        segment = self._journal.segment_numbered(self._number)
        if segment is None:
            self.reset()  # rewritten or removed meanwhile: look for the item again
            return
        start = self._hole_at if self._hole_at >= 0 else max(self._base, 0) + self._at
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

    def _enter(self, at: int, base: int, seen: int) -> None:
        segments = self._journal.segments
        self._number = segments[at].number
        # Records from this lsn on are superseded by the next segment; 0: none are.
        self._limit = segments[at + 1].lsn_first if at + 1 < len(segments) else 0
        self._begin(base, seen)

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
        segment = self._journal.segment_numbered(self._number) if self._data else None
        if segment is None or self._is_over or self._has_all(segment):
            return out
        data, base, number = self._data, self._base, self._number
        short, stop = self._journal.short_identity, self._stop(segment) - self._base
        at, size = self._at, len(data)
        while len(out) < most and at + HEADER_BYTES <= size:
            _, length, owner, found, position = PLACED.unpack_from(data, at)
            is_frame = (
                found == number and position == base + at and owner == short
                and HEADER_BYTES <= length <= stop - at
            )  # fmt: skip
            if is_frame and at + length > size:
                self._needed = at + length - size
                break
            record = decode(data, at, short, number, base) if is_frame else None
            if record is None:
                at = self._pass_over(at)
                continue
            if self._hole_at >= 0:
                self._lsn_gaps.append((self._hole_at, base + at, _NOT_WHOLE))
                self._hole_at = -1
            at += padded(length)
            if self._limit and record.lsn >= self._limit and record.kind == _PUT:
                self._is_over = True  # newer segments say it again
                break
            if record.kind == _PUT:
                if self._lsn_gaps:
                    self._name(segment, record.item - 1)
                self._seen = record.item
                if record.item >= item:
                    out.append(record)
                if self._has_all(segment):
                    break
        self._at = at
        if not self._needed and at + HEADER_BYTES > size:
            self._needed = 1
        return out

    def _pass_over(self, at: int) -> int:
        """Return the position of the next frame after bytes that are no record, as far as known."""
        if self._hole_at < 0:
            self._hole_at = self._base + at
        short = self._journal.short_identity
        found = find_frame(self._data, at + ALIGN_BYTES, self._base, short, self._number)
        if found >= 0:
            return found
        behind = (len(self._data) - HEADER_BYTES) // ALIGN_BYTES * ALIGN_BYTES + ALIGN_BYTES
        return max(at + ALIGN_BYTES, behind)

    def _name(self, segment: Segment, item_last: int) -> None:
        """Name the items up to `item_last` that the holes may have held."""
        first = self._seen + 1
        for start, end, reason in self._lsn_gaps:
            self.damages.append(
                Damage("corrupt", segment.path, start, end, reason, 1, 1, first, item_last)
            )
            self._seen = max(self._seen, item_last)
        self._lsn_gaps = []
