"""The local copy of an engine's files: sparse files in a folder, and which bytes they have.

    read 0..64 KiB ──▶ missing ──fetch──▶ 0..64 KiB here ──▶ the next read fetches nothing
    write          ──▶ here until the copy is evicted

The cache promises nothing: it is not synced, and each claim of the slice begins with an empty
folder of its own. (A thread of an earlier claim in this process may still write to the folder of
that claim.)
If the local disk refuses bytes of a file, only the engine has that file from then on.

One rule: a byte that this process has written is never replaced by one that was fetched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from typing import Final

from journal.engine.ranges import Ranges

# A small read fetches this much: the next read is likely to need bytes near by.
FETCH_BYTES: Final = 64 << 10
# The cache looks for files to evict each time that this part of it is new: a sixteenth.
_LOOKS: Final = 16
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_NOWHERE: Final = 1 << 62
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
Fetch = Callable[[int, int], bytes]  # an offset and a size


class CachedFile:
    """One file of the slice: its number, its length, and the bytes that are here."""

    __slots__ = (
        "fetching",
        "is_gone",
        "local",
        "lock",
        "number",
        "present",
        "size",
        "ticket",
        "used",
        "was_refused",
        "writers",
        "zeros_from",
    )  # fmt: skip

    def __init__(self, number: int, local: str, size: int, end: int) -> None:
        self.number = number
        self.local = local  # where its bytes are
        self.size = size
        self.present = Ranges()
        # From here on the engine has zeros: no need to fetch them. They are not in `present` yet.
        self.zeros_from = end if end < size else _NOWHERE
        self.lock = threading.Lock()
        self.fetching = threading.Lock()  # one thread at a time fetches
        self.ticket = 0  # of its last operation
        self.writers = 0  # open handles
        self.used = 0  # when it was read last, by the cache's count
        self.is_gone = False
        self.was_refused = False  # the local disk has refused some of its bytes


class Cache:
    """The local folder. `bytes_max` bounds the bytes that are here of files without a writer. It
    leaves out files that wait for a commit: `is_committed` says of a ticket whether it is done."""

    def __init__(self, folder: str, bytes_max: int, is_committed: Callable[[int], bool]) -> None:
        self.folder = folder
        self._bytes_max = bytes_max
        self._is_committed = is_committed
        self._files: dict[int, CachedFile] = {}
        self._uses = 0
        self._grown_bytes = 0  # since the last look for files to evict
        self._evicting = threading.Lock()
        self.here = ""  # the folder of this claim; "": it has not begun
        self.refusals = 0  # of the local disk
        self.refusal = ""  # the last one

    def begin(self) -> None:
        """Begin with an empty folder. Blocks; raises OSError."""
        os.makedirs(self.folder, _FOLDER_MODE, exist_ok=True)
        self.clear()
        self.here = tempfile.mkdtemp(prefix="of-", dir=self.folder)

    def clear(self) -> None:
        """Remove what earlier claims have left. Blocks; raises OSError."""
        for name in os.listdir(self.folder):
            shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)  # no lock file goes

    def add(self, number: int, size: int, end: int) -> CachedFile:
        """Add a file of the slice, zeros from `end` on; nothing else of it is here."""
        file = CachedFile(number, os.path.join(self.here, f"{number:016x}"), size, end)
        self._files[number] = file
        return file

    def make(self, number: int, data: bytes, size: int) -> CachedFile:
        """Add a file that is made now: all of it is here, or only in the engine."""
        size = max(size, len(data))
        file = self.add(number, size, size)
        try:
            _make(file, data)
        except OSError as error:
            self._refused(file, error)
            return file
        file.present.add(0, file.size)
        self._grown_bytes += file.size
        return file

    def add_fetched(self, number: int, offset: int, data: bytes) -> None:
        """Add bytes that were fetched with those of other files."""
        file = self._files.get(number)
        if file is None or file.was_refused:
            return
        try:
            self._fill(file, offset, data)
        except OSError as error:
            if not file.is_gone:
                self._refused(file, error)

    def open(self, file: CachedFile) -> int:
        """Return a descriptor to write to this file; -1: only the engine has it."""
        descriptor = -1
        if not file.was_refused:
            try:
                descriptor = os.open(file.local, _FLAGS, _FILE_MODE)
            except OSError as error:
                self._refused(file, error)
        with file.lock:
            file.writers += 1
        return descriptor

    def close(self, file: CachedFile, descriptor: int) -> None:
        """Close a descriptor from `open`."""
        if descriptor >= 0:
            os.close(descriptor)
        with file.lock:
            file.writers -= 1

    def write(self, file: CachedFile, descriptor: int, offset: int, data: bytes) -> None:
        """Write bytes here: they reach the page cache alone. They wait for a commit already: where
        the local disk refuses them, a read gets them from the engine."""
        end = offset + len(data)
        refused: OSError | None = None
        with file.lock:
            if not file.was_refused:
                try:
                    _write(descriptor, offset, data)
                except OSError as error:
                    refused = error
                    self._note_refused(file, error)
                else:
                    if offset > file.size:
                        file.present.add(file.size, offset)  # a hole: zeros here and in the engine
                    file.present.add(offset, end)
            file.size = max(file.size, end)
        if refused is not None:
            self._make_room(refused)

    def read(self, file: CachedFile, offset: int, size: int, fetch: Fetch) -> bytes:
        """Return up to `size` bytes, fetched where they are not here. Blocks; raises OSError."""
        self._uses += 1
        file.used = self._uses
        end = min(offset + size, file.size) if size >= 0 else file.size
        if offset >= end:
            return b""
        with file.lock:
            if not file.present.missing(offset, end) and not file.was_refused:
                data = self._read(file, offset, end)
                if data is not None:
                    return data
        if not file.was_refused:
            with file.fetching:
                data = self._fetch_and_store(file, offset, end, fetch)
            self._evict(self._bytes_max)
            if data is not None:
                return data
        data = fetch(offset, end - offset)
        if file.is_gone:
            raise _removed(file)
        return data

    def _fetch_and_store(
        self, file: CachedFile, offset: int, end: int, fetch: Fetch
    ) -> bytes | None:
        """Fetch the missing bytes and store them here; None: the local disk refuses."""
        if end > file.zeros_from:
            try:
                self._punch_zeros(file)
            except OSError as error:
                if file.is_gone:
                    raise
                self._refused(file, error)
                return None
        for start, stop in _widened(file.present.missing(offset, end), file.size):
            fetched = fetch(start, stop - start)
            try:
                self._fill(file, start, fetched)
            except OSError as error:
                if file.is_gone:
                    raise
                self._refused(file, error)
                return None
        with file.lock:
            return self._read(file, offset, end)

    def _read(self, file: CachedFile, offset: int, end: int) -> bytes | None:
        """Return bytes that are here; None: they cannot be read. With the file's lock."""
        if file.is_gone:
            raise _removed(file)
        if file.was_refused:
            return None
        try:
            data = _read(file.local, offset, end)
        except OSError as error:
            self._note_refused(file, error)
            return None
        if len(data) < end - offset:
            self._note_refused(file, OSError(errno.EIO, "it was cut short", file.local))
            return None
        return data

    def _refused(self, file: CachedFile, error: OSError) -> None:
        """The local disk does not take or give bytes of this file. Without the file's lock."""
        with file.lock:
            self._note_refused(file, error)
        self._make_room(error)

    def _make_room(self, error: OSError) -> None:
        """Evict everything that the engine has, if the local disk is full."""
        if error.errno in _FULL:
            self._evict(0)

    def _note_refused(self, file: CachedFile, error: OSError) -> None:
        """The engine alone has this file from now on. With its lock."""
        self.refusals += 1
        self.refusal = f"{file.local}: {error.strerror or error}"
        file.was_refused = True
        with contextlib.suppress(OSError):
            _unlink(file)

    def _punch_zeros(self, file: CachedFile) -> None:
        """Make the zeros at the end of a file a hole, except bytes that were written there."""
        with file.lock:
            if file.is_gone:
                raise _removed(file)
            if file.was_refused or file.zeros_from >= file.size:
                return
            descriptor = os.open(file.local, _FLAGS, _FILE_MODE)
            try:
                if os.fstat(descriptor).st_size < file.size:
                    os.ftruncate(descriptor, file.size)
            finally:
                os.close(descriptor)
            file.present.add(file.zeros_from, file.size)
            file.zeros_from = _NOWHERE

    def _fill(self, file: CachedFile, start: int, data: bytes) -> None:
        """Store these bytes, except where others were written here meanwhile."""
        with file.lock:
            if file.is_gone:
                raise _removed(file)
            if file.was_refused:
                return
            descriptor = os.open(file.local, _FLAGS, _FILE_MODE)
            try:
                for begin, stop in file.present.missing(start, start + len(data)):
                    _write(descriptor, begin, data[begin - start : stop - start])
            finally:
                os.close(descriptor)
            file.present.add(start, start + len(data))
            self._grown_bytes += len(data)

    def forget(self, file: CachedFile) -> None:
        """The file is deleted: a read of it that is under way fails."""
        self._files.pop(file.number, None)
        with file.lock:
            file.is_gone = True
            _unlink(file)

    def _evict(self, bytes_max: int) -> None:
        """Evict the files that were read longest ago, until the others fit."""
        if self._grown_bytes < bytes_max // _LOOKS or not self._evicting.acquire(False):
            return
        try:
            self._grown_bytes = 0
            here = [each for each in self._files.copy().values() if each.present.bytes]
            by_use = sorted(here, key=lambda each: each.used)
            total = sum(each.present.bytes for each in by_use)
            for file in by_use:
                if total <= bytes_max:
                    return
                total -= self._drop(file)
        finally:
            self._evicting.release()

    def _drop(self, file: CachedFile) -> int:
        """Drop the bytes of a file if the engine has them; return how many were dropped."""
        if not file.fetching.acquire(blocking=False):
            return 0
        try:
            with file.lock:
                if file.writers or not self._is_committed(file.ticket):
                    return 0
                dropped = file.present.bytes
                _unlink(file)
                return dropped
        finally:
            file.fetching.release()


def _make(file: CachedFile, data: bytes) -> None:
    descriptor = os.open(file.local, _FLAGS | os.O_TRUNC, _FILE_MODE)
    try:
        os.ftruncate(descriptor, file.size)
        _write(descriptor, 0, data)
    finally:
        os.close(descriptor)


def _removed(file: CachedFile) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "it was removed", file.local)


def _unlink(file: CachedFile) -> None:
    file.present.clear()
    file.zeros_from = _NOWHERE  # the engine may have more of it by now
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file.local)


def _widened(missing: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return stretches that have these, on the borders of `FETCH_BYTES`."""
    found: list[tuple[int, int]] = []
    for start, end in missing:
        start -= start % FETCH_BYTES
        end = min(-(-end // FETCH_BYTES) * FETCH_BYTES, size)
        if found and start <= found[-1][1]:
            start = found.pop()[0]
        found.append((start, end))
    return found


def _write(descriptor: int, offset: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset += written
        view = view[written:]


def _read(path: str, offset: int, end: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while offset < end and (data := os.pread(descriptor, end - offset, offset)):
            parts.append(data)
            offset += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(descriptor)
