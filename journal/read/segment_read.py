"""Some bytes of one segment, to be read on a thread.

One rule: an order is a value; it knows where to read, and nothing of the journal it came from.
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
        """Where they begin, and the bytes. Blocks; raises OSError."""
        start = self.start if self.start >= 0 else self.seek(files)
        return start, read_around(files, self.path, start, min(self.size, self.stop - start))

    def seek(self, files: Files) -> int:
        """Where the first put not below `item` is, or a little before."""
        extent = Extent(self.path, self.journal, self.number, self.stop)
        return extent.seek_item(files, self.item)
