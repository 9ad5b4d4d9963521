"""The disk of an owner's cache is full: the engine has all of it, and clients notice nothing.

Promise fleet-cache: a real owner with a disk of 2 MiB for 3 MB of items; every call of the local
    disk refused, bytes half written, random histories.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.support.daemon import DaemonProcess
from tests.support.faults import small_disk

DISK_BYTES = 2 << 20
ITEMS = 700
BODY_BYTES = 4000
CONFIG = """
[fleet]
engine = "{}"
single = true
[journal]
segment_min = "256KiB"
segment_max = "1MiB"
[queue_defaults]
max_memory = "100KiB"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with folder_of_servers() as folder:
        made = PostgresServer(folder)
        made.make()
        made.start()
        make_tables(made.address)
        yield made
        made.stop()


def body(number: int) -> bytes:
    return b"%0*d" % (BODY_BYTES, number)


@pytest.mark.slow
def test_a_full_disk_of_the_cache_is_noticed_by_no_client(
    server: PostgresServer, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        daemon = DaemonProcess(disk.folder / "data", config=CONFIG.format(server.address))
        with daemon, closing(daemon.client()) as client:
            for number in range(ITEMS):
                assert client.set("jobs", body(number)), number
            for number in range(ITEMS // 2):
                assert client.get("jobs/open") == body(number)
                assert client.get("jobs/close") is None
            assert daemon.stop() == 0
        assert [each for each in daemon.lines if "has no room for is read from the engine" in each]
        with daemon.start(), closing(daemon.client()) as client:
            for number in range(ITEMS // 2, ITEMS):
                assert client.get("jobs") == body(number)
            assert client.get("jobs") is None
            assert daemon.stop() == 0
