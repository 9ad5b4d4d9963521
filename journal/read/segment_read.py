"""A read of some bytes of one segment, for a thread.

One rule: a read is a value; it knows its position, and nothing of the journal it came from.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from journal.files import Files, read_around
from journal.read.seek import Extent

PLACED: Final = struct.Struct("<IIIII")  # checksum, length, journal, segment, offset


@dataclass(frozen=True, slots=True)
class SegmentRead:
    """Bytes of one segment to be read. `start` -1: from the first put not below `item`."""

    path: str
    journal: int
    number: int
    start: int
    stop: int
    size: int
    item: int

    def run(self, files: Files) -> tuple[int, bytes]:
        """Return the position of the bytes, and the bytes. Blocks; raises OSError."""
        start = self.start if self.start >= 0 else self.seek(files)
        return start, read_around(files, self.path, start, min(self.size, self.stop - start))

    def seek(self, files: Files) -> int:
        """Return the position of the first put not below `item`, or a little before it."""
        extent = Extent(self.path, self.journal, self.number, self.stop)
        return extent.seek_item(files, self.item)
