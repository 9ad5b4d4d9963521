"""A slice of an engine moved into a folder: copied under another name, checked, then renamed.

    DIR~export/     each file, and `export.json` with the claim that they are of
    DIR             the same, when all is compared and verified

After a killed run the next one goes on with its files, unless the slice was claimed meanwhile: then
they may be old, and it begins again.

One rule: DIR exists only when it is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from journal.engine import PIECE_BYTES, Commits, Engine, FileFacts
from journal.errors import JournalError
from journal.files import SUFFIX_NEW, Files
from kestrelpy.fleet.folder_files import files_below
from kestrelpy.fleet.move_in import Moved, refuse_damage

STAGED: Final = "~export"
_NOTE: Final = "export.json"
Progress = Callable[[int, int], None]


class MoveOut:
    """One run, with the claim of the slice."""

    def __init__(
        self, engine: Engine, commits: Commits, files: Files, folder: str, name: str,
        progress: Progress,
    ) -> None:  # fmt: skip
        """`name` is that of the engine; `files` are the local disk."""
        self.stage = folder + STAGED
        self._engine = engine
        self._commits = commits
        self._files = files
        self._folder = folder
        self._name = name
        self._progress = progress
        self._done_bytes = 0
        self._total_bytes = 1

    def run(self) -> Moved:
        """Copy every file to `~export`, compare, verify, and give that folder its name; return the
        figures of the move. Raise OSError or JournalError."""
        self._begin()
        facts = self._bring_all()
        queues = refuse_damage(self._files, self.stage)
        self._files.remove(os.path.join(self.stage, _NOTE))
        self._files.rename(self.stage, self._folder)
        self._progress(self._total_bytes, self._total_bytes)
        return Moved(len(facts), sum(each.size for each in facts), queues)

    def _begin(self) -> None:
        """Keep what an earlier run has copied if it is of the claim before ours."""
        if self._noted() != (self._name, self._commits.claim.epoch - 1):
            self._files.remove_folder(self.stage)
        self._files.make_folder(self.stage)
        note = json.dumps({"engine": self._name, "epoch": self._commits.claim.epoch}).encode()
        self._files.create(os.path.join(self.stage, _NOTE), note, len(note)).close()

    def _bring_all(self) -> list[FileFacts]:
        found = self._commits.patiently(lambda: self._engine.files(self._commits.claim))
        facts = [each for each in found if not each.path.endswith(SUFFIX_NEW)]
        self._total_bytes = 2 * sum(each.size for each in facts) + 1
        for each in facts:
            self._copy(each)
        for each in facts:
            self._compare(each)
        self._remove_others({each.path for each in facts})
        return facts

    def _noted(self) -> tuple[str, int] | None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            noted = json.loads(self._files.read(os.path.join(self.stage, _NOTE)))
            return noted["engine"], noted["epoch"]
        return None

    def _copy(self, facts: FileFacts) -> None:
        path = os.path.join(self.stage, facts.path)
        with suppress(FileNotFoundError):
            if self._files.size(path) == facts.size:
                self._report(facts.size)
                return  # an earlier run has copied it: a file has its name when it is whole
        self._files.make_folder(os.path.dirname(path))
        part = path + SUFFIX_NEW
        handle = self._files.create(part, b"", 0)
        try:
            for offset, piece in self._chunks(facts):
                handle.write(offset, piece)
                handle.sync()
                self._report(len(piece))
        finally:
            handle.close()
        self._files.rename(part, path)

    def _compare(self, facts: FileFacts) -> None:
        path = os.path.join(self.stage, facts.path)
        for offset, piece in self._chunks(facts):
            if self._files.read(path, offset, len(piece)) != piece:
                self._files.remove(path)  # the next run copies it again
                raise JournalError(
                    f"{path}: its bytes are not those of the engine; run the command again"
                )
            self._report(len(piece))
        if self._files.size(path) != facts.size:
            raise JournalError(f"{path}: it has {self._files.size(path)} bytes, not {facts.size}")

    def _remove_others(self, wanted: set[str]) -> None:
        """Remove what an earlier run has left: names that the slice does not have."""
        for path, _ in list(files_below(self._files, self.stage)):
            if path not in wanted and path != _NOTE:
                self._files.remove(os.path.join(self.stage, path))

    def _chunks(self, facts: FileFacts) -> Iterator[tuple[int, bytes]]:
        read, claim = self._engine.read, self._commits.claim
        for offset in range(0, facts.size, PIECE_BYTES):
            size = min(PIECE_BYTES, facts.size - offset)

            def fetch(at: int = offset, size: int = size) -> bytes:
                return read(claim, facts.file, at, size)

            yield offset, self._commits.patiently(fetch)

    def _report(self, size: int) -> None:
        self._done_bytes += size
        self._progress(min(self._done_bytes, self._total_bytes - 1), self._total_bytes)
