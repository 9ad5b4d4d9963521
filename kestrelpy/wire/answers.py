"""Answers of the server, made of bytes as they come; the reader of the socket feeds them in.

    VALUE <key> <flags> <bytes> ..., body, ... END     an answer with items
    STAT <name> <value> ... END                        an answer with facts
    STORED, END, CLIENT_ERROR <text>, ...              an answer of one line

With `full` a VALUE line has eleven words:

    VALUE <key> <flags> <bytes> <number> <stored> <expires> <attempts> <state> <key> <id>

`<number>` is the token of a lease, or the marker of an item that was looked at.

One rule: answers come in the order of the requests, so an answer belongs to the oldest request that
has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from kestrelpy.wire.refusals import ServerRefusal, is_refusal

# The words of a VALUE line with `full`, after its key, and where each stands in the line.
_FULL: Final = (
    "flags", "bytes", "number", "stored_ms", "expires_ms", "attempts", "state", "key", "id"
)  # fmt: skip
FULL_AT: Final = {name: at for at, name in enumerate(_FULL, 2)}
FULL_WORDS: Final = 2 + len(_FULL)
LINE_BYTES_MAX: Final = 64 << 10  # far above the longest line, which is a sentence
NO_ANSWER: Final = "the server sent bytes that are no answer"
_BYTES_WORD: Final = FULL_AT["bytes"]  # of any VALUE line
_LINE_END: Final = b"\r\n"


class BadAnswer(ValueError):
    """Bytes that are no answer; `line` is the one that was not understood."""

    def __init__(self, line: bytes) -> None:
        super().__init__(NO_ANSWER)
        self.line: Final = line

    @property
    def is_endless(self) -> bool:
        """True if the line has no end within the limit."""
        return len(self.line) > LINE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ReceivedItem:
    """An item as the server sent it: `token` names its lease, `key` is as `key=` was written."""

    body: bytes
    flags: int
    token: int
    attempts: int = 0
    key: str = ""
    id: str = ""
    stored_ms: int = 0
    expires_ms: int = 0


class Answer:
    """One answer: its last line; the words of each VALUE line, and the bodies; its facts in the
    order of the server, which may give one name twice."""

    __slots__ = ("bodies", "line", "stats", "values")

    def __init__(self) -> None:
        self.line = b""
        self.values: list[list[bytes]] = []
        self.bodies: list[bytes] = []
        self.stats: list[tuple[bytes, bytes]] = []

    @property
    def items(self) -> list[tuple[list[bytes], bytes]]:
        """The items: of each the words after its key, and its body."""
        return [(words[2:], body) for words, body in zip(self.values, self.bodies, strict=True)]

    @property
    def facts(self) -> dict[bytes, bytes]:
        """The facts by name."""
        return dict(self.stats)

    def check(self) -> Answer:
        """Return this answer; raise ServerRefusal if it is an error."""
        if is_refusal(self.line):
            raise ServerRefusal(self.line)
        return self

    def found(self) -> ReceivedItem | None:
        """Return the item of an answer to a fetch with `full`; raise ServerRefusal, or
        ConnectionError for one that cannot be read."""
        self.check()
        return parse_found(self.bodies[0], self.values[0][2:]) if self.bodies else None


class AnswerReader:
    """Makes answers of bytes."""

    __slots__ = ("_buffer", "_bytes_wanted", "begun", "value_words")

    def __init__(self) -> None:
        self._buffer = bytearray()  # the beginning of a line, or of a line and its body
        self._bytes_wanted = 0  # with fewer in the buffer there is nothing to take out of it
        self.begun = Answer()  # the one whose last line has not come
        self.value_words = 0  # of each VALUE line; 0: any number

    def feed(self, data: bytes) -> list[Answer]:
        """Return the answers that are complete now. Raises BadAnswer at bytes that are none."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._bytes_wanted:
                return []
            data = bytes(self._buffer)
        at, self._bytes_wanted = 0, 0
        answers: list[Answer] = []
        values, bodies, words_wanted = self.begun.values, self.begun.bodies, self.value_words
        # The loop stays in this function: a call for each item would be half the cost.
        while (end := data.find(_LINE_END, at)) >= 0:
            line, start = data[at:end], end + 2
            if line.startswith(b"VALUE "):
                words = line.split(b" ")
                try:
                    end = start + int(words[_BYTES_WORD])
                except (IndexError, ValueError):
                    raise BadAnswer(line) from None
                if end < start or (words_wanted and len(words) != words_wanted):
                    raise BadAnswer(line)
                if len(data) < end + 2:
                    self._bytes_wanted = end + 2 - at
                    break
                if data[end : end + 2] != _LINE_END:
                    raise BadAnswer(line)
                values.append(words)
                bodies.append(data[start:end])
                at = end + 2
                continue
            at = start
            if line.startswith(b"STAT "):
                self.begun.stats.append(_fact(line))
                continue
            self.begun.line = line or b"ERROR an empty line"
            answers.append(self.begun)
            self.begun = Answer()
            values, bodies = self.begun.values, self.begun.bodies
        self._buffer = bytearray(data[at:])
        if end < 0 and len(self._buffer) > LINE_BYTES_MAX:
            raise BadAnswer(bytes(self._buffer))
        return answers


def parse_found(body: bytes, words: Sequence[bytes]) -> ReceivedItem:
    """Return an item of a VALUE line with `full`; the words are those after the key.

    Raises ConnectionError if they are others.
    """
    try:
        flags, _, token, stored_ms, expires_ms, attempts, _, key, id_ = words
        return ReceivedItem(
            body, int(flags), int(token), int(attempts), _text(key), unquote(_text(id_)),
            int(stored_ms), int(_text(expires_ms) or 0),
        )  # fmt: skip
    except ValueError:
        raise ConnectionError(NO_ANSWER) from None


def _fact(line: bytes) -> tuple[bytes, bytes]:
    words = line.split(b" ", 2)
    if len(words) != 3:
        raise BadAnswer(line)
    return words[1], words[2]


def _text(word: bytes) -> str:
    """Return a word of a VALUE line; `-` stands for none."""
    return word.decode("ascii", "backslashreplace") if word != b"-" else ""
