"""The log of a queue in memory: every record is true at once, and none is kept."""

from __future__ import annotations

from journal.sets.id_set import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import Log
from kestrelpy.core.log.memory_log import MemoryLog

WALL_MS = 1_700_000_000_000
ITEM = Item(1, 1, b"body", 7, WALL_MS, 0)


def test_in_memory_everything_is_true_at_once_and_leaves_no_trace() -> None:
    log: Log = MemoryLog()
    log.set_sync(-1)
    lsns = [
        log.put(ITEM),
        log.done(ITEM, 0, 0, 0),
        log.returned(ITEM, 1, 0, 0, b"abort"),
        log.dead(ITEM, 1, 0, 0, b"abort"),
        log.expired(ITEM, 0),
        log.discarded(ITEM, 0),
        log.flushed(1, [], IdSet(), 4, 0),
        log.tokens(9, 0),
    ]
    assert max(lsns) <= min(log.lsn_written, log.lsn_stored)
    assert log.disk_bytes() == 0
    assert log.failure is None


def test_a_log_in_memory_has_no_records_and_so_no_number_of_any() -> None:
    log = MemoryLog()
    ends = (log.expired(ITEM, WALL_MS), log.discarded(ITEM, WALL_MS), log.cancelled(1, 4, WALL_MS))
    assert ends == (0, 0, 0)
    assert log.done(ITEM, 1, WALL_MS, WALL_MS) == 0
    assert log.dead(ITEM, 1, WALL_MS, WALL_MS, b"abort") == 0
    assert log.returned(ITEM, 1, WALL_MS, WALL_MS, b"abort") == 0
    assert (log.put(ITEM), log.put_later(ITEM, WALL_MS), log.released(1, 2, WALL_MS)) == (0, 0, 0)
    assert log.lsn_appended == 0
