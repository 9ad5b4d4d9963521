"""The log of a queue in memory: every record is true at once, and none is kept."""

from __future__ import annotations

from journal.sets.id_set import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.log import records
from kestrelpy.core.log.log import Log, on_disk
from kestrelpy.core.log.memory_log import MemoryLog

DONE = records.done(Item(1, 1, b"body", 7, 1000, 0), 0, 900, 1000)


def test_in_memory_everything_is_true_at_once_and_leaves_no_trace() -> None:
    log: Log = MemoryLog()
    log.set_sync(-1)
    lsns = [log.append(DONE), log.append_lazily(DONE), log.append_standing(DONE)]
    assert lsns == [0, 0, 0]
    assert log.lsn_appended == 0 <= min(log.lsn_written, log.lsn_stored)
    assert log.disk_bytes() == 0
    assert log.failure is None


def test_in_memory_nobody_counts_the_items_that_are_still_needed() -> None:
    def needed() -> IdSet:
        raise AssertionError("there may be millions of them")

    assert MemoryLog().append_recounted(DONE, needed) == 0


def test_in_memory_there_is_no_journal_and_nothing_to_read_ahead() -> None:
    log = MemoryLog()
    assert on_disk(log) is None
    assert log.read_ahead is log.another_read_ahead() is None
