"""The file `tokens`: below which number lease tokens may have been issued by deleted queues.

    tokens     "1048577" as a word file: two copies with checksums, written over in place

A queue's own journal says which of its tokens may have been issued; when it goes, this remembers
it, so that a queue made again under that name never accepts a token of the old one. If both copies
are damaged, numbering goes on from the wall clock, as it does for queues in memory: the clock's
number rises faster than tokens are issued. Files of earlier versions hold the number in 32 bytes,
without a checksum; they are read once and written anew.

One rule: the number is on disk before the queue's files go, a full disk included: so the file is
made when there is room, and never grows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from typing import Final

from journal.checkpoint import TOKENS_SKIPPED
from journal.files import Files
from kestrelpy.core.tokens import TOKENS_PER_MS
from kestrelpy.server.word_file import WordFile

NAME: Final = "tokens"
_OLD_BYTES: Final = 32
_NUMBER_MAX: Final = (1 << 53) - 1


class TokenFile:
    """`below` is the number. One lock: queues are removed on threads."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._file = WordFile(files, os.path.join(folder, NAME))
        self._lock = threading.Lock()
        self._is_there = False
        self._is_old = False  # no room yet for the file of today
        self._is_lost = False
        self.below = 1

    def read(self, wall_ms: int) -> str:
        """Take over what it says, or make it; returns what is wrong with it. Blocks."""
        if not self._file.is_there:
            with _room_or_later():
                self._write(self.below)
            return ""
        copies, path = self._file.read(), self._file.path
        if copies.old is not None:
            number = _old_number(copies.old)
            self._is_old = True
        else:
            self._is_there = True
            number = max(map(_number, copies.whole), default=0)
        if not number:
            self._is_lost = True
            self.below = max(wall_ms * TOKENS_PER_MS, TOKENS_SKIPPED)
            damaged = "the number is" if self._is_old else "both copies are"
            wrong = f"{path}: {damaged} damaged; new queues begin with token {self.below}"
        else:
            self.below = number
            one = f"{path}: one of its two copies was damaged; the other one holds, {number}"
            wrong = one if None in copies.words else ""
        with _room_or_later():
            if self._is_old:
                self._write(self.below)
            else:
                self._file.mend(copies, b"%d" % self.below)
        return wrong

    def rise_above(self, known: int) -> None:
        """The highest number below which a journal says that tokens may have been issued. Blocks.

        If the number of the deleted queues is lost, theirs is taken for no higher than that.
        """
        if self._is_lost:
            self.keep(known + TOKENS_SKIPPED)

    def keep(self, below: int) -> None:
        """Remember that tokens below this may have been issued; on disk on return. Blocks."""
        with self._lock:
            if below > self.below:
                self._write(below)
                self.below = below

    def _write(self, below: int) -> None:
        word = b"%d" % below
        if self._is_there:
            self._file.write(word)
            return
        try:
            self._file.make(word)
        except OSError as error:
            if not self._is_old or error.errno != errno.ENOSPC:
                raise
            self._write_old(word)
        else:
            self._is_there, self._is_old = True, False

    def _write_old(self, word: bytes) -> None:
        """In the place of a file of an earlier version: the disk has no room for another."""
        handle = self._files.open(self._file.path)
        try:
            handle.write(0, word + b" " * (_OLD_BYTES - 1 - len(word)) + b"\n")
            handle.sync()
        finally:
            handle.close()


@contextlib.contextmanager
def _room_or_later() -> Iterator[None]:
    """On a full disk the file is made when a queue is deleted, if that can be."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _number(word: bytes) -> int:
    """Return the number that a copy holds; 0: it is none."""
    number = int(word) if word.isdigit() and len(word) < _OLD_BYTES else 0
    return number if number <= _NUMBER_MAX else 0


def _old_number(data: bytes) -> int:
    """Return the number in a file of an earlier version; 0: it is damaged."""
    word = data.rstrip(b"\n ")
    is_whole = data == word + b" " * (_OLD_BYTES - 1 - len(word)) + b"\n"
    return _number(word) if is_whole and not word.startswith(b"0") else 0
