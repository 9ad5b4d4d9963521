"""How a journal lets go of its files: at its orderly end, here and now, on whatever thread calls
it; and while nothing is to be written.

    write what is pending ──▶ sync ──▶ an empty batch: all of this is synced ──▶ close

The empty batch is not synced itself: it holds no item, and where a power cut takes it the next
start does what it does after any. If its sync failed, the next start would go on in that very file.

One rule: an end that was asked for loses nothing, or says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from journal.files import Handle, is_shortage

if TYPE_CHECKING:
    from journal.write.writer import Journal

# Something that a shortage keeps from being done is tried so often, with a pause each time.
TRIES_MAX: Final = 20


def rest(journal: Journal, time_ms: int) -> None:
    """`Journal.rest`."""
    if journal.active is not None:
        journal.write_end(journal.active, time_ms)
    journal.abandon()


def abandon(journal: Journal, retired: Iterable[Handle]) -> None:
    """`Journal.abandon`; `retired` are of segments that were sealed since the last sync."""
    for segment in (*journal.segments, *journal.spares.waiting):
        if segment.handle is not None:
            segment.handle.close()
            segment.handle = None
    for handle in retired:
        handle.close()


def close(journal: Journal, time_ms: int, pause: Callable[[], None]) -> None:
    """`Journal.close`."""
    commit = journal.commit
    assert not commit.lsn_in_flight, "a journal is closed when its syncs are over"
    _write_all(journal, time_ms, pause)
    _sync(journal)
    if commit.failure is None:
        journal.rest(time_ms)
    else:
        journal.abandon()
    if commit.failure is not None:
        raise commit.failure


def _write_all(journal: Journal, time_ms: int, pause: Callable[[], None]) -> None:
    """Write what is pending to its end, preparing segments here and now."""
    tries = 0
    while journal.has_pending and journal.commit.failure is None:
        short, where = journal.shortage, journal.folder
        if short is None and (journal.active is None or journal.is_starved):
            order = journal.order_spare(time_ms)
            try:
                journal.spare_ready(order, order.prepare(journal.files))
            except OSError as error:
                journal.spare_failed(order, error)
                short, where = error, order.path
        if short is not None:
            tries += 1
            if tries == TRIES_MAX or not is_shortage(short):
                journal.fail("preparing", where, short)
                return
            pause()
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
