"""After an unclean end: what is cut is set aside, what is kept goes into a fresh segment.

The page cache shows what the disk may not have (a sync that failed leaves its pages looking
clean), so records from behind the last known sync are written once more, elsewhere.

One rule: a fresh segment gets its name only when all of it is on disk; so its batch may say of
itself that it is synced, and whoever finds the name finds everything.
"""

from __future__ import annotations

import os
from typing import Final

from journal.errors import Damage
from journal.files import Files
from journal.record import Draft, Kind, encode
from journal.recovery import Recovery, segment_path
from journal.rotation import BATCH_BYTES, OVERHEAD_BYTES, Segment, whole_sectors
from journal.segment import FILE_HEADER_BYTES, SegmentHeader

SET_ASIDE_FOLDER: Final = "set-aside"


def set_aside(files: Files, folder: str, damages: list[Damage]) -> list[str]:
    """Keep a copy of every damaged stretch in `set-aside/`, once; return the new copies' paths.

    Not of a foreign file: it is left where it is.
    """
    copies: list[str] = []
    aside = os.path.join(folder, SET_ASIDE_FOLDER)
    there = files.names(aside)
    for damage in damages:
        name = f"{os.path.basename(damage.path)}.{damage.offset}-{damage.end}.{damage.kind}"
        if damage.kind == "foreign" or damage.end <= damage.offset or name in there:
            continue
        data = files.read(damage.path, damage.offset, damage.end - damage.offset)
        if not data:  # a truncated file ends here
            continue
        files.make_folder(aside)
        copy = os.path.join(aside, name)
        files.create(copy, data, len(data)).close()
        copies.append(copy)
    return copies


def write_fresh(
    recovery: Recovery, number: int, identity: bytes, short_identity: int,
    opening: Draft, least_bytes: int,
) -> Segment:  # fmt: skip
    """What is kept from behind the last known sync, in segment `number`, on disk on return."""
    tail, time_ms = recovery.tail, opening.time_ms
    size = sum(r.end - r.offset for r in tail)
    capacity = whole_sectors(max(size + OVERHEAD_BYTES, least_bytes))
    header = SegmentHeader(short_identity, identity, number, capacity, time_ms)
    first = tail[0].lsn if tail else recovery.lsn_next
    batch = Draft(
        Kind.BATCH, BATCH_BYTES + size, recovery.lsn_next - 1, len(tail), time_ms, b"", b"", 0, 0
    )
    pieces = [header.encode()]
    at = FILE_HEADER_BYTES
    for draft in (opening, batch):
        at += encode(draft, first, short_identity, number, at, pieces)
    for record in tail:
        at += encode((*record[:8], 0), record.lsn, short_identity, number, at, pieces)
    path = segment_path(recovery.folder, number)
    handle = recovery.files.create(path, b"".join(pieces), capacity)
    segment = Segment(number, path, capacity, handle, lsn_first=first, at=at)
    for record in tail:
        segment.tally.see(record)
    return segment
