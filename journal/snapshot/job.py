"""One snapshot to be written: the state of the queue, and the job that writes it on a thread.

    a write that leaves nothing pending ──▶ State, copied ──▶ its lsn is durable ──▶ SnapshotJob.run

The thread also frees the copies that the file alone needed, in slices. A list of a million objects
that goes at once holds the interpreter, and with it the loop, for 100 ms.

One rule: a snapshot never says more than the log has on disk; so it is written only once the log is
durable up to its lsn, and it has its name only when it is whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from journal.files import Files
from journal.format import (
    Checkpoint,
    DeadEntry,
    DelayedEntry,
    LeaseEntry,
    Origin,
    PlacedEntry,
    RawDraft,
    ReaderState,
)
from journal.sets import IdCounts, IdSet
from journal.snapshot.dedupe_file import Chunk, ScopeState, write_chunk
from journal.snapshot.dedupe_pending import Fresh, PendingEntries
from journal.snapshot.snapshot import Snapshot, snapshot_name

FREED_MAX: Final = 2000  # objects freed between two pauses: less than a millisecond

Pile = list[Any] | dict[Any, Any]


@dataclass(frozen=True, slots=True)
class RememberedIds:
    """The ids and keys that a queue remembers and no chunk has yet: the snapshot takes `fresh`.

    `keys` is their number. Ids and keys are forgotten after their windows (None: never).
    """

    fresh: Fresh
    scopes: list[ScopeState]
    keys: int
    ids_window_ms: int | None
    keys_window_ms: int | None

    @property
    def epochs(self) -> dict[bytes, int]:
        """The newest epoch of each scope."""
        return {state.scope: state.epoch for state in self.scopes}

    def needs(self, chunk: Chunk, epochs: Mapping[bytes, int], time_ms: int) -> bool:
        """True if an entry of the chunk is still remembered at `time_ms`. `epochs` are as above."""
        return (
            (chunk.ids > 0 and chunk.ids_ms >= earliest(self.ids_window_ms, time_ms))
            or (chunk.keys > 0 and chunk.keys_ms >= earliest(self.keys_window_ms, time_ms))
            or any(epochs.get(scope) == epoch for scope, epoch in chunk.epochs)
        )


def earliest(window_ms: int | None, time_ms: int) -> int:
    """Return the earliest time whose entries are still remembered at `time_ms`."""
    return time_ms - window_ms + 1 if window_ms is not None else 0


@runtime_checkable
class Pilable(Protocol):
    """Entries that are made from copies of long structures."""

    def piles(self) -> Sequence[list[Any]]:
        """Return these copies; there are no entries any more once they are emptied."""


@dataclass(frozen=True, slots=True)
class QueueCopy:
    """All of a queue but the bodies, as a copy: it is read on a thread."""

    checkpoint: Checkpoint
    live: IdSet
    live_bytes: int
    attempts: IdCounts
    dead: list[DeadEntry]
    leased: list[LeaseEntry] = field(default_factory=list)
    standing: list[RawDraft] = field(default_factory=list)
    delayed: Iterable[DelayedEntry] = ()
    placed: Iterable[PlacedEntry] = ()
    watermarks: dict[bytes, int] = field(default_factory=dict)
    held: dict[int, bytes] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    readers: list[ReaderState] = field(default_factory=list)
    passes_on: bool = False
    is_tombstone: bool = False
    floor: int = 0
    retained: IdSet | None = None
    memory: RememberedIds | None = None
    ageless: IdSet = field(default_factory=IdSet)


@dataclass(slots=True)
class SnapshotJob:
    """One snapshot to be written. It replaces `outdated`; on a full disk it takes its room.

    `is_over` becomes True if it was written over that one, `is_lost` if that one is gone without a
    replacement.

    `batch` has the ids and versions since the last snapshot: a chunk, written before the snapshot
    that lists it.
    """

    folder: str
    outdated: str
    snapshot: Snapshot
    short_identity: int
    identity: bytes
    time_ms: int
    memory: RememberedIds | None = None
    batch: PendingEntries = field(default_factory=PendingEntries)
    chunk: Chunk | None = None
    is_over: bool = False
    is_lost: bool = False
    file_bytes: int = 0  # as it was written

    def run(self, files: Files, pause: Callable[[], None] = lambda: None) -> None:
        """Write the snapshot; it is on disk, with its name, on return. Blocks; raises OSError.

        `pause` is called about every millisecond of work and may wait.
        """
        self._write(files, pause)
        for pile in self._piles():
            _free(pile, pause)

    def _piles(self) -> Iterator[Pile]:
        """Yield the copies of the state that are not read once the file is written."""
        states: list[Snapshot | ReaderState] = [self.snapshot, *self.snapshot.readers]
        yield self.snapshot.origins
        for state in states:
            yield from (state.dead, state.leased, state.held)
            if isinstance(state.placed, Pilable):
                yield from state.placed.piles()

    def _write(self, files: Files, pause: Callable[[], None]) -> None:
        snapshot = self.snapshot
        # If the disk has no room even for the chunk (`min_disk_free` reserves some), no snapshot is
        # written and no segment goes until there is room. The confirms have room without that
        # (`Preallocation.count_sealed`).
        if not self.batch.is_empty and self.chunk is None:  # else it was written by a first attempt
            first = max((chunk.last for chunk in snapshot.chunks), default=0) + 1
            first = min(first, snapshot.lsn)  # entries left from a lost chunk are no later
            self.chunk = write_chunk(
                files, self.folder, self.batch, first, snapshot.lsn, self.identity, self.time_ms
            )
            snapshot.chunks = [*snapshot.chunks, self.chunk]
        data = self.snapshot.encode(self.short_identity, self.identity, self.time_ms, pause)
        self.file_bytes = len(data)
        path = os.path.join(self.folder, snapshot_name(self.snapshot.lsn))
        try:
            files.create(path, data, len(data)).close()
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.outdated:
                raise
            try:
                files.create_over(self.outdated, path, data)
            except OSError:
                self.is_lost = _is_gone(files, self.outdated)
                raise
            self.is_over = True


def _is_gone(files: Files, path: str) -> bool:
    """True if there is certainly no such file."""
    try:
        files.size(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _free(pile: Pile, pause: Callable[[], None]) -> None:
    """Empty a copy in slices."""
    while pile:
        if isinstance(pile, list):
            del pile[-FREED_MAX:]
        else:
            for _ in range(min(FREED_MAX, len(pile))):
                pile.popitem()
        pause()
