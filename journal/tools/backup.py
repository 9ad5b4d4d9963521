"""One journal copied as a `kill -9` at one moment would leave it, also while a daemon writes it.

Why the copy is of such a moment, call it T:

    1  The folder is listed. A sealed segment (one with a footer), every snapshot and every chunk of
       remembered ids is never written again: a hard link, or a copy, is whole whenever it is
       made. A file that is gone meanwhile means: list again.
    2  Then the segments that are still open, the *newest first*. Of the newest with a record in it
       the copy ends after the last whole batch: that is T. Each older one is read after T. It is
       sealed by then, because the daemon writes to the next segment only when the last one is
       closed; so no record written before T is missing.
    3  A snapshot is named only when all its records are durable, and it was listed before T: they
       are in the copy. A segment is removed only when its items are done and the records of that
       are durable, or when a compacted segment that stands for it is: a removed segment that is
       still in the copy is what a kill just before the removal leaves.
    4  Later files (segments, snapshots) are not in the listing, or they are cut.

Listing a folder is not one moment for the file system. So the copy is checked as `verify` checks
it, and if something is missing that the source has, it is made again.

One rule: the source is only read, and a file that may still be written to is never linked.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from journal.errors import Damage, JournalError
from journal.files import Files, Handle
from journal.format import COMPACTED, FILE_HEADER_BYTES, HEADER_BYTES, Kind, segment_number
from journal.read import Frames, Hole
from journal.sets import IdSet
from journal.snapshot import is_ours
from journal.tools.verify import check_journal

# After this many attempts the daemon removes or closes files too fast to be copied.
RESTARTS_MAX: Final = 100
_DAMAGED_MAX: Final = 5  # copies made again before the source counts as damaged
_PIECE_BYTES: Final = 1 << 20  # written and synced at once, so that no other write waits for long
_ZEROS: Final = bytes(_PIECE_BYTES)
_NO_LINKS: Final = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}
)


@dataclass(slots=True)
class Copied:
    """The content of one copied journal. `items` can be read, the `unreadable` ones cannot."""

    name: bytes
    generation: int
    items: int
    bytes: int
    lsn: int
    damages: list[Damage]
    unreadable: IdSet


def copy_journal(
    files: Files, source: str, target: str, progress: Callable[[int], None] = lambda more: None
) -> Copied | None:
    """Copy the journal, on disk on return; None: the queue was deleted. Blocks.

    Raises JournalError for a file that cannot be read, OSError for one that cannot be written.
    """
    copy = JournalCopy(files, source, target, progress)
    while copy.make():
        copied = copy.checked()
        if copied is not None:
            return copied
    return None


class JournalCopy:
    """One copy, which may be made again, or extended, as of a later moment."""

    def __init__(
        self, files: Files, source: str, target: str, progress: Callable[[int], None]
    ) -> None:
        self._files = files
        self._source = source
        self._target = target
        self._progress = progress
        self._copied: set[str] = set()  # sealed files and snapshots that are in the target
        # Segments in the target that the source still wrote to: up to where they will stay the same
        # as in the source, and up to where they are written.
        self._open: dict[str, tuple[int, int]] = {}
        self._is_passed = False  # a newer segment was copied: the log is past the older ones
        self._found: Copied | None = None  # by the last check; None: it has changed since
        self._checks = 0
        self._damages: list[Damage] = []

    def make(self) -> bool:
        """Copy the files of the source as of now; False: it was deleted, and so is the copy."""
        for _ in range(RESTARTS_MAX):
            try:
                whole = self._attempt()
            except FileNotFoundError:
                whole = False
            if not any(segment_number(name) for name in self._files.names(self._source)):
                self._files.remove_folder(self._target)
                return False
            if whole:
                return True
        raise JournalError(
            f"{self._source}: its files were removed {RESTARTS_MAX} times during the copy"
        )

    def checked(self) -> Copied | None:
        """Return the content; None: it is damaged, and should be made again: the next copy may be
        whole."""
        if self._found is not None:
            return self._found
        report = check_journal(self._files, self._target)
        self._checks += 1
        before, self._damages = self._damages, report.damages
        if report.damages and report.damages != before and self._checks < _DAMAGED_MAX:
            return None
        self._found = Copied(
            report.name, report.generation, len(report.live_set.items), report.bytes,
            report.lsn_next - 1, report.damages, report.unreadable,
        )  # fmt: skip
        return self._found

    def extend(self, segment: str) -> bool:
        """Add the records written since to the log, which ended in this segment; False: the segment
        is not there any more, and the copy has to be made again.

        All files that the copy has stay. The copy of a deleted queue stays as it is.
        """
        names = [name for name in self._files.names(self._source) if segment_number(name)]
        if not names:
            return True
        if segment not in self._copied and segment not in names:
            return False
        for name in names:
            if name < segment or name in self._copied:
                continue
            with suppress(FileNotFoundError):  # removed meanwhile: the next attempt sees that
                self._extend_by(name)
        return True

    def end_at(self, segment: str, end: int) -> None:
        """Let the log end in this segment at byte `end`."""
        for name in [*self._open]:
            if name > segment:
                self._drop(name)
        written = self._open.get(segment, (0, 0))[1]
        if end >= written:
            return
        handle = self._files.open(os.path.join(self._target, segment))
        try:
            for at in range(end, written, _PIECE_BYTES):
                handle.write(at, _ZEROS[: written - at])
            handle.sync()
        finally:
            handle.close()
        self._open[segment] = (end, end)
        self._found = None

    def _attempt(self) -> bool:
        """Copy the files that are there; False, or FileNotFoundError: a file changed meanwhile."""
        files, target = self._files, self._target
        names = [name for name in files.names(self._source) if is_ours(name)]
        if not self._copied and not self._open:
            files.make_folder(target)
        for name in files.names(target):
            if name not in names or not (name in self._copied or name in self._open):
                self._drop(name)
        still_open = []
        for name in names:
            path = os.path.join(self._source, name)
            if name in self._copied:
                continue
            if segment_number(name) is not None and not _is_closed(files, path):
                still_open.append(name)
            else:
                self._link_or_copy(name)
        self._is_passed = False
        whole = all(self._copy_open(name) for name in reversed(still_open))
        if self._found is None:
            files.make_folder(target)
        return whole

    def _drop(self, name: str) -> None:
        self._files.remove(os.path.join(self._target, name))
        self._copied.discard(name)
        self._open.pop(name, None)
        self._found = None

    def _link_or_copy(self, name: str) -> None:
        """Link a file that is not written any more, or copy it."""
        old, new = os.path.join(self._source, name), os.path.join(self._target, name)
        if name in self._open:
            self._drop(name)
        self._found = None
        size = self._files.size(old)
        try:
            self._files.link(old, new)
            handle = self._files.open(new)
            try:
                handle.sync()  # closed, but the daemon may not have synced it yet
            finally:
                handle.close()
            self._progress(size)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._copy(old, new, size, size)
        self._copied.add(name)

    def _copy_open(self, name: str) -> bool:
        """Copy a segment that may be written to, up to its last whole batch. A preallocated one is
        left out.
        """
        old, new = os.path.join(self._source, name), os.path.join(self._target, name)
        if _is_closed(self._files, old):  # since we looked
            self._link_or_copy(name)
            return True
        frames = Frames(self._files, old)
        end, last = _end_of_batches(frames)
        header = frames.header
        is_damaged = (
            header is None
            or header.segment != segment_number(name)
            or header.capacity > frames.size
        )
        if is_damaged or (header is not None and header.role == COMPACTED) or self._is_passed:
            end, last = frames.size, b""  # damaged, or a crash kept it from being sealed: as it is
        if not end and not is_damaged:
            return True
        self._is_passed = self._is_passed or not is_damaged
        self._bring_to(name, end, frames.size)
        self._open[name] = (end - len(last), end)
        # An empty batch at the end is written over by the next one.
        return self._files.read(new, end - len(last), len(last)) == last

    def _extend_by(self, name: str) -> None:
        """Copy the records of a segment that the copy does not have yet."""
        frames = Frames(self._files, os.path.join(self._source, name))
        if frames.header is not None and frames.header.role == COMPACTED:
            return
        end, last = (
            (frames.size, b"") if frames.footer is not None else _end_of_batches(frames)
        )
        if end:
            self._bring_to(name, end, frames.size)
            self._open[name] = (end - len(last), end)

    def _bring_to(self, name: str, end: int, size: int) -> None:
        """Copy the bytes of an open segment up to `end` that the copy does not have."""
        old, new = os.path.join(self._source, name), os.path.join(self._target, name)
        if name not in self._open:
            self._found = None
            self._copy(old, new, end, size)
            return
        at = self._open[name][0]
        if not self._is_same(old, new, at, end):
            self._found = None
            handle = self._files.open(new)
            try:
                self._write_rest(handle, old, at, end, end)
            finally:
                handle.close()

    def _is_same(self, old: str, new: str, at: int, end: int) -> bool:
        """True if the copy has these bytes: none, or those of the same empty batch."""
        if at >= end:
            return True
        size = end - at
        return size <= HEADER_BYTES and (
            self._files.read(old, at, size) == self._files.read(new, at, size)
        )

    def _copy(self, old: str, new: str, end: int, size: int) -> None:
        files = self._files
        first = files.read(old, 0, min(end, _PIECE_BYTES))
        handle = files.create(new, first, len(first))
        self._progress(len(first))
        try:
            self._write_rest(handle, old, len(first), end, size)
        finally:
            handle.close()

    def _write_rest(self, handle: Handle, old: str, at: int, end: int, size: int) -> None:
        while at < size:
            if at < end:
                piece = self._files.read(old, at, min(end - at, _PIECE_BYTES))
                if not piece:
                    raise JournalError(f"{old}: it became shorter while it was copied")
            else:
                piece = _ZEROS[: size - at]
            handle.write(at, piece)
            handle.sync()
            at += len(piece)
            self._progress(len(piece))


def _is_closed(files: Files, path: str) -> bool:
    return Frames(files, path).footer is not None


def _end_of_batches(frames: Frames) -> tuple[int, bytes]:
    """Return the end of the last whole batch, and its bytes if it is empty; 0: there is no record.
    """
    end = batch_end = 0
    empty, damaged = b"", False
    for found in frames.walk(FILE_HEADER_BYTES):
        if isinstance(found, Hole):
            damaged = True
            continue
        if found.kind == Kind.CHECKPOINT:
            end = found.end
        elif found.kind == Kind.BATCH:
            batch_end, damaged = found.offset + found.item, False
            empty = b"" if found.small else frames.front_of(found)
        if found.end == batch_end or damaged:
            end = found.end
    return end, empty
