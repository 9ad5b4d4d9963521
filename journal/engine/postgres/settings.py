"""Which settings of a PostgreSQL would lose what it has acknowledged.

One rule: a server that may lose an acknowledged commit is refused, with the remedy.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

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
_ASKED: Final = ("synchronous_standby_names", "synchronous_commit", *_LOCAL)
_SETTINGS: Final = "SELECT " + ", ".join(f"current_setting('{each}')" for each in _ASKED)


class UnsafeSettings(psycopg.OperationalError):
    """The server would lose what it acknowledges; the text has the remedy."""


def refuse_unsafe(connection: psycopg.Connection[Any], is_single: bool) -> None:
    """Raise UnsafeSettings if this server may lose a commit that it has acknowledged."""
    row = connection.execute(_SETTINGS).fetchone()
    assert row is not None
    names, commit, *local = row
    for (setting, harm), found in zip(_LOCAL.items(), local, strict=True):
        if found != "on":
            raise UnsafeSettings(f"{setting} is {found}: {harm}; set it to on")
    if commit == "off" or (not is_single and commit not in ("on", "remote_apply")):
        raise UnsafeSettings(
            f"synchronous_commit is {commit}: a failover loses what was acknowledged; "
            "set it to on for this role or database"
        )
    if not names and not is_single:
        raise UnsafeSettings(NO_STANDBY)
