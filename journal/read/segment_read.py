"""A read of some bytes of one segment, for a thread.

One rule: a read is a value; it knows its position, and nothing of the journal it came from.
"""

from __future__ import annotations

from dataclasses import dataclass

from journal.files import Files, read_around
from journal.read.seek import Extent


@dataclass(frozen=True, slots=True)
class SegmentRead:
    """Bytes of one segment to be read. `start` -1: from the first put not below `item`."""

    extent: Extent
    start: int
    size: int
    item: int

    def run(self, files: Files) -> tuple[int, bytes]:
        """Return the position of the bytes, and the bytes. Blocks; raises OSError."""
        extent = self.extent
        start = self.start if self.start >= 0 else extent.seek_item(files, self.item)
        size = min(self.size, extent.stop - start)
        return start, read_around(files, extent.path, start, size)
