"""The PostgreSQL of a module, and a fleet on it with empty tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer
from tests.process.router.members import Fleet
from tests.support.postgres import running_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as running:
        yield running


@pytest.fixture
def fleet(tmp_path: Path, server: PostgresServer) -> Iterator[Fleet]:
    """Members that a test starts, on empty tables."""
    server.ask("DROP SCHEMA IF EXISTS kestrelpy CASCADE")
    make_tables(server.address)
    made = Fleet(tmp_path, server)
    yield made
    made.close()
