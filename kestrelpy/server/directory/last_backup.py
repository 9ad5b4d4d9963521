"""The time of the last backup, which `kestrelpy backup` notes in the data directory that it copied.

    DATA/last-backup     milliseconds since 1970 and a newline

One rule: the note is for people. Without it, or with one that cannot be read, nothing else changes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from journal.files import Files

NAME: Final = "last-backup"
_DIGITS_MAX: Final = 15


def note_backup(files: Files, folder: str, at_ms: int) -> None:
    """Note a finished backup of this data directory. Blocks; raises OSError.

    The note belongs to the owner of the directory, even if another user makes the backup.
    """
    path, data = os.path.join(folder, NAME), b"%d\n" % at_ms
    files.create(path, data, len(data)).close()
    with suppress(OSError):
        owner = os.stat(folder)
        os.chown(path, owner.st_uid, owner.st_gid)


def last_backup_ms(files: Files, folder: str) -> int | None:
    """Return when the last backup was finished; None: nothing says it. Blocks."""
    try:
        digits = files.read(os.path.join(folder, NAME), 0, _DIGITS_MAX + 1).rstrip(b"\n")
    except OSError:
        return None
    return int(digits) if digits.isdigit() and len(digits) <= _DIGITS_MAX else None
