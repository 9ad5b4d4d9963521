"""Items that a snapshot knows and whose segment is missing.

    snapshot lists      4   7   8   9            alive in 7: 12, 15
    there are           4       8  [57: 9 ...]   the log after the snapshot ends 12: 15 is missing

A segment may go when nothing in it is alive, and a compacted one may stand for it: then nothing is
missing, though the snapshot, which is older, still lists it.

One rule: an item is missing only when no record ended it and no present segment may hold it.
"""

from __future__ import annotations

import os
from typing import Final

from journal.errors import Damage
from journal.format import Record, segment_name
from journal.recovery.live_set import LiveSet
from journal.recovery.segment_order import SegmentFile
from journal.sets import IdSet
from journal.snapshot import SegmentState, Snapshot

SEGMENT_MISSING: Final = "the segment is missing"


class LostSegments:
    """The items that would be missing at a snapshot; `see` takes out those that ended since.

    An item is missing while one reader, the queue itself or a child, still has it.
    """

    __slots__ = ("_live_set", "_present", "_states")

    def __init__(self, snapshot: Snapshot, present: list[SegmentFile]) -> None:
        numbers = {s.number for s in present}
        self._present = present
        states = list(snapshot.segments)
        if snapshot.tally is not None and snapshot.tally.item_first:
            first, last = snapshot.tally.item_first, snapshot.tally.item_last
            states.append(SegmentState(snapshot.segment, first, last, 1, 0))
        self._states = [s for s in states if s.live and s.number not in numbers]
        self._live_set = LiveSet()
        if self._states:
            self._live_set.restore(snapshot)

    def __bool__(self) -> bool:
        return bool(self._states)

    def see(self, record: Record) -> None:
        """Take out the items that this record after the snapshot ends."""
        self._live_set.see(record)

    def damages(self, folder: str) -> list[Damage]:
        """Return each missing segment with lost items; to be called when all is read."""
        found = []
        for state in self._states:
            first, last = state.item_first, state.item_last
            lines = self._live_set.lines.values()
            alive = IdSet.union([line.items.between(first, last) for line in lines])
            for there in self._present:
                if there.item_first <= last and first <= there.item_last:
                    for item in list(alive.between(there.item_first, there.item_last)):
                        alive.discard(item)
            if not alive:
                continue
            path = os.path.join(folder, segment_name(state.number))
            found.append(
                Damage("truncated", path, 0, 0, SEGMENT_MISSING, 1, 0, first, last)
            )
        return found
