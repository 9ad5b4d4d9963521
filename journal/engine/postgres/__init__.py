"""The engine on PostgreSQL. Needs the extra `fleet`."""

from journal.engine.postgres.postgres_engine import PostgresEngine
from journal.engine.postgres.settings import UnsafeSettings
from journal.engine.postgres.tables import Made, make_tables, schema

__all__ = ["Made", "PostgresEngine", "UnsafeSettings", "make_tables", "schema"]
