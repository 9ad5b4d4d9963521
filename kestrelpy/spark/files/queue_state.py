"""The state of a journal's queue at its end: the items, their attempts, the dead letters.

    snapshot, and the records after it ──LiveSet──▶ state ──▶ cut for each split: `PackedItems`,
                                                              bytes that travel to executors

It is the journal's replay of ids and numbers: no bodies, no clock. So an expired item is in the
state until a record says that the daemon removed it. On an executor `LiveItems` has the items of a
split as arrays, and answers for many items at once:

    items      3  4  7  9
    has        1  0  1  1
    states     0  .  2  1      of `STATES`

One rule: a record of an unknown kind is refused: the state after it is not known.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from journal.errors import ITEM_MAX, Damage, NewerFormat
from journal.files import Files
from journal.format import IN_LOG
from journal.recovery import LiveSet, ReaderItems, Recovery
from journal.sets import PAGE_IDS
from kestrelpy.spark.files.frame_headers import Bools, Ints
from kestrelpy.spark.files.split import PackedItems, Split

STATES: Final = ("ready", "dead", "lent", "delayed")  # as the column `state` shows them
READY, DEAD, LEASED, DELAYED = range(len(STATES))
_PAIR: Final = np.dtype([("item", "<u8"), ("number", "<u8")])
_PAGE: Final = np.dtype([("page", "<u8"), ("bits", "u1", PAGE_IDS // 8)])
_PACKED: Final = struct.Struct("<QQ")


@dataclass(slots=True)
class FilesState:
    """The state of one queue: `own` are the items of its own consumers."""

    own: ReaderItems = field(default_factory=ReaderItems)
    lsn_next: int = 1
    damages: list[Damage] = field(default_factory=list)
    snapshot_lsn: int = 0
    latest: int | None = None  # the last marker that was given; None: not known
    _recovery: Recovery | None = None

    @classmethod
    def read(cls, files: Files, folder: str) -> FilesState:
        """Return the state of the journal in `folder`. Raises NewerFormat, FileNotFoundError if a
        daemon removed a file meanwhile, or another OSError.
        """
        recovery, live_set, made = Recovery(files, folder), LiveSet(), cls()
        for record in live_set.follow(recovery):
            if record.kind not in IN_LOG:
                raise NewerFormat(
                    f"segment {record.segment}, byte {record.offset}: records of kind "
                    f"{record.kind} are not known to this version of kestrelpy"
                )
            made.lsn_next = record.lsn + 1
        if recovery.snapshot is not None:
            made.snapshot_lsn = recovery.snapshot.lsn
            made.lsn_next = max(made.lsn_next, made.snapshot_lsn + 1)
        made.own = live_set.lines[0]
        made.latest = live_set.next_number - 1 if live_set.known else None
        made.damages = [d for d in recovery.damages if d.kind not in ("torn", "foreign")]
        made._recovery = recovery
        return made

    def check_bodies(self, files: Files, splits: Sequence[Split]) -> None:
        """Name the items in none of these splits, as damage. A task names what its split lacks.

        Only for such items a segment is read. An item whose segment a daemon removed meanwhile was
        confirmed. Raises OSError.
        """
        without_split = self.own.items.copy()
        for split in splits:
            first, last = _items_of(split)
            without_split.discard_range(first, last)
        if without_split and self._recovery is not None:
            bodies = self._recovery.bodies(without_split)
            bodies.run(files, self.damages)
            self.damages += bodies.damages

    def live_items(self, splits: Sequence[Split]) -> list[PackedItems]:
        """Return each split's part, by the range of items put there."""
        own = self.own
        states = dict.fromkeys(own.delayed, DELAYED) | dict.fromkeys(own.leased, LEASED)
        states |= dict.fromkeys(own.dead, DEAD)
        pairs = [[*own.attempts.items()], sorted(states.items()), sorted(own.markers.items())]
        made = []
        for split in splits:
            first, last = _items_of(split)
            part = own.items.between(first, last)
            ranges, pages = part.encode()
            attempted, others, released = (_pairs(each, first, last) for each in pairs)
            made.append(PackedItems(ranges, pages, attempted, others, released, part.count))
        return made


def _items_of(split: Split) -> tuple[int, int]:
    """Return the first and last item that may be in a split."""
    if not split.lsn_last:  # its file could not be read when it was planned
        return 1, ITEM_MAX
    return split.item_first, split.item_last


def _pairs(pairs: list[tuple[int, int]], first: int, last: int) -> bytes:
    low, high = bisect_left(pairs, (first, 0)), bisect_right(pairs, (last, 1 << 62))
    return b"".join(_PACKED.pack(*pair) for pair in pairs[low:high])


class LiveItems:
    """`PackedItems` as arrays: which items are there, their states, their attempts.

    A method takes an array of items, and answers without a loop over them.
    """

    def __init__(self, live_items: PackedItems) -> None:
        ranges = np.frombuffer(live_items.ranges, "<u8").astype(np.int64).reshape(-1, 2)
        ranges = ranges[ranges[:, 1] >= ranges[:, 0]]
        self._firsts, self._lasts = ranges[:, 0], ranges[:, 1]
        pages = np.frombuffer(live_items.pages, _PAGE)
        self._pages, self._bits = pages["page"].astype(np.int64), pages["bits"]
        self._attempts = np.frombuffer(live_items.attempts, _PAIR)
        self._states = np.frombuffer(live_items.states, _PAIR)
        self._released = np.frombuffer(live_items.released, _PAIR)

    def has(self, items: Ints) -> Bools:
        """Return which of these items are there."""
        found = np.zeros(len(items), np.bool_)
        if len(self._firsts):
            at = np.searchsorted(self._firsts, items, "right") - 1
            found |= (at >= 0) & (items <= self._lasts[np.maximum(at, 0)])
        if len(self._pages):
            page = items // PAGE_IDS
            at = np.minimum(np.searchsorted(self._pages, page), len(self._pages) - 1)
            bits = self._bits[at, (items % PAGE_IDS) >> 3] >> (items & 7).astype(np.uint8)
            found |= (self._pages[at] == page) & ((bits & 1) == 1)
        return found

    def attempts(self, items: Ints) -> Ints:
        """Return how many deliveries of each item ended without a confirm."""
        return _looked_up(self._attempts, items)

    def states(self, items: Ints) -> npt.NDArray[np.int8]:
        """Return the place of each item's state in `STATES`."""
        return _looked_up(self._states, items).astype(np.int8)

    def markers(self, items: Ints) -> Ints:
        """Return the marker of each item's release; 0: it was not put with a delay."""
        return _looked_up(self._released, items)


def _looked_up(pairs: npt.NDArray[np.void], items: Ints) -> Ints:
    if not len(pairs):
        return np.zeros(len(items), np.int64)
    ids = pairs["item"].astype(np.int64)
    at = np.minimum(np.searchsorted(ids, items), len(ids) - 1)
    return np.where(ids[at] == items, pairs["number"].astype(np.int64)[at], 0)
NO_LIVE_ITEMS: Final = LiveItems(PackedItems(struct.pack("<QQ", 1, 0), b""))
