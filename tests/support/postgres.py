"""A PostgreSQL server of one test module, from Debian's packages.

One rule: it ends with its `with` block, and its folder goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Give a server that runs, without a standby."""
    with folder_of_servers() as folder:
        made = PostgresServer(folder)
        made.make()
        made.start()
        yield made
        made.stop()
