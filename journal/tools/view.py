"""A read-only cursor over a journal: no locks, no server, nothing is changed.

It reads a stopped journal, a backup, an archive, and one that a daemon is writing at this moment:

    a batch half written          the end of the log for now, not damage
    a segment removed meanwhile   its items were all done, or a compacted one has the others:
                                  the rest is read from a fresh listing
    a segment being filled        read twice, so that no record is after a hole (`_read_live`)

A live reader sees the *written* records. Those up to `lsn_synced`, the last statement in the log,
are known to be on disk; a quiet daemon has synced more than it has said.

One rule: `recovery` judges what is damage; this file only keeps a writing daemon from looking like
damage.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, cast

from journal.errors import Damage, JournalError
from journal.files import Files
from journal.format import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    Checkpoint,
    Record,
    SegmentHeader,
    decode,
    parse_folder_name,
)
from journal.read import Cursor
from journal.recovery import Recovery
from journal.snapshot import Snapshot

# A reader that a daemon overtakes this often gives up, and says so.
RESTARTS_MAX: Final = 100
# Bodies may hold a frame's identity; this many are looked at.
_CANDIDATES_MAX: Final = 1000
_IDENTITY_AT: Final = 8  # where a frame carries its journal and segment


class JournalView:
    """One journal as it can be read now. Exhaust `records()` first; the rest is known then.

    `damages` are the losses, `torn` the rest of a crash (or of a batch being written) after the
    last sync; `checkpoint` is the newest opening state, `lsn_next` the number of the next record.
    Below the lsn of `snapshot` reclaimed records are not there to be read: the queue's state is
    that of the snapshot and the records after its lsn (None: all records). `beginnings` counts how
    often the reading began anew, because a daemon wrote a snapshot, or removed the front of the
    log, and then removed segments that were not read yet.
    """

    __slots__ = (
        "_files", "_live", "beginnings", "checkpoint", "count", "damages", "folder", "identity",
        "lsn_next", "lsn_synced", "records_behind_sync", "segment_count", "snapshot", "torn",
    )  # fmt: skip

    def __init__(self, files: Files, folder: str, live: bool) -> None:
        self._files = live_files(files) if live else files
        self._live = live
        self.folder = folder
        self.checkpoint: Checkpoint | None = None
        self.snapshot: Snapshot | None = None
        self.damages: list[Damage] = []
        self.torn: list[Damage] = []
        self.identity = b""
        self.count = 0
        self.beginnings = 0
        self.segment_count = 0
        self.lsn_next = 1
        self.lsn_synced = 0
        self.records_behind_sync = 0

    @property
    def clean(self) -> bool:
        """True if nothing is damaged, and (of a stopped journal) it ended with everything synced.
        """
        ended = self._live or not (self.torn or self.records_behind_sync)
        return ended and not self.damages

    @property
    def name(self) -> bytes:
        """The queue's name, from its records, else from its folder."""
        if self.checkpoint is not None and self.checkpoint.name:
            return self.checkpoint.name
        return parse_folder_name(os.path.basename(os.path.abspath(self.folder)))[0]

    @property
    def generation(self) -> int:
        """The generation of that name, from its records, else from its folder; 0: not known."""
        if self.checkpoint is not None and self.checkpoint.generation:
            return self.checkpoint.generation
        return parse_folder_name(os.path.basename(os.path.abspath(self.folder)))[1]

    def records(self) -> Iterator[Record]:
        """Yield every retained record, in order of lsn, each once.

        Raises JournalError for a file that cannot be read (NewerFormat: not by this version).
        """
        for _ in range(RESTARTS_MAX):
            recovery = Recovery(self._files, self.folder, whole=True)
            try:
                yield from self._new_of(recovery)
            except FileNotFoundError as error:
                if not self._live:
                    raise JournalError(
                        f"{error.filename}: removed while it was read"
                    ) from error
                continue
            except OSError as error:
                where = error.filename or self.folder
                raise JournalError(f"{where}: {error.strerror or error}") from error
            self._finish(recovery)
            return
        raise JournalError(
            f"{self.folder}: its segments were removed {RESTARTS_MAX} times while they were read"
        )

    def _new_of(self, recovery: Recovery) -> Iterator[Record]:
        """Yield the records of this reading that none before it has met."""
        is_begun = False
        for record in recovery.records():
            if not is_begun:
                is_begun = True
                self._begin(recovery.snapshot, record.lsn)
            if record.lsn < self.lsn_next:
                continue  # already read: a segment was removed during the reading
            self.lsn_next = record.lsn + 1
            self.count += 1
            yield record
        if not is_begun:
            self._begin(recovery.snapshot, recovery.lsn_next)

    def _begin(self, snapshot: Snapshot | None, lsn_first: int) -> None:
        """Begin a reading with this record. Records between the last one that was read and its
        state may be gone: then all begins anew at that state."""
        since = snapshot.lsn + 1 if snapshot is not None else lsn_first
        if not self.beginnings or since >= self.lsn_next:
            self.snapshot = snapshot
            self.beginnings += 1

    def _finish(self, recovery: Recovery) -> None:
        self.identity = recovery.identity
        self.segment_count = len(recovery.segments)
        self.damages = [d for d in recovery.damages if d.kind != "torn"]
        self.torn = [d for d in recovery.damages if d.kind == "torn"]
        self.lsn_synced = recovery.lsn_synced
        self.lsn_next = max(self.lsn_next, recovery.lsn_next)
        self.records_behind_sync = len(recovery.tail)
        if recovery.checkpoint is not None:
            self.checkpoint = Checkpoint.from_record(recovery.checkpoint)


def read_journal(files: Files, folder: str, live: bool = False) -> JournalView:
    """Return the journal in `folder`; `live`: a daemon may be writing it at the same time."""
    return JournalView(files, folder, live)


def live_files(files: Files) -> Files:
    """Return the reading verbs of `files` for folders that a daemon may be writing to; no others.
    """
    return cast(Files, _LiveFiles(files))


class _LiveFiles:
    """The reading verbs of `Files`, where another process may be writing."""

    __slots__ = ("_files",)

    def __init__(self, files: Files) -> None:
        self._files = files

    def names(self, folder: str) -> list[str]:
        return self._files.names(folder)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def mode(self, path: str) -> int:
        return self._files.mode(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if offset or size >= 0:
            return self._files.read(path, offset, size)
        return _read_live(self._files, path)


def _read_live(files: Files, path: str) -> bytes:
    """Return a segment's bytes. Of one being written: those before which nothing is missing, then
    zeros.

    A read runs from front to back while the daemon writes: it may pass a position just before a
    batch is written there and find a later batch further on. So the file is read again: bytes
    before the last frame of the first reading were written before the second began.
    """
    start = max(files.size(path) - FOOTER_SPACE_BYTES, 0)
    footer = files.read(path, start, FOOTER_SPACE_BYTES)
    seen = files.read(path)
    header = SegmentHeader.decode(seen[:FILE_HEADER_BYTES], path)
    if header is None:
        return seen
    needle = struct.pack("<II", header.journal, header.segment)
    if needle in footer:
        return seen  # sealed before it was read: nothing is written to it any more
    again = files.read(path)
    if again == seen:
        return seen  # it is not being written: its end, torn or not, is final
    end = _end_of_frames(seen, again, header, needle)
    return again[:end] + bytes(len(again) - end)


def _end_of_frames(seen: bytes, again: bytes, header: SegmentHeader, needle: bytes) -> int:
    """Return the end of the unbroken frames that begin with the last one in both readings."""
    end = FILE_HEADER_BYTES
    found = len(seen)
    for _ in range(_CANDIDATES_MAX):
        found = seen.rfind(needle, 0, found)
        if found < FILE_HEADER_BYTES + _IDENTITY_AT:
            break
        record = decode(again, found - _IDENTITY_AT, header.journal, header.segment)
        if record is not None:
            end = record.end
            break
        found += len(needle) - 1
    cursor = Cursor.over(again, header.journal, header.segment, end)
    while cursor.take() is not None:
        pass
    return cursor.at
