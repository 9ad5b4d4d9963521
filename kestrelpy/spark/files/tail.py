"""A bulk survey of a segment that may hold the end of the log: its records, and where they end.

    | frame after frame, as it should be ...  | the rest
      `Survey`: numbers, ranges, "synced up to"   `journal.read.scan`: records and gaps, one by one

One rule: from the first byte that continues no frame on, `journal.read.scan` reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from journal.format import FILE_HEADER_BYTES, UNNUMBERED, Kind, Tally
from journal.read import Scan, scan
from kestrelpy.spark.files.decode import CHUNK_BYTES, right_frames, whole_frames
from kestrelpy.spark.files.frame_headers import FrameHeaders
from kestrelpy.spark.files.readers import ReaderName, reader_names_in

_UNNUMBERED: Final = tuple(sorted(UNNUMBERED))


@dataclass(slots=True)
class Survey:
    """The front of a segment: records `lsn_first` to `lsn_last` (0: none), up to byte `end`.

    `lsn_next` is the lsn that the next frame should have. `rest` is the scan of the bytes after
    `end`.
    """

    rest: Scan
    end: int = FILE_HEADER_BYTES
    lsn_first: int = 0
    lsn_last: int = 0
    lsn_next: int = 0
    last_end: int = 0  # where the last record ends
    count: int = 0
    batches: int = 0
    lsn_synced: int = 0
    tally: Tally = field(default_factory=Tally)
    reader_names: list[ReaderName] = field(default_factory=list)

    def see(self, headers: FrameHeaders) -> None:
        """Take in the next frames, all of them right."""
        self.lsn_first = self.lsn_first or int(headers.lsn[0])
        batches = headers.kind == Kind.BATCH
        if batches.any():
            self.batches += int(batches.sum())
            self.lsn_synced = max(self.lsn_synced, int(headers.number[batches].max()))
        numbered = ~np.isin(headers.kind, _UNNUMBERED)
        self.lsn_next = int(headers.lsn[-1]) + int(numbered[-1])
        self.end = int(headers.offsets[-1] + (headers.lengths[-1] + 7 & ~7))
        if not numbered.any():
            return
        records = headers.pick(numbered)
        self.count += len(records)
        self.lsn_last = int(records.lsn[-1])
        self.last_end = int(records.offsets[-1] + (records.lengths[-1] + 7 & ~7))
        self.tally.see_time(int(records.time_ms.min()))
        self.tally.see_time(int(records.time_ms.max()))
        self.reader_names += reader_names_in(records)
        puts = records.item[records.kind == Kind.PUT]
        if len(puts):
            self.tally.see_items(int(puts[0]), int(puts[-1]))


def survey(data: bytes, path: str, journal: int, segment: int, made: int) -> Survey:
    """Survey a segment's bytes; `made` is the file's full size. Not for compacted segments."""
    found = Survey(Scan(path, segment))
    at, size = FILE_HEADER_BYTES, CHUNK_BYTES
    while at < len(data):
        part = data[at : at + size]
        offsets, _ = whole_frames(part)
        if offsets:
            headers = FrameHeaders(part, at, np.array(offsets, np.int64))
            right = right_frames(headers, journal, segment, found.lsn_next, False)
            good = len(right) if right.all() else int(right.argmin())
            if good:
                found.see(headers.pick(slice(0, good)))
                at, size = found.end, CHUNK_BYTES
            if good < len(right):
                break
            continue
        if size >= len(data):
            break
        size = len(data)  # a record larger than a chunk, or the end
        if not any(part[:64]):
            break
    rest = found.rest = scan(data, path, journal, segment, at, found.lsn_next, made)
    rest.lsn_first = found.lsn_first or rest.lsn_first
    rest.batches += found.batches
    rest.lsn_synced = max(rest.lsn_synced, found.lsn_synced)
    return found
