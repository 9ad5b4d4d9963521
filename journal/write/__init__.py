"""The writer: pending records, batches, syncs, segments."""

from journal.write.disk_use import NOTHING, DiskUse
from journal.write.group_commit import SyncJob
from journal.write.segment_file import (
    BATCH_BYTES,
    GROWTH,
    OVERHEAD_BYTES,
    PreallocationJob,
    Segment,
    Sizes,
    whole_sectors,
)
from journal.write.segment_list import NONE_OPEN
from journal.write.writer import Journal

__all__ = [
    "BATCH_BYTES",
    "GROWTH",
    "NONE_OPEN",
    "NOTHING",
    "OVERHEAD_BYTES",
    "DiskUse",
    "Journal",
    "PreallocationJob",
    "Segment",
    "Sizes",
    "SyncJob",
    "whole_sectors",
]
