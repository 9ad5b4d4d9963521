"""Snapshots of a queue, and the files of remembered ids and versions."""

from journal.snapshot.cadence import is_due
from journal.snapshot.dedupe_file import Chunk, ScopeState, chunk_range, epoch_of
from journal.snapshot.dedupe_load import ChunkDamaged, Chunks, read_chunks
from journal.snapshot.dedupe_merge import MergeJob, choose_merge
from journal.snapshot.dedupe_pending import Epoch, Fresh, PendingEntries
from journal.snapshot.job import QueueCopy, RememberedIds, SnapshotJob, earliest
from journal.snapshot.snapshot import (
    SNAPSHOTS_RETAINED,
    SegmentState,
    Snapshot,
    SnapshotDamaged,
    is_ours,
    snapshot_lsn,
    snapshot_name,
)

__all__ = [
    "SNAPSHOTS_RETAINED",
    "Chunk",
    "ChunkDamaged",
    "Chunks",
    "Epoch",
    "Fresh",
    "MergeJob",
    "PendingEntries",
    "QueueCopy",
    "RememberedIds",
    "ScopeState",
    "SegmentState",
    "Snapshot",
    "SnapshotDamaged",
    "SnapshotJob",
    "choose_merge",
    "chunk_range",
    "earliest",
    "epoch_of",
    "is_due",
    "is_ours",
    "read_chunks",
    "snapshot_lsn",
    "snapshot_name",
]  # fmt: skip
