"""The tables of a fleet, for their operator: made, checked, looked at.

One rule: tables of a version that this program does not know are not touched.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

import psycopg
from psycopg import sql

from journal.engine.address import name_of
from journal.engine.engine import EngineAway
from journal.engine.facts import Made
from journal.engine.postgres.connecting import LOCALLY, connected
from journal.engine.postgres.errors import HOW_TO_GRANT
from journal.engine.postgres.settings import (
    SCHEMA_VERSION,
    doubtful,
    tables_version,
    unsafe,
    why_other_tables,
)

_LOCK: Final = "SELECT pg_advisory_lock(hashtext('kestrelpy.version'))"
_IS_STANDBY: Final = "SELECT pg_is_in_recovery()"
_NEEDED: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_LACKING: Final = """
SELECT format('%%s on %%s', right_, t.oid::regclass)
FROM pg_class t, unnest(%s::text[]) AS right_
WHERE t.relnamespace = 'kestrelpy'::regnamespace AND t.relkind = 'r'
    AND NOT has_table_privilege(t.oid, right_)
ORDER BY t.relname, right_"""


def schema(_conninfo: str = "") -> str:
    """Return the statements that make the tables."""
    return resources.files(__package__).joinpath("schema.sql").read_text()


def make_tables(conninfo: str, is_single: bool = True, role: str = "") -> Made:
    """Make the tables where they are not there, and let `role` use them; raise EngineAway."""
    with connected(conninfo) as connection:
        row = connection.execute(_IS_STANDBY).fetchone()
        if row is not None and row[0]:
            raise EngineAway(name_of(conninfo), (
                "this server is a standby; name the primary as well, and add "
                "?target_session_attrs=read-write"
            ))  # fmt: skip
        connection.execute(LOCALLY)
        connection.execute(_LOCK)
        version = tables_version(connection)
        if version is not None and version > SCHEMA_VERSION:
            raise EngineAway(name_of(conninfo), why_other_tables(version))
        if version != SCHEMA_VERSION:
            connection.execute(sql.SQL(schema()))
        if role:
            _grant(connection, role)
        connection.execute("RESET synchronous_commit")
        lacking = [] if role else _lacking(connection)
        return Made(
            version != SCHEMA_VERSION, unsafe(connection, is_single) + lacking,
            doubtful(connection, is_single),
        )  # fmt: skip


def _grant(connection: psycopg.Connection[Any], role: str) -> None:
    name = sql.Identifier(role)
    rights = sql.SQL(", ").join(map(sql.SQL, _NEEDED))
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA kestrelpy TO {}").format(name))
    connection.execute(
        sql.SQL("GRANT {} ON ALL TABLES IN SCHEMA kestrelpy TO {}").format(rights, name)
    )


def _lacking(connection: psycopg.Connection[Any]) -> list[str]:
    """Return a sentence on the rights that this role lacks, if it lacks any."""
    rows = connection.execute(_LACKING, (list(_NEEDED),)).fetchall()
    if not rows:
        return []
    return [f"this role has no {', '.join(row[0] for row in rows)}; {HOW_TO_GRANT}"]
