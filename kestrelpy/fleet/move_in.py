"""A data directory moved into an engine: each file under another name first, then checked.

    claim, "importing" ──▶ a.new, a, b.new, b ... ──▶ compared ──▶ verified ──▶ released: served
          └──────────────── killed anywhere: the next run goes on ◀──┘

While the slice is marked as importing no daemon claims it. A run keeps the files of the slice that
are equal to those in the folder, and removes all others. So a second run ends what a first began.

One rule: the mark is taken away in the same commit that releases the slice, when all is verified.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from journal.engine import (
    PIECE_BYTES,
    Claim,
    Commits,
    Create,
    DeleteFile,
    Engine,
    EngineFiles,
    FileFacts,
    Op,
    Rename,
    Write,
)
from journal.errors import JournalError
from journal.files import SUFFIX_NEW, Files
from journal.format import journal_folders
from journal.tools import check_journal
from kestrelpy.fleet.folder_files import files_below

# The files of each claim have numbers of their own, as those of an owner have.
_EPOCH_BITS: Final = 32
_OWN: Final = ("lock", "sync-probe")  # of the process that owns the folder
_REMOVED: Final = "~removed"
_REMOVED_AT_ONCE: Final = 100
_CACHE: Final = "cache-"  # what a member of a fleet keeps of an engine


class ImportingEngine(Engine, Protocol):
    """An engine whose slices can be marked."""

    def begin_import(self, at: Claim) -> None:
        """Mark the slice: no daemon claims it. Raises Fenced or EngineAway."""

    def end_import(self, at: Claim) -> None:
        """Take the mark away and release the slice. Raises Fenced or EngineAway."""


class SourceFile(NamedTuple):
    """A file of the folder."""

    path: str  # within the folder
    size: int


Progress = Callable[[int, int], None]


def inventory(files: Files, folder: str) -> list[SourceFile]:
    """Return the files of a data directory that a daemon would read; raise JournalError."""
    found = []
    for path, mode in files_below(files, folder):
        top = path.split(os.sep, 1)[0]
        if (
            path.endswith(SUFFIX_NEW) or path in _OWN or top.endswith(_REMOVED)
            or top.startswith(_CACHE)
        ):  # fmt: skip
            continue  # a start removes it, or makes it again
        whole = os.path.join(folder, path)
        if not stat.S_ISREG(mode):
            raise JournalError(f"{whole}: only plain files can be moved, no links")
        found.append(SourceFile(path, files.size(whole)))
    return found


def refuse_damage(files: Files, folder: str) -> int:
    """Raise JournalError if a journal there is damaged; return how many there are."""
    journals = journal_folders(files, folder)
    for each in journals:
        report = check_journal(files, each)
        if report.damages:
            raise JournalError(
                f"{report.damages[0].sentence()}; `kestrelpy journal repair` sets that aside"
            )
    return len(journals)


def remove_import(engine: ImportingEngine, commits: Commits) -> int:
    """Remove all that is in a slice that is marked, and the mark with it; return how many files
    there were. Before the import it had no queues. Raise OSError."""
    found = commits.patiently(lambda: engine.files(commits.claim))
    for at in range(0, len(found), _REMOVED_AT_ONCE):
        some = found[at : at + _REMOVED_AT_ONCE]
        commits.wait(commits.add(*(DeleteFile(each.file) for each in some)))
    commits.close()
    engine.end_import(commits.claim)
    return len(found)


class SliceNotEmpty(Exception):
    """The slice has queues."""


class Moved(NamedTuple):
    """What was moved."""

    files: int
    bytes: int
    queues: int


class MoveIn:
    """One run, with the claim of a slice."""

    def __init__(
        self, engine: ImportingEngine, commits: Commits, files: Files, folder: str,
        progress: Progress,
    ) -> None:  # fmt: skip
        """`files` are the local disk. Raise JournalError or OSError if the folder cannot be
        moved."""
        refuse_damage(files, folder)
        sources = inventory(files, folder)
        self._engine = engine
        self._commits = commits
        self._files = files
        self._folder = folder
        self._sources = sources
        self._progress = progress
        self._last = commits.claim.epoch << _EPOCH_BITS
        self._done_bytes = 0
        # Each byte is written or compared, and compared again.
        self._total_bytes = 2 * sum(each.size for each in sources) + 1

    def run(self, copy: Callable[[Commits], EngineFiles], place: str) -> Moved:
        """Bring every file into the slice, compare, verify, and release it; return what was moved.

        `copy` gives the files of the slice, which is named `place`. Raise SliceNotEmpty, OSError or
        JournalError.
        """
        claim = self._commits.claim
        owner = self._engine.owners()[claim.slice]
        if not owner.is_importing and any(os.sep in path for path in self._listed()):
            self._commits.close()
            self._engine.release(self._commits.claim)
            raise SliceNotEmpty
        self._engine.begin_import(claim)
        self._bring_all()
        queues = refuse_damage(copy(self._commits), place)
        self._commits.close()
        self._engine.end_import(self._commits.claim)
        self._progress(self._total_bytes, self._total_bytes)
        moved = sum(each.size for each in self._sources)
        return Moved(len(self._sources), moved, queues)

    def _bring_all(self) -> None:
        there = self._listed()
        wanted = {each.path for each in self._sources}
        gone: list[Op] = [
            DeleteFile(each.file) for path, each in there.items() if path not in wanted
        ]
        if gone:
            self._commits.wait(self._commits.add(*gone))
        for source in self._sources:
            old = there.get(source.path)
            if old is None or not self._is_equal(source, old):
                self._copy(source, old)
        there = self._listed()
        for source in self._sources:
            if source.path not in there or not self._is_equal(source, there[source.path]):
                raise JournalError(
                    f"{os.path.join(self._folder, source.path)}: what the engine has of it differs "
                    "from the file: was it changed meanwhile? Run the command again"
                )
            self._report(source.size)

    def _listed(self) -> dict[str, FileFacts]:
        found = self._commits.patiently(lambda: self._engine.files(self._commits.claim))
        return {each.path: each for each in found}

    def _copy(self, source: SourceFile, old: FileFacts | None) -> None:
        self._last += 1
        number = self._last
        over = [] if old is None else [DeleteFile(old.file)]
        if source.size <= PIECE_BYTES:  # one commit for all of it
            pieces = [Write(number, at, piece) for at, piece in self._chunks(source)]
            create = Create(number, source.path, source.size)
            self._commits.wait(self._commits.add(create, *pieces, *over))
            self._report(source.size)
            return
        ticket = self._commits.add(Create(number, source.path + SUFFIX_NEW, source.size))
        for offset, piece in self._chunks(source):
            self._commits.wait(ticket)  # one piece is on its way, and one is being read
            if piece.strip(b"\0"):
                ticket = self._commits.add(Write(number, offset, piece))
            self._report(len(piece))
        self._commits.wait(self._commits.add(Rename(number, source.path), *over))

    def _is_equal(self, source: SourceFile, facts: FileFacts) -> bool:
        if facts.size != source.size:
            return False
        read, claim = self._engine.read, self._commits.claim
        for offset, piece in self._chunks(source):
            size = len(piece)

            def fetch(at: int = offset, size: int = size) -> bytes:
                return read(claim, facts.file, at, size)

            if self._commits.patiently(fetch) != piece:
                return False
        return True

    def _chunks(self, source: SourceFile) -> Iterator[tuple[int, bytes]]:
        path = os.path.join(self._folder, source.path)
        for offset in range(0, source.size, PIECE_BYTES):
            size = min(PIECE_BYTES, source.size - offset)
            piece = self._files.read(path, offset, size)
            if len(piece) < size:
                raise JournalError(f"{path}: it has become shorter meanwhile")
            yield offset, piece

    def _report(self, size: int) -> None:
        self._done_bytes += size
        self._progress(min(self._done_bytes, self._total_bytes - 1), self._total_bytes)
