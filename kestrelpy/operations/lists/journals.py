"""What the journal of a queue says of itself.

One rule: it names no file and no folder.
"""

from __future__ import annotations

from typing import NamedTuple

from kestrelpy.core import Queue, on_disk
from kestrelpy.operations.stats_facts import State, state_of


class JournalFacts(NamedTuple):
    """The journal of one queue, or of a child's parent. Positions count its records."""

    durable: bool
    state: State
    generation: int
    segments: int
    disk_bytes: int
    retained_bytes: int
    records_appended: int
    records_written: int
    records_synced: int
    is_syncing: bool


def journal_facts(queue: Queue) -> JournalFacts:
    """Return the facts of the journal that has the items of this queue."""
    log, disk = queue.log, on_disk(queue.log)
    commit = disk.journal.commit if disk is not None else None
    return JournalFacts(
        durable=disk is not None,
        state=state_of(log),
        generation=queue.generation,
        segments=len(disk.journal.segments) if disk is not None else 0,
        disk_bytes=log.disk_bytes(),
        retained_bytes=log.retained_bytes(),
        records_appended=commit.lsn_appended if commit is not None else 0,
        records_written=commit.lsn_written if commit is not None else 0,
        records_synced=commit.lsn_durable if commit is not None else 0,
        is_syncing=commit is not None and commit.lsn_in_flight > 0,
    )
