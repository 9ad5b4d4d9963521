"""A slice as of one moment, to be read while its owner works: an engine that commits nothing.

One rule: all that is read belongs to one moment. If the connection is lost, the moment is over.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from typing import Any, Final

import psycopg

from journal.engine.address import name_of
from journal.engine.commits_nothing import CommitsNothing
from journal.engine.engine import Claim, FileFacts, Layout, Owner, Piece, Seat, Takeover
from journal.engine.postgres.connecting import connect
from journal.engine.postgres.errors import reason
from journal.engine.postgres.postgres_engine import (
    edges_of,
    facts_of,
    layout_of,
    members_of,
    owners_of,
    read_of,
    takeovers_of,
)
from journal.engine.postgres.settings import refuse_other_tables

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresSnapshot(CommitsNothing):
    """`Engine` on one moment of a PostgreSQL. For any thread."""

    def __init__(self, conninfo: str) -> None:
        """Begin the moment; raise OSError."""
        super().__init__(name_of(conninfo))
        self._lock = threading.Lock()
        try:
            self._connection = connect(conninfo)
            with self._raising():
                refuse_other_tables(self._connection)
                self._connection.execute(_BEGIN)
        except psycopg.Error as error:
            raise self._lost(error) from None

    def takeovers(self) -> list[Takeover]:
        with self._raising() as connection:
            return takeovers_of(connection)

    def layout(self) -> Layout:
        with self._raising() as connection:
            return layout_of(connection)

    def files(self, at: Claim) -> list[FileFacts]:
        with self._raising() as connection:
            return facts_of(connection, at)

    def edges(self, at: Claim, front: int, back: int) -> list[Piece]:
        with self._raising() as connection:
            return edges_of(connection, at, front, back)

    def read(self, at: Claim, file: int, offset: int, size: int) -> bytes:
        with self._raising() as connection:
            return read_of(connection, at, file, offset, size)

    def owners(self) -> dict[int, Owner]:
        with self._raising() as connection:
            return owners_of(connection)

    def members(self) -> list[Seat]:
        with self._raising() as connection:
            return members_of(connection)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _raising(self) -> Any:
        """Give the connection to one thread at a time; raise OSError."""
        with self._lock:
            try:
                yield self._connection
            except psycopg.Error as error:
                self._connection.close()
                raise self._lost(error) from None

    def _lost(self, error: psycopg.Error) -> OSError:
        """No EngineAway: another attempt would see another moment."""
        return OSError(errno.ENOTCONN, reason(error), self._name)
