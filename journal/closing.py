"""The orderly end of a journal, here and now, on whatever thread calls it.

    write what is pending ──▶ sync ──▶ an empty batch: all of this is synced ──▶ sync ──▶ close

One rule: an end that was asked for loses nothing, or says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journal.journal import Journal


def close(journal: Journal, time_ms: int) -> None:
    """`Journal.close`."""
    commit = journal.commit
    assert not commit.lsn_in_flight, "a journal is closed when its syncs are over"
    _write_all(journal, time_ms)
    _sync(journal)
    segment = journal.active
    healthy = commit.failure is None
    # KNOWN FLAW: if this last sync fails, what it had to cover (a batch without items) is in the
    # file all the same, and the next start takes the end for a clean one: it goes on in that file.
    if segment is not None and healthy and journal.write_end(segment, time_ms):
        commit.lsn_in_flight = commit.lsn_written
        _sync(journal)
    journal.abandon()
    if commit.failure is not None:
        raise commit.failure


def _write_all(journal: Journal, time_ms: int) -> None:
    """Write what is pending to its end, preparing segments here and now."""
    while journal.has_pending and journal.commit.failure is None:
        if journal.active is None or journal.is_starved:
            order = journal.order_spare(time_ms)
            try:
                journal.spare_ready(order, order.prepare(journal.files))
            except OSError as error:
                journal.fail("preparing", order.path, error)
                return
        journal.write(time_ms)


def _sync(journal: Journal) -> None:
    job = journal.sync_job() if journal.commit.lsn_in_flight else journal.begin_sync()
    if job is None:
        return
    try:
        job.run()
    except OSError as error:
        journal.finish_sync(error)
    else:
        journal.finish_sync(None)
