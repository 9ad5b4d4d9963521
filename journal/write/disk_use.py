"""What the bytes of a journal's segments are for.

    [ live | done | live ][ done ][ live | done |    free    ]  prepared [   free   ]
     live: items that are there     done: all other records     reserve: room for records to come

One rule: the three add up to the size of all files with records and for records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from journal.write.segment_file import Segment


class DiskUse(NamedTuple):
    """Bytes of the disk. `live` counts no meta and no padding, and is an estimate after a start;
    done items that are retained are in `done`."""

    live: int
    done: int
    reserve: int

    @property
    def total(self) -> int:
        """The size of the files."""
        return self.live + self.done + self.reserve


NOTHING = DiskUse(0, 0, 0)


def disk_use(
    segments: Sequence[Segment], active: Segment | None, without_records: Iterable[int]
) -> DiskUse:
    """Return what these segments are for, and further files of these sizes without a record."""
    live = done = 0
    reserve = sum(without_records)
    for segment in segments:
        written = segment.at if segment is active else segment.capacity
        needed = min(segment.live_bytes, written) if segment.live else 0
        live += needed
        done += written - needed
        reserve += segment.capacity - written
    return DiskUse(live, done, reserve)
