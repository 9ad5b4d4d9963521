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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Final, NamedTuple
from urllib.parse import unquote

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
)

from kestrelpy.cli.remote import NONE, state_word

Facts = dict[str, int | str]

# The server's own among the lines of `stats` that begin with queue_.
_OWN_FACTS: Final = frozenset({"queue_creates", "queue_deletes", "queue_expires"})
_PREFIX: Final = "queue_"
_FIRST: Final = "_items"
_LINE_BYTES_MAX: Final = 64 << 10
_VALUE_WORDS: Final = 11
_ERRORS: Final = {
    b"ERROR": MemcacheUnknownCommandError,
    b"CLIENT_ERROR": MemcacheClientError,
    b"SERVER_ERROR": MemcacheServerError,
}


class AllStats(NamedTuple):
    """The answer to `stats`: the server's own facts, and those of each queue by name."""

    server: Facts
    queues: list[tuple[str, Facts]]


@dataclass(frozen=True, slots=True)
class Shown:
    """An item that was looked at, and not taken; None for an absent fact.

    `key` is as the protocol has it: its values percent-encoded, with commas between them.
    """

    marker: int
    state: str
    attempts: int
    stored_ms: int
    expires_ms: int | None
    flags: int
    key: str | None
    id: str | None
    body: bytes


def all_stats(client: Client) -> AllStats:
    """Return the facts of a server and its queues. Raise OSError or MemcacheError."""
    return sorted_out(_stat(line) for line in _ask(client, "stats"))


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
    found = []
    with _answer(client, f"gets {key}") as answer:
        while line := _line(answer):
            words = line.decode("ascii").split(" ")
            if len(words) != _VALUE_WORDS:
                raise MemcacheUnknownError(line)
            body = answer.read(int(words[3]) + 2)
            if not body.endswith(b"\r\n"):
                raise MemcacheUnexpectedCloseError()
            found.append(_shown(words, body[:-2]))
    return found


def _shown(words: list[str], body: bytes) -> Shown:
    _, _, flags, _, marker, stored, expires, attempts, state, key, id_ = words
    return Shown(
        int(marker), state_word(state), int(attempts), int(stored),
        None if expires == NONE else int(expires), int(flags),
        None if key == NONE else key,
        None if id_ == NONE else unquote(id_, errors="backslashreplace"), body,
    )  # fmt: skip


def _ask(client: Client, command: str) -> list[bytes]:
    """Return the lines of an answer before its END."""
    lines = []
    with _answer(client, command) as answer:
        while line := _line(answer):
            lines.append(line)
    return lines


def _answer(client: Client, command: str) -> IO[bytes]:
    """Send a request; return its answer to read from."""
    if client.sock is None:
        client.version()  # pymemcache connects with the first request
    sent = client.sock
    sent.sendall(command.encode("ascii") + b"\r\n")
    answer: IO[bytes] = sent.makefile("rb")
    return answer


def _line(answer: IO[bytes]) -> bytes:
    """Return the next line; empty for END. Raise MemcacheError for an error."""
    line = answer.readline(_LINE_BYTES_MAX)
    if not line.endswith(b"\r\n"):
        raise MemcacheUnexpectedCloseError()
    line = line[:-2]
    word, _, text = line.partition(b" ")
    if word in _ERRORS:
        raise _ERRORS[word](text or b"stats")
    if word not in (b"STAT", b"VALUE", b"END"):
        raise MemcacheUnknownError(line)
    return b"" if line == b"END" else line


def _stat(line: bytes) -> tuple[str, str]:
    _, key, value = line.decode("ascii", "backslashreplace").split(" ", 2)
    return key, value
