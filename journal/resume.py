"""From a recovery to the journal that goes on: set aside, write fresh, remove what is outdated.

    clean end      go on in the last segment
    any other      copy what is cut to set-aside/; what is kept from behind the last known sync
                   goes into a fresh segment, on disk with its name; then older copies may go

The page cache shows what the disk may not have (a sync that failed leaves its pages looking
clean), so those records are written once more, elsewhere.

One rule: a fresh segment gets its name only when all of it is on disk; so its batch may say of
itself that it is synced, and whoever finds the name finds everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from journal.checkpoint import Checkpoint
from journal.errors import Damage
from journal.files import SUFFIX_NEW, Files
from journal.journal import Journal
from journal.record import Draft, Kind, encode
from journal.recovery import Recovery, last_segment_number, segment_path
from journal.rotation import BATCH_BYTES, OVERHEAD_BYTES, Segment, Sizes, whole_sectors
from journal.segment import FILE_HEADER_BYTES, SegmentHeader

SET_ASIDE_FOLDER: Final = "set-aside"


def recovered_journal(
    recovery: Recovery, sizes: Sizes, checkpoint: Callable[[], Checkpoint], time_ms: int
) -> Journal:
    """The journal that goes on where `recovery` ended. Blocks; its `records()` must be exhausted.

    After an unclean end the tail is on disk, in a fresh segment, when this returns.
    """
    files, folder = recovery.files, recovery.folder
    names = files.names(folder)
    if names:
        files.make_folder(folder)  # what a killed process has named is on disk from here on
    set_aside(files, folder, recovery.damages)
    journal = Journal(
        files, folder, recovery.identity or os.urandom(16), sizes, checkpoint,
        lsn_last=recovery.lsn_next - 1, segment_last=last_segment_number(files, folder),
    )  # fmt: skip
    journal.segments = [
        Segment(found.number, found.path, found.capacity, None, lsn_first=found.lsn_first)
        for found in recovery.segments
        if found.lsn_first
    ]
    outdated: list[str] = []
    if not recovery.clean:
        outdated = _go_on_in_fresh(journal, recovery, time_ms)
    elif journal.segments:
        active = journal.active = journal.segments[-1]
        active.handle = files.open(active.path)
        active.at = recovery.append_at
        active.tally = recovery.tally
    # Spares first, and the newest of the others first: a segment that is empty or unreadable would
    # look like a lost beginning if a crash left it alone with nothing before it.
    superseded = [found.path for found in recovery.superseded]
    for path in (*(found.path for found in recovery.spares), *reversed(superseded + outdated)):
        files.remove(path)
    for name in names:
        if name.endswith(SUFFIX_NEW):
            files.remove(os.path.join(folder, name))
    return journal


def _go_on_in_fresh(journal: Journal, recovery: Recovery, time_ms: int) -> list[str]:
    """Write the tail into a fresh segment; returns the segments that are superfluous by it."""
    journal.spare_number += 1
    opening = journal.checkpoint().draft(time_ms, journal.commit.lsn_appended)
    fresh = write_fresh(
        recovery, journal.spare_number, journal.identity, journal.short_identity,
        opening, journal.sizes.segment_min,
    )  # fmt: skip
    outdated = [s.path for s in journal.segments if s.lsn_first >= fresh.lsn_first]
    journal.segments = [s for s in journal.segments if s.lsn_first < fresh.lsn_first]
    journal.segments.append(fresh)
    journal.active = fresh
    return outdated


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
    segment.tally.see_all(tail)
    return segment
