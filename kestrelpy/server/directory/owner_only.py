"""A data directory holds the bodies of all items: only its owner may read and write it.

The server makes every folder and file with 0700 or 0600, whatever the umask. It does not change
existing ones: a folder or file that others may open is logged at the start, with the remedy.
"""

from __future__ import annotations

import logging
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from aiofiles.base import wrap

from journal.files import Files

log = logging.getLogger("kestrelpy")

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


async def name_what_is_open(files: Files, folder: str) -> None:
    """Log a folder or file that others may open. With 10,000 queues that takes 0.25 s; no request
    waits for it."""
    with suppress(OSError):
        sentence = await wrap(open_to_others)(files, folder)
        if sentence:
            log.warning("%s", sentence)


def open_to_others(files: Files, folder: str) -> str:
    """Return a sentence on the first folder or file that others may open; empty: none. Blocks."""
    for path, mode in _modes(files, folder):
        if mode & _OTHERS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return (
                f"{path}: other users may open it (mode {stat.S_IMODE(mode):04o}); "
                f"chmod -R go-rwx {shlex.quote(os.path.abspath(folder))} closes all that is there"
            )
    return ""


def _modes(files: Files, folder: str, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the modes of the folder, its queues' folders, and their files, but not of vanishing
    ones."""
    yield folder, files.mode(folder)
    for name in files.names(folder):
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError):
            mode = files.mode(path)
            if stat.S_ISDIR(mode) and not depth:
                yield from _modes(files, path, depth + 1)
            else:
                yield path, mode
