"""How a segment is removed when it is dead, or when another one stands for it.

    0000000003.segment ──▶ <archive_to>/jobs.1763712000.0000000003.segment    with an archive
                       ──▶ 0000000003.segment.recycled                        for the next segment
                       ──▶ removed

One rule: on return the segment's name is gone, and its replacement is on disk.
"""

from __future__ import annotations

import os

from journal.files import Files
from journal.format import SUFFIX_RECYCLED


def recycled_path(path: str) -> str:
    """Return the name under which a segment's file waits to be used again."""
    return path + SUFFIX_RECYCLED


def archived_path(archive_to: str, path: str) -> str:
    """Return the name of a segment in the archive: `<folder>.<segment name>`."""
    folder, name = os.path.split(path)
    return os.path.join(archive_to, f"{os.path.basename(folder)}.{name}")


def retire(files: Files, path: str, archive_path: str, reuse_path: str) -> str:
    """Remove a dead segment; blocks. Return the file to be used again; "": there is none.

    With an `archive_path` the file gets that name. Else it is renamed to `reuse_path`, if that is
    not empty, and stays there unless a backup shares it. On return the segment's name is gone, and
    its replacement is on disk. Raises OSError; the call may be repeated then. For a segment that is
    gone already it does nothing.
    """
    if _is_there(files, path):
        if archive_path:
            files.make_folder(os.path.dirname(archive_path))
            files.link(path, archive_path)
        elif reuse_path:
            files.rename(path, reuse_path)
    if reuse_path and _is_there(files, reuse_path):
        # A backup makes links to segments' names alone, so this file gets no more links: the count
        # is final.
        if files.links(reuse_path) == 1:
            return reuse_path
        files.remove(reuse_path)
    files.remove(path)
    return ""


def _is_there(files: Files, path: str) -> bool:
    try:
        files.size(path)
    except FileNotFoundError:
        return False
    return True
