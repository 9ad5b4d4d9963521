"""Items that a snapshot knows and whose segment is missing.

    snapshot lists      4   7   8   9            alive in 7: 12, 15
    there are           4       8  [57: 9 ...]   the log after the snapshot ends 12: 15 is missing

A segment may go when nothing in it is alive, and a compacted one may stand for it: then nothing is
missing, though the snapshot, which is older, still lists it.

One rule: an item is missing only when no record ended it and no present segment may hold it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import Final

from journal.errors import ITEM_MAX, Damage
from journal.format import GONE, STOPS, Kind, Record, segment_name
from journal.recovery.chain import SegmentFile
from journal.sets import IdSet
from journal.snapshot import SegmentState, Snapshot

SEGMENT_MISSING: Final = "the segment is missing"
_ENDS: Final = frozenset(
    {Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED}
)


class LostSegments:
    """The items that would be missing at a snapshot; `see` takes out those that ended since.

    An item is missing while one reader, the queue itself (0) or a child, still has it.
    """

    __slots__ = ("_dead", "_present", "_segments")

    def __init__(self, snapshot: Snapshot, present: list[SegmentFile]) -> None:
        numbers = {s.number for s in present}
        self._present = present
        states = list(snapshot.segments)
        if snapshot.tally is not None and snapshot.tally.item_first:
            first, last = snapshot.tally.item_first, snapshot.tally.item_last
            states.append(SegmentState(snapshot.segment, first, last, 1, 0))
        live = {0: snapshot.live} | {r.number: r.live for r in snapshot.readers}
        self._segments: list[tuple[SegmentState, dict[int, IdSet]]] = []
        for state in states:
            if not state.live or state.number in numbers:
                continue
            first, last = state.item_first, state.item_last
            alive = {number: ids.between(first, last) for number, ids in live.items()}
            self._segments.append((state, alive))
        self._dead: dict[int, set[int]] = {0: {d.item for d in snapshot.dead}}
        for reader in snapshot.readers:
            self._dead[reader.number] = {d.item for d in reader.dead}

    def __bool__(self) -> bool:
        return bool(self._segments)

    def see(self, record: Record) -> None:
        """Take out the items that this record after the snapshot ends."""
        kind, item = record.kind, record.item
        dead = self._dead.get(record.reader)
        if dead is None:
            return  # a reader that came later: its items are in later segments
        if kind in _ENDS:
            for _, alive in self._segments:
                alive[record.reader].discard(item)
        elif kind == Kind.DEAD:
            dead.add(item)
        elif kind == Kind.REDRIVEN:
            dead.discard(item)
        elif kind == Kind.FLUSHED:
            whole = len(record.body) // 8
            self._end(record.reader, item, struct.unpack_from(f"<{whole}Q", record.body))
        elif kind == Kind.UPTO:
            self._end(record.reader, record.number, ())  # of what is delayed one does not know
        elif kind == Kind.READER and record.small == (STOPS if record.reader else GONE):
            dead.clear()
            self._end(record.reader, ITEM_MAX, ())

    def _end(self, reader: int, last: int, spared: Iterable[int]) -> None:
        """Take out every item of this reader up to `last`, except the spared and the dead."""
        stay = self._dead[reader].union(spared)
        for _, alive in self._segments:
            for gone in [i for i in alive[reader] if i <= last and i not in stay]:
                alive[reader].discard(gone)

    def damages(self, folder: str) -> list[Damage]:
        """Return each missing segment with lost items; to be called when all is read."""
        found = []
        for state, readers in self._segments:
            alive = IdSet.union([*readers.values()])
            for there in self._present:
                if there.item_first <= state.item_last and state.item_first <= there.item_last:
                    for item in list(alive.between(there.item_first, there.item_last)):
                        alive.discard(item)
            if not alive:
                continue
            path = os.path.join(folder, segment_name(state.number))
            found.append(
                Damage("truncated", path, 0, 0, SEGMENT_MISSING, 1, 0,
                       state.item_first, state.item_last)
            )  # fmt: skip
        return found
