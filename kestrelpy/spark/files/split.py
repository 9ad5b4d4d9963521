"""A piece: a stretch of one segment that one reader reads, with all that it needs to know for it.

    0        start                         stop          the file's end
    +--------+-----------------------------+-------------+
             | records from `lsn_first` to `lsn_last`,
             | but those in `skip`, which other pieces have, and none from `lsn_limit` on

A piece is planned where the folders are seen and read where Spark runs its tasks, maybe minutes
later, while a daemon writes, seals, removes and uses segments again.

One rule: a piece names its journal, segment and lsns, so that a file which has become another one
meanwhile is noticed (`PieceGone`) and never read as if it were the old one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from journal.errors import ITEM_MAX, JournalError
from journal.format.segment import FILE_HEADER_BYTES

if TYPE_CHECKING:
    from kestrelpy.spark.files.readers import Naming

Range = tuple[int, int]  # first and last, both included


class PieceGone(JournalError):
    """A segment is not where it was: removed, or its file is used for another one.

    `lsn_first` to `lsn_last` are the records that were not read.
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
class Held:
    """Which of a piece's items are still there, as bytes that travel.

    `ranges` and `pages` are those of `journal.sets.id_set.IdSet`; the others are pairs of u64 with
    rising items: an item and its attempts; its state, where it is not ready (`holding.STATES`); the
    marker it got when its delay was over.
    """

    ranges: bytes
    pages: bytes
    attempts: bytes = b""
    states: bytes = b""
    released: bytes = b""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one segment. Numbers are inclusive; 0 means not known, but in `lsn_synced`.

    `copies` are other files with the same bytes. `stop` 0: to the segment's end. Records up to
    `lsn_synced` must be there; what is not whole behind it is the end of the log. `size` is what
    the file was made with, `records` how many there are at most, where a footer says so.
    `lsn_before`: the first that may have been here, be it lost. `is_headless`: its header was not
    readable when it was planned. `held`: of items, those that are wanted.
    `namings` are the readers that the journal names.
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
    is_survivors: bool = False
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
    held: Held | None = None
    namings: tuple[Naming, ...] = ()

    @property
    def bytes(self) -> int:
        """How much of the file is read."""
        return (self.stop or self.size) - self.start

    @property
    def is_whole(self) -> bool:
        """Is it all of its segment?"""
        return self.start == FILE_HEADER_BYTES and not self.stop

    def only(self, lsn_first: int, lsn_last: int) -> Piece:
        """The same piece without records outside this range."""
        outside = []
        if lsn_first > 1:
            outside.append((1, lsn_first - 1))
        if lsn_last < ITEM_MAX:
            outside.append((lsn_last + 1, ITEM_MAX))
        return replace(self, skip=(*self.skip, *outside))


@dataclass(frozen=True, slots=True)
class Limits:
    """Which rows are wanted. Markers: behind `marker_after`, up to `marker_upto`; times: from
    `from_ms` on, before `before_ms`. None: no limit. A limit of markers passes over what has none.
    """

    marker_after: int | None = None
    marker_upto: int | None = None
    from_ms: int | None = None
    before_ms: int | None = None

    def excludes(self, piece: Piece) -> bool:
        """Is it known before reading that no row of this piece is wanted?"""
        if piece.time_first:
            if self.from_ms is not None and piece.time_last < self.from_ms:
                return True
            if self.before_ms is not None and piece.time_first >= self.before_ms:
                return True
        if piece.held is not None and piece.item_first:
            if self.marker_after is not None and piece.item_last <= self.marker_after:
                return True
            if self.marker_upto is not None and piece.item_first > self.marker_upto:
                return True
        return False


NO_LIMITS: Final = Limits()


def without(ranges: Iterable[Range], *others: Range) -> list[Range]:
    """What of these no other range has; rising."""
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
