"""The text wire, as the router sees it.

    put jobs: | one | two |      one request: the slice of jobs takes its items
    monitor jobs 500             items, and * or an error at their end; all others have one line

One rule: an answer is cut at its line ends, and nothing in it is read but the first byte of a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kestrelpy.protocol.parse import Command, Lines, Plain, Requests
from kestrelpy.protocol.routing import LATE, ONE, Answers, Awaited, Names, queues_of
from kestrelpy.protocol.text.form import TextForm
from kestrelpy.protocol.text.parser import TextParser
from kestrelpy.protocol.text.requests import Next, OpenBatch, PutBegin, Shutdown

_ITEM: Final = b":"
_BATCH: Final = Awaited(until_end=True, waits=True)
_FORM: Final = TextForm()


class WholePut(Command):
    """A whole `put` with its items."""

    __slots__ = ("name",)

    def __init__(self, name: bytes) -> None:
        super().__init__()
        self.name = name


class WholePutParser(TextParser):
    """The parser of the text protocol; a put is one command."""

    __slots__ = ()

    def next(self) -> Command | None:
        """Return the next command; None if it is not complete yet."""
        command = super().next()
        if isinstance(command, PutBegin):
            return WholePut(self.drop_put())
        return Plain(b"shutdown", []) if isinstance(command, Shutdown) else command


class LineEnds:
    """Cuts the bytes of one slice into answers."""

    __slots__ = ("_data", "_first")

    def __init__(self) -> None:
        self._data = b""
        self._first = b""  # the first byte of a line whose end has not come yet

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._data = self._data + data if self._data else data

    @property
    def is_empty(self) -> bool:
        """True if nothing has come that `take` has not returned."""
        return not self._data

    def take(self, until_end: bool) -> tuple[bytes, bool]:
        """Return what has come of the next answer, and whether that is all of it.

        With `until_end` any number of items come before its last line.
        """
        data, at = self._data, 0
        while True:
            first = self._first or data[at : at + 1]
            end = data.find(b"\n", at) + 1
            if not end:
                self._first, self._data = first, b""
                return data, False
            self._first, at = b"", end
            if not until_end or first != _ITEM:
                self._data = data[end:]
                return data[:end], True


class RoutedText:
    """Kestrel's simple text protocol."""

    name = "text"
    end_of_shutdown = b"END\r\n"
    lets_pass = False

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection; it caches no lines."""
        return WholePutParser(limit_of)

    def answers(self) -> Answers:
        """Return what cuts the answers of a slice."""
        return LineEnds()

    def queues_of(self, command: Command) -> Names | None:
        """Return the names of the queues that a request concerns; None: all of them, or none."""
        if isinstance(command, WholePut | Next | OpenBatch):
            return [command.name]
        return queues_of(command)

    def awaited(self, command: Command) -> Awaited | None:
        """Return what a slice answers to a request: no request is without an answer."""
        if isinstance(command, OpenBatch):
            return _BATCH
        return LATE if isinstance(command, Next) and command.wait_ms else ONE

    def opens(self, command: Command) -> bool:
        """True if a request may lease items to its connection."""
        return isinstance(command, OpenBatch) or (isinstance(command, Next) and not command.peeks)

    def worded(self, line: bytes) -> bytes:
        """Return an answer that is in the words of memcache in those of this wire."""
        return _FORM.reply(line)


ROUTED_TEXT: Final = RoutedText()
