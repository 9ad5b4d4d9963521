"""One daemon for the commands that talk to one; each test has a queue name of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess

CONFIG = """
[queues."short"]
lease = "1s"
[queues."full"]
max_items = 1
[queues."frail"]
max_attempts = 1
[queues."frail-2"]
max_attempts = 1
[queues."frail-3"]
max_attempts = 1
"""


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("cli") / "data", config=CONFIG) as running:
        yield running


@pytest.fixture
def kestrelpy(daemon: DaemonProcess, tmp_path: Path) -> Command:
    return Command(daemon.port, tmp_path)
