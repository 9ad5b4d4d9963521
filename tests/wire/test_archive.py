"""`archive_to`: a segment that goes lives on in the archive, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.files import Disk
from journal.record import Kind
from journal.recovery import Recovery
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

ITEMS = 400
BODY = b"x" * 500
CONFIG = """
[journal]
segment_min = "16KiB"
segment_max = "16KiB"
[queues.jobs]
archive_to = "archive"
"""


@pytest.mark.slow
def test_what_was_stored_and_confirmed_can_be_read_in_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with DaemonProcess(tmp_path / "data", config=CONFIG.replace("archive\"", f"{archive}\"")) as d:
        with Raw(("127.0.0.1", d.port)) as raw:
            for _ in range(ITEMS):
                raw.ask(b"set jobs 0 0 500\r\n%b\r\n" % BODY, b"STORED\r\n")
            for _ in range(ITEMS):
                raw.ask(b"get jobs\r\n", b"VALUE jobs 0 500\r\n%b\r\nEND\r\n" % BODY)
        wait_until(lambda: len(list(archive.glob("*.segment"))) > 8, "segments in the archive")
        folder = next((tmp_path / "data").glob("jobs.*"))
        assert not list(folder.glob("*.recycled")), "what is archived is not written over"

    stored: set[int] = set()
    for at, path in enumerate(sorted(archive.glob("*.segment"))):
        alone = tmp_path / f"read-{at}"
        alone.mkdir()
        (alone / path.name[-len("0000000001.segment"):]).write_bytes(path.read_bytes())
        found = Recovery(Disk(), str(alone), whole=True)
        stored |= {r.item for r in found.records() if r.kind == Kind.PUT}
        assert not [d for d in found.damages if d.kind != "truncated"], path
    assert set(range(1, 200)) <= stored
