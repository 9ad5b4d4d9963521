"""A disk in memory with the verbs of `journal.files`: a page cache, power cuts, and faults.

    write ──▶ shown (the page cache: what reads see) ──sync──▶ on the disk for good
                  │                                      │ fails: limbo. Still shown, maybe never on
                  ▼ power loss                           ▼ the disk, and no later sync changes that
       each 512-byte sector as it was at some moment since it was last surely on the disk

Names work alike: a link, rename or unlink is shown at once and is on the disk when its folder was
synced; before that, a power loss keeps any subset of them. Names that share a file share its bytes,
before a power loss and after it.

One rule: the model is at least as unkind as a real disk that keeps its word: sectors are whole,
a verb that returned has kept what it promises, and nothing else is sure.
"""

from __future__ import annotations

import copy
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from random import Random
from typing import Literal

from journal.errors import DirectoryLocked

SECTOR_BYTES = 512
DISK_BYTES = 1 << 40
_SUFFIX_NEW = ".new"  # as the real disk names what `create` has not finished

Fate = Literal["random", "kept", "lost"]


class PowerCut(Exception):
    """The machine went off in the middle of a verb. It is no OSError: no code handles it."""


@dataclass
class Fault:
    """The `nth` and the `times - 1` following uses of `verb` on a matching path fail.

    Verbs are those of `Files`; `create` has the later steps `create:rename` and `create:names`,
    at which the file is there without its name, and its name without being sure; `link`, `rename`
    and `remove` have a step `:names` too. Of a failing write, the bytes in the first
    `keep_sectors` sectors it touches reach the page cache.
    """

    verb: str
    path: str = "*"
    nth: int = 1
    times: int = 1
    error: int = errno.EIO
    keep_sectors: int = 0
    seen: int = 0
    fired: int = 0

    def strikes(self, verb: str, path: str) -> bool:
        """Count this use; does it fail?"""
        if verb != self.verb or not fnmatch(path, self.path):
            return False
        self.seen += 1
        if not self.nth <= self.seen < self.nth + self.times:
            return False
        self.fired += 1
        return True

    def __str__(self) -> str:
        name = errno.errorcode.get(self.error, str(self.error))
        return f"{self.verb} {self.path} #{self.nth}: {name} (fired {self.fired})"


@dataclass(slots=True)
class _Piece:
    """Bytes handed to the page cache since everything was last surely on the disk."""

    offset: int
    data: bytes
    state: Literal["new", "limbo", "sure"] = "new"


class _File:
    """An inode: the bytes that reads see, the bytes that are safe, and the writes in between."""

    __slots__ = ("base", "shown", "writes")

    def __init__(self, data: bytes = b"") -> None:
        self.base = bytearray(data)
        self.shown = bytearray(data)
        self.writes: list[_Piece] = []

    def write(self, offset: int, data: bytes) -> None:
        _put(self.shown, offset, data)
        self.writes.append(_Piece(offset, bytes(data)))

    def sync(self, ok: bool) -> None:
        for piece in self.writes:
            if piece.state == "new":
                piece.state = "sure" if ok else "limbo"
        if all(piece.state == "sure" for piece in self.writes):
            for piece in self.writes:
                _put(self.base, piece.offset, piece.data)
            self.writes = []

    def after_power_loss(self, random: Random, fate: Fate) -> _File:
        """The file as it may be found: a version of each sector not older than its last sync."""
        history: dict[int, list[tuple[int, int, bytes]]] = {}
        surely: dict[int, int] = {}
        for index, piece in enumerate(self.writes):
            for sector, offset, data in _sectors(piece):
                versions = history.setdefault(sector, [])
                versions.append((index, offset, data))
                if piece.state == "sure":
                    surely[sector] = len(versions)
        mode = {"kept": "kept", "lost": "lost"}.get(fate) or random.choice(
            ("kept", "lost", "cut", "cut", "sectors")
        )
        cut = random.randint(0, len(self.writes))
        torn_at = random.choice([*history, 0])
        disk = bytearray(self.base)
        for sector, versions in history.items():
            count = len(versions)
            if mode == "lost":
                count = 0
            elif mode == "sectors":
                count = random.randint(0, len(versions))
            elif mode == "cut":  # the writes in order, the one at the cut up to some sector
                count = sum(i < cut or (i == cut and sector < torn_at) for i, _, _ in versions)
            for _, offset, data in versions[: max(count, surely.get(sector, 0))]:
                _put(disk, offset, data)
        return _File(bytes(disk))


_Found = dict[_File, _File]


class _Folder:
    """Names to files and folders: as shown, as surely on the disk, and the changes in between."""

    __slots__ = ("changes", "shown", "sure")

    def __init__(self) -> None:
        self.shown: dict[str, _File | _Folder] = {}
        self.sure: dict[str, _File | _Folder] = {}
        self.changes: list[tuple[str, str, _File | _Folder | None]] = []  # old, new, node

    def change(self, old: str, new: str, node: _File | _Folder | None) -> None:
        """Link (no old), unlink (no new) or rename."""
        self.changes.append((old, new, node))
        _apply(self.shown, (old, new, node))

    def sync(self) -> None:
        self.sure = dict(self.shown)
        self.changes = []

    def after_power_loss(self, random: Random, fate: Fate, found: _Found) -> _Folder:
        """The folder as it may be found; `found` has the files that were found by another name."""
        names = dict(self.sure)
        mode = {"kept": "kept", "lost": "lost"}.get(fate) or random.choice(
            ("kept", "lost", "cut", "any")
        )
        cut = random.randint(0, len(self.changes))
        for index, change in enumerate(self.changes):
            if (
                mode == "kept"
                or (mode == "cut" and index < cut)
                or (mode == "any" and random.random() < 0.5)
            ):
                _apply(names, change)
        folder = _Folder()
        for name, node in names.items():
            if isinstance(node, _Folder):
                folder.shown[name] = node.after_power_loss(random, fate, found)
            else:
                if node not in found:
                    found[node] = node.after_power_loss(random, fate)
                folder.shown[name] = found[node]
        folder.sync()
        return folder

    def files(self) -> Iterator[_File]:
        """The files of all names that are shown, here and below: one for each name."""
        for node in self.shown.values():
            if isinstance(node, _Folder):
                yield from node.files()
            else:
                yield node


class MemoryHandle:
    """A file of the memory disk, open for writing at offsets."""

    def __init__(self, disk: MemoryDisk, path: str, file: _File) -> None:
        self.path = path
        self.closed = False
        self._disk = disk
        self._file = file

    def write(self, offset: int, data: bytes) -> None:
        self._check_open()
        fault = self._disk.struck("write", self.path)
        if fault is not None:
            end = (offset // SECTOR_BYTES + fault.keep_sectors) * SECTOR_BYTES
            self._file.write(offset, data[: max(end - offset, 0)])
            raise _os_error(fault, self.path)
        self._file.write(offset, data)

    def sync(self) -> None:
        self._check_open()
        fault = self._disk.struck("sync", self.path)
        if self.path in self._disk.failed_syncs:
            self._disk.retried_syncs.append(self.path)
        if fault is not None:
            self._disk.failed_syncs.add(self.path)
        self._file.sync(ok=fault is None)
        if fault is not None:
            raise _os_error(fault, self.path)

    @property
    def is_in_place(self) -> bool:
        return self._disk._find(self.path) is self._file

    def check(self) -> str:
        """Return no complaint, as a lock: no process takes a memory disk away."""
        return ""

    def close(self) -> None:
        self.closed = True
        self._disk.unlock(self)

    def _check_open(self) -> None:
        if self.closed:
            raise OSError(errno.EBADF, "the handle is closed", self.path)


class MemoryDisk:
    """`Files` in memory. `faults` may be added to at any time; `steps` counts verbs.

    `disk_bytes` says how large the disk is; a file takes its length, whatever it holds. (That a
    write or a `create` finds no room is a fault.)
    `retried_syncs` has the files that were synced again after a sync of them had failed.
    """

    is_local = True
    is_behind = False

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.faults = list(faults)
        self.disk_bytes = DISK_BYTES
        self.steps = 0
        self.trace: list[str] = []
        self.failed_syncs: set[str] = set()
        self.retried_syncs: list[str] = []
        self._root = _Folder()
        self._locks: dict[str, MemoryHandle] = {}
        self._cut_at = 0
        self._off = False

    # -- trouble ----------------------------------------------------------------------------

    def cut_power_at(self, step: int) -> None:
        """PowerCut at the `step`th verb (or step of `create`) from now on, before it has begun."""
        self._cut_at = self.steps + step

    def crash_clone(self, random: Random, fate: Fate = "random") -> MemoryDisk:
        """A new disk as this one may look after a power loss."""
        clone = MemoryDisk()
        clone._root = self._root.after_power_loss(random, fate, {})
        return clone

    def kill_clone(self) -> MemoryDisk:
        """A new disk as the next process finds it after `kill -9`: the page cache survives."""
        clone = MemoryDisk()
        clone._root = copy.deepcopy(self._root)
        return clone

    def struck(self, verb: str, path: str) -> Fault | None:
        """Count a step; return the fault that strikes it, or raise PowerCut if it is the last."""
        self.steps += 1
        self.trace.append(f"{verb} {os.path.basename(path)}")
        if self._off or self.steps == self._cut_at:
            self._off = True
            raise PowerCut(f"at step {self.steps}, {verb} {path}")
        struck = [fault for fault in self.faults if fault.strikes(verb, path)]
        return struck[0] if struck else None

    def damage(self, path: str, offset: int, data: bytes) -> None:
        """Other bytes than were written, on the disk and in the cache: not a verb."""
        file = self._file(path)
        file.sync(ok=True)
        for image in (file.shown, file.base):
            _put(image, offset, data)

    def truncate(self, path: str, size: int) -> None:
        """Take the end of a file away: not a verb."""
        file = self._file(path)
        file.sync(ok=True)
        for image in (file.shown, file.base):
            del image[size:]

    # -- the verbs --------------------------------------------------------------------------

    def names(self, folder: str) -> list[str]:
        self._step("names", folder)
        found = self._find(folder)
        return sorted(found.shown) if isinstance(found, _Folder) else []

    def make_folder(self, folder: str) -> None:
        self._step("make_folder", folder)
        at = self._root
        for name in _parts(folder):
            child = at.shown.get(name)
            if child is None:
                child = _Folder()
                at.change("", name, child)
                self._step("make_folder:names", folder)
            if not isinstance(child, _Folder):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", folder)
            at.sync()
            at = child
        at.sync()

    def create(self, path: str, data: bytes, size: int) -> MemoryHandle:
        self._step("create", path)
        folder, name = self._place(path)
        file = _File()
        folder.change("", name + _SUFFIX_NEW, file)
        file.write(0, data + bytes(max(size - len(data), 0)))
        try:
            self._step("create:rename", path)
        except OSError:
            folder.change(name + _SUFFIX_NEW, "", None)
            raise
        file.sync(ok=True)
        folder.change(name + _SUFFIX_NEW, name, file)
        self._step("create:names", path)
        folder.sync()
        return MemoryHandle(self, path, file)

    def create_over(self, old: str, path: str, data: bytes) -> None:
        fresh = path + _SUFFIX_NEW
        self.rename(old, fresh)
        file = self._file(fresh)
        if self.links(fresh) > 1 or -(-len(file.shown) // 4096) * 4096 < len(data):
            self.rename(fresh, old)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        try:
            self._step("create_over", path)
            file.write(0, data)
            self._step("create_over:sync", path)
        except OSError:
            self.remove(fresh)
            raise
        file.sync(ok=True)
        del file.base[len(data) :], file.shown[len(data) :]
        self.rename(fresh, path)

    def open(self, path: str) -> MemoryHandle:
        self._step("open", path)
        return MemoryHandle(self, path, self._file(path))

    def sync_later(
        self, handles: Sequence[object], done: Callable[[OSError | None], None]
    ) -> bool:
        return False

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._step("read", path)
        shown = self._file(path).shown
        return bytes(shown[offset:] if size < 0 else shown[offset : offset + size])

    def size(self, path: str) -> int:
        self._step("size", path)
        return len(self._file(path).shown)

    def mode(self, path: str) -> int:
        self._step("mode", path)
        is_folder = isinstance(self._node(path), _Folder)
        return stat.S_IFDIR | 0o700 if is_folder else stat.S_IFREG | 0o600

    def free(self, path: str) -> int:
        self._step("free", path)
        self._node(path)
        return max(self.disk_bytes - sum(len(file.shown) for file in set(self._root.files())), 0)

    def why_no_file(self, path: str) -> str:
        return "" if isinstance(self._find(path), _Folder) else f"{path} is no folder"

    def rename(self, old: str, new: str) -> None:
        folder = self._rename(old, new)
        self._step("rename:names", old)
        folder.sync()

    def rename_all(self, names: Sequence[tuple[str, str]]) -> dict[str, OSError]:
        errors = dict[str, OSError]()
        folder = self._place(names[0][0])[0]
        for old, new in names:
            try:
                assert self._rename(old, new) is folder, "all names are of one folder"
            except OSError as error:
                errors[old] = error
        self._step("rename:names", names[0][0])
        folder.sync()
        return errors

    def _rename(self, old: str, new: str) -> _Folder:
        self._step("rename", old)
        folder, name = self._place(old)
        target, new_name = self._place(new)
        assert folder is target, "names change within one folder"
        node = self._node(old)
        if target.shown.get(new_name) is not node:  # of two names of one file, both stay
            folder.change(name, new_name, node)
        return folder

    def link(self, old: str, new: str) -> None:
        self._step("link", old)
        file = self._file(old)
        folder, name = self._place(new)
        if name not in folder.shown:
            folder.change("", name, file)
        elif folder.shown[name] is not file:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        self._step("link:names", old)
        folder.sync()

    def links(self, path: str) -> int:
        self._step("links", path)
        file = self._file(path)
        return sum(each is file for each in self._root.files())

    def remove(self, path: str) -> None:
        self._step("remove", path)
        folder, name = self._place(path)
        if name not in folder.shown:
            return
        folder.change(name, "", None)
        self._step("remove:names", path)
        folder.sync()

    def remove_all(self, paths: Sequence[str]) -> None:
        changed: _Folder | None = None
        for path in paths:
            self._step("remove", path)
            folder, name = self._place(path)
            assert changed in (None, folder), "one sync is for one folder"
            if name in folder.shown:
                folder.change(name, "", None)
                changed = folder
        if changed is not None:
            self._step("remove:names", paths[-1])
            changed.sync()

    def remove_folder(self, folder: str) -> None:
        self._step("remove_folder", folder)
        if self._find(folder) is not None:
            parent, name = self._place(folder)
            parent.change(name, "", None)

    def lock(self, path: str) -> MemoryHandle:
        self._step("lock", path)
        if path in self._locks:
            raise DirectoryLocked(
                f"{os.path.dirname(path)}: another kestrelpy is using this data directory"
            )
        folder, name = self._place(path)
        if name not in folder.shown:
            folder.change("", name, _File())
        self._locks[path] = handle = MemoryHandle(self, path, self._file(path))
        return handle

    def is_owned(self, path: str) -> bool:
        self._step("is_owned", path)
        return path in self._locks

    def unlock(self, handle: MemoryHandle) -> None:
        """Its handle was closed."""
        if self._locks.get(handle.path) is handle:
            del self._locks[handle.path]

    # -- finding ----------------------------------------------------------------------------

    def _step(self, verb: str, path: str) -> None:
        fault = self.struck(verb, path)
        if fault is not None:
            raise _os_error(fault, path)

    def _find(self, path: str) -> _File | _Folder | None:
        at: _File | _Folder | None = self._root
        for name in _parts(path):
            at = at.shown.get(name) if isinstance(at, _Folder) else None
        return at

    def _node(self, path: str) -> _File | _Folder:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _file(self, path: str) -> _File:
        node = self._node(path)
        if isinstance(node, _Folder):
            raise IsADirectoryError(errno.EISDIR, "a folder", path)
        return node

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder = self._node(os.path.dirname(path))
        assert isinstance(folder, _Folder)
        return folder, os.path.basename(path)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _put(image: bytearray, offset: int, data: bytes) -> None:
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _apply(
    names: dict[str, _File | _Folder], change: tuple[str, str, _File | _Folder | None]
) -> None:
    old, new, node = change
    if old:
        names.pop(old, None)
    if new and node is not None:
        names[new] = node


def _sectors(piece: _Piece) -> Iterable[tuple[int, int, bytes]]:
    """A write cut at the borders of sectors: sector, offset, bytes."""
    at, end = piece.offset, piece.offset + len(piece.data)
    while at < end:
        sector = at // SECTOR_BYTES
        stop = min((sector + 1) * SECTOR_BYTES, end)
        yield sector, at, piece.data[at - piece.offset : stop - piece.offset]
        at = stop


def _os_error(fault: Fault, path: str) -> OSError:
    return OSError(fault.error, os.strerror(fault.error), path)
