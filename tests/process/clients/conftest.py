"""Two real daemons for the client libraries; each test has a queue of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process.clients import page
from tests.process.clients.driver import Driver
from tests.process.clients.libraries import Library
from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
from tests.support.raw import Raw

_names = itertools.count(1)


@pytest.fixture(scope="session")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[DaemonProcess]]:
    folder = tmp_path_factory.mktemp("clients")
    with ExitStack() as stack:
        started = []
        for name in ("a", "b"):
            config = f'[server]\nsocket = "{folder}/{name}.sock"\n'
            daemon = DaemonProcess(folder / name, config=config)
            started.append(stack.enter_context(daemon))
        yield started
        for daemon in started:
            leave_nothing(daemon)


@pytest.fixture(scope="session")
def daemon(daemons: list[DaemonProcess]) -> DaemonProcess:
    return daemons[0]


@pytest.fixture(scope="session")
def socket_path(daemon: DaemonProcess) -> Path:
    return daemon.data_dir.parent / "a.sock"


@pytest.fixture
def raws(daemons: list[DaemonProcess]) -> Iterator[list[Raw]]:
    """A connection to each daemon."""
    with ExitStack() as stack:
        yield [stack.enter_context(Raw(("127.0.0.1", daemon.port))) for daemon in daemons]


@pytest.fixture
def queue() -> str:
    return f"queue-{next(_names)}"


class Drivers:
    """One driver for each library, kept from case to case."""

    def __init__(self, servers: list[str], folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        self._drivers: dict[str, Driver] = {}

    def of(self, library: Library) -> Driver:
        """Return the driver of a library with a new client, or skip: it is not installed."""
        require(library)
        driver = self._drivers.get(library.name)
        if driver is None:
            command = [*library.program.command(self._folder), *self._servers[: library.daemons]]
            driver = self._drivers[library.name] = Driver(command, library.program.environment)
        assert driver.ask("new") == "ok"
        return driver

    def kill(self) -> None:
        """End them all."""
        for driver in self._drivers.values():
            driver.kill()


def require(library: Library) -> None:
    """Skip with the reason if a library is not installed; fail if all of them should be."""
    if not library.program.version():
        missing = f"{library.name}: not installed ({library.program.package}; make test-clients)"
        if os.environ.get("KESTRELPY_CLIENTS") == "all":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


@pytest.fixture(scope="session")
def drivers(
    daemons: list[DaemonProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Drivers]:
    servers = [f"127.0.0.1:{daemon.port}" for daemon in daemons]
    found = Drivers(servers, tmp_path_factory.mktemp("built"))
    yield found
    found.kill()


@pytest.fixture(scope="session")
def results() -> Iterator[page.Results]:
    """The result of each case of each library; with KESTRELPY_CLIENTS_PAGE=write a run writes the
    results into the page."""
    found: page.Results = {}
    yield found
    if os.environ.get("KESTRELPY_CLIENTS_PAGE") == "write":
        page.write(found)
