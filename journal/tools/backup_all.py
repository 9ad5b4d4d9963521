"""All journals of a data directory copied, so that no item is missing because it moved meanwhile.

    make all copies ──▶ extend all ──▶ where must each end? ──▶ check all ──▶ done
                          ▲                    │                    │
                          └─ some are made again ───────────────────┘

A copy is extended by the segments that were written since, and keeps all others. So it can end at
any record after it was made, whatever the daemon closes, rewrites or removes meanwhile; unless
segments were removed that it does not have. Then it is made again, last of all, and extended first
the next time. It keeps the files that do not change any more, so that takes little time.

One rule: where copies end is decided by `cut`, and after that nothing but the check follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from journal.errors import JournalError
from journal.files import Files
from journal.format import parse_folder_name
from journal.tools.backup import Copied, JournalCopy
from journal.tools.cut import NOTHING, End, Journal, Tail, end_of, ends, tail_of

# After this many attempts without a common end the daemon moves items too fast to be copied.
ATTEMPTS_MAX: Final = 100
# All copies are extended again up to this many times if a queue was deleted and its children stay:
# an item that was on its way then has no record in its source.
_DELETED_MAX: Final = 5


def copy_journals(
    files: Files, listed: Callable[[], list[str]], target: str, progress: Callable[[int], None]
) -> dict[str, Copied]:
    """Copy all listed journals into a folder; return the content of each copy by its name. On disk
    on return. Blocks.

    Raises JournalError for a file that cannot be read, and if the journals change too quickly;
    OSError for one that cannot be written.
    """
    backup = _Backup(files, listed, target, progress)
    for _ in range(ATTEMPTS_MAX):
        found = backup.attempt()
        if found is not None:
            return found
    raise JournalError(
        f"{target}: items move between queues too quickly: {ATTEMPTS_MAX} attempts found no moment "
        "at which each is in one copy"
    )


class _Backup:
    def __init__(
        self, files: Files, listed: Callable[[], list[str]], target: str,
        progress: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._files = files
        self._listed = listed
        self._target = target
        self._progress = progress
        self._copies: dict[str, JournalCopy] = {}  # by the source's path, like those below
        self._ends: dict[str, End] = {}  # after the last attempt
        self._fresh: list[str] = []  # made by the last attempt
        self._is_first = True
        self._deletions = 0

    def attempt(self) -> dict[str, Copied] | None:
        """Bring all copies to a later moment; return their content if they are whole and of one
        moment."""
        paths = self._listed()
        is_first, self._is_first = self._is_first, False
        self._forget_deleted(paths)
        new = [path for path in paths if path not in self._copies]
        tails = {} if is_first else self._extend(new)
        broken = [path for path, tail in tails.items() if not tail.is_whole]
        self._fresh = [path for path in (new if is_first else broken) if self._make(path)]
        if is_first or broken:
            self._note_ends()
            return None
        later = {_journal(path) for path in self._listed() if path not in self._copies}
        kept = self._tail_sizes(tails, later)
        if kept is None:
            self._note_ends()
            return None
        for path, tail in tails.items():
            if kept[path] < len(tail.batches):
                self._copies[path].end_at(*tail.end_after(kept[path]))
        self._note_ends()
        return self._checked()

    def _extend(self, new: list[str]) -> dict[str, Tail]:
        """Extend all copies, and make the new ones; return the records that they got."""
        tails = {}
        for path in [*self._fresh, *(path for path in self._copies if path not in self._fresh)]:
            end = self._ends[path]
            if end == NOTHING:
                new.append(path)  # it has no record, or none could be read
                continue
            is_there = self._copies[path].extend(end.segment)
            tails[path] = tail_of(self._files, self._folder(path), end)
            tails[path].is_whole &= is_there
        for path in filter(self._make, new):
            tails[path] = tail_of(self._files, self._folder(path), NOTHING)
        return tails

    def _make(self, path: str) -> bool:
        """Make a copy, or make it again; False: the queue is deleted."""
        copy = self._copies.pop(path, None)
        if copy is None:
            copy = JournalCopy(self._files, path, self._folder(path), self._progress)
        if not copy.make():
            return False
        self._copies[path] = copy
        return True

    def _forget_deleted(self, paths: list[str]) -> None:
        """Remove the copies of journals that are not listed any more."""
        for path in [path for path in self._copies if path not in paths]:
            del self._copies[path], self._ends[path]
            self._fresh = [other for other in self._fresh if other != path]
            self._files.remove_folder(self._folder(path))

    def _tail_sizes(self, tails: dict[str, Tail], later: set[Journal]) -> dict[str, int] | None:
        """Return how much of the tails stays; None: that cannot be told yet."""
        if any(batch.is_deletion for tail in tails.values() for batch in tail.batches):
            self._deletions += 1
            if self._deletions <= _DELETED_MAX:
                return None
        return ends(tails, later)

    def _note_ends(self) -> None:
        self._ends = {path: end_of(self._files, self._folder(path)) for path in self._copies}

    def _checked(self) -> dict[str, Copied] | None:
        """Return the content of all copies; None: damaged ones have been made again."""
        found = {path: copy.checked() for path, copy in self._copies.items()}
        damaged = [path for path, each in found.items() if each is None]
        if damaged:
            self._fresh = [path for path in damaged if self._make(path)]
            self._note_ends()
            return None
        return {
            os.path.basename(path): each for path, each in found.items() if each is not None
        }

    def _folder(self, path: str) -> str:
        return os.path.join(self._target, os.path.basename(path))


def _journal(path: str) -> Journal:
    return parse_folder_name(os.path.basename(path))
