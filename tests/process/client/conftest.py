"""One daemon for these tests; each has a queue of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.client.items import put
from tests.support.daemon import DaemonProcess

CONFIG = """
[queues."hasty"]
lease = "50ms"
[queues."short"]
lease = "1s"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("client") / "data", config=CONFIG) as running:
        yield running


@pytest.fixture
def queue(daemon: DaemonProcess, request: pytest.FixtureRequest) -> str:
    """A queue of this test's own, with two items."""
    name: str = request.node.name
    put(daemon, name, b"one", b"two")
    return name
