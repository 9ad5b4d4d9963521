"""The orderly end of a journal, here and now, on whatever thread calls it.

    write what is pending ──▶ sync ──▶ an empty batch: all of this is synced ──▶ close

The empty batch is not synced itself: it holds no item, and where a power cut takes it the next
start does what it does after any. If its sync failed, the next start would go on in that very file.

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
    if commit.failure is None:
        journal.rest(time_ms)
    else:
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
    job = journal.begin_sync()
    if job is None:
        return
    try:
        job.run()
    except OSError as error:
        journal.finish_sync(error)
    else:
        journal.finish_sync(None)
