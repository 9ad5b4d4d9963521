"""docs/command-line.md: the commands of a fleet that the page shows, each run as the reader types
it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kestrelpy.examples.fleet.postgres_server import PostgresServer
from tests.process.cli.test_docs import EXAMPLES, check, environment_of
from tests.support.daemon import DaemonProcess
from tests.support.postgres import running_postgres

SECTION = "A fleet"
# The page's own, which the test replaces by a real one.
ADDRESS = "postgresql://kestrel@127.0.0.1:5432/kestrel"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_postgres() as running:
        yield running


def test_each_example_of_a_fleet_prints_what_the_page_shows(
    server: PostgresServer, tmp_path: Path
) -> None:
    found = [each[1:] for each in EXAMPLES if each[0] == SECTION]
    assert len(found) >= 2
    # A daemon that is not of the fleet: its folder is moved in.
    with DaemonProcess(tmp_path / "data") as daemon:
        environment = environment_of(daemon, tmp_path)
        with closing(daemon.client()) as client:
            client.set("jobs", "hello")
        assert daemon.stop() == 0
        environment["KESTRELPY_FLEET_ENGINE"] = server.address
        environment["KESTRELPY_FLEET_SINGLE"] = "true"
    for command, output in found:
        command, output = (each.replace(ADDRESS, server.address) for each in (command, output))
        check(SECTION, command, output, environment)
