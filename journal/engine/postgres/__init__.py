"""The engine on PostgreSQL. Needs the extra `fleet`."""

from journal.engine.postgres.facts import Facts, Replica, ask_release, drain, look
from journal.engine.postgres.postgres_engine import PostgresEngine
from journal.engine.postgres.settings import UnsafeSettings
from journal.engine.postgres.snapshot import PostgresSnapshot
from journal.engine.postgres.tables import Made, make_tables, schema

__all__ = [
    "Facts", "Made", "PostgresEngine", "PostgresSnapshot", "Replica", "UnsafeSettings",
    "ask_release", "drain", "look", "make_tables", "schema",
]  # fmt: skip
