"""One real daemon for the tests that leave it as it was; each test has a queue of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
from tests.support.raw import Raw

_names = itertools.count(1)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("wire")
    config = f'[server]\nsocket = "{folder}/kestrel.sock"\n'
    with DaemonProcess(folder / "data", config=config) as process:
        yield process
        leave_nothing(process)


@pytest.fixture(scope="session")
def socket_path(daemon: DaemonProcess) -> Path:
    return daemon.data_dir.parent / "kestrel.sock"


@pytest.fixture
def raw(daemon: DaemonProcess) -> Iterator[Raw]:
    with Raw(("127.0.0.1", daemon.port)) as connection:
        yield connection


@pytest.fixture
def queue() -> str:
    return f"queue-{next(_names)}"
