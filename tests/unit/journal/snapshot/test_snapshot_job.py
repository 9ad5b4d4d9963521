"""The job that writes a snapshot on a thread.

Promise: slices.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from journal.format.lease import LeaseEntry
from journal.format.out_of_order import PlacedEntry
from journal.format.subscription_state import DeadEntry, ReaderState
from journal.format.transfer import Origin
from journal.sets.hash_table import ID
from journal.snapshot.dedupe_file import Chunk
from journal.snapshot.dedupe_pending import Fresh
from journal.snapshot.job import FREED_MAX, RememberedIds, SnapshotJob
from journal.snapshot.snapshot import Snapshot
from tests.support import snapshots
from tests.support.journals import FOLDER, IDENTITY
from tests.support.memory_disk import Fault, MemoryDisk

MANY = 3 * FREED_MAX + 5


class Piled:
    """Entries that are made of a copy, as those of a long ready list."""

    def __init__(self) -> None:
        self.copy = [*range(1, MANY + 1)]

    def __iter__(self) -> Iterator[PlacedEntry]:
        return (PlacedEntry(id_, id_ + 1, id_, 1) for id_ in self.copy)

    def piles(self) -> Sequence[list[Any]]:
        return [self.copy]


def dead() -> list[DeadEntry]:
    return [DeadEntry(id_, id_, 1, b"why", 1, 1) for id_ in range(1, MANY + 1)]


def leased() -> list[LeaseEntry]:
    return [LeaseEntry(id_, id_, 1, 1, 1, 1, 1) for id_ in range(1, MANY + 1)]


def begun() -> tuple[SnapshotJob, list[Any]]:
    """Return a job over a state with many of everything, and its copies."""
    child = ReaderState(1, b"audit", 0, dead=dead(), leased=leased(), placed=Piled())
    state = snapshots.snapshot(9, 1, 4096, [*range(1, MANY + 1)], MANY + 1, [], None, dead=dead())
    state = replace(
        state, leased=leased(), placed=Piled(), readers=[child],
        held=dict.fromkeys(range(1, MANY + 1), b"key"),
        origins={id_: Origin(b"server", b"there", id_, 1) for id_ in range(1, MANY + 1)},
    )  # fmt: skip
    piles: list[Any] = [state.origins]
    for each in (state, child):
        assert isinstance(each.placed, Piled)
        piles += [each.dead, each.leased, each.held, each.placed.copy]
    return SnapshotJob(FOLDER, "", state, 1, IDENTITY, 1), piles


def test_the_thread_frees_the_copies_in_slices_once_the_file_is_written() -> None:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    job, piles = begun()
    left = list[int]()
    job.run(disk, lambda: left.append(sum(map(len, piles))))
    assert left[0] == MANY * 8, "the copies are there while the file is written"
    assert not any(piles)
    assert max(before - after for before, after in pairwise(left)) <= FREED_MAX
    path = snapshots.snapshot_path(9)
    state = Snapshot.decode(disk.read(path), path)
    assert len(state.dead) == len(state.leased) == len(state.readers[0].leased) == MANY
    assert len(job.snapshot.needed()) == MANY, "compaction asks for it later"


def test_a_snapshot_that_could_not_be_written_keeps_its_copies_for_the_next_attempt() -> None:
    disk = MemoryDisk()  # without the folder
    job, piles = begun()
    sizes = [len(pile) for pile in piles]
    with pytest.raises(OSError):
        job.run(disk)
    assert [len(pile) for pile in piles] == sizes


def test_the_next_attempt_lists_what_the_first_one_remembered_once() -> None:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    seen = Fresh()
    seen.add_id(ID.pack(bytes(16), 1, 1, 0))
    job, _ = begun()
    job.batch = seen.take()
    disk.faults = [Fault("create", "*.snapshot", times=2, error=errno.EIO)]
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            job.run(disk)

    job.run(disk)

    path = snapshots.snapshot_path(9)
    assert job.chunk is not None
    (listed,) = Snapshot.decode(disk.read(path), path).chunks
    assert (listed.name, listed.ids) == (job.chunk.name, 1)


@pytest.mark.parametrize(
    ("chunk", "is_needed"),
    [
        (Chunk(1, 1, 100), False),
        (Chunk(1, 1, 100, ids=1, ids_ms=900), False),
        (Chunk(1, 1, 100, ids=1, ids_ms=901), True),
        (Chunk(1, 1, 100, ids_ms=901), False),
        (Chunk(1, 1, 100, keys=1, keys_ms=800), False),
        (Chunk(1, 1, 100, keys=1, keys_ms=801), True),
        (Chunk(1, 1, 100, keys_ms=801), False),
        (Chunk(1, 1, 100, scoped=1, epochs=frozenset({(b"s1", 6)})), False),
        (Chunk(1, 1, 100, scoped=1, epochs=frozenset({(b"s1", 7)})), True),
    ],
)
def test_a_chunk_is_needed_while_one_of_its_parts_is_remembered(
    chunk: Chunk, is_needed: bool
) -> None:
    """Ids are remembered for 100 ms and keys for 200 ms; the epoch of s1 is 7."""
    remembered = RememberedIds(Fresh(), [], 0, 100, 200)

    assert remembered.needs(chunk, {b"s1": 7}, 1000) is is_needed
