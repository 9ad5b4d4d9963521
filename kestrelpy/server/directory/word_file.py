"""A file that holds one word, twice: each copy has a checksum and a sector of its own.

    at 0       <word> <its CRC-32, 8 hex digits>, blanks, a newline: 512 bytes
    at 4096    the same; nothing else of the 8192 bytes is read

One copy is written and synced before the other, so a power cut leaves at least one intact. A disk
loses blocks of 4096 bytes, so it does not lose both copies at once. `cat` shows the word.

One rule: the file is made while there is room, and a new word is written in place.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import Final

from journal.files import MEDIUM_ERRORS, Files, read_around

FILE_BYTES: Final = 8192
_COPY_BYTES: Final = 512  # the smallest sector of a disk: it is written completely or not at all
_OFFSETS: Final = (0, 4096)
# Files of earlier versions had one copy without a checksum, in 32 or 33 bytes.
_OLD_BYTES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Copies:
    """The contents of a file: its copies (None: damaged), or the text of an earlier version."""

    words: tuple[bytes | None, ...]
    old: bytes | None = None

    @property
    def whole(self) -> list[bytes]:
        """The intact copies."""
        return [word for word in self.words if word is not None]


NOTHING: Final = Copies((None,) * len(_OFFSETS))


class WordFile:
    """One such file."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    @property
    def is_there(self) -> bool:
        """True if the file exists."""
        return os.path.basename(self.path) in self._files.names(os.path.dirname(self.path))

    def read(self) -> Copies:
        """Return the contents of the file; bytes that the disk has lost count as damaged.
        Blocks."""
        try:
            size = self._files.size(self.path)
            data = read_around(self._files, self.path, 0, min(size, FILE_BYTES))
        except OSError as error:
            if error.errno not in MEDIUM_ERRORS:
                raise
            return NOTHING
        if size <= _OLD_BYTES_MAX:
            return Copies((), data)
        return Copies(tuple(_decoded(data[at : at + _COPY_BYTES]) for at in _OFFSETS))

    def make(self, word: bytes) -> None:
        """Make the file, or replace a damaged one. Blocks."""
        self._files.create(self.path, content(word), FILE_BYTES).close()

    def write(self, word: bytes, copies: Copies = NOTHING) -> None:
        """Write a word over the copies that do not hold it, one after the other. Blocks.

        On disk on return. A copy that holds it already is not touched.
        """
        handle = self._files.open(self.path)
        try:
            for place, held in zip(_OFFSETS, copies.words, strict=True):
                if held != word:
                    handle.write(place, _encoded(word))
                    handle.sync()
        finally:
            handle.close()

    def repair(self, copies: Copies, word: bytes) -> None:
        """Write the file again unless both copies hold this word. Blocks."""
        if self._files.size(self.path) == FILE_BYTES:
            self.write(word, copies)
        else:
            self.make(word)


def content(word: bytes) -> bytes:
    """Return the bytes of a file that holds this word."""
    copy = _encoded(word)
    return copy + b" " * (_OFFSETS[1] - _COPY_BYTES) + copy + b" " * (_OFFSETS[1] - _COPY_BYTES)


def _encoded(word: bytes) -> bytes:
    text = b"%s %08x" % (word, zlib.crc32(word))
    return text + b" " * (_COPY_BYTES - 1 - len(text)) + b"\n"


def _decoded(copy: bytes) -> bytes | None:
    """Return the word; None unless every byte is as written."""
    word = copy.partition(b" ")[0]
    return word if word and copy == _encoded(word) else None
