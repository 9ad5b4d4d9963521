"""The ends of answers, found in the bytes of a slice as they come; the bytes stay as they are.

    VALUE <key> <flags> <bytes> ...   and a body: more of the answer follows
    STAT <name> <value>               more follows
    VA <bytes> ...                    and a body: the answer to a meta command ends
    any other line                    the answer ends

One rule: nothing is parsed but what says where an answer ends.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.wire.refusals import is_refusal

LINE_BYTES_MAX: Final = 64 << 10  # far above the longest line, which is a sentence
END: Final = b"END\r\n"
_LINE_END_BYTES: Final = 2
_VALUE, _META_VALUE, _FACT = b"VALUE ", b"VA ", b"STAT "


class Unreadable(Exception):
    """Bytes of a slice that are no answer."""


class AnswerEnds:
    """Cuts the bytes of one slice into answers."""

    __slots__ = ("_body_left", "_data", "_is_last_body")

    def __init__(self) -> None:
        self._data = b""  # what came after the last answer, or the last piece of one
        self._body_left = 0  # bytes of a body, with its line end, that are still to come
        self._is_last_body = False  # True if the answer ends with this body

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._data = self._data + data if self._data else data

    @property
    def is_empty(self) -> bool:
        """True if nothing has come that `take` has not returned."""
        return not self._data

    def take(self, until_end: bool) -> tuple[bytes, bool]:
        """Return what has come of the next answer, and whether that is all of it. Raise Unreadable.

        With `until_end` only END and an error end it.
        """
        data, at = self._data, 0
        while True:
            if self._body_left:
                step = min(self._body_left, len(data) - at)
                self._body_left -= step
                at += step
                if self._body_left:
                    return self._cut(at), False
                if self._is_last_body:
                    self._is_last_body = False
                    return self._cut(at), True
            end = data.find(b"\n", at) + 1
            if not end:
                if len(data) - at > LINE_BYTES_MAX:
                    raise Unreadable(data[at : at + 80])
                return self._cut(at), False
            if data.startswith(_VALUE, at):
                self._begin_body(data[at:end], 3)
            elif data.startswith(_META_VALUE, at):
                self._begin_body(data[at:end], 1)
                self._is_last_body = True
            elif not data.startswith(_FACT, at):
                line = data[at:end]
                if not until_end or line == END or is_refusal(line.rstrip()):
                    return self._cut(end), True
            at = end

    def _begin_body(self, line: bytes, word: int) -> None:
        words = line.split()
        if len(words) <= word or not words[word].isdigit():
            raise Unreadable(line[:80])
        self._body_left = int(words[word]) + _LINE_END_BYTES

    def _cut(self, end: int) -> bytes:
        taken, self._data = self._data[:end], self._data[end:]
        return taken
