"""Answers that a client library has no room for: `stats` in its order, many items of one key.

    STAT queue_a_items 3          VALUE q/peek/after=0/n=2/full 0 5 17 1789... - 0 ready - -
    STAT queue_a_bytes 12         hello
    ...                           VALUE ...
    END                           END

In `stats` the names of queues and counts run into each other (queue_a_open_transactions: of a, or
of a_open?). The order tells them apart: a queue's lines begin with its items, and a line that
cannot be the same queue's begins the next.

One rule: an answer is read to its END or its error, so that the connection is fit for the next
request.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
)

from kestrelpy.cli.remote import NONE
from kestrelpy.wire.answers import FULL_WORDS, Answer, AnswerReader, BadAnswer
from kestrelpy.wire.names import state_word
from kestrelpy.wire.refusals import CLIENT_ERROR, ERROR, SERVER_ERROR, ServerRefusal

Facts = dict[str, int | str]
_Bytes = bytes  # where a field of that name hides the type

# The server's own among the lines of `stats` that begin with queue_.
_OWN_FACTS: Final = frozenset({"queue_creates", "queue_deletes", "queue_expires"})
_PREFIX: Final = "queue_"
_FIRST: Final = "_items"
_READ_BYTES: Final = 1 << 16
_SHOWN_BYTES: Final = 200  # of a line that is no answer
_ERRORS: Final = {
    ERROR: MemcacheUnknownCommandError,
    CLIENT_ERROR: MemcacheClientError,
    SERVER_ERROR: MemcacheServerError,
}


class AllStats(NamedTuple):
    """The answer to `stats`: the server's own facts, and those of each queue by name."""

    server: Facts
    queues: list[tuple[str, Facts]]


class Shown(NamedTuple):
    """An item that was looked at, and not taken; None for an absent fact.

    `key` is as the protocol has it: its values percent-encoded, with commas between them.
    """

    marker: int
    state: str
    attempts: int
    bytes: int
    flags: int
    stored_ms: int
    expires_ms: int | None
    key: str | None
    id: str | None
    body: _Bytes


def all_stats(client: Client) -> AllStats:
    """Return the facts of a server and its queues. Raise OSError or MemcacheError."""
    facts = _ask(client, "stats").stats
    return sorted_out((_text(name), _text(value)) for name, value in facts)


def sorted_out(lines: Iterable[tuple[str, str]]) -> AllStats:
    """Return the lines of `stats` by queue; they come in the server's order."""
    server: Facts = {}
    queues: list[tuple[str, Facts]] = []
    prefix, facts = "", Facts()
    for key, value in lines:
        if key in _OWN_FACTS or not key.startswith(_PREFIX):
            server[key] = as_fact(value)
            continue
        fact = key.removeprefix(prefix)
        is_next = fact == key or ("state" in facts and fact != "reason")
        if not prefix or is_next:
            name = key.removeprefix(_PREFIX).removesuffix(_FIRST)
            prefix, fact, facts = f"{_PREFIX}{name}_", "items", {}
            queues.append((name, facts))
        facts[fact] = as_fact(value)
    return AllStats(server, queues)


def as_fact(value: str) -> int | str:
    """Return a value of `stats` as a number, if it is one, or as text."""
    return int(value) if value.isascii() and value.isdigit() else value


def shown_items(client: Client, queue: str, after: int, most: int) -> list[Shown]:
    """Return at most `most` items after a marker. Raise OSError or MemcacheError."""
    key = f"{queue}/peek/after={after}/n={most}/full"
    answer = _ask(client, f"gets {key}", FULL_WORDS)
    return [_shown(*each) for each in zip(answer.values, answer.bodies, strict=True)]


def _shown(words: list[bytes], body: bytes) -> Shown:
    _, _, flags, _, marker, stored, expires, attempts, state, key, id_ = map(_text, words)
    return Shown(
        int(marker), state_word(state), int(attempts), len(body), int(flags), int(stored),
        None if expires == NONE else int(expires),
        None if key == NONE else key,
        None if id_ == NONE else unquote(id_, errors="backslashreplace"), body,
    )  # fmt: skip


def _ask(client: Client, command: str, value_words: int = 0) -> Answer:
    """Return an answer that ends in END; `value_words` are those of each VALUE line, if not 0.

    Raise OSError or MemcacheError.
    """
    if client.sock is None:
        client.version()  # pymemcache connects with the first request
    sent: socket.socket = client.sock
    sent.sendall(command.encode("ascii") + b"\r\n")
    reader = AnswerReader()
    reader.value_words = value_words
    answers: list[Answer] = []
    try:
        while not answers:
            data = sent.recv(_READ_BYTES)
            if not data:
                raise MemcacheUnexpectedCloseError()
            answers = reader.feed(data)
        answer = answers[0].check()
    except BadAnswer as error:
        raise MemcacheUnknownError(error.line[:_SHOWN_BYTES]) from None
    except ServerRefusal as refusal:
        raise _ERRORS[refusal.kind](refusal.text or b"stats") from None
    if answer.line != b"END":
        raise MemcacheUnknownError(answer.line)
    return answer


def _text(words: bytes) -> str:
    return words.decode("ascii", "backslashreplace")
