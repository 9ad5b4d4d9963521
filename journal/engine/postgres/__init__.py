"""The engine on PostgreSQL. Needs the extra `fleet`."""

from journal.engine.postgres.postgres_engine import PostgresEngine, make_tables
from journal.engine.postgres.settings import UnsafeSettings

__all__ = ["PostgresEngine", "UnsafeSettings", "make_tables"]
