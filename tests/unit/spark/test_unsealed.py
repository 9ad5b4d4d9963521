"""A segment that was never sealed ends where its records end, wherever it is. The segments after it
may have been reclaimed, or be in an archive that was not named. That is no damage."""

from __future__ import annotations

import pytest

from journal.format.folder import journal_folders
from journal.tools.backup import copy_journal
from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from tests.support import server_harness
from tests.support.bulk import Bulk, in_bulk
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

BODY = b"." * 100


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(4096, 4096, 1 << 20))


def put(stage: ServerHarness, count: int = 1, option: bytes = b"") -> None:
    for _ in range(count):
        said = stage.say("prod", b"set jobs%b 0 0 100\r\n%b" % (option, BODY))
        assert said == b"STORED\r\n"


def put_and_get(stage: ServerHarness, count: int) -> None:
    for _ in range(count):
        put(stage)
        assert stage.say("cons", b"get jobs").startswith(b"VALUE")


def tidied(stage: ServerHarness) -> None:
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    for _ in range(3):
        tidy(stage, log)


def whole(found: Bulk) -> list[int]:
    """Return the lsns that were found; check that no loss is reported."""
    assert found.damages == []
    assert found.history.problems == []
    assert not found.history.journals[0].torn
    return found.lsns


def test_a_backup_beside_the_log_that_went_on_and_was_reclaimed_is_not_damaged() -> None:
    stage = ServerHarness()
    put_and_get(stage, 5)
    (folder,) = journal_folders(stage.disk, "data")
    assert copy_journal(stage.disk, folder, "backup/jobs.1") is not None
    copied = whole(in_bulk(stage.disk, "backup"))
    put_and_get(stage, 100)
    tidied(stage)
    live = whole(in_bulk(stage.disk, "data"))
    assert live[0] > copied[-1] + 50, "the segments after the backup were reclaimed"
    assert whole(in_bulk(stage.disk, "data", "backup")) == [*copied, *live]


def test_an_archive_of_segments_that_a_kill_left_behind_is_not_damaged() -> None:
    stage = ServerHarness()
    stage.set_queue(archive_to="/archive")
    put_and_get(stage, 10)
    put(stage, 25, b"/delay=1h")
    put_and_get(stage, 5)
    stage.hold_syncs()
    stage.send("prod", b"set jobs 0 0 100\r\n%b\r\n" % BODY)
    stage.kill()
    put(stage, 25, b"/delay=1h")
    put_and_get(stage, 20)
    tidied(stage)
    archived = whole(in_bulk(stage.disk, "/archive"))
    both = whole(in_bulk(stage.disk, "/archive", "data"))
    assert both == list(range(1, len(both) + 1))
    assert set(archived) < set(both)
