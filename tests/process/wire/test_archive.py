"""`archive_to`: a segment that goes lives on in the archive, whole."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from journal.files import Disk
from journal.format.kinds import Kind
from journal.recovery.recovery import Recovery
from journal.recovery.segment_order import SegmentOrder
from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
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


def _numbers(folder: Path) -> set[int]:
    return {int(path.name.split(".")[-2]) for path in folder.glob("*.segment")}


def _replaced(folder: Path) -> set[int]:
    """Return the numbers of segments that are still there, though a compacted one replaces them."""
    order = SegmentOrder(Disk(), str(folder))
    with suppress(FileNotFoundError):  # a daemon is at work
        order.find()
    return {segment.number for segment in order.replaced}


@pytest.mark.slow
def test_what_compacted_segments_replace_when_the_daemon_is_killed_is_archived_too(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "archive"
    config = CONFIG.replace("archive\"", f"{archive}\"")
    with DaemonProcess(tmp_path / "data", config=config) as d:
        archive.rmdir()
        archive.write_bytes(b"in the way")  # so nothing can be archived before the kill
        with Raw(("127.0.0.1", d.port)) as raw:

            def has_compacted() -> bool:
                for number in range(ITEMS // 5):  # one in eight stays, so segments are rewritten
                    put_off = b"" if number % 8 else b"/delay=1h"
                    raw.ask(b"set jobs%b 0 0 500\r\n%b\r\n" % (put_off, BODY), b"STORED\r\n")
                for _ in range(ITEMS // 5 * 7 // 8):
                    raw.ask(b"get jobs\r\n", b"VALUE jobs 0 500\r\n%b\r\nEND\r\n" % BODY)
                return bool(_replaced(next((tmp_path / "data").glob("jobs.*"))))

            wait_until(has_compacted, "survivors")
        folder = next((tmp_path / "data").glob("jobs.*"))
        d.kill()
        replaced = _replaced(folder)
        archive.unlink()
        d.start()
        wait_until(lambda: replaced <= _numbers(archive), "what survivors stand for is archived")
        assert not [line for line in d.lines if "missing" in line]
        with Raw(("127.0.0.1", d.port)) as raw:
            raw.ask(b"flush jobs\r\n", b"END\r\n")  # else the end would wait for an hour
        leave_nothing(d)


@pytest.mark.slow
def test_what_was_stored_and_confirmed_can_be_read_in_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with DaemonProcess(tmp_path / "data", config=CONFIG.replace("archive\"", f"{archive}\"")) as d:
        with Raw(("127.0.0.1", d.port)) as raw:
            for _ in range(ITEMS):
                raw.ask(b"set jobs 0 0 500\r\n%b\r\n" % BODY, b"STORED\r\n")
            for _ in range(ITEMS):
                raw.ask(b"get jobs\r\n", b"VALUE jobs 0 500\r\n%b\r\nEND\r\n" % BODY)
        wait_until(lambda: set(range(1, 11)) <= _numbers(archive), "the first ten are there")
        folder = next((tmp_path / "data").glob("jobs.*"))
        assert not list(folder.glob("*.recycled")), "what is archived is not written over"
        leave_nothing(d)

    stored: set[int] = set()
    for at, path in enumerate(sorted(archive.glob("*.segment"))):
        alone = tmp_path / f"read-{at}"
        alone.mkdir()
        (alone / path.name[-len("0000000001.segment"):]).write_bytes(path.read_bytes())
        found = Recovery(Disk(), str(alone), whole=True)
        stored |= {r.item for r in found.records() if r.kind == Kind.PUT}
        assert not [d for d in found.damages if d.kind != "truncated"], path
    assert set(range(1, 200)) <= stored
