"""The names of journals' folders, and the folders of a data directory.

    data/jobs.1763712000       the queue `jobs`, made at that second
    data/a%2Fb.1763712000      the queue `a/b`

One rule: a name is escaped so that it is safe, and so that two of them differ even where a file
system knows no case.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from typing import Final

from journal.errors import JournalError
from journal.files import Files
from journal.format.segment import segment_number

_STEM_CHARACTERS_MAX: Final = 200  # of a folder's name; file systems allow 255
_PREFIX_CHARACTERS: Final = 130  # of a longer one, before its hash
_REMOVED_SUFFIX: Final = "~removed"  # a deleted queue's folder, until it is gone
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_FOLDER: Final = re.compile(r"(?P<name>.+)\.(?P<generation>[0-9]{1,18})")
_CUT: Final = re.compile(rf".{{{_PREFIX_CHARACTERS}}}~[0-9a-f]{{64}}\.[0-9]+")
_ESCAPE: Final = re.compile(rb"%([0-9A-F]{2})")


def journal_folders(files: Files, data_dir: str) -> list[str]:
    """Return the folders with a journal in them, sorted: `data_dir` itself, or those directly below
    it.

    Raises JournalError if `data_dir` cannot be listed.
    """
    try:
        names = files.names(data_dir)
    except OSError as error:
        raise JournalError(f"{data_dir}: {error.strerror or error}") from error
    if _has_segment(names):
        return [data_dir]
    folders = []
    for name in names:
        folder = os.path.join(data_dir, name)
        if name.endswith(_REMOVED_SUFFIX):
            continue
        with suppress(NotADirectoryError, PermissionError):
            if _has_segment(files.names(folder)):
                folders.append(folder)
    return folders


def folder_name(name: bytes, generation: int) -> str:
    """Return the folder of a queue's journal: its name escaped, a dot, its generation.

    Small letters, digits, `-` and `_` stand for themselves and every other byte as `%` and two hex
    digits, so that names are safe and differ on file systems that know no case. A name too long for
    a file system ends in a hash; the journal's checkpoints have it whole.
    """
    text = "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in name)
    if len(text) > _STEM_CHARACTERS_MAX:
        text = f"{text[:_PREFIX_CHARACTERS]}~{hashlib.sha256(name).hexdigest()}"
    return f"{text}.{generation}"


def parse_folder_name(folder: str) -> tuple[bytes, int]:
    """Do the inverse of `folder_name`; return any other name as it is, and 0."""
    match = _FOLDER.fullmatch(folder)
    if match is None:
        return folder.encode("utf-8", "surrogateescape"), 0
    text = match["name"].encode("utf-8", "surrogateescape")
    name = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text)
    return name, int(match["generation"])


def is_cut_name(folder: str) -> bool:
    """True if the folder of a queue does not have the whole name: its journal does."""
    return _CUT.fullmatch(folder) is not None


def _has_segment(names: list[str]) -> bool:
    return any(segment_number(name) is not None for name in names)
