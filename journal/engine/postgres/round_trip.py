"""A commit as libpq sends it: one packet out, one wait, and none of the layers of a cursor.

    prepare (once) · commit · sync · which standbys are named? · sync  ──▶
                                                                      ◀──  all answers

A statement is written as for psycopg, `%(name)b::int8[]`: a cast says that the value is a list, and
of what; a value without a cast is an integer. Parameters and answers are binary.

One rule: the question for the standbys is a transaction of its own, which begins when the commit is
over. An error leaves the connection in the middle of its answers: it is to be closed.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping
from functools import cache
from re import Match
from re import compile as pattern
from struct import Struct
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq

from journal.engine.postgres import watched
from journal.engine.postgres.settings import STANDBY_NAMES

_PARAMETER: Final = pattern(r"%\((\w+)\)[sb](?:::(\w+)\[\])?")
_BINARY: Final = 1
_INT8_OID: Final = 20
_ARRAY: Final = Struct("!iiIii")  # dimensions, has null, type of the elements, their number, first
_NO_ARRAY: Final = Struct("!iiI")
_INT8: Final = Struct("!q").pack
_ASKING: Final = b"kestrelpy_names"


def _head(oid: int, count: int) -> bytes:
    """Return the beginning of a one-dimensional array: each element follows, after its size."""
    return _ARRAY.pack(1, 0, oid, count, 1) if count else _NO_ARRAY.pack(0, 0, oid)


def _array(oid: int, values: list[bytes]) -> bytes:
    parts = [_head(oid, len(values))]
    for piece in values:
        parts += len(piece).to_bytes(4, "big"), piece
    return b"".join(parts)


def _integers(oid: int, size: int) -> Callable[[list[int]], bytes]:
    before = size.to_bytes(4, "big")

    def dump(numbers: list[int]) -> bytes:
        each = [b"", *[number.to_bytes(size, "big", signed=True) for number in numbers]]
        return _head(oid, len(numbers)) + before.join(each)

    return dump


# By the type in a cast: the type of the array, and how its elements are written.
_LISTS: Final[dict[str, tuple[int, Callable[[Any], bytes]]]] = {
    "int8": (1016, _integers(_INT8_OID, 8)),
    "int4": (1007, _integers(23, 4)),
    "text": (1009, lambda texts: _array(25, [each.encode() for each in texts])),
    "bytea": (1001, lambda values: _array(17, values)),
}


class _Statement(NamedTuple):
    name: bytes
    text: bytes
    oids: list[int]
    names: list[str]
    dumps: list[Callable[[Any], bytes]]
    formats: list[int]


@cache
def _statement(text: str) -> _Statement:
    """Return a statement with numbers for its parameters."""
    names: list[str] = []
    kinds: list[str | None] = []

    def numbered(found: Match[str]) -> str:
        name, kind = found[1], found[2]
        if name not in names:
            names.append(name)
            kinds.append(kind)
        number = f"${names.index(name) + 1}"
        return f"{number}::{kind}[]" if kind else number

    changed = _PARAMETER.sub(numbered, text).encode()
    dumps = [_INT8 if kind is None else _LISTS[kind][1] for kind in kinds]
    oids = [_INT8_OID if kind is None else _LISTS[kind][0] for kind in kinds]
    name = b"kestrelpy_%d" % len(_names)
    _names.append(name)
    return _Statement(name, changed, oids, names, dumps, [_BINARY] * len(names))


_names: list[bytes] = []  # of all statements so far


def round_trip(
    connection: psycopg.Connection[Any],
    text: str,
    values: Mapping[str, Any],
    prepared: set[str],
    asks_standby: bool,
) -> tuple[int, str]:
    """Return the one number that the statement answers; and the standbys that are named when it is
    over, if that is asked. Raise psycopg.Error.

    `prepared`: what this connection knows already.
    """
    statement = _statement(text)
    server = connection.pgconn
    server.enter_pipeline_mode()
    if text not in prepared:
        server.send_prepare(statement.name, statement.text, statement.oids)
    if asks_standby and STANDBY_NAMES not in prepared:
        server.send_prepare(_ASKING, STANDBY_NAMES.encode())
    parameters = [
        dump(values[name]) for name, dump in zip(statement.names, statement.dumps, strict=True)
    ]
    server.send_query_prepared(statement.name, parameters, statement.formats, _BINARY)
    server.pipeline_sync()
    if asks_standby:
        server.send_query_prepared(_ASKING, None)
        server.pipeline_sync()
    found = _answers(connection, 1 + asks_standby)
    server.exit_pipeline_mode()
    prepared.update((text, STANDBY_NAMES) if asks_standby else (text,))
    named = (found[1] or b"").decode() if asks_standby else ""
    return int.from_bytes(found[0] or b"", "big"), named


def _answers(connection: psycopg.Connection[Any], syncs: int) -> list[bytes | None]:
    """Return the first value of each answer with rows, when `syncs` transactions are over."""
    server = connection.pgconn
    poll = select.poll()
    poll.register(server.socket, select.POLLIN | select.POLLOUT)
    while server.flush():
        if _wait(connection, poll) & ~select.POLLOUT:
            server.consume_input()
    poll.modify(server.socket, select.POLLIN)
    found: list[bytes | None] = []
    while syncs:
        while server.is_busy():
            _wait(connection, poll)
            server.consume_input()
        result = server.get_result()
        if result is None:  # the end of one answer
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            syncs -= 1
        elif result.status == pq.ExecStatus.TUPLES_OK:
            found.append(result.get_value(0, 0))
        elif result.status != pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
    return found


def _wait(connection: psycopg.Connection[Any], poll: select.poll) -> int:
    """Return what has happened on the connection; raise psycopg.Error if it is to be left."""
    while not (happened := poll.poll(watched.SILENT_SECONDS * 1000)):
        watched.leave_if_moved(connection)
    return happened[0][1]
