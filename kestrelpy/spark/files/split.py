"""A split: a part of one segment, with all that a task needs to read it.

    0        start                         stop          the file's end
    +--------+-----------------------------+-------------+
             | records from `lsn_first` to `lsn_last`,
             | without those in `skip`, which other splits have, and none from `lsn_limit` on

The driver plans a split, and an executor reads it, maybe minutes later. Meanwhile a daemon writes,
seals, removes and reuses segments.

One rule: a split names its journal, segment and lsns, so that a task notices if the file has become
another one (`SplitGone`), and never reads it as the old one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from journal.errors import ITEM_MAX, JournalError
from journal.format import FILE_HEADER_BYTES

if TYPE_CHECKING:
    from kestrelpy.spark.files.readers import ReaderName

Range = tuple[int, int]  # first and last, both included


class SplitGone(JournalError):
    """A segment has gone: it was removed, or its file is used for another segment.

    The records `lsn_first` to `lsn_last` were not read.
    """

    def __init__(self, path: str, lsn_first: int, lsn_last: int, why: str) -> None:
        super().__init__(
            f"{path}: {why}; records {lsn_first} to {lsn_last} were not read from it. Read again, "
            f"or name the directory of `archive_to` as well."
        )
        self.path = path
        self.lsn_first = lsn_first
        self.lsn_last = lsn_last

    def __reduce__(self) -> tuple[object, ...]:
        why = str(self).removeprefix(f"{self.path}: ").partition("; records")[0]
        return type(self), (self.path, self.lsn_first, self.lsn_last, why)


@dataclass(frozen=True, slots=True)
class PackedItems:
    """The live items of a split, packed as bytes that travel to executors.

    `ranges` and `pages` are those of `journal.sets.id_set.IdSet`. The others are pairs of u64, by
    rising item: an item and its attempts; an item that is not ready and its state (the place in
    `queue_state.STATES`); an item that was delayed and the marker of its release.
    """

    ranges: bytes
    pages: bytes
    attempts: bytes = b""
    states: bytes = b""
    released: bytes = b""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """A part of one segment. Numbers are inclusive; 0: not known, except in `lsn_synced`.

    - `copies`: other files with the same bytes.
    - `stop`: where the part ends; 0: at the segment's end.
    - `size`: the bytes that the file was made with.
    - `lsn_synced`: records up to here must be there; after it, bytes that are not a whole record
      are the end of the log.
    - `lsn_before`: the first record that may have been here, though it may be lost.
    - `is_headless`: the file header was not readable when the split was planned.
    - `records`: how many records there are at most, if a footer counts them.
    - `live_items`: the items to read, in a read of items.
    - `reader_names`: the readers that the journal names.
    """

    path: str
    identity: bytes
    journal: int
    segment: int
    size: int
    lsn_first: int
    lsn_last: int
    server: str | None = None
    queue: str = ""
    generation: int = 0
    copies: tuple[str, ...] = ()
    version: int = 2
    is_compacted: bool = False
    is_headless: bool = False
    start: int = FILE_HEADER_BYTES
    stop: int = 0
    lsn_limit: int = 0
    lsn_synced: int = 0
    lsn_before: int = 0
    skip: tuple[Range, ...] = ()
    item_first: int = 0
    item_last: int = 0
    time_first: int = 0
    time_last: int = 0
    records: int = 0
    live_items: PackedItems | None = None
    reader_names: tuple[ReaderName, ...] = ()

    @property
    def bytes(self) -> int:
        """How many bytes of the file are read."""
        return (self.stop or self.size) - self.start

    @property
    def is_whole(self) -> bool:
        """True if the split is all of its segment."""
        return self.start == FILE_HEADER_BYTES and not self.stop

    def only(self, lsn_first: int, lsn_last: int) -> Split:
        """Return this split without the records outside this range."""
        outside = []
        if lsn_first > 1:
            outside.append((1, lsn_first - 1))
        if lsn_last < ITEM_MAX:
            outside.append((lsn_last + 1, ITEM_MAX))
        return replace(self, skip=(*self.skip, *outside))


@dataclass(frozen=True, slots=True)
class RowLimits:
    """Which rows are wanted: markers after `marker_after` up to `marker_upto`, times from `from_ms`
    on and before `before_ms`. None: no limit. A limit of markers skips records without a marker.
    """

    marker_after: int | None = None
    marker_upto: int | None = None
    from_ms: int | None = None
    before_ms: int | None = None

    def excludes(self, split: Split) -> bool:
        """True if the plan shows that no row of this split is wanted."""
        if split.time_first:
            if self.from_ms is not None and split.time_last < self.from_ms:
                return True
            if self.before_ms is not None and split.time_first >= self.before_ms:
                return True
        if split.live_items is not None and split.item_first:
            if self.marker_after is not None and split.item_last <= self.marker_after:
                return True
            if self.marker_upto is not None and split.item_first > self.marker_upto:
                return True
        return False


NO_LIMITS: Final = RowLimits()


def without(ranges: Iterable[Range], *others: Range) -> list[Range]:
    """Return the parts of `ranges` that no other range has, rising."""
    left = sorted(ranges)
    for first, last in others:
        rest: list[Range] = []
        for low, high in left:
            if last < low or high < first:
                rest.append((low, high))
                continue
            if low < first:
                rest.append((low, first - 1))
            if last < high:
                rest.append((last + 1, high))
        left = rest
    return left
