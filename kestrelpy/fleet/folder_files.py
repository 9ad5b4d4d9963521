"""The files of a folder and of all folders in it.

One rule: a link is not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from journal.files import Files


def files_below(files: Files, folder: str, inner: str = "") -> Iterator[tuple[str, int]]:
    """Give the path within the folder, and the mode, of all that is no folder; raise OSError."""
    for name in files.names(os.path.join(folder, inner) if inner else folder):
        path = os.path.join(inner, name)
        mode = files.mode(os.path.join(folder, path))
        if stat.S_ISDIR(mode):
            yield from files_below(files, folder, path)
        else:
            yield path, mode
