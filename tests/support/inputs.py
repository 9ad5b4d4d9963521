"""Segments to be rewritten: real journals on a memory disk, and the compaction of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise

from journal.compaction.compaction import CompactionJob
from journal.files import Files
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import UNNUMBERED, Kind
from journal.format.record import Draft, Record, decode, padded
from journal.format.segment import (
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    SegmentHeader,
    segment_path,
)
from journal.sets.id_set import IdSet
from journal.write.segment_file import Segment, Sizes
from tests.support.journals import FOLDER, IDENTITY, TIME_MS, Writer, fresh
from tests.support.memory_disk import MemoryDisk

SMALL = Sizes(segment_min=4096, segment_max=4096, batch_max=1 << 20)
JOURNAL = int.from_bytes(IDENTITY[:4], "little")
OPENING = Checkpoint(b"jobs", server=b"s1", generation=3).draft(TIME_MS, 0)


def ids(items: Iterable[int]) -> IdSet:
    found = IdSet()
    for item in sorted(items):
        found.add(item)
    return found


def written(disk: MemoryDisk, bodies: Iterable[bytes], sizes: Sizes = SMALL) -> Writer:
    """A journal with these puts, every third confirmed at once; several segments."""
    writer = fresh(disk, sizes)
    for n, body in enumerate(bodies, 1):
        writer.put(body)
        if n % 3 == 0:
            writer.done(n - 1)
        writer.commit()
    return writer


def sealed(writer: Writer, live: Iterable[int]) -> list[Segment]:
    """The writer's segments but the active one, as its journal would know them: these are alive."""
    alive = set(live)
    segments = writer.journal.segments
    for segment, following in pairwise(segments):
        segment.lsn_last = following.lsn_first - 1
        puts = [r for r in records(writer.journal.files, segment.path) if r.item in alive]
        puts = [r for r in puts if r.kind == Kind.PUT]
        segment.live, segment.live_bytes = len(puts), sum(64 + len(r.body) for r in puts)
    return segments[:-1]


def compaction_of(
    chosen: list[Segment], live: Iterable[int], number: int = 90, lsn_limit: int = 0,
    opening: Draft = OPENING,
) -> CompactionJob:  # fmt: skip
    """The job that rewrites these segments as segment `number`."""
    header = SegmentHeader(JOURNAL, IDENTITY, number, 0, TIME_MS, COMPACTED)
    path = segment_path(os.path.dirname(chosen[0].path), number)
    return CompactionJob.of(chosen, lsn_limit, ids(live), path, header, opening, pause=lambda: None)


def frames(files: Files, path: str) -> list[Record]:
    """Return every record before the footer, in order."""
    data = files.read(path)
    number = int(os.path.basename(path)[:10])
    found, at = [], FILE_HEADER_BYTES
    while at < len(data) - FOOTER_SPACE_BYTES:
        record = decode(data, at, JOURNAL, number)
        if record is None:
            break
        found.append(record)
        at = padded(record.end)
    return found


def records(files: Files, path: str) -> list[Record]:
    """The numbered ones among them."""
    return [record for record in frames(files, path) if record.kind not in UNNUMBERED]


def footer(files: Files, path: str) -> Record | None:
    data = files.read(path)
    return decode(data, len(data) - FOOTER_SPACE_BYTES, JOURNAL, int(os.path.basename(path)[:10]))


def segment_names(files: Files, folder: str = FOLDER) -> list[str]:
    """Return the names of segments."""
    return [name for name in files.names(folder) if name.endswith(".segment")]
