"""Answers of the server, made of bytes as they come; whoever reads the socket feeds them.

    VALUE <key> <words>, body, ... END        an answer with items
    STAT <name> <value> ... END               an answer with facts
    STORED, END, CLIENT_ERROR <text>, ...     an answer of one line

One rule: answers come in the order of the requests, so an answer belongs to the oldest request that
has none.
"""

from __future__ import annotations

from typing import Final

from kestrelpy import dial
from kestrelpy.client.item import ReceivedItem, parse_found

_ERRORS: Final = (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")
# The answers to a token that names no lease.
_LEASE_IS_OVER: Final = (b"lease expired", b"token ")


class ServerRefusal(Exception):
    """The server refused a request; `may_pass` is true if it may accept the same one later."""

    def __init__(self, line: bytes) -> None:
        word, _, text = line.partition(b" ")
        said = (text or b"the server does not know the verb").decode("ascii", "replace")
        super().__init__(dial.plain(said))
        self.may_pass: Final = word == b"SERVER_ERROR"
        self.is_lease_over: Final = text.startswith(_LEASE_IS_OVER)


class Answer:
    """One answer: its last line, its items (the words after the key, and the body), its facts."""

    __slots__ = ("facts", "items", "line")

    def __init__(self) -> None:
        self.line = b""
        self.items: list[tuple[list[bytes], bytes]] = []
        self.facts: dict[bytes, bytes] = {}

    def check(self) -> Answer:
        """Return this answer; raise Refused if it is an error."""
        if self.line.partition(b" ")[0] in _ERRORS:
            raise ServerRefusal(self.line)
        return self

    def found(self) -> ReceivedItem | None:
        """Return the item of an answer to a fetch with `full`; raise Refused."""
        items = self.check().items
        return parse_found(items[0][1], items[0][0]) if items else None


class AnswerReader:
    """Makes answers of bytes."""

    __slots__ = ("_answer", "_body_bytes", "_buffer", "_words")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answer = Answer()
        self._words: list[bytes] = []  # of the item whose body comes
        self._body_bytes = -1

    def feed(self, data: bytes) -> list[Answer]:
        """Return the answers that are complete now. Raises ValueError at bytes that are none."""
        self._buffer += data
        answers = []
        start = 0
        while (end := self._next(start)) > start:
            start = end
            if self._answer.line:
                answers.append(self._answer)
                self._answer = Answer()
        del self._buffer[:start]
        return answers

    def _next(self, start: int) -> int:
        """Take a line or a body; return where the next begins, or `start` if more must come."""
        if self._body_bytes >= 0:
            end = start + self._body_bytes
            if len(self._buffer) < end + 2:
                return start
            self._answer.items.append((self._words, bytes(self._buffer[start:end])))
            self._body_bytes = -1
            return end + 2
        end = self._buffer.find(b"\r\n", start)
        if end < 0:
            return start
        line = bytes(self._buffer[start:end])
        if line.startswith(b"VALUE "):
            self._words = line.split()[2:]
            self._body_bytes = int(self._words[1])
        elif line.startswith(b"STAT "):
            _, name, value = line.split(b" ", 2)
            self._answer.facts[name] = value
        else:
            self._answer.line = line or b"ERROR an empty line"
        return end + 2
