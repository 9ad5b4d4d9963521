"""`retain` on a real daemon: done items are there over a `kill -9`, then their segments go by
themselves, through the archive.

Promise: retain.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
from tests.support.raw import Raw, wait_until

ITEMS = 300
BODY = b"x" * 500
CONFIG = """
[journal]
segment_min = "16KiB"
segment_max = "16KiB"
[queues.jobs]
retain = "RETAIN"
archive_to = "ARCHIVE"
"""


def markers(port: int) -> dict[str, int]:
    with Raw(("127.0.0.1", port)) as raw:
        said = raw.stats(b"stats markers")
    return {key.removeprefix("queue_jobs_"): int(value) for key, value in said.items()}


@pytest.mark.slow
def test_what_is_done_stays_and_goes_without_traffic(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    config = CONFIG.replace("ARCHIVE", str(archive))
    with DaemonProcess(tmp_path / "data", config=config.replace("RETAIN", "1h")) as d:
        with Raw(("127.0.0.1", d.port)) as raw:
            for _ in range(ITEMS):
                raw.ask(b"set jobs 0 0 500\r\n%b\r\n" % BODY, b"STORED\r\n")
            for _ in range(ITEMS):
                raw.ask(b"get jobs\r\n", b"VALUE jobs 0 500\r\n%b\r\nEND\r\n" % BODY)
        d.kill()
    with DaemonProcess(tmp_path / "data", config=config.replace("RETAIN", "1h")) as d:
        assert markers(d.port)["marker_earliest"] == 1
        with Raw(("127.0.0.1", d.port)) as raw:
            key = b"jobs/peek/after=0/n=300"
            assert raw.values(key) == [(marker, BODY) for marker in range(1, ITEMS + 1)]
    assert not list(archive.glob("*.segment"))
    with DaemonProcess(tmp_path / "data", config=config.replace("RETAIN", "1s")) as d:
        wait_until(lambda: markers(d.port)["marker_earliest"] == ITEMS + 1, "all of it went")
        assert markers(d.port)["marker_latest"] == ITEMS
        wait_until(lambda: len(list(archive.glob("*.segment"))) > 8, "segments in the archive")
        leave_nothing(d)
