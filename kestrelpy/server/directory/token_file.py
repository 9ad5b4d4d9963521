"""The file `tokens`: the lease tokens and generations that deleted queues may have had.

    tokens     "1048577/1763712000" as a word file: two copies with checksums, written over in place
               tokens below the first number may have been issued, by generations up to the second

A queue's journal holds the tokens that it may have issued, and its folder's name its generation;
this file remembers both when they go. So a queue created again under that name never accepts a
token of the old one, and is never taken for it. If both copies are damaged, both numbers continue
from the wall clock: the tokens at the number of the clock, like those of queues in memory; the
generations a day ahead. Files of earlier versions hold the first number alone, in 32 bytes and
without a checksum; they are read once and written anew.

One rule: both numbers are on disk before the queue's files go, even on a full disk. So the file is
made while there is room, and never grows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

from journal.files import Files
from journal.format import TOKENS_SKIPPED
from kestrelpy.core import TOKENS_PER_MS
from kestrelpy.server.directory.word_file import WordFile

NAME: Final = "tokens"
# A queue that is deleted and created in a loop runs ahead of the clock by one second each time.
GENERATIONS_SKIPPED: Final = 86_400
# The file is ahead of the generations by up to this many: so a queue that is made and deleted in a
# loop costs 5 syncs each time instead of 7. After a restart new generations begin that much later.
GENERATIONS_AHEAD: Final = 60
_OLD_BYTES: Final = 32
_WORD: Final = re.compile(rb"([1-9][0-9]{0,15})/(0|[1-9][0-9]{0,15})")
_NUMBER: Final = re.compile(rb"([1-9][0-9]{0,15})")


class _Numbers(NamedTuple):
    """Tokens below `below` may have been issued, by generations up to `generation`."""

    below: int = 1
    generation: int = 0

    def or_higher(self, other: _Numbers) -> _Numbers:
        """Return the higher one of each number."""
        return _Numbers(max(self.below, other.below), max(self.generation, other.generation))

    @property
    def word(self) -> bytes:
        """The word in the file."""
        return b"%d/%d" % self


class TokenFile:
    """The two numbers, `below` and `generation`. Threads remove queues, so it has locks."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._file = WordFile(files, os.path.join(folder, NAME))
        self._asking = threading.Lock()  # guards `_wanted`
        self._writing = threading.Lock()  # guards the file and `_held`
        self._is_there = False
        self._is_old = False  # no room yet for a file of this version
        self._is_lost = False
        self._held = self._wanted = _Numbers()

    @property
    def below(self) -> int:
        """Tokens below this may have been issued by deleted queues."""
        return self._held.below

    @property
    def generation(self) -> int:
        """The highest generation of a deleted queue."""
        return self._held.generation

    def read(self, unix_ms: int) -> str:
        """Read the file, or make it; return a sentence on damage. Blocks."""
        if not self._file.is_there:
            with _room_or_later():
                self._write(self._held)
            return ""
        copies, path = self._file.read(), self._file.path
        self._is_old = copies.old is not None
        self._is_there = not self._is_old
        found = _Numbers()
        if copies.old is not None:
            whole = [_old_number(copies.old)]
        else:
            whole = [_numbers(word) for word in copies.whole]
        for each in whole:
            found = found.or_higher(each) if each is not None else found
        wrong = ""
        if not any(whole):
            self._is_lost = True
            below = max(unix_ms * TOKENS_PER_MS, TOKENS_SKIPPED)
            found = _Numbers(below, unix_ms // 1000 + GENERATIONS_SKIPPED)
            damaged = "the number is" if self._is_old else "both copies are"
            wrong = f"{path}: {damaged} damaged; new queues begin with token {below}"
        elif None in copies.words:
            held = found.word.decode()
            wrong = f"{path}: one of its two copies was damaged; the other one holds, {held}"
        self._held = found
        with _room_or_later():
            if self._is_old:
                self._write(found)
            else:
                self._file.repair(copies, found.word)
        return wrong

    def rise_above(self, known: int) -> None:
        """Raise `below` to the highest number that a journal holds. Blocks.

        If the number of the deleted queues is lost, theirs is assumed to be no higher.
        """
        if self._is_lost:
            self.save(known + TOKENS_SKIPPED)

    def save(self, below: int, generation: int = 0) -> None:
        """Save the numbers of a deleted queue; on disk on return. Blocks.

        Concurrent calls are written together, as in a group commit, and a call whose numbers the
        file has already writes nothing. A full disk without room for the file does not stop the
        deletion of a queue that issued no token: a deletion makes room.
        """
        asked = _Numbers(below, generation)
        with self._asking:
            self._wanted = self._wanted.or_higher(asked)
        with self._writing:
            if self._held.or_higher(asked) != self._held:
                wanted = self._held.or_higher(self._wanted)
                if wanted.generation > self._held.generation:
                    wanted = wanted._replace(generation=wanted.generation + GENERATIONS_AHEAD)
                try:
                    self._write(wanted)
                except OSError as error:
                    if error.errno != errno.ENOSPC or below > self._held.below:
                        raise
                else:
                    self._held = wanted

    def _write(self, numbers: _Numbers) -> None:
        if self._is_there:
            self._file.write(numbers.word)
            return
        try:
            self._file.make(numbers.word)
        except OSError as error:
            if not self._is_old or error.errno != errno.ENOSPC:
                raise
            self._write_old(b"%d" % numbers.below)
        else:
            self._is_there, self._is_old = True, False

    def _write_old(self, word: bytes) -> None:
        """Write over a file of an earlier version: the disk has no room for another one.

        It has no room for the generation either.
        """
        handle = self._files.open(self._file.path)
        try:
            handle.write(0, word + b" " * (_OLD_BYTES - 1 - len(word)) + b"\n")
            handle.sync()
        finally:
            handle.close()


@contextlib.contextmanager
def _room_or_later() -> Iterator[None]:
    """On a full disk the file is made when a queue is deleted, if possible."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _numbers(word: bytes) -> _Numbers | None:
    """Return the numbers of a copy; None if it is damaged."""
    match = _WORD.fullmatch(word)
    return _Numbers(int(match[1]), int(match[2])) if match is not None else None


def _old_number(data: bytes) -> _Numbers | None:
    """Return the number of a file of an earlier version; None if it is damaged."""
    word = data.rstrip(b"\n ")
    is_whole = data == word + b" " * (_OLD_BYTES - 1 - len(word)) + b"\n"
    return _Numbers(int(word)) if is_whole and _NUMBER.fullmatch(word) else None
