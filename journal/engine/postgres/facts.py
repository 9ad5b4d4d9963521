"""What an operator may know of a fleet: owners, members, servers, tables.

One rule: nothing here changes what a slice has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from journal.engine.engine import Member, Owner
from journal.engine.postgres.connecting import LOCALLY, connected
from journal.engine.postgres.postgres_engine import owners_of
from journal.engine.postgres.settings import SCHEMA_VERSION, refuse_other_tables

_MEMBERS: Final = """
SELECT name, address, takeover, extract(epoch FROM clock_timestamp() - beat)::float8
FROM kestrelpy.member ORDER BY name, address"""
_STANDBYS: Final = """
SELECT application_name, sync_state, pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::int8,
    extract(epoch FROM flush_lag)::float8
FROM pg_stat_replication ORDER BY application_name"""
_SIZES: Final = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relnamespace = 'kestrelpy'::regnamespace AND relkind = 'r' ORDER BY relname"""
_VERSION: Final = "SELECT current_setting('server_version')"
_ASK: Final = """
UPDATE kestrelpy.slice SET asked = epoch
WHERE id = %s AND epoch = %s AND NOT released RETURNING id"""


class Seat(NamedTuple):
    """A process that may own slices."""

    member: Member
    takeover_s: float
    age_s: float  # since it said so


class Replica(NamedTuple):
    """A standby of the server."""

    name: str
    state: str  # "sync", "quorum", "async", "potential"; "": this role may not see it
    lag_bytes: int | None
    lag_s: float | None


class Facts(NamedTuple):
    """A fleet at one moment."""

    server: str  # its version
    tables: int  # their version
    owners: dict[int, Owner]
    members: list[Seat]
    replicas: list[Replica]
    bytes: dict[str, int]  # by table

def look(conninfo: str) -> Facts:
    """Return what is known of a fleet; raise EngineAway."""
    with connected(conninfo) as connection:
        refuse_other_tables(connection)
        ask = connection.execute
        row = ask(_VERSION).fetchone()
        assert row is not None
        return Facts(
            row[0], SCHEMA_VERSION, owners_of(connection),
            [Seat(Member(*each[:2]), *each[2:]) for each in ask(_MEMBERS).fetchall()],
            [Replica(name or "", state or "", *lag) for name, state, *lag in ask(_STANDBYS)],
            dict(ask(_SIZES).fetchall()),
        )  # fmt: skip


def ask_release(conninfo: str, number: int, epoch: int) -> bool:
    """Ask the owner of this epoch to release the slice; False: it owns it no more. Raise
    EngineAway."""
    with connected(conninfo) as connection:
        refuse_other_tables(connection)
        connection.execute(LOCALLY)  # if the request is lost, the operator asks again
        return bool(connection.execute(_ASK, (number, epoch)).fetchall())
