"""Which of the items that are there have a body that can be read.

    items that a reader needs           a snapshot names them, or a put after it
      less those of whole segments      the recovery has met all of their puts
      less those found elsewhere        the other segments are walked here, frame by frame
      =  items that cannot be read      named, with the bytes in which they were

A start takes the items from the snapshot and reads no older segment, so it learns nothing of bytes
that were damaged there: this check does.

One rule: an item can be read only if its put was met, whole and at its own position.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from journal.errors import ITEM_MAX, Damage
from journal.files import MEDIUM_ERRORS, Files, read_around
from journal.format import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, HEADER_BYTES, Kind, segment_name
from journal.read import NOT_WHOLE, Cursor
from journal.recovery.segment_order import SegmentFile
from journal.sets import IdSet

NO_RECORDS: Final = "zeros in place of records"
NO_SEGMENT: Final = "no segment holds them"
_RUNS_NAMED_MAX: Final = 8
PAUSE_FRAMES: Final = 1000  # between two pauses, about a millisecond of work
PAUSE_BYTES: Final = 1 << 20  # or this many bytes: an engine sends them in some milliseconds
_PUT: Final = int(Kind.PUT)


@dataclass(frozen=True, slots=True)
class _Hole:
    """Bytes that are no record, and the puts around them; `lsns` if they reach to the end."""

    path: str
    offset: int
    end: int
    reason: str
    put_before: int
    put_after: int
    lsns: tuple[int, int]

    def is_in(self, damage: Damage) -> bool:
        """True if these are the bytes of that damage, or some of them."""
        is_near = damage.offset <= self.end and self.offset <= damage.end
        return damage.path == self.path and is_near


class BodyCheck:
    """The check of one journal. `run` reads `bytes` of the segments, and sets the other fields.

    `unreadable` are the needed items without a readable put, `damages` name each of them that
    `known` damage does not name.
    """

    __slots__ = (
        "_between", "_folder", "_gaps", "_segments", "_suspects", "bytes", "damages", "unreadable",
    )  # fmt: skip

    def __init__(self, folder: str, segments: Sequence[SegmentFile], needed: IdSet) -> None:
        self._folder = folder
        self._segments = [one for one in segments if not one.is_read]
        self._between = _between(segments)
        self._gaps: list[_Hole] = []
        self._suspects = needed.copy()
        for one in segments:
            if one.is_read and one.item_last:
                self._suspects.discard_range(one.item_first, one.item_last)
        self.unreadable = IdSet()
        self.damages: list[Damage] = []
        self.bytes = sum(one.capacity for one in self._wanted()) if self._suspects else 0

    def see(self, item: int) -> None:
        """Note that the put of this item can be read."""
        self._suspects.discard(item)

    def run(
        self, files: Files, known: Sequence[Damage] = (), pause: Callable[[], None] = lambda: None
    ) -> None:
        """Walk the segments that may hold suspects. Blocks.

        `pause` is called about every millisecond of work and may wait. If a daemon removes a file
        meanwhile, its items are done, or in another file.
        """
        gone: list[SegmentFile] = []
        self._gaps.clear()  # of an earlier run that a shortage ended
        for segment in self._wanted() if self._suspects else ():
            try:
                self._walk(files, segment, pause)
            except FileNotFoundError:
                gone.append(segment)
        for segment in gone:
            if segment.item_last:
                self._suspects.discard_range(segment.item_first, segment.item_last)
        self.unreadable = self._suspects
        self._name(known)

    def _wanted(self) -> list[SegmentFile]:
        """Return the segments that may hold suspects."""
        return [
            one for one in self._segments
            if not one.is_covered or not one.item_last
            or self._suspects.count_between(one.item_first, one.item_last)
        ]  # fmt: skip

    def _walk(self, files: Files, segment: SegmentFile, pause: Callable[[], None]) -> None:
        """Meet every put of a segment, and note the bytes between that are no records."""
        (put, item_behind), lsn = self._between[segment.number], segment.lsn_first
        stop = segment.capacity + segment.bytes_missing - FOOTER_SPACE_BYTES
        read = partial(read_around, files, segment.path)
        cursor = Cursor(read, segment.journal, segment.number, FILE_HEADER_BYTES, segment.capacity)
        holes: list[tuple[int, int]] = []
        at, count, paused_at = FILE_HEADER_BYTES, 0, 0
        while at + HEADER_BYTES <= stop:
            try:
                record = cursor.next()
            except OSError as error:
                if error.errno not in MEDIUM_ERRORS:
                    raise
                break
            if record is None or record.offset >= stop:
                break
            if segment.supersedes(record.lsn):
                return  # newer segments repeat the rest
            if record.offset > at:
                holes.append((at, record.offset))
            at = record.end
            if record.kind == _PUT:
                self._open(segment, holes, put, record.item)
                put = record.item
                if segment.item_first <= put <= segment.item_last:
                    self.see(put)  # else a start does not look for it here
            if record.kind not in (Kind.BATCH, Kind.CHECKPOINT):
                lsn = record.lsn + 1
            count += 1
            if not count % PAUSE_FRAMES or at - paused_at >= PAUSE_BYTES:
                paused_at = at
                pause()
        self._open(segment, holes, put, item_behind)
        behind = segment.lsn_limit or segment.lsn_last + 1
        lsns = (lsn, behind - 1) if 0 < lsn < behind else (1, 0)
        zeros = not any(self._front(files, segment.path, at))
        self._gaps.append(
            _Hole(segment.path, at, max(stop, at), NO_RECORDS if zeros else NOT_WHOLE,
                  put, item_behind, lsns)
        )  # fmt: skip

    def _front(self, files: Files, path: str, at: int) -> bytes:
        try:
            return files.read(path, at, HEADER_BYTES)
        except OSError as error:
            if error.errno not in MEDIUM_ERRORS:
                raise
            return b"\xff"

    def _open(
        self, segment: SegmentFile, gaps: list[tuple[int, int]], before: int, after: int
    ) -> None:
        """Note the holes between two puts."""
        self._gaps += [
            _Hole(segment.path, start, end, NOT_WHOLE, before, after, (1, 0))
            for start, end in gaps
        ]
        gaps.clear()

    def _name(self, known: Sequence[Damage]) -> None:
        """Name every item that cannot be read, each with the first bytes that may have held it."""
        rest = self.unreadable.copy()
        named = [d for d in known if d.kind != "torn" and d.id_last >= d.id_first]
        for hole in self._gaps:
            ids = [*rest.between(hole.put_before + 1, hole.put_after - 1)] if rest else []
            for item in ids:
                rest.discard(item)
            if not ids or any(hole.is_in(d) and d.id_first <= ids[0] and ids[-1] <= d.id_last
                              for d in named):  # fmt: skip
                continue
            self.damages.append(
                Damage("corrupt", hole.path, hole.offset, hole.end, hole.reason,
                       *hole.lsns, ids[0], ids[-1])
            )  # fmt: skip
        for damage in named:
            rest.discard_range(damage.id_first, min(damage.id_last, ITEM_MAX))
        for first, last in runs(rest):
            path = os.path.join(self._folder, segment_name(0))
            self.damages.append(Damage("truncated", path, 0, 0, NO_SEGMENT, 1, 0, first, last))


def _between(segments: Sequence[SegmentFile]) -> dict[int, tuple[int, int]]:
    """Return for each segment the last known item put before it and the first known one after."""
    found: dict[int, tuple[int, int]] = {}
    before, after = 0, ITEM_MAX
    for one in segments:
        found[one.number] = (max(before, one.item_first - 1 if one.is_covered else 0), after)
        before = max(before, one.item_last)
    for one in reversed(segments):
        last = one.item_last + 1 if one.is_covered and one.item_last else after
        found[one.number] = (found[one.number][0], min(last, after))
        after = one.item_first or after
    return found


def lost_items_text(items: IdSet) -> str:
    """Return how many items cannot be read, and which, for people."""
    found = runs(items)
    ids = [str(first) if first == last else f"{first} to {last}" for first, last in found]
    if len(ids) > _RUNS_NAMED_MAX:
        ids[_RUNS_NAMED_MAX:] = [f"and others up to {found[-1][1]}"]
    count = "1 item" if len(items) == 1 else f"{len(items)} items"
    return f"{count} cannot be read: {', '.join(ids)}"


def runs(items: IdSet) -> list[tuple[int, int]]:
    """Return the first and last of each run of ids that follow one another."""
    found: list[tuple[int, int]] = []
    for item in items:
        if found and found[-1][1] == item - 1:
            found[-1] = (found[-1][0], item)
        else:
            found.append((item, item))
    return found
