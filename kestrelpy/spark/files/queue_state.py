"""The state of a journal's queue at its end: the items, their attempts, the dead letters.

    snapshot, and the records after it ──LiveSet──▶ state ──▶ cut for each split: `PackedItems`,
                                                              bytes that travel to executors

It is the journal's replay of ids and numbers: no bodies, no clock. So an expired item is in the
state until a record says that the daemon removed it.

One rule: a record of an unknown kind is refused: the state after it is not known.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from journal.errors import ITEM_MAX, Damage, NewerFormat
from journal.files import Files
from journal.format import IN_LOG
from journal.recovery import LiveSet, ReaderItems, Recovery
from kestrelpy.spark.files.live_items import DEAD, DELAYED, LEASED
from kestrelpy.spark.files.split import PackedItems, Split

_PAIR: Final = struct.Struct("<QQ")


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
    return b"".join(_PAIR.pack(*pair) for pair in pairs[low:high])
