"""The names of a slice: folders, and the files in them.

    "data"         ──▶ {"jobs.1": a folder}
    "data/jobs.1"  ──▶ {"0000000001.segment": file 7, "0000000002.segment": file 9}

One rule: a folder knows its own names alone, so that a directory of ten thousand queues is listed
as fast as one of ten.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Generic, TypeVar

F = TypeVar("F")


class Names(Generic[F]):
    """Paths below one root, to files. Not for several threads at once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folders: dict[str, dict[str, F | None]] = {root: {}}  # None: a folder

    def is_folder(self, path: str) -> bool:
        """True if there is a folder of this path."""
        return path in self._folders

    def inside(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist."""
        return sorted(self._folders.get(folder, ()))

    def find(self, path: str) -> F | None:
        """Return the file of this path, if there is one."""
        folder, name = os.path.split(path)
        return self._folders.get(folder, {}).get(name)

    def file(self, path: str) -> F:
        """Return the file of this path; raise FileNotFoundError."""
        found = self.find(path)
        if found is None:
            raise _nothing(path)
        return found

    def add_folder(self, folder: str) -> None:
        """Add a folder, and those above it up to the root."""
        while folder not in self._folders:
            self._folders[folder] = {}
            above, name = os.path.split(folder)
            self.add_folder(above)
            self._folders[above][name] = None

    def put(self, path: str, file: F) -> None:
        """Give a file this path; raise FileNotFoundError if there is no such folder."""
        folder, name = os.path.split(path)
        if folder not in self._folders:
            raise _nothing(path)
        self._folders[folder][name] = file

    def pop(self, path: str) -> F | None:
        """Take the file of this path away, if there is one, and return it."""
        folder, name = os.path.split(path)
        found = self._folders.get(folder, {}).get(name)
        if found is not None:
            del self._folders[folder][name]
        return found

    def below(self, path: str) -> Iterator[tuple[str, F]]:
        """Give each file of this path or below this folder, with its path."""
        found = self.find(path)
        if found is not None:
            yield path, found
        for name, file in self._folders.get(path, {}).items():
            inner = f"{path}/{name}"
            if file is None:
                yield from self.below(inner)
            else:
                yield inner, file

    def pop_folder(self, folder: str) -> list[F]:
        """Take a folder away with all below it; return the files."""
        files = [file for _, file in self.below(folder)]
        for each in list(self._folders_from(folder)):
            del self._folders[each]
        above, name = os.path.split(folder)
        self._folders.get(above, {}).pop(name, None)
        return files

    def rename(self, old: str, new: str) -> list[tuple[str, F]]:
        """Give a file or a folder another path in the same folder.

        Return each file that moved, with its new path. Raise FileNotFoundError.
        """
        moved = [(new + path[len(old) :], file) for path, file in self.below(old)]
        if not moved and old not in self._folders:
            raise _nothing(old)
        for folder in list(self._folders_from(old)):
            self._folders[new + folder[len(old) :]] = self._folders.pop(folder)
        above, name = os.path.split(old)
        node = self._folders[above].pop(name)
        self._folders[above][os.path.basename(new)] = node
        return moved

    def _folders_from(self, folder: str) -> Iterator[str]:
        """Give this folder and those below it; nothing if there is none."""
        if folder in self._folders:
            yield folder
            for name, file in self._folders[folder].items():
                if file is None:
                    yield from self._folders_from(f"{folder}/{name}")


def _nothing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
