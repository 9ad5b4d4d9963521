"""The file `tokens`: below which number lease tokens may have been issued by deleted queues.

    tokens     "1048577" and blanks, 32 bytes: one sector, written over in place

A queue's own journal says which of its tokens may have been issued; when it goes, this remembers
it, so that a queue made again under that name never accepts a token of the old one.

One rule: the number is on disk before the queue's files go, a full disk included: so the file is
made when there is room, and never grows.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Final

from journal.checkpoint import TOKENS_SKIPPED
from journal.files import Files

NAME: Final = "tokens"
_BYTES: Final = 32


class TokenFile:
    """`below` is the number. One lock: queues are removed on threads."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._path = os.path.join(folder, NAME)
        self._lock = threading.Lock()
        self._is_there = False
        self.below = 1

    def read(self) -> str:
        """Take over what it says, or make it; returns what is wrong with it. Blocks."""
        self._is_there = NAME in self._files.names(os.path.dirname(self._path))
        if self._is_there:
            text = self._files.read(self._path).strip(b"\0\n ")
            if text.isdigit() and len(text) <= _BYTES:
                self.below = max(int(text), 1)
                return ""
            self.below = TOKENS_SKIPPED
            return f"{self._path}: not a number; new queues begin with token {self.below}"
        try:
            self._write(self.below)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise  # on a full disk it is made when the first queue is deleted, if that can be
        return ""

    def keep(self, below: int) -> None:
        """Remember that tokens below this may have been issued; on disk on return. Blocks."""
        with self._lock:
            if below > self.below:
                self._write(below)
                self.below = below

    def _write(self, below: int) -> None:
        data = b"%d" % below
        data += b" " * (_BYTES - 1 - len(data)) + b"\n"
        if not self._is_there:
            self._files.create(self._path, data, _BYTES).close()
            self._is_there = True
            return
        handle = self._files.open(self._path)
        try:
            handle.write(0, data)
            handle.sync()
        finally:
            handle.close()
