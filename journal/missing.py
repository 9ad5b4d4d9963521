"""Items that a snapshot knows and whose segment is not there any more.

    snapshot lists      4   7   8   9            alive in 7: 12, 15
    there are           4       8  [57: 9 ...]   the log behind the snapshot ends 12: 15 is missing

A segment may go when nothing in it is alive, and survivors may stand for it: then nothing is
missing, though the snapshot, which is older, still lists it.

One rule: an item is missing only when nothing ended it and no segment that is there may hold it.
"""

from __future__ import annotations

import os
import struct
from typing import Final

from journal.chain import SegmentFile
from journal.errors import Damage
from journal.ids import IdSet
from journal.record import Kind, Record
from journal.segment import segment_name
from journal.snapshot import SegmentState, Snapshot

SEGMENT_MISSING: Final = "the segment is missing"
_ENDS: Final = frozenset(
    {Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED}
)


class Missing:
    """What would be missing at a snapshot; `see` takes out what was ended since."""

    __slots__ = ("_dead", "_present", "_segments")

    def __init__(self, snapshot: Snapshot, present: list[SegmentFile]) -> None:
        numbers = {s.number for s in present}
        self._present = present
        states = list(snapshot.segments)
        if snapshot.tally is not None and snapshot.tally.item_first:
            first, last = snapshot.tally.item_first, snapshot.tally.item_last
            states.append(SegmentState(snapshot.segment, first, last, 1, 0))
        self._segments: list[tuple[SegmentState, IdSet]] = []
        for state in states:
            if not state.live or state.number in numbers:
                continue
            alive = snapshot.live.between(state.item_first, state.item_last)
            self._segments.append((state, alive))
        self._dead = {d.item for d in snapshot.dead} if self._segments else set()

    def __bool__(self) -> bool:
        return bool(self._segments)

    def see(self, record: Record) -> None:
        """A record behind the snapshot: does it end what may be missing?"""
        kind, item = record.kind, record.item
        if record.reader:
            return
        if kind in _ENDS:
            for _, alive in self._segments:
                alive.discard(item)
        elif kind == Kind.DEAD:
            self._dead.add(item)
        elif kind == Kind.REDRIVEN:
            self._dead.discard(item)
        elif kind == Kind.FLUSHED:
            whole = len(record.body) // 8
            stay = self._dead.union(struct.unpack_from(f"<{whole}Q", record.body))
            for _, alive in self._segments:
                for gone in [i for i in alive if i <= item and i not in stay]:
                    alive.discard(gone)

    def damages(self, folder: str) -> list[Damage]:
        """Each segment that is missing with something in it; to be asked when all is read."""
        found = []
        for state, alive in self._segments:
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
