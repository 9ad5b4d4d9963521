"""`Files` over an engine: the verbs of the local disk, each as a commit of the owner.

    verb ──▶ names and bytes here, at once ──▶ a group of operations ──▶ the next commit
                                                     │
             the verb returns, or `sync` does  ◀─────┘ when that is done

Paths below `root` are files of the slice; any other path is one of the local disk. Preallocated
room, recycled files and links do not exist on an engine: nothing is gained by them there.

One rule: the namespace and the order of the groups change under one lock, so that the engine has
the names that were seen here, in the same order.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from journal.engine.cache import Cache, CachedFile
from journal.engine.commits import Commits
from journal.engine.engine import PIECE_BYTES, Create, DeleteFile, Engine, Op, Rename, Write
from journal.engine.names import Names
from journal.errors import DirectoryLocked
from journal.files import FILE_MODE, FOLDER_MODE, SUFFIX_NEW, Files, FolderChanged, Handle, Lock
from journal.format import FOOTER_SPACE_BYTES

# An engine does not say how much room it has; operations without room wait until it has some.
FREE_BYTES: Final = 1 << 60
# The files of each owner have numbers of their own: none is ever used twice.
_EPOCH_BITS: Final = 32
LOCK_NAME: Final = "lock"
# A start reads this much of each segment, and the footer; of the newest ones it reads more.
FRONT_BYTES: Final = 2048
# Bytes that may wait for a commit in memory. Above it each journal leaves its records pending, as
# it does while a disk is slow.
OUTBOX_BYTES_MAX: Final = 64 << 20


class EngineHandle:
    """A file of the slice, open for writing at offsets."""

    __slots__ = ("_cache", "_commits", "_descriptor", "_files", "_is_open", "file", "path")

    def __init__(self, files: EngineFiles, path: str, file: CachedFile) -> None:
        self.path = path
        self.file = file
        self._files = files
        self._cache = files.cache
        self._commits = files.owned
        self._descriptor = files.cache.open(file)
        self._is_open = True

    @property
    def is_in_place(self) -> bool:
        return self._files.file_at(self.path) is self.file

    def write(self, offset: int, data: bytes) -> None:
        self._check_open()
        # First, so that a reader that does not find the bytes here knows which commit to wait for.
        self._files.append(self.file, offset, data)
        self._cache.write(self.file, self._descriptor, offset, data)

    def sync(self) -> None:
        self._check_open()
        self._commits.wait(self.file.ticket)

    def close(self) -> None:
        if self._is_open:
            self._cache.close(self.file, self._descriptor)
            self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, "the handle is closed", self.path)


class EngineLock:
    """The slice, as the data directory that this process owns."""

    def __init__(self, files: EngineFiles, path: str) -> None:
        self._files = files
        self._path = path

    def check(self) -> str:
        failure = self._files.owned.failure
        if failure is not None:
            raise FolderChanged(os.path.dirname(self._path), failure.strerror or str(failure))
        return ""

    def close(self) -> None:
        self._files.unlock(self._path)


class EngineFiles:
    """A slice as a data directory named `root`, from `take_over` on."""

    is_local = False

    def __init__(
        self, engine: Engine, root: str, cache_folder: str, cache_bytes: int, outside: Files
    ) -> None:
        """`outside` is the local disk."""
        self.commits: Commits | None = None  # those of the owner
        self.cache = Cache(cache_folder, cache_bytes, self._is_committed)
        self._engine = engine
        self._root = root
        self._prefix = root + "/"
        self._outside = outside
        self._lock = threading.Lock()  # of the names, and of the order of the groups
        self._names = Names[CachedFile](root)
        self._locked: set[str] = set()
        self._cache_lock: Lock | None = None
        self._last = 0  # the number of the newest file

    def lock_cache(self) -> None:
        """Keep every other process out of the cache; raise DirectoryLocked or OSError. Blocks."""
        if self._cache_lock is not None:
            return
        self._outside.make_folder(self.cache.folder)
        self._cache_lock = self._outside.lock(os.path.join(self.cache.folder, LOCK_NAME))
        self.cache.clear()  # now: at a claim clients wait for it

    def close(self) -> None:
        """Let other processes have the cache."""
        if self._cache_lock is not None:
            self._cache_lock.close()
            self._cache_lock = None

    def take_over(self, commits: Commits) -> None:
        """Own what the slice has; raise OSError. Blocks."""
        if not self.cache.here:
            self.cache.begin()
        self._last = commits.claim.epoch << _EPOCH_BITS
        for facts in commits.patiently(lambda: self._engine.files(commits.claim)):
            path = self._prefix + facts.path
            self._names.add_folder(os.path.dirname(path))
            self._names.put(path, self.cache.add(facts.file, facts.size, facts.end))
        for file, offset, data in commits.patiently(
            lambda: self._engine.edges(commits.claim, FRONT_BYTES, FOOTER_SPACE_BYTES)
        ):
            self.cache.add_fetched(file, offset, data)
        self.commits = commits

    @property
    def is_behind(self) -> bool:
        """True if OUTBOX_BYTES_MAX bytes wait for a commit: the caller should write more later."""
        return self.commits is not None and self.commits.waiting_bytes >= OUTBOX_BYTES_MAX

    @property
    def owned(self) -> Commits:
        """The commits of the owner; OSError: this process is a standby."""
        if self.commits is None:
            raise OSError(errno.ESTALE, "this process does not own the data", self._root)
        return self.commits

    # -- the verbs ----------------------------------------------------------------------------

    def names(self, folder: str) -> list[str]:
        if not self._is_ours(folder):
            return self._outside.names(folder)
        with self._lock:
            return self._names.inside(folder)

    def make_folder(self, folder: str) -> None:
        """A folder without files is known to this process alone: an engine has files."""
        if not self._is_ours(folder):
            self._outside.make_folder(folder)
            return
        with self._lock:
            self._names.add_folder(folder)

    def create(self, path: str, data: bytes, size: int) -> Handle:
        if not self._is_ours(path):
            return self._outside.create(path, data, size)
        if not self._names.is_folder(os.path.dirname(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        with self._lock:
            self._last += 1
            number = self._last
        file = self.cache.make(number, data, size)
        named = self._in_slice(path)
        fresh = Create(number, named + SUFFIX_NEW, file.size)
        pieces = [
            Write(number, at, bytes(data[at : at + PIECE_BYTES]))
            for at in range(0, len(data), PIECE_BYTES)
        ]
        if len(pieces) > 1:
            # Each piece waits for the one before: others have their commits between them.
            self.owned.wait(self.owned.add(fresh))
            for piece in pieces:
                self.owned.wait(self.owned.add(piece))
        with self._lock:
            old = self._names.find(path)
            over = [] if old is None else [DeleteFile(old.number)]
            alone: list[Op] = [fresh, *pieces] if len(pieces) <= 1 else []
            file.ticket = self.owned.add(*alone, Rename(number, named), *over)
            self._names.put(path, file)
            if old is not None:
                self.cache.forget(old)
        self.owned.wait(file.ticket)
        return EngineHandle(self, path, file)

    def create_over(self, old: str, path: str, data: bytes) -> None:
        if not self._is_ours(path):
            self._outside.create_over(old, path, data)
            return
        self.create(path, data, len(data)).close()
        if old != path:
            self.remove(old)

    def open(self, path: str) -> Handle:
        if not self._is_ours(path):
            return self._outside.open(path)
        return EngineHandle(self, path, self._names.file(path))

    def sync_later(
        self, handles: Sequence[Handle], done: Callable[[OSError | None], None]
    ) -> bool:
        """Wait for the last group alone: groups keep their order over all files."""
        ticket = 0
        for handle in handles:
            if not isinstance(handle, EngineHandle):
                return False
            ticket = max(ticket, handle.file.ticket)
        return self.owned.tell(ticket, done)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if not self._is_ours(path):
            return self._outside.read(path, offset, size)
        file = self._names.file(path)
        try:
            return self.cache.read(file, offset, size, partial(self._fetch, file))
        except OSError as error:
            error.filename = path
            raise

    def size(self, path: str) -> int:
        return self._names.file(path).size if self._is_ours(path) else self._outside.size(path)

    def mode(self, path: str) -> int:
        if not self._is_ours(path):
            return self._outside.mode(path)
        if self._names.is_folder(path):
            return stat.S_IFDIR | FOLDER_MODE
        self._names.file(path)
        return stat.S_IFREG | FILE_MODE

    def free(self, path: str) -> int:
        if not self._is_ours(path):
            return self._outside.free(path)
        if not self._names.is_folder(path):
            self._names.file(path)
        return FREE_BYTES

    def why_no_file(self, path: str) -> str:
        return "" if self._is_ours(path) else self._outside.why_no_file(path)

    def rename(self, old: str, new: str) -> None:
        if not self._is_ours(old):
            self._outside.rename(old, new)
            return
        errors = self.rename_all([(old, new)])
        if errors:
            raise errors[old]

    def rename_all(self, names: Sequence[tuple[str, str]]) -> dict[str, OSError]:
        if not self._is_ours(names[0][0]):
            return self._outside.rename_all(names)
        errors = dict[str, OSError]()
        with self._lock:
            ops: list[Op] = []
            for old, new in names:
                over = self._names.find(new) if old != new else None
                try:
                    moved = self._names.rename(old, new)
                except FileNotFoundError as error:
                    errors[old] = error
                    continue
                if over is not None:
                    ops.append(DeleteFile(over.number))
                    self.cache.forget(over)
                ops += [Rename(file.number, self._in_slice(path)) for path, file in moved]
            ticket = self.owned.add(*ops)
        self.owned.wait(ticket)
        return errors

    def link(self, old: str, new: str) -> None:
        """A file of the slice is copied to the local disk; within the slice there are no links."""
        if not self._is_ours(old) and not self._is_ours(new):
            self._outside.link(old, new)
            return
        if not self._is_ours(old) or self._is_ours(new):
            raise OSError(errno.EXDEV, "an engine has no links", new)
        data = self.read(old)
        with contextlib.suppress(FileNotFoundError):
            if self._outside.read(new) == data:
                return
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        self._outside.create(new, data, len(data)).close()

    def links(self, path: str) -> int:
        if not self._is_ours(path):
            return self._outside.links(path)
        self._names.file(path)
        return 1

    def remove(self, path: str) -> None:
        if not self._is_ours(path):
            self._outside.remove(path)
            return
        self.remove_all((path,))

    def remove_all(self, paths: Sequence[str]) -> None:
        if paths and not self._is_ours(paths[0]):
            self._outside.remove_all(paths)
            return
        with self._lock:
            gone = [file for path in paths if (file := self._names.pop(path)) is not None]
            if not gone:
                return
            ticket = self.owned.add(*(DeleteFile(file.number) for file in gone))
            for file in gone:
                self.cache.forget(file)
        self.owned.wait(ticket)

    def remove_folder(self, folder: str) -> None:
        if not self._is_ours(folder):
            self._outside.remove_folder(folder)
            return
        with self._lock:
            gone = self._names.pop_folder(folder)
            if gone:
                self.owned.add(*(DeleteFile(file.number) for file in gone))
            for file in gone:
                self.cache.forget(file)

    def lock(self, path: str) -> Lock:
        if not self._is_ours(path):
            return self._outside.lock(path)
        if path in self._locked:
            folder = os.path.dirname(path)
            raise DirectoryLocked(f"{folder}: another kestrelpy is using this data directory")
        self._locked.add(path)
        return EngineLock(self, path)

    def is_owned(self, path: str) -> bool:
        return path in self._locked if self._is_ours(path) else self._outside.is_owned(path)

    def append(self, file: CachedFile, offset: int, data: bytes) -> None:
        """Commit these bytes with the next commits; a file that was removed needs them no more."""
        with self._lock:
            for at in range(0, len(data), PIECE_BYTES) if not file.is_gone else ():
                piece = bytes(data[at : at + PIECE_BYTES])
                file.ticket = self.owned.add(Write(file.number, offset + at, piece))

    def unlock(self, path: str) -> None:
        """Its lock was closed."""
        self._locked.discard(path)

    # -- finding ------------------------------------------------------------------------------

    def file_at(self, path: str) -> CachedFile | None:
        """Return the file that has this path now."""
        return self._names.find(path)

    def _fetch(self, file: CachedFile, offset: int, size: int) -> bytes:
        read = self._engine.read
        if file.was_refused:  # the engine alone will have the bytes that wait for a commit
            self.owned.wait(file.ticket)
        return self.owned.patiently(lambda: read(self.owned.claim, file.number, offset, size))

    def _is_committed(self, ticket: int) -> bool:
        return self.commits is not None and self.commits.is_committed(ticket)

    def _is_ours(self, path: str) -> bool:
        return path.startswith(self._prefix) or path == self._root

    def _in_slice(self, path: str) -> str:
        return path[len(self._prefix) :]
