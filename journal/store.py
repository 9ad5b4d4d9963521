"""The storage engine of one queue, as the core and the server see it.

    core, server ──▶ Store ─┬─ writer       append, write, sync, rotate, close
                            ├─ read_ahead   bodies read back in the order of the log
                            ├─ one, some    bodies read back by the ids of their items
                            ├─ maintenance  snapshots, merging, compaction
                            └─ reclaim      disk freed while the journal is idle

One rule: the parts know the writer, and the writer knows none of them; code that needs two of them
is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from journal.compaction import (
    CompactionJob,
    DamagedInput,
    Maintenance,
    Reclaim,
    archived_path,
    recycled_path,
    retire,
)
from journal.files import Files
from journal.format import Checkpoint
from journal.read import (
    HistoryPart,
    ItemHistory,
    Put,
    PutPlace,
    RangeScan,
    ReadAhead,
    ReadOne,
    ReadSome,
    Scanned,
    SegmentRead,
    TimeSearch,
    ordered_segments,
)
from journal.sets import IdSet
from journal.snapshot import (
    Chunk,
    ChunkDamaged,
    Chunks,
    Epoch,
    Fresh,
    MergeJob,
    QueueCopy,
    RememberedIds,
    ScopeState,
    Snapshot,
    SnapshotJob,
    epoch_of,
    read_chunks,
)
from journal.write import (
    NONE_OPEN,
    NOTHING,
    DiskUse,
    Journal,
    PreallocationJob,
    Segment,
    Sizes,
    SyncJob,
)

__all__ = [
    "NONE_OPEN",
    "NOTHING",
    "Chunk",
    "ChunkDamaged",
    "Chunks",
    "CompactionJob",
    "DamagedInput",
    "DiskUse",
    "Epoch",
    "Fresh",
    "HistoryPart",
    "ItemHistory",
    "Journal",
    "LogStore",
    "Maintenance",
    "MergeJob",
    "PreallocationJob",
    "Put",
    "PutPlace",
    "QueueCopy",
    "RangeScan",
    "ReadAhead",
    "ReadOne",
    "ReadSome",
    "RememberedIds",
    "Scanned",
    "ScopeState",
    "Segment",
    "SegmentRead",
    "Sizes",
    "Snapshot",
    "SnapshotJob",
    "SyncJob",
    "TimeSearch",
    "archived_path",
    "epoch_of",
    "ordered_segments",
    "read_chunks",
    "recycled_path",
    "retire",
]  # fmt: skip


class LogStore:
    """One queue's log on disk. Not thread-safe: one thread owns it, jobs run elsewhere."""

    __slots__ = ("maintenance", "read_ahead", "reclaim", "unreadable", "writer")

    def __init__(self, writer: Journal) -> None:
        self.writer = writer
        # Items whose bodies are known to be unreadable: the start finds some, later reads find
        # others. Items that may have been put in damaged bytes are among them.
        self.unreadable = IdSet()
        self.read_ahead = ReadAhead(writer)
        self.maintenance = Maintenance(writer)
        self.reclaim = Reclaim(writer, self.maintenance)

    @classmethod
    def new(
        cls,
        files: Files,
        folder: str,
        identity: bytes,
        sizes: Sizes,
        checkpoint: Callable[[], Checkpoint],
    ) -> LogStore:
        """Return an empty store. Nothing is on disk until its first segment is prepared."""
        return cls(Journal(files, folder, identity, sizes, checkpoint))

    def note_unreadable(self, items: Iterable[int]) -> None:
        """Note that the bodies of these items cannot be read."""
        for item in items:
            self.unreadable.add(item)

    def another_read_ahead(self) -> ReadAhead:
        """Return a read-ahead for one more reader, with its own position in the log."""
        return ReadAhead(self.writer)

    def one(self, item: int) -> ReadOne | None:
        """Return how to read the put of one item; None: no segment holds it, or it is not written
        yet.
        """
        return ReadOne.of(self.writer, item)

    def some(self, items: Sequence[int]) -> ReadSome:
        """Return how to read the puts of these items; those not written yet are left out."""
        return ReadSome.of(self.writer, items)

    def take_dead(self, unix_ms: int = 0) -> list[str]:
        """Return the paths of segments that may go: nothing in them is alive or retained, and the
        records that ended their items are durable.

        Remove them in this order, and none after one that could not be removed.
        """
        return self.writer.take_dead(self.maintenance.lsns, unix_ms)
