"""Which settings of a PostgreSQL would lose what it has acknowledged.

One rule: a server that may lose an acknowledged commit is refused, with the remedy.
"""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg

from journal.engine.postgres.errors import HOW_TO_INIT

SCHEMA_VERSION: Final = 3
# The oldest version of the server that still gets fixes.
OLDEST: Final = 14
# What a server must say for itself, and what happens otherwise.
_LOCAL: Final = {
    "fsync": "a power cut loses what was acknowledged",
    "full_page_writes": "a power cut damages the tables",
}
STANDBY_NAMES: Final = "SELECT current_setting('synchronous_standby_names')"
NO_STANDBY: Final = (
    "synchronous_standby_names is empty: a failover loses what was acknowledged; name a standby "
    "there, or say `single = true` if one copy is enough"
)
_ASKED: Final = (
    "synchronous_standby_names", "synchronous_commit", "server_version_num", "server_version",
    *_LOCAL,
)  # fmt: skip
_SETTINGS: Final = "SELECT " + ", ".join(f"current_setting('{each}')" for each in _ASKED)
# Standbys that answer now; a role without pg_read_all_stats sees them without their state.
_STANDBYS: Final = "SELECT sync_state FROM pg_stat_replication"
_VERSION: Final = "SELECT number FROM kestrelpy.version"
_HAS_VERSION: Final = "SELECT to_regclass('kestrelpy.version') IS NOT NULL"


class UnsafeSettings(psycopg.OperationalError):
    """The server would lose what it acknowledges; the text has the remedy."""


class OtherTables(psycopg.OperationalError):
    """The tables are not there, or are those of another version; the text has the remedy."""


def refuse_unsafe(connection: psycopg.Connection[Any], is_single: bool) -> None:
    """Raise UnsafeSettings if this server may lose a commit that it has acknowledged."""
    for each in unsafe(connection, is_single):
        raise UnsafeSettings(each)


def refuse_other_tables(connection: psycopg.Connection[Any]) -> None:
    """Raise OtherTables unless the tables are those of this version."""
    why = why_other_tables(tables_version(connection))
    if why:
        raise OtherTables(why)


def unsafe(connection: psycopg.Connection[Any], is_single: bool) -> list[str]:
    """Return why this server may lose a commit that it has acknowledged, each with its remedy."""
    row = connection.execute(_SETTINGS).fetchone()
    assert row is not None
    names, commit, number, version, *local = row
    found = list[str]()
    if int(number) < OLDEST * 10_000:
        found.append(f"PostgreSQL {version} is too old: {OLDEST} is the oldest that works")
    for (setting, harm), value in zip(_LOCAL.items(), local, strict=True):
        if value != "on":
            found.append(f"{setting} is {value}: {harm}; set it to on")
    if commit == "off" or (not is_single and commit not in ("on", "remote_apply")):
        found.append(
            f"synchronous_commit is {commit}: a failover loses what was acknowledged; "
            "set it to on for this role or database"
        )
    if not names and not is_single:
        found.append(NO_STANDBY)
    return found


def doubtful(connection: psycopg.Connection[Any], is_single: bool) -> list[str]:
    """Return what this server allows and its operator should know, each with its remedy."""
    row = connection.execute(STANDBY_NAMES).fetchone()
    assert row is not None
    if not row[0]:
        return []
    found = list[str]()
    states = {each[0] for each in connection.execute(_STANDBYS).fetchall()}
    if not states or states <= {"async", "potential"}:
        found.append(
            f"no standby answers that synchronous_standby_names names ({row[0]}): every commit "
            "waits until one does; the standby's primary_conninfo has its application_name"
        )
    why = why_not_fenced(row[0])
    if why and not is_single:
        found.append(why)
    return found


def why_not_fenced(names: str) -> str:
    """Return why a primary that was replaced may go on acknowledging with these standbys; "": it
    cannot."""
    match = re.fullmatch(r"(?is)\s*(?:(?:ANY|FIRST)\s+)?(\d+)\s*\((.*)\)\s*", names)
    needed, listed = (int(match[1]), match[2]) if match else (1, names)
    standbys = re.findall(r'"(?:[^"]|"")*"|[^\s,]+', listed)
    if "*" not in standbys and needed >= len(standbys):
        return ""
    said = " ".join(names.split())
    remedy = (
        "name each standby" if "*" in standbys
        else f"ANY {len(standbys)} ({', '.join(standbys)}) waits for each, and so does one name"
    )
    return (
        f"synchronous_standby_names is {said}: the standby that is promoted may lack what another "
        f"one answered for, and a primary that it replaced may go on; {remedy}. Patroni's "
        "`synchronous_mode: true` names one by itself"
    )  # fmt: skip


def tables_version(connection: psycopg.Connection[Any]) -> int | None:
    """Return the version of the tables; None: there are none, or none that this role may see."""
    found = connection.execute(_HAS_VERSION).fetchone()
    if found is None or not found[0]:
        return None
    row = connection.execute(_VERSION).fetchone()
    return None if row is None else int(row[0])


def why_other_tables(version: int | None) -> str:
    """Return why tables of this version cannot be used, with the remedy; "": they can."""
    if version == SCHEMA_VERSION:
        return ""
    if version is None:
        return f"the tables of kestrelpy are not there; {HOW_TO_INIT}"
    if version < SCHEMA_VERSION:
        return (
            f"the tables have version {version}, and this kestrelpy needs {SCHEMA_VERSION}; "
            "`kestrelpy fleet init` brings them there"
        )
    return (
        f"the tables have version {version}, and this kestrelpy knows up to {SCHEMA_VERSION}; "
        "install the newer kestrelpy that made them"
    )
