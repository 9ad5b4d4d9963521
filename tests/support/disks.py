"""The real disk with a hand on its syncs: held back, failed, counted."""

from __future__ import annotations

import errno
import os
import threading

from journal.files import Disk, Handle


class HeldDisk(Disk):
    """A real disk whose segments sync only while `go` is set, and fail while `fails` is true."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()
        self.fails = False
        self.no_room = False
        self.waits = 0  # syncs that began
        self.syncs = 0
        self.writes = 0

    def create(self, path: str, data: bytes, size: int) -> Handle:
        if self.no_room and path.endswith(".segment"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return HeldHandle(super().create(path, data, size), self)

    def open(self, path: str) -> Handle:
        return HeldHandle(super().open(path), self)


class HeldHandle:
    """A handle of a `HeldDisk`."""

    def __init__(self, handle: Handle, disk: HeldDisk) -> None:
        self._handle = handle
        self._disk = disk
        self.path = handle.path

    def write(self, offset: int, data: bytes) -> None:
        self._disk.writes += 1
        self._handle.write(offset, data)

    def sync(self) -> None:
        if self.path.endswith(".segment"):
            self._disk.waits += 1
            self._disk.go.wait(30)
            self._disk.syncs += 1
            if self._disk.fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        self._handle.sync()

    def close(self) -> None:
        self._handle.close()

    @property
    def is_in_place(self) -> bool:
        return self._handle.is_in_place
