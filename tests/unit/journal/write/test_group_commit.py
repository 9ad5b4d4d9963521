"""Group commit: records appended, written, in flight, durable; and failed for good."""

from __future__ import annotations

import errno

import pytest

from journal.errors import JournalFailed
from journal.files import Handle
from journal.write.group_commit import GroupCommit, SyncJob
from tests.support.memory_disk import Fault, MemoryDisk


def commit_with(written: int, durable: int = 0) -> GroupCommit:
    commit = GroupCommit(durable)
    commit.lsn_appended = commit.lsn_written = written
    return commit


def test_a_new_journal_goes_on_behind_what_was_recovered() -> None:
    commit = GroupCommit(7)

    assert (commit.lsn_appended, commit.lsn_written, commit.lsn_durable) == (7, 7, 7)
    assert not commit.begin_sync()


def test_a_sync_makes_durable_what_was_written_before_it_began_never_what_came_meanwhile() -> None:
    commit = commit_with(written=3)
    assert commit.begin_sync()
    commit.lsn_written = 5
    commit.finish_sync()

    assert commit.lsn_durable == 3


def test_one_sync_at_a_time_and_the_next_covers_what_came_meanwhile() -> None:
    commit = commit_with(written=3)
    assert commit.begin_sync()
    commit.lsn_written = 5
    assert not commit.begin_sync()
    commit.finish_sync()
    assert commit.begin_sync()
    commit.finish_sync()

    assert commit.lsn_durable == 5


def test_there_is_no_sync_when_everything_is_durable() -> None:
    commit = commit_with(written=3)
    commit.begin_sync()
    commit.finish_sync()

    assert not commit.begin_sync()


def test_after_a_failure_nothing_ever_becomes_durable_again() -> None:
    commit = commit_with(written=3)
    commit.begin_sync()
    commit.fail(JournalFailed("first"))
    commit.finish_sync()
    commit.lsn_written = 9

    assert not commit.begin_sync()
    assert commit.lsn_durable == 0


def test_a_write_that_fails_during_a_sync_takes_the_sync_s_answer_away() -> None:
    commit = commit_with(written=3)
    commit.begin_sync()
    commit.fail(JournalFailed("a write failed meanwhile"))
    commit.finish_sync()

    assert commit.lsn_durable == 0


def test_the_first_failure_stays_the_reason() -> None:
    commit = commit_with(written=3)
    commit.fail(JournalFailed("first"))
    commit.fail(JournalFailed("second"))

    assert str(commit.failure) == "first"


def handles(disk: MemoryDisk, *names: str) -> list[Handle]:
    disk.make_folder("/q")
    return [disk.create(f"/q/{name}", b"", 8) for name in names]


def test_a_job_syncs_every_file_in_the_sequence_written_and_closes_the_sealed() -> None:
    disk = MemoryDisk()
    one, two = handles(disk, "1", "2")
    SyncJob([one, two], [one]).run()

    assert disk.trace[-2:] == ["sync 1", "sync 2"]
    with pytest.raises(OSError, match="closed"):
        one.write(0, b"x")
    two.write(0, b"x")


def test_a_job_stops_at_the_first_sync_that_fails_and_still_closes_the_sealed() -> None:
    disk = MemoryDisk([Fault("sync", "*/1", error=errno.EIO)])
    one, two = handles(disk, "1", "2")
    with pytest.raises(OSError, match="Input/output"):
        SyncJob([one, two], [one]).run()

    assert disk.trace[-1] == "sync 1"
    with pytest.raises(OSError, match="closed"):
        one.write(0, b"x")
