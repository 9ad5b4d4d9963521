"""The engine on PostgreSQL. Needs the extra `fleet`."""

from journal.engine.postgres.facts import ask_release, drain, look
from journal.engine.postgres.postgres_engine import PostgresEngine
from journal.engine.postgres.settings import UnsafeSettings
from journal.engine.postgres.snapshot import PostgresSnapshot
from journal.engine.postgres.tables import make_tables, schema

# By the names that the package of every engine has.
open_engine, open_moment, make = PostgresEngine, PostgresSnapshot, make_tables

__all__ = [
    "PostgresEngine", "PostgresSnapshot", "UnsafeSettings", "ask_release", "drain", "look", "make",
    "make_tables", "open_engine", "open_moment", "schema",
]  # fmt: skip
