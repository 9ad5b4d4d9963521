"""From a recovery to the journal that goes on: set aside, write fresh, remove outdated files.

    clean end      go on in the last segment, unless bytes of an earlier life follow its end
    any other      copy the bytes to be cut to set-aside/; the records kept from after the last
                   known sync go into a fresh segment, on disk with its name; then older copies go

The page cache shows bytes that the disk may not have (a sync that failed leaves its pages looking
clean), so those records are written once more, elsewhere.

One rule: a fresh segment gets its name only when all of it is on disk; so its batch may say of
itself that it is synced, and a start that finds the name finds everything.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from journal.errors import ITEM_MAX, Damage
from journal.files import MEDIUM_ERRORS, SUFFIX_NEW, Files, Handle
from journal.format import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    HEADER_BYTES,
    SUFFIX_RECYCLED,
    Checkpoint,
    Draft,
    Kind,
    SegmentHeader,
    Tally,
    encode,
    segment_path,
)
from journal.recovery.recovery import Recovery
from journal.recovery.segment_order import SegmentFile, last_segment_number
from journal.store import LogStore
from journal.write import BATCH_BYTES, OVERHEAD_BYTES, Journal, Segment, Sizes, whole_sectors

SET_ASIDE_FOLDER: Final = "set-aside"
COPY_BYTES: Final = 1 << 20  # read and written at once when something is copied
_SUFFIX_PART: Final = ".part"  # a copy that is not complete


def recovered_journal(
    recovery: Recovery, sizes: Sizes, checkpoint: Callable[[], Checkpoint], time_ms: int
) -> LogStore:
    """Return the journal that goes on where `recovery` ended. Blocks; exhaust its `records()`
    first.

    After an unclean end the tail is on disk, in a fresh segment, when this returns.
    """
    files, folder = recovery.files, recovery.folder
    names = recovery.names
    if names and not (recovery.clean and len(names) == len(recovery.segments)):
        files.make_folder(folder)  # syncs the names that a killed process may have given
    # Files that the disk did not give stay: it may give them later.
    needed = set_aside(files, folder, recovery.damages) | recovery.unread()
    journal = Journal(
        files, folder, recovery.identity or os.urandom(16), sizes, checkpoint,
        lsn_last=recovery.lsn_next - 1, segment_last=last_segment_number(names),
    )  # fmt: skip
    store = LogStore(journal)
    store.maintenance.snapshots = sorted(recovery.snapshot_lsns)
    if recovery.snapshot is not None:
        store.maintenance.goes_on = recovery.snapshot.segment, recovery.snapshot.offset
    store.maintenance.note_covered()
    spans = _spans(recovery)
    journal.segments = [
        Segment(
            found.number, found.path, _capacity(found), None, lsn_first=found.lsn_first,
            item_first=spans[found.number][0], item_last=spans[found.number][1], puts=found.puts,
            lsn_last=found.lsn_last, rank=found.rank, damaged=bool(found.unreadable),
            time_last=found.time_last, unread=bool(found.unreadable), is_open=found.is_open,
        )
        for found in recovery.segments
        if found.lsn_first
    ]
    journal.segment_list.replaced = [found.path for found in recovery.replaced]
    outdated: list[str] = []
    at = recovery.append_at
    if not recovery.clean:
        try:
            outdated = _go_on_in_fresh(recovery, journal, time_ms)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # It may have its name already, and would supersede all that is written from now on.
            files.remove(segment_path(folder, journal.preallocation.number))
            outdated, at = _go_on_without_room(recovery, journal, time_ms)
    if journal.active is None and journal.segments:
        active = journal.active = journal.segments[-1]
        active.at = at
        active.lsn_last, active.is_open = 0, False
        active.recycled = recovery.append_dirty
        active.tally = recovery.tally
    journal.preallocation.recycled, unused = _reserve_room(recovery, sizes)
    for path in _outdated_files(recovery, unused, outdated):
        if path not in needed:
            files.remove(path)
    return store


def _outdated_files(recovery: Recovery, unused: list[str], outdated: list[str]) -> list[str]:
    """Return the files that the journal does not go on with, in the order in which they may go.

    Prepared ones first, and the newest of the others first: a segment that is empty or unreadable
    would look like a lost beginning if a crash left it alone with nothing before it.
    """
    superseded = [found.path for found in recovery.superseded]
    new = [
        os.path.join(recovery.folder, name)
        for name in recovery.names if name.endswith(SUFFIX_NEW)
    ]  # fmt: skip
    return [*unused, *reversed(superseded + outdated), *recovery.obsolete, *new]


def _spans(recovery: Recovery) -> dict[int, tuple[int, int]]:
    """Return the first and last item of each segment, including those that its damaged bytes may
    have held: the segment stays until these are given up."""
    spans, before = dict[int, tuple[int, int]](), 0
    firsts = [found.item_first for found in recovery.segments]
    for at, found in enumerate(recovery.segments):
        first, last = found.item_first, found.item_last
        behind = next(filter(None, firsts[at + 1 :]), ITEM_MAX)
        for damage in recovery.damages:
            ids = max(damage.id_first, before + 1), min(damage.id_last, behind - 1)
            is_its = damage.path == found.path and damage.kind in ("corrupt", "truncated")
            if is_its and ids[0] <= ids[1] and damage.id_last < ITEM_MAX:
                first, last = min(first or ids[0], ids[0]), max(last, ids[1])
        spans[found.number] = first, last
        before = max(before, last)
    return spans


def _capacity(found: SegmentFile) -> int:
    """Return the capacity by which a reader finds the end of a file: a shorter one ends where its
    bytes do, or where it was made to end, whichever is first."""
    return found.capacity + min(found.bytes_missing, FOOTER_SPACE_BYTES)


def _reserve_room(recovery: Recovery, sizes: Sizes) -> tuple[list[tuple[str, int]], list[str]]:
    """Keep the files of prepared segments, to be used again: on a full disk they are the room for
    the confirms. Return them with their sizes, and the files of a size that is not wanted."""
    files, paths = recovery.files, list[str]()
    for found in recovery.preallocated:
        files.rename(found.path, found.path + SUFFIX_RECYCLED)
        paths.append(found.path + SUFFIX_RECYCLED)
    paths += [
        os.path.join(recovery.folder, n) for n in recovery.names if n.endswith(SUFFIX_RECYCLED)
    ]
    kept: list[tuple[str, int]] = []
    unused: list[str] = []
    for path in paths:
        size = files.size(path)
        if sizes.recycled_min <= size <= sizes.segment_max:
            kept.append((path, size))
        else:
            unused.append(path)
    return kept, unused


def _go_on_without_room(
    recovery: Recovery, journal: Journal, time_ms: int
) -> tuple[list[str], int]:
    """Write the tail on a full disk; return superfluous segments, and where the log goes on.

    The prepared segments, and the rest of the last one, are the room for the confirms: the tail
    takes none of it. Where its own place fails, or the last segment cannot go on, it takes a
    prepared one.
    """
    try:
        if _can_go_on(recovery):
            return [], _write_tail_again(recovery)
    except OSError:
        if not recovery.preallocated:
            raise
    journal.preallocation.number -= 1
    return _go_on_in_fresh(recovery, journal, time_ms, True), recovery.append_at


def _go_on_in_fresh(
    recovery: Recovery, journal: Journal, time_ms: int, takes_prepared: bool = False
) -> list[str]:
    """Write the tail into a fresh segment; return the segments that it makes superfluous."""
    journal.preallocation.number += 1
    opening = journal.checkpoint().draft(time_ms, journal.commit.lsn_appended)
    fresh = write_fresh(
        recovery, journal.preallocation.number, journal.identity, journal.short_identity,
        opening, journal.sizes.segment_min, takes_prepared,
    )  # fmt: skip
    outdated = [s.path for s in journal.segments if s.lsn_first >= fresh.lsn_first]
    journal.segments = [s for s in journal.segments if s.lsn_first < fresh.lsn_first]
    synced = {found.number: found.synced for found in recovery.segments}
    for segment in journal.segments:
        _give_up_tail(segment, synced[segment.number], fresh.lsn_first)
    if journal.segments:
        journal.segments[-1].is_open = True
    journal.segments.append(fresh)
    journal.active = fresh
    return outdated


def _give_up_tail(segment: Segment, synced: Tally | None, lsn_fresh: int) -> None:
    """Take the records that a fresh segment repeats from this segment's counts.

    A power cut may still lose them here. `synced` counts the others (None: all of it).
    """
    segment.lsn_last = min(segment.lsn_last, lsn_fresh - 1)
    if synced is not None:
        segment.item_first, segment.item_last = synced.item_first, synced.item_last
        segment.puts = synced.counts[Kind.PUT]


def set_aside(files: Files, folder: str, damages: list[Damage]) -> set[str]:
    """Keep a copy of every damaged stretch in `set-aside/`, once. Return the files with
    acknowledged bytes that have no copy, because the disk is full.

    A foreign file is left where it is, without a copy.
    """
    only_here = set[str]()
    if not damages:
        return only_here
    aside = os.path.join(folder, SET_ASIDE_FOLDER)
    there = files.names(aside)
    for damage in damages:
        name = f"{os.path.basename(damage.path)}.{damage.offset}-{damage.end}.{damage.kind}"
        if damage.kind == "foreign" or damage.end <= damage.offset or name in there:
            continue
        copy = os.path.join(aside, name)
        try:
            _copy(files, damage, copy)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            if damage.kind != "torn":
                only_here.add(damage.path)  # the bytes stay where they are; they were named
    return only_here


def _copy(files: Files, damage: Damage, copy: str) -> None:
    """Copy the damaged bytes, piece by piece, up to the first that cannot be read."""
    data = _piece(files, damage, damage.offset)
    if not data:
        return
    files.make_folder(os.path.dirname(copy))
    if len(data) == damage.end - damage.offset:
        files.create(copy, data, len(data)).close()
        return
    part = copy + _SUFFIX_PART
    handle = files.create(part, data, len(data))
    try:
        at = damage.offset + len(data)
        while data := _piece(files, damage, at):
            handle.write(at - damage.offset, data)
            at += len(data)
        handle.sync()
    finally:
        handle.close()
    files.rename(part, copy)


def _piece(files: Files, damage: Damage, at: int) -> bytes:
    """Return readable bytes of a damaged stretch from `at` on; empty: its end, or that of the file.
    """
    try:
        return files.read(damage.path, at, min(damage.end - at, COPY_BYTES))
    except OSError as error:
        if error.errno not in MEDIUM_ERRORS:
            raise
        return b""  # bytes that the disk does not give cannot be copied; the file stays


def write_fresh(
    recovery: Recovery, number: int, identity: bytes, short_identity: int,
    opening: Draft, least_bytes: int, takes_prepared: bool = False,
) -> Segment:  # fmt: skip
    """Write the records kept from after the last known sync to segment `number`; return it, on
    disk. With `takes_prepared` it may take the room of a prepared segment, if there is no other.
    """
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
    try:
        handle = recovery.files.create(path, b"".join(pieces), capacity)
    except OSError as error:
        prepared = max(recovery.preallocated, key=lambda s: s.capacity, default=None)
        is_full = error.errno == errno.ENOSPC and takes_prepared
        if not is_full or prepared is None or prepared.capacity < capacity:
            raise
        pieces[0] = replace(header, capacity=prepared.capacity).encode()
        pieces.append(bytes(HEADER_BYTES))  # no frame of an earlier life follows
        handle = _write_over(recovery.files, prepared.path, path, pieces)
        capacity = prepared.capacity
        recovery.preallocated.remove(prepared)
    segment = Segment(number, path, capacity, handle, lsn_first=first, at=at, recycled=True)
    segment.tally.see_all(tail)
    puts = [r.item for r in tail if r.kind == Kind.PUT]
    if puts:
        segment.item_first, segment.item_last, segment.puts = puts[0], puts[-1], len(puts)
    return segment


def _write_over(files: Files, prepared: str, path: str, chunks: list[bytes]) -> Handle:
    """Use the room of a prepared segment on a full disk. It has its new name when it is whole."""
    fresh = path + SUFFIX_NEW
    files.rename(prepared, fresh)
    handle = files.open(fresh)
    handle.write(0, b"".join(chunks))
    handle.sync()
    handle.close()
    files.rename(fresh, path)
    return files.open(path)


# -- an unclean end on a full disk ----------------------------------------------------------------
#
#   [ synced | tail | torn, or zeros ]   ->   [ synced | the same bytes again | zeros ]  and a sync
#
# The page cache is not the disk: bytes that a failed sync left behind look written and are not.
# Handing the same bytes to the system again makes its pages dirty again, so the next sync that
# succeeds has written them. A power cut in between leaves each sector as it is or as it will be,
# and both are the same. This is done only if no fresh segment can be made: a place that failed
# before may fail again.


def _can_go_on(recovery: Recovery) -> bool:
    """True if the last segment is whole, unsealed, and undamaged but for its torn end."""
    if not recovery.segments:
        return False
    last = recovery.segments[-1]
    torn = [d for d in recovery.damages if d.path == last.path and d.kind == "torn"]
    damaged = any(d.path == last.path and d.kind != "torn" for d in recovery.damages)
    ends_here = bool(torn) or any(r.segment == last.number for r in recovery.tail)
    is_whole = last.header is not None and last.lsn_first and not last.bytes_missing
    return bool(is_whole) and ends_here and not damaged and not recovery.is_sealed


def _write_tail_again(recovery: Recovery) -> int:
    """Return where the log goes on in its last segment, all before it on disk. Blocks; raises
    OSError.
    """
    files, last = recovery.files, recovery.segments[-1]
    end = _end_of_log(recovery)
    for segment in recovery.segments:
        records = [r for r in recovery.tail if r.segment == segment.number]
        if not records and segment is not last:
            continue
        handle = files.open(segment.path)
        try:
            stop = end if segment is last else records[-1].end
            for at in range(records[0].offset if records else end, stop, COPY_BYTES):
                handle.write(at, files.read(segment.path, at, min(COPY_BYTES, stop - at)))
            if segment is last:
                _clear(files, handle, end, segment.capacity)
            handle.sync()
        finally:
            handle.close()
    return end


def _end_of_log(recovery: Recovery) -> int:
    last = recovery.segments[-1]
    torn = [d.offset for d in recovery.damages if d.path == last.path]
    kept = [r.end for r in recovery.tail if r.segment == last.number]
    return min(torn) if torn else kept[-1]


def _clear(files: Files, handle: Handle, start: int, stop: int) -> None:
    """Write zeros over any bytes after the end of the log."""
    for at in range(start, stop, COPY_BYTES):
        data = files.read(handle.path, at, min(COPY_BYTES, stop - at))
        if data.strip(b"\0"):
            handle.write(at, bytes(len(data)))
