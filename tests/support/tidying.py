"""The work of a daemon on a journal off the loop, done at once: snapshots, compaction, removal of
segments."""

from __future__ import annotations

from collections.abc import Callable

from journal.compaction.retire import archived_path, retire
from journal.store import SnapshotJob
from kestrelpy.core.log import records
from kestrelpy.core.log.log import JournalLog
from tests.support.server_harness import ServerHarness


def _nothing() -> None:
    pass


def take_snapshot(stage: ServerHarness, log: JournalLog) -> SnapshotJob:
    """Take a snapshot now, and remove the files that it replaces."""
    maintenance = log.store.maintenance
    job = maintenance.begin_snapshot(log.state(), stage.unix_ms)
    job.run(stage.disk)
    for path in maintenance.finish_snapshot(job, True):
        stage.disk.remove(path)
    return job


def tidy(
    stage: ServerHarness, log: JournalLog, *, before: Callable[[], None] = _nothing,
    meanwhile: Callable[[], None] = _nothing,
) -> None:  # fmt: skip
    """A snapshot of what is there; then all that may be rewritten is, and what may go goes.

    What happens `before` segments are chosen, and `meanwhile`, while the first are rewritten.
    """
    journal = log.journal
    maintenance = log.store.maintenance
    if journal.active is None or journal.has_pending or journal.commit.failure is not None:
        return
    if maintenance.snapshots[-1:] == [journal.commit.lsn_written]:  # no two are of one lsn
        log.append(records.tokens(log.state().checkpoint.tokens, stage.unix_ms))
        stage.work()
    job = take_snapshot(stage, log)
    before()
    reclaim(stage, log)
    while chosen := maintenance.choose(job.snapshot.lsn, stage.unix_ms):
        needed = job.snapshot.needed()
        carry = maintenance.begin_compaction(chosen, needed, lambda: None, stage.unix_ms)
        meanwhile()
        meanwhile = _nothing
        survivors = carry.run(stage.disk)
        put_away(stage, log, maintenance.finish_compaction(chosen, carry, survivors))
        reclaim(stage, log)
        if survivors is None:
            return


def reclaim(stage: ServerHarness, log: JournalLog) -> list[str]:
    """Remove the segments that are no longer needed; return their paths."""
    dead = log.take_dead(stage.unix_ms)
    put_away(stage, log, dead)
    stage.work()
    return dead


def put_away(stage: ServerHarness, log: JournalLog, paths: list[str]) -> None:
    """These segments go, to the archive if there is one."""
    for path in paths:
        archive = archived_path(log.archive_to, path) if log.archive_to else ""
        retire(stage.disk, path, archive, "")
