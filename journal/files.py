"""The only door to the disk: the dozen file-system verbs the journal relies on.

A verb is a guarantee: when `create` returns, the file, its bytes and its name are on disk; when
`sync` returns, everything written to that handle before is. Every verb blocks; the daemon calls
them from worker threads, except `write`, which only reaches the page cache.

One rule: nothing else in `journal/` or the daemon touches a queue's files. Tests put a disk in
memory under the same verbs, with crashes and faults.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from journal.errors import Unreachable
from journal.held_folder import (
    FOLDER_FLAGS,
    FolderChanged,
    HeldFolder,
    has_moved,
    identity_of,
    is_locked,
    locked,
    open_at,
)

__all__ = [
    "FILE_MODE", "FOLDER_MODE", "MEDIUM_ERRORS", "SHORTAGE_ERRORS", "SUFFIX_NEW", "Disk",
    "DiskHandle", "Files", "FolderChanged", "Handle", "Lock", "full_sync", "is_shortage",
    "read_around", "sync_call_name",
]  # fmt: skip

# Zeros are written in pieces of this size, so that preparing a segment costs no memory.
_ZEROS: Final = bytes(1 << 20)
# A file takes this much of a disk, or a multiple of it.
_BLOCK_BYTES: Final = 4096
_INODES_LEAST: Final = 2  # a folder and a file
# The errors of a disk that has lost bytes. No other error means that.
MEDIUM_ERRORS: Final = frozenset({errno.EIO, errno.EBADMSG})
# Bodies of items are for the owner alone, whatever the process's umask says.
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
# The process or the machine has no descriptor or memory to spare for the moment. Where a file could
# not be opened or read because of that, nothing was written, nothing is lost and nothing is known
# to be damaged: it is tried again. (A write or a sync that failed stays failed, whatever it says.)
SHORTAGE_ERRORS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}
)
# Marks a file that `create` has not finished. A crash may leave such a file; nothing reads it.
SUFFIX_NEW: Final = ".new"


class Handle(Protocol):
    """A file open for writing at offsets."""

    path: str

    def write(self, offset: int, data: bytes) -> None:
        """Hand `data` to the operating system; all of it or OSError."""

    def sync(self) -> None:
        """Return when everything written so far is on disk. After an OSError never call again."""

    def close(self) -> None:
        """Release the descriptor; promises nothing about the disk."""

    @property
    def is_in_place(self) -> bool:
        """False if its path names another file by now, or none, or the file is shorter than it was.
        Blocks; any thread may ask, and a file that is renamed meanwhile may seem to be gone."""


class Lock(Protocol):
    """A data directory that this process owns."""

    def check(self) -> str:
        """Return a sentence if the lock file was gone and is there again, else "".

        Raise FolderChanged if the directory's path names another one by now, or none, or if the
        lock is another process's. Blocks.
        """

    def close(self) -> None:
        """Give the directory up."""


class Files(Protocol):
    """What the journal asks of a disk.

    A verb that syncs a folder opens the folder first; so a shortage changes no name that is not
    synced. `is_local`: the machine has the disk; a written byte outlives the process, and old files
    and reserved room are worth keeping. `is_behind`: too many written bytes wait in memory, so the
    caller should write more later.
    """

    is_local: bool

    @property
    def is_behind(self) -> bool: ...

    def names(self, folder: str) -> list[str]:
        """Names in `folder`, sorted; none when it does not exist."""

    def make_folder(self, folder: str) -> None:
        """Create `folder` if need be; when this returns, it and the names in it are on disk."""

    def create(self, path: str, data: bytes, size: int) -> Handle:
        """A new file of `size` bytes, `data` then zeros; on disk, name and all, on return."""

    def create_over(self, old: str, path: str, data: bytes) -> None:
        """Make a new file in the room of one that is no longer needed; on disk on return.

        Raises OSError, ENOSPC where the old file is shared or smaller; whatever is raised, the old
        file may be gone.
        """

    def open(self, path: str) -> Handle:
        """An existing file, for writing."""

    def sync_later(
        self, handles: Sequence[Handle], done: Callable[[OSError | None], None]
    ) -> bool:
        """Sync these files without a thread of the caller; `done` is called when that is over, by
        any thread. False where only `Handle.sync` can: then nothing was begun."""

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` bytes from `offset`; -1: to the end."""

    def size(self, path: str) -> int:
        """The file's length in bytes."""

    def mode(self, path: str) -> int:
        """Return the file's kind and permissions, as `lstat` does: no link is followed."""

    def free(self, path: str) -> int:
        """Return how many bytes this process may still write to the disk of `path`."""

    def why_no_file(self, path: str) -> str:
        """Return why no folder with a file can be made in this folder, or "". It does not ask
        whether the disk has bytes left: `free` does."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name in the same folder; on disk on return."""

    def rename_all(self, names: Sequence[tuple[str, str]]) -> dict[str, OSError]:
        """Rename files or folders, at least one and all in one folder: (old, new), in this order.
        Return the errors by old path.

        On return all other new names are on disk, by one sync of the folder. A power loss before
        that may keep any of them. Raises OSError if the sync failed: then no name is certain.
        """

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, on disk on return; no error if it has that name already.

        Raises FileExistsError when another file has that name, OSError(EXDEV) when `new` lies on
        another disk.
        """

    def links(self, path: str) -> int:
        """Return how many names this file has; 1: its bytes are not shared."""

    def remove(self, path: str) -> None:
        """Remove a file if it is there; on disk on return, so that removals keep their order."""

    def remove_all(self, paths: Sequence[str]) -> None:
        """Remove those of these files that are there, all of one folder; on disk on return, with
        one sync. A crash may leave any of them.
        """

    def remove_folder(self, folder: str) -> None:
        """Remove a folder and what is in it. Not synced."""

    def lock(self, path: str) -> Lock:
        """Own the folder of `path`, and `path` in it, until the lock is closed or the process ends;
        else DirectoryLocked.

        While it is locked, every path in the folder is looked up in this same folder, even if its
        own path names another one by then: no file is made in a folder that took its place.
        """

    def is_owned(self, path: str) -> bool:
        """True if a process owns the folder of `path`, or `path`. It makes no file."""


def is_shortage(error: OSError) -> bool:
    """True if a file could not be opened or read for the moment, and may be later."""
    return error.errno in SHORTAGE_ERRORS or isinstance(error, Unreachable)


def _for_good(error: OSError, path: str) -> OSError:
    """Return the error of a write or a sync as a final one: a shortage becomes EIO."""
    number = errno.EIO if is_shortage(error) else error.errno
    return OSError(number, error.strerror, path)


def read_around(files: Files, path: str, offset: int, size: int) -> bytes:
    """Up to `size` bytes from `offset`, with zeros for the blocks that the disk has lost.

    Raises OSError if the disk has lost all of them, or fails in another way.
    """
    try:
        return files.read(path, offset, size)
    except OSError as error:
        if error.errno not in MEDIUM_ERRORS:
            raise
        whole = error
    parts: list[bytes] = []
    lost, at = 0, offset
    while at < offset + size:
        wanted = min(_BLOCK_BYTES - at % _BLOCK_BYTES, offset + size - at)
        try:
            parts.append(files.read(path, at, wanted))
        except OSError as error:
            if error.errno not in MEDIUM_ERRORS:
                raise
            parts.append(bytes(wanted))
            lost += wanted
        at += wanted
        if len(parts[-1]) < wanted:
            break  # the file ends here
    if lost >= size:
        raise whole
    return b"".join(parts)


def _set_mode(file: str | int, mode: int, held: HeldFolder | None = None) -> None:
    """Set permissions exactly; a file system that knows none keeps its own."""
    with contextlib.suppress(PermissionError):
        os.chmod(file, mode, dir_fd=_folder_of(held))


def full_sync(descriptor: int) -> None:
    """The strongest sync of file data the platform offers."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync alone leaves data in the drive's cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def sync_call_name() -> str:
    """What `full_sync` calls here."""
    return "F_FULLFSYNC" if hasattr(fcntl, "F_FULLFSYNC") else "fdatasync"


class DiskHandle:
    """A descriptor of the real disk."""

    __slots__ = ("_descriptor", "_identity", "_size", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self._identity, self._size = identity_of(found), found.st_size

    @property
    def is_in_place(self) -> bool:
        return not has_moved(self.path, self._identity, None, self._size)

    def write(self, offset: int, data: bytes) -> None:
        self._size = max(self._size, offset + len(data))
        try:
            written = os.pwrite(self._descriptor, data, offset)
        except OSError as error:
            raise _for_good(error, self.path) from None
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(data):  # a short write: a nearly full disk, or a signal
            try:
                more = os.pwrite(self._descriptor, view[written:], offset + written)
            except OSError as error:
                raise _for_good(error, self.path) from None
            if more == 0:
                raise OSError(errno.EIO, "the disk accepted no more bytes", self.path)
            written += more

    def sync(self) -> None:
        if self._descriptor < 0:
            raise OSError(errno.EBADF, "the handle is closed", self.path)
        try:
            full_sync(self._descriptor)
        except OSError as error:
            raise _for_good(error, self.path) from None

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Disk:
    """The real disk."""

    is_local = True
    is_behind = False

    def __init__(self) -> None:
        self._sure: set[str] = set()  # parents of new folders; their own names are on disk
        self._held: dict[str, HeldFolder] = {}  # by the folder's path

    def names(self, folder: str) -> list[str]:
        try:
            place, held = self._place(folder)
            if held is None:
                return sorted(os.listdir(place))
            descriptor = os.open(place, FOLDER_FLAGS, dir_fd=held.descriptor)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _named(error, folder) from None
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def make_folder(self, folder: str) -> None:
        held = self._checked(folder)
        missing = []
        at = os.path.abspath(folder) if held is None else folder
        while not self._is_folder(at):
            missing.append(at)
            at = os.path.dirname(at)
        if at not in self._sure:
            # A process may have made the last folder that exists, and was killed before its sync.
            with contextlib.suppress(PermissionError):
                self._sync_names(os.path.dirname(os.path.abspath(at)))
        for path in reversed(missing):
            place, held = self._place(path)
            with self._changing(os.path.dirname(path)), contextlib.suppress(FileExistsError):
                os.mkdir(place, FOLDER_MODE, dir_fd=_folder_of(held))
                _set_mode(place, FOLDER_MODE, held)
        if missing:
            self._sure.add(at)
        else:
            self._sync_names(folder)

    def create(self, path: str, data: bytes, size: int) -> Handle:
        held = self._checked(path)
        fresh = path + SUFFIX_NEW
        descriptor = self._open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        handle = DiskHandle(path, descriptor)
        try:
            _set_mode(descriptor, FILE_MODE)
            handle.write(0, data)
            at, is_whole = len(data), False
            while not is_whole:
                piece = min(max(size - at, 0), len(_ZEROS))
                handle.write(at, _ZEROS[:piece] if piece < len(_ZEROS) else _ZEROS)
                # A sync of 64 MiB at once delays other files' syncs by 18 ms, of a piece by 0.9.
                handle.sync()
                at += piece
                is_whole = at >= size
            self._rename(fresh, path)
            if held is not None:
                held.check_path()
        except BaseException:
            handle.close()
            with contextlib.suppress(OSError):
                place, held = self._place(fresh)
                os.unlink(place, dir_fd=_folder_of(held))
            raise
        return handle

    def create_over(self, old: str, path: str, data: bytes) -> None:
        fresh = path + SUFFIX_NEW
        self.rename(old, fresh)  # a later link is to a file that is never read
        room = -(-self.size(fresh) // _BLOCK_BYTES) * _BLOCK_BYTES
        if self.links(fresh) > 1 or room < len(data):
            self.rename(fresh, old)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        handle = DiskHandle(fresh, descriptor := self._open(fresh, os.O_RDWR))
        try:
            handle.write(0, data)
            os.ftruncate(descriptor, len(data))
            handle.sync()  # the new length is data as well
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(fresh)  # it is neither the old file nor the new one: free its room
            raise
        finally:
            handle.close()
        self.rename(fresh, path)

    def open(self, path: str) -> Handle:
        self._checked(path)
        return DiskHandle(path, self._open(path, os.O_RDWR))

    def sync_later(
        self, handles: Sequence[Handle], done: Callable[[OSError | None], None]
    ) -> bool:
        return False

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        # Nothing is read twice: no buffer is filled.
        with open(path, "rb", buffering=0, opener=self._open) as file:
            if offset:
                file.seek(offset)
            return file.readall() if size < 0 else _read_up_to(file, size)

    def size(self, path: str) -> int:
        return self._stat(path).st_size

    def mode(self, path: str) -> int:
        return self._stat(path, follows=False).st_mode

    def free(self, path: str) -> int:
        held = self._place(path)[1]
        disk = os.statvfs(path if held is None else held.descriptor)
        return disk.f_bavail * disk.f_frsize

    def why_no_file(self, path: str) -> str:
        held, mode = self._place(path)[1], os.W_OK | os.X_OK
        if held is None:
            may, disk = os.access(path, mode), os.statvfs(path)
        else:
            may, disk = os.access(".", mode, dir_fd=held.descriptor), os.statvfs(held.descriptor)
        if not may:
            return f"this process may make no file in {path}"
        if disk.f_files and disk.f_favail < _INODES_LEAST:  # some file systems count none
            return f"the file system of {path} has no inode left"
        return ""

    def rename(self, old: str, new: str) -> None:
        self._checked(old)
        self._rename(old, new)

    def rename_all(self, names: Sequence[tuple[str, str]]) -> dict[str, OSError]:
        errors, folder = dict[str, OSError](), os.path.dirname(names[0][1])
        self._checked(folder)
        with self._changing(folder):
            for old, new in names:
                try:
                    self._checked(old)
                    self._change(old, new)
                except OSError as error:
                    errors[old] = error
        return errors

    def link(self, old: str, new: str) -> None:
        self._checked(new)
        source, held = self._place(old)
        target, other = self._place(new)
        with self._changing(os.path.dirname(new)):
            try:
                os.link(
                    source, target, src_dir_fd=_folder_of(held), dst_dir_fd=_folder_of(other)
                )
            except FileExistsError as error:  # a process that was killed may not have synced it
                if identity_of(self._stat(old)) != identity_of(self._stat(new)):
                    raise _named(error, old, new) from None
            except OSError as error:
                raise _named(error, old, new) from None

    def links(self, path: str) -> int:
        return self._stat(path).st_nlink

    def remove(self, path: str) -> None:
        self.remove_all((path,))

    def remove_all(self, paths: Sequence[str]) -> None:
        folders = {os.path.dirname(path) for path in paths}
        assert len(folders) <= 1, "one sync is for one folder"
        for folder in folders:
            with contextlib.suppress(FileNotFoundError), self._changing(folder):
                if not sum([self._unlink(path) for path in paths]):
                    raise FileNotFoundError(folder)  # no name has changed: there is nothing to sync

    def remove_folder(self, folder: str) -> None:
        place, held = self._place(folder)
        if held is not None:
            held.forget(folder)
        shutil.rmtree(place, ignore_errors=True, dir_fd=_folder_of(held))

    def lock(self, path: str) -> Lock:
        if os.path.dirname(path) in self._held:
            raise locked(os.path.dirname(path))
        held = HeldFolder(path, self._release)
        self._held[held.folder] = held
        return held

    def is_owned(self, path: str) -> bool:
        return is_locked(os.path.dirname(path)) or is_locked(path)

    def _release(self, folder: str) -> None:
        self._held.pop(folder, None)

    # -- places -----------------------------------------------------------------------------

    def _place(self, path: str) -> tuple[str, HeldFolder | None]:
        """Return the path to look up, and the owned folder to look it up in; None: in no owned
        one, the path is whole."""
        for held in self._held.values():
            if path.startswith(held.prefix):
                return path[len(held.prefix) :], held
            if path == held.folder:
                return os.curdir, held
        return path, None

    def _checked(self, path: str) -> HeldFolder | None:
        """Return the owned folder that `path` is in; None: it is in none. Raise FolderChanged if
        another folder has taken its place."""
        _, held = self._place(path)
        if held is not None:
            held.check_path()
            if path != held.folder:
                held.check_inside(path)
        return held

    def _open(self, path: str, flags: int) -> int:
        place, held = self._place(path)
        try:
            return open_at(place, flags, FILE_MODE, _folder_of(held))
        except OSError as error:
            raise _named(error, path) from None

    def _stat(self, path: str, follows: bool = True) -> os.stat_result:
        place, held = self._place(path)
        try:
            return os.stat(place, dir_fd=_folder_of(held), follow_symlinks=follows)
        except OSError as error:
            raise _named(error, path) from None

    def _unlink(self, path: str) -> bool:
        """Remove a file, not synced; return False if it is not there."""
        place, held = self._place(path)
        try:
            os.unlink(place, dir_fd=_folder_of(held))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _named(error, path) from None
        return True

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._stat(path).st_mode)
        except (OSError, ValueError):
            return False

    def _rename(self, old: str, new: str) -> None:
        with self._changing(os.path.dirname(new)):
            self._change(old, new)

    def _change(self, old: str, new: str) -> None:
        """Give a file or folder another name, which is not on disk yet."""
        source, held = self._place(old)
        target, other = self._place(new)
        if held is not None:
            held.forget(old)
        try:
            os.rename(source, target, src_dir_fd=_folder_of(held), dst_dir_fd=_folder_of(other))
        except OSError as error:
            raise _named(error, old, new) from None

    def _sync_names(self, folder: str) -> None:
        """Return when the names in `folder` are on disk."""
        with self._changing(folder):
            pass

    @contextlib.contextmanager
    def _changing(self, folder: str) -> Iterator[None]:
        """Names in `folder` change inside the block, and are on disk at its end. The folder is
        opened first: where it cannot be, nothing has changed."""
        descriptor = self._open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield
            try:
                os.fsync(descriptor)
            except OSError as error:
                raise _for_good(error, folder) from None
        finally:
            os.close(descriptor)


def _folder_of(held: HeldFolder | None) -> int | None:
    return None if held is None else held.descriptor


def _named(error: OSError, path: str, other: str | None = None) -> OSError:
    """Return the error with whole paths, also where a shorter one was looked up."""
    error.filename = path
    if other is not None:  # None would be written out as the second path
        error.filename2 = other
    return error


def _read_up_to(file: io.FileIO, size: int) -> bytes:
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):  # 2 GiB at once at most
        data += more
    return data
