"""The files in a directory of Kestrel's, by queue and in the order of their replay. No I/O.

    q                    the current file, the last one
    q.<ms>               a file before it, by its number
    q.<ms>.pack          takes the place of every q.<t> with t up to ms, and of q.<ms> itself
    q~~<ms>              was being written when Kestrel ended: nothing in it counts
    parent+child         a queue of its own that gets a copy of what is added to `parent`

One rule: nothing in the directory is changed; a file that is no part of a journal is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_ROTATED: Final = re.compile(r"(?P<queue>[^.]*)\.(?P<ms>[0-9]{1,19})(?P<pack>\.pack)?", re.DOTALL)


class Ignored(NamedTuple):
    """A name in the directory that is left out, and why."""

    name: str
    reason: str


@dataclass(slots=True)
class JournalFiles:
    """The files of one queue, in the order of their replay. `has_pack`: a crash came during a pack,
    so that an item may be in two of them."""

    queue: str
    files: list[str] = field(default_factory=list)
    has_pack: bool = False


class FolderContents(NamedTuple):
    """The contents of a directory."""

    journals: list[JournalFiles]
    ignored: list[Ignored]


def arrange(names: Iterable[tuple[str, bool]]) -> FolderContents:
    """Return the journals among these names; each comes with True if it is a regular file."""
    current: dict[str, str] = {}
    rotated: dict[str, list[tuple[int, bool, str]]] = {}
    ignored = list[Ignored]()
    for name, is_file in sorted(names):
        match = _ROTATED.fullmatch(name)
        if not is_file:
            ignored.append(Ignored(name, "not a file"))
        elif name.startswith("."):
            ignored.append(Ignored(name, "a hidden file: no queue has an empty name"))
        elif "~~" in name:
            ignored.append(Ignored(name, "Kestrel was writing it when it ended: nothing counts"))
        elif match:
            rotated.setdefault(match["queue"], []).append(
                (int(match["ms"]), bool(match["pack"]), name)
            )
        elif "." in name:
            ignored.append(Ignored(name, "not the name of a Kestrel journal (NAME or NAME.<ms>)"))
        else:
            current[name] = name
    journals = []
    for queue in sorted(current.keys() | rotated.keys()):
        older = sorted(rotated.get(queue, ()))
        packed_ms = max((ms for ms, is_pack, _ in older if is_pack), default=-1)
        journal = JournalFiles(queue, has_pack=packed_ms >= 0)
        for ms, is_pack, name in older:
            if ms > packed_ms or (is_pack and ms == packed_ms):
                journal.files.append(name)
            else:
                ignored.append(Ignored(name, "a pack stands for it"))
        if queue in current:
            journal.files.append(queue)
        journals.append(journal)
    return FolderContents(journals, ignored)


def is_database(names: Iterable[str]) -> bool:
    """True if these are the files of LevelDB, in which Darner and Siberite store a queue."""
    known = set(names)
    return "CURRENT" in known and any(name.startswith("MANIFEST-") for name in known)
