"""A folder that this process owns: locked by itself, and known by its descriptor.

    data/            locked, and kept open: whatever its path names by then, this is the folder
      lock           locked as well, for tools that know no other lock
      jobs.1/        its device and inode are noted when it is first used

The folder may be removed, renamed, replaced or unmounted while the process runs. The descriptor
then still reaches the old folder, and the path reaches another one, or none.

One rule: a path that names another folder than before is an error before any file is made there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable
from typing import Final

from journal.errors import DirectoryLocked

LOCK_FILE_MODE: Final = 0o600
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A file system that cannot lock a folder: the lock file alone keeps others out there.
_NO_FOLDER_LOCK: Final = frozenset(
    {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
)
_TAKEN: Final = frozenset({errno.EWOULDBLOCK, errno.EACCES})  # from `flock`, for a lock of others
# A lookup gives one of these if the path or its mount is gone. Any other error means neither.
_GONE: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE, errno.ENOTCONN, errno.EIO,
     errno.ENODEV, errno.ENXIO}
)  # fmt: skip
# The errors of opening a folder, a socket, and a link to itself.
_NO_FILE: Final = frozenset({errno.EISDIR, errno.ENXIO, errno.ELOOP})
Identity = tuple[int, int]  # the device and the inode: the same file under any name


class FolderChanged(OSError):
    """A path that this process relies on names another folder or file by now, or none."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.ESTALE, reason, path)


class HeldFolder:
    """A data directory that this process owns: its folder by a descriptor, and the lock file.

    `folders` are the queues' folders, as they were when they were first used.
    """

    __slots__ = ("_is_locked", "_lock", "_lock_name", "_release", "descriptor", "folder",
                 "folders", "identity", "prefix")  # fmt: skip

    def __init__(self, path: str, release: Callable[[str], None]) -> None:
        """Own it; raise DirectoryLocked or OSError."""
        self.folder, self._lock_name = os.path.split(path)
        self.prefix = self.folder + os.sep
        self.folders: dict[str, Identity] = {}
        self._release = release
        self._lock = -1
        self.descriptor = os.open(self.folder, FOLDER_FLAGS)
        try:
            self.identity = identity_of(os.fstat(self.descriptor))
            self._is_locked = _lock_folder(self.descriptor)
            self._lock = _lock_file(self._lock_name, self.descriptor)
            if has_moved(self.folder, self.identity):
                raise FolderChanged(self.folder, "it was renamed or replaced while it was locked")
        except BlockingIOError:
            self.close()
            raise locked(self.folder) from None
        except OSError as error:
            self.close()
            error.filename = path
            raise

    def check_path(self) -> None:
        """Raise FolderChanged if the path names another folder by now, or none."""
        if has_moved(self.folder, self.identity):
            raise FolderChanged(self.folder, "it was removed, renamed, replaced or unmounted")

    def check(self) -> str:
        """See `Lock`. For one thread at a time."""
        self.check_path()
        if self._lock < 0 or not has_moved(
            self._lock_name, identity_of(os.fstat(self._lock)), self.descriptor
        ):
            return ""
        if not self._is_locked:
            raise FolderChanged(self.folder, f"its file {self._lock_name} was removed")
        try:
            renewed = _lock_file(self._lock_name, self.descriptor)
        except BlockingIOError:
            raise FolderChanged(self.folder, "another kestrelpy has locked it") from None
        except OSError:
            return ""  # no file can be made: the folder's own lock holds
        os.close(self._lock)
        self._lock = renewed
        return f"{self.prefix}{self._lock_name}: it was removed, and is there again"

    def check_inside(self, path: str) -> None:
        """Raise FolderChanged if the queue's folder of this path is not the one first used."""
        name = path[len(self.prefix) :].partition(os.sep)[0]
        known = self.folders.get(name)
        if known is None:
            with contextlib.suppress(OSError):
                found = os.stat(name, dir_fd=self.descriptor)
                if stat.S_ISDIR(found.st_mode):
                    self.folders[name] = identity_of(found)
        elif has_moved(name, known, self.descriptor):
            raise FolderChanged(self.prefix + name, "it was removed, renamed or replaced")

    def forget(self, path: str) -> None:
        """Forget a queue's folder, which is renamed or removed next."""
        self.folders.pop(path[len(self.prefix) :], None)

    def close(self) -> None:
        """Give it up. A verb under way on a thread still has the descriptor."""
        self._release(self.folder)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        with contextlib.suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def __del__(self) -> None:
        if getattr(self, "descriptor", -1) >= 0:
            os.close(self.descriptor)


def open_at(place: str, flags: int, mode: int, folder: int | None) -> int:
    """Open a file, or a folder with O_DIRECTORY. Raise OSError, EIO if the name is of anything
    else. A pipe does not block it."""
    try:
        opened = os.open(place, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=folder)
    except OSError as error:
        if flags & os.O_DIRECTORY or error.errno not in _NO_FILE:
            raise
        raise OSError(errno.EIO, "it is no file") from None
    if not flags & os.O_DIRECTORY and not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EIO, "it is no file")
    return opened


def identity_of(found: os.stat_result) -> Identity:
    """Return which file or folder these figures are of."""
    return found.st_dev, found.st_ino


def has_moved(path: str, known: Identity, folder: int | None = None, least: int = 0) -> bool:
    """True if the path names something else by now, or nothing, or a file of fewer bytes than
    `least`.

    False as well if the lookup is not allowed, or fails for the moment.
    """
    try:
        found = os.stat(path, dir_fd=folder)
        return identity_of(found) != known or found.st_size < least
    except OSError as error:
        return error.errno in _GONE


def locked(folder: str) -> DirectoryLocked:
    """Return the error of a folder that another process owns."""
    return DirectoryLocked(f"{folder}: another kestrelpy is using this data directory")


def _lock_folder(descriptor: int) -> bool:
    """Lock a folder; return False where the file system cannot. Raise OSError."""
    try:
        _lock_at_once(descriptor)
    except OSError as error:
        if error.errno in _NO_FOLDER_LOCK:
            return False
        raise
    return True


def _lock_at_once(descriptor: int) -> None:
    """Raise BlockingIOError if another process has the lock, OSError if there can be none."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            raise BlockingIOError(errno.EWOULDBLOCK, error.strerror) from None
        raise


def _lock_file(name: str, folder: int) -> int:
    """Make the file if need be and lock it, for tools that know no other lock; return its
    descriptor. Raise OSError."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(name, flags, LOCK_FILE_MODE, dir_fd=folder)
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, LOCK_FILE_MODE)  # whatever the umask says
    except FileExistsError:
        descriptor = os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=folder)
    try:
        _lock_at_once(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(path: str) -> bool:
    """True if a process has locked this file or folder. Raise OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _TAKEN | _NO_FOLDER_LOCK:
            raise
        return error.errno in _TAKEN
    finally:
        os.close(descriptor)
    return False
