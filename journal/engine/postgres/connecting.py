"""A connection to a PostgreSQL, as every part of this package makes it.

One rule: no error has the address with its secret.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import psycopg

from journal.engine.address import name_of, why_no_address
from journal.engine.engine import EngineAway
from journal.engine.postgres.errors import reason
from journal.engine.postgres.watched import WatchedConnection

CONNECT_SECONDS: Final = 2
# A peer that answers no packet for this time is gone: the wait for its answer ends.
SILENCE_MS: Final = 3000
# The same at the server: else it holds the connection of a client that is cut off for two hours.
_OPTIONS: Final = (
    "-c statement_timeout=0 -c lock_timeout=0 -c tcp_keepalives_idle=1 "
    f"-c tcp_keepalives_interval=1 -c tcp_keepalives_count=3 -c tcp_user_timeout={SILENCE_MS}"
)
_HOW: Final[dict[str, Any]] = {
    "autocommit": True, "connect_timeout": CONNECT_SECONDS, "application_name": "kestrelpy",
    "keepalives_idle": 1, "keepalives_interval": 1, "keepalives_count": 2,
    "tcp_user_timeout": SILENCE_MS, "options": _OPTIONS,
}  # fmt: skip
# For statements that need not wait for a standby, which may not be there.
LOCALLY: Final = "SET synchronous_commit = local"


def connect(conninfo: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a new connection, on which no statement has a limit of time; raise psycopg.Error."""
    why = why_no_address(conninfo)
    if why:
        raise psycopg.OperationalError(why)
    connection = WatchedConnection.connect(conninfo, **_HOW)
    connection.connect_again = partial(psycopg.Connection.connect, conninfo, **_HOW)
    return connection


@contextlib.contextmanager
def connected(conninfo: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Give a connection; every error inside is raised as EngineAway."""
    try:
        with contextlib.closing(connect(conninfo)) as connection:
            yield connection
    except psycopg.Error as error:
        raise EngineAway(name_of(conninfo), reason(error)) from None
