"""A segment that was open at a kill is never sealed: only the next segment says where it ends. So
the next segment is not removed before it. Else a start would take the open segment for longer than
it is, and report the missing records as damage."""

from __future__ import annotations

import pytest

from journal.format.segment import segment_path
from journal.tools.verify import check_journal
from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from tests.support import server_harness
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

BODY = b"." * 100


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(16384, 16384, 1 << 20))


def log_of(stage: ServerHarness) -> JournalLog:
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    return log


def put(stage: ServerHarness, option: bytes = b"") -> None:
    assert stage.say("prod", b"set jobs%b 0 0 100\r\n%b" % (option, BODY)) == b"STORED\r\n"


def get(stage: ServerHarness, count: int) -> None:
    for _ in range(count):
        assert stage.say("cons", b"get jobs").startswith(b"VALUE")


def put_and_get(stage: ServerHarness, count: int) -> None:
    for _ in range(count):
        put(stage)
        get(stage, 1)


def killed(unsynced: int = 1) -> ServerHarness:
    """Return a killed server whose first segment is full of delayed items; a fresh segment follows,
    and after it many that are gone.

    With many unsynced items the first segment was sealed, and some of them were in it.
    """
    stage = ServerHarness()
    put(stage, b"/delay=1h")
    for _ in range(59):
        put(stage, b"/delay=5s")
    stage.hold_syncs()
    for n in range(unsynced):
        stage.send(f"prod {n}", b"set jobs 0 0 100\r\n%b\r\n" % BODY)
    stage.kill()
    get(stage, unsynced)
    put_and_get(stage, 300)
    for _ in range(3):
        tidy(stage, log_of(stage))
    return stage


@pytest.mark.parametrize("unsynced", [1, 60])
def test_what_says_where_a_segment_ends_stays_as_long_as_it_does(unsynced: int) -> None:
    stage = killed(unsynced)
    first, fresh, *others = log_of(stage).journal.segments
    assert (first.number, first.lsn_last, first.live) == (1, 60, 60)
    assert (fresh.lsn_first, fresh.live) == (61, 0)
    assert others[0].lsn_first > fresh.lsn_last + 1, "the segments after it are removed"
    for end in (stage.restart, stage.kill):
        end()
        assert log_of(stage).journal.segments[0].lsn_last == 60


def test_a_segment_that_was_never_sealed_is_rewritten_after_a_restart() -> None:
    stage = killed()
    stage.restart()
    stage.pass_time(6000)
    get(stage, 59)
    put_and_get(stage, 300)
    for _ in range(3):
        tidy(stage, log_of(stage))
    journal = log_of(stage).journal
    assert segment_path(journal.folder, 1) not in [s.path for s in journal.segments]
    assert len(journal.segments) == 2, "survivors of one item, and the log"
    assert check_journal(stage.disk, journal.folder).damages == []
