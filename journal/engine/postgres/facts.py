"""What an operator may know of a fleet: owners, members, servers, tables.

One rule: nothing here changes what a slice has.
"""

from __future__ import annotations

from typing import Final

from journal.engine.facts import Facts, Replica
from journal.engine.postgres.connecting import LOCALLY, connected
from journal.engine.postgres.postgres_engine import members_of, owners_of, takeovers_of
from journal.engine.postgres.settings import SCHEMA_VERSION, refuse_other_tables

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
_DRAIN: Final = "UPDATE kestrelpy.member SET drained = %s WHERE name = %s RETURNING address"
_SLICES: Final = "SELECT coalesce(max(slices), 0) FROM kestrelpy.fleet"


def look(conninfo: str) -> Facts:
    """Return what is known of a fleet; raise EngineAway."""
    with connected(conninfo) as connection:
        refuse_other_tables(connection)
        ask = connection.execute
        row, slices = ask(_VERSION).fetchone(), ask(_SLICES).fetchone()
        assert row is not None
        assert slices is not None
        return Facts(
            row[0], SCHEMA_VERSION, owners_of(connection),
            members_of(connection),
            [Replica(name or "", state or "", *lag) for name, state, *lag in ask(_STANDBYS)],
            dict(ask(_SIZES).fetchall()), slices[0], takeovers_of(connection),
        )  # fmt: skip


def ask_release(conninfo: str, number: int, epoch: int) -> bool:
    """Ask the owner of this epoch to release the slice; False: it owns it no more. Raise
    EngineAway."""
    with connected(conninfo) as connection:
        refuse_other_tables(connection)
        connection.execute(LOCALLY)  # if the request is lost, the operator asks again
        return bool(connection.execute(_ASK, (number, epoch)).fetchall())


def drain(conninfo: str, name: str, is_drained: bool) -> list[str]:
    """Say whether the member of this name is to own slices; return the addresses of the processes
    that have the name. Raise EngineAway."""
    with connected(conninfo) as connection:
        refuse_other_tables(connection)
        rows = connection.execute(_DRAIN, (is_drained, name)).fetchall()
        return sorted(row[0] for row in rows)
