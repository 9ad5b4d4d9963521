"""Chunks: remembered ids are in files that are whole, merged, forgotten, or named when lost.

Promise index-damage: a flipped bit at every byte, missing and foreign files; every snapshot gone,
    older items alive.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest

from journal.format.kinds import Kind
from journal.format.record import Record
from journal.sets.hash_table import ID, KEY
from journal.snapshot import dedupe_merge as merging
from journal.snapshot.dedupe_file import (
    Chunk,
    chunk_range,
    epoch_of,
    listed,
    scopes_in,
    write_chunk,
)
from journal.snapshot.dedupe_load import ChunkDamaged, Chunks, read_chunk, read_chunks
from journal.snapshot.dedupe_merge import MERGED_ENTRIES_MAX, MergeJob, choose_merge
from journal.snapshot.dedupe_pending import Fresh, PendingEntries
from tests.support.memory_disk import Fault, MemoryDisk

FOLDER = "data/jobs.1"
IDENTITY = b"0123456789abcdef"
TIME_MS = 1_700_000_000_000


def id_entry(number: int, time_ms: int = TIME_MS) -> bytes:
    return ID.pack(number.to_bytes(4, "little") + b"." * 12, time_ms, number, number << 8)


def key_entry(number: int, version: int, time_ms: int = TIME_MS) -> bytes:
    return KEY.pack(number.to_bytes(4, "little") + b"." * 12, time_ms, version, version)


def batch_of(
    ids: range = range(0), keys: list[bytes] | None = None, **scoped: range
) -> PendingEntries:
    fresh = Fresh()
    for number in ids:
        fresh.add_id(id_entry(number))
    for name, numbers in scoped.items():
        for number in numbers:
            fresh.add_scoped(name.encode(), 7, id_entry(number))
    for entry in keys or []:
        fresh.add_key(entry)
    return fresh.take()


def make_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    return disk


def write(disk: MemoryDisk, batch: PendingEntries, first: int, last: int) -> Chunk:
    return write_chunk(disk, FOLDER, batch, first, last, IDENTITY, TIME_MS)


def entries(frames: list[Record]) -> Iterator[tuple[int, object, bytes]]:
    for frame in frames:
        width = KEY.size if frame.kind == Kind.KEYS else ID.size
        for at in range(0, len(frame.body), width):
            yield frame.kind, epoch_of(frame), frame.body[at : at + width]


def take_all(disk: MemoryDisk, wanted: list[Chunk] | None = None) -> tuple[list[Record], Chunks]:
    frames: list[Record] = []
    found = read_chunks(disk, FOLDER, IDENTITY, wanted, frames.append)
    return frames, found


def test_a_chunk_is_read_as_it_was_written_sorted_by_hash() -> None:
    disk = make_disk()
    batch = batch_of(range(3000), [key_entry(1, 1), key_entry(2, 1), key_entry(1, 2)],
                     one=range(5), two=range(7, 9))  # fmt: skip

    written = write(disk, batch, 1, 50)
    chunk, frames = read_chunk(disk, FOLDER, written.name, IDENTITY)

    assert chunk == written
    assert (chunk.ids, chunk.scoped, chunk.keys) == (3000, 7, 2)
    assert chunk_range(written.name) == (1, 50)
    got = list(entries(frames))
    plain = [data for kind, epoch, data in got if kind == Kind.IDS and epoch is None]
    assert plain == sorted(id_entry(number) for number in range(3000))
    assert {data for _, epoch, data in got if epoch == (b"one", 7)} == {
        id_entry(number) for number in range(5)
    }
    keys = [data for kind, _, data in got if kind == Kind.KEYS]
    assert keys == [key_entry(1, 2), key_entry(2, 1)]  # of each key the last


def test_chunks_are_handed_out_older_ones_first_and_a_larger_one_stands_for_its_parts() -> None:
    disk = make_disk()
    write(disk, batch_of(range(1, 3)), 1, 10)
    write(disk, batch_of(range(3, 5)), 11, 20)
    whole = write(disk, batch_of(range(1, 5)), 1, 20)
    last = write(disk, batch_of(range(5, 6)), 21, 30)

    frames, found = take_all(disk)

    assert found.used == [whole, last]
    assert [os.path.basename(path) for path in found.obsolete] == [
        Chunk(1, 10, 0).name, Chunk(11, 20, 0).name,
    ]  # fmt: skip
    assert found.damages == []
    assert [data for _, _, data in entries(frames)] == [id_entry(n) for n in range(1, 6)]


def test_where_the_larger_one_is_damaged_its_parts_are_used() -> None:
    disk = make_disk()
    first = write(disk, batch_of(range(1, 3)), 1, 10)
    second = write(disk, batch_of(range(3, 5)), 11, 20)
    whole = write(disk, batch_of(range(1, 5)), 1, 20)
    damage(disk, whole.name, 200)

    _, found = take_all(disk, [first, second])

    assert found.used == [first, second]
    assert found.damages == []


def damage(disk: MemoryDisk, name: str, at: int) -> None:
    handle = disk.open(f"{FOLDER}/{name}")
    byte = disk.read(f"{FOLDER}/{name}", at, 1)
    handle.write(at, bytes([byte[0] ^ 0x10]))
    handle.close()


@pytest.mark.parametrize("how", ["damaged", "missing", "foreign"])
def test_a_listed_chunk_that_is_not_whole_is_named(how: str) -> None:
    disk = make_disk()
    chunk = write(disk, batch_of(range(1, 4), [key_entry(1, 1)]), 1, 10)
    if how == "missing":
        disk.remove(f"{FOLDER}/{chunk.name}")
    elif how == "damaged":
        damage(disk, chunk.name, chunk.size - 20)
    else:
        disk.remove(f"{FOLDER}/{chunk.name}")
        write_chunk(disk, FOLDER, batch_of(range(1, 4)), 1, 10, b"another identity", TIME_MS)

    frames, found = take_all(disk, [chunk])

    assert frames == [] and found.used == []
    (named,) = found.damages
    assert chunk.name in named.path
    assert "3 remembered ids and 1 keys' versions are lost" in named.reason


class FailingAt:
    """A disk on which the `nth` read of one file, and all after it, go wrong."""

    def __init__(self, disk: MemoryDisk, name: str, nth: int, spoils: bool) -> None:
        self.disk, self.name, self.left, self.spoils = disk, name, nth, spoils

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        data = self.disk.read(path, offset, size)
        self.left -= path.endswith(self.name)
        if self.left > 0 or not path.endswith(self.name):
            return data
        if self.spoils:
            return bytes(len(data))
        raise OSError(errno.EIO, "Input/output error")

    def __getattr__(self, name: str) -> object:
        return getattr(self.disk, name)


@pytest.mark.parametrize("spoils", [False, True], ids=["not given", "damaged"])
def test_a_newer_file_that_goes_bad_after_it_was_read_says_nothing_of_the_lost_one(
    spoils: bool,
) -> None:
    disk = make_disk()
    lost = write(disk, batch_of(keys=[key_entry(1, 1)]), 1, 10)
    newer = write(disk, batch_of(keys=[key_entry(2, 40)]), 11, 50)
    disk.remove(f"{FOLDER}/{lost.name}")
    reads = sum(1 for entry in disk.trace if entry.startswith("read"))
    _, found = take_all(disk, [lost, newer])
    assert found.losses(99, TIME_MS)[0].item_lost == 39, "the first item of a newer key"
    reads = sum(1 for entry in disk.trace if entry.startswith("read")) - reads

    bad: Any = FailingAt(disk, newer.name, reads, spoils)
    found = read_chunks(bad, FOLDER, IDENTITY, [lost, newer], lambda frame: None)

    assert found.used == [newer]
    assert found.losses(99, TIME_MS)[0].item_lost == 99, "any item may have been its last"


def test_every_flipped_bit_is_noticed() -> None:
    disk = make_disk()
    chunk = write(disk, batch_of(range(1, 4), [key_entry(1, 1)], one=range(2)), 1, 10)
    path = f"{FOLDER}/{chunk.name}"
    data = disk.read(path)
    for at in range(len(data)):
        handle = disk.open(path)
        handle.write(at, bytes([data[at] ^ 0x04]))
        try:
            read = read_chunk(disk, FOLDER, chunk.name, IDENTITY)
        except ChunkDamaged:
            pass
        else:  # padding is the only thing that no checksum covers
            assert read[0] == chunk, at
        handle.write(at, data[at : at + 1])
        handle.close()


def test_chunks_that_no_snapshot_lists_are_superfluous() -> None:
    disk = make_disk()
    kept = write(disk, batch_of(range(3)), 1, 10)
    write(disk, batch_of(range(3, 6)), 11, 20)  # its snapshot was never written

    frames, found = take_all(disk, [kept])

    assert found.used == [kept]
    assert [os.path.basename(path) for path in found.obsolete] == [Chunk(11, 20, 0).name]
    assert len(list(entries(frames))) == 3


def test_a_snapshot_s_frames_say_which_chunks_and_scopes_there_are() -> None:
    chunk = Chunk(1, 50, 4096, ids=10, keys=3, ids_ms=TIME_MS, keys_ms=TIME_MS)
    draft = chunk.listing()
    frame = Record(*draft[:8], 51, 0, 0, 0)

    assert listed([frame]) == [chunk]
    assert scopes_in([frame]) == []


# -- merging --------------------------------------------------------------------------------------


def merge(disk: MemoryDisk, chosen: list[Chunk], ids_ms: int = 0, keys_ms: int = 0) -> Chunk:
    job = MergeJob(
        FOLDER, chosen, IDENTITY, {b"one": 7}, ids_ms, keys_ms, TIME_MS, lambda: None
    )
    return job.run(disk)


def test_a_merged_chunk_says_what_its_parts_said() -> None:
    disk = make_disk()
    parts = [
        write(disk, batch_of(range(9), [key_entry(1, 1), key_entry(2, 1)], one=range(3)), 1, 10),
        write(disk, batch_of(range(9, 20), [key_entry(1, 2)], one=range(3, 5)), 11, 20),
    ]

    merged = merge(disk, parts)

    assert (merged.first, merged.last) == (1, 20)
    assert (merged.ids, merged.scoped, merged.keys) == (20, 5, 2)
    _, frames = read_chunk(disk, FOLDER, merged.name, IDENTITY)
    keys = [data for kind, _, data in entries(frames) if kind == Kind.KEYS]
    assert keys == [key_entry(1, 2), key_entry(2, 1)]


def test_merging_leaves_out_what_is_forgotten() -> None:
    disk = make_disk()
    old, new = TIME_MS - 1000, TIME_MS
    first, second = Fresh(), Fresh()
    first.add_id(id_entry(1, old))
    first.add_key(key_entry(1, 1, old))
    first.add_scoped(b"gone", 1, id_entry(5, new))
    first.add_scoped(b"one", 6, id_entry(6, new))
    second.add_id(id_entry(2, new))
    second.add_scoped(b"one", 7, id_entry(7, new))
    parts = [write(disk, first.take(), 1, 10), write(disk, second.take(), 11, 20)]

    merged = merge(disk, parts, ids_ms=TIME_MS, keys_ms=TIME_MS)

    assert (merged.ids, merged.keys, merged.epochs) == (1, 0, frozenset({(b"one", 7)}))


def test_small_neighbours_are_merged_and_large_ones_stay() -> None:
    large = [Chunk(n, n, 1, ids=MERGED_ENTRIES_MAX - 10) for n in (1, 2)]
    small = [Chunk(n, n, 1, ids=100) for n in range(3, 7)]

    assert choose_merge([*large, *small], 0) == small
    assert choose_merge([*large, *small[:3]], 0) == []
    assert choose_merge([], 0) == []


def test_what_is_said_of_keys_again_and_again_does_not_grow_for_ever() -> None:
    chunks = [Chunk(n, n, 1, keys=MERGED_ENTRIES_MAX) for n in range(1, 5)]

    assert choose_merge(chunks, keys=4 * MERGED_ENTRIES_MAX) == []
    assert choose_merge(chunks, keys=MERGED_ENTRIES_MAX) == chunks[:2]


def test_how_many_there_are_grows_with_the_logarithm() -> None:
    chunks: list[Chunk] = []
    for number in range(1, 400):
        chunks.append(Chunk(number, number, 1, ids=1000))
        while chosen := choose_merge(chunks, 0):
            at = chunks.index(chosen[0])
            ids = sum(chunk.ids for chunk in chosen)
            chunks[at:] = [Chunk(chosen[0].first, chosen[-1].last, 1, ids=ids)]
        assert len(chunks) <= 16


@pytest.mark.parametrize("verb", ["create", "write", "sync", "rename"])
def test_a_chunk_that_could_not_be_written_leaves_nothing(verb: str) -> None:
    disk = make_disk()
    disk.faults = [Fault(verb, "*.chunk.part*", error=errno.ENOSPC)]

    with pytest.raises(OSError, match="No space"):
        write(disk, batch_of(range(3)), 1, 10)

    assert disk.names(FOLDER) == []


def test_what_a_crash_left_of_one_is_superfluous() -> None:
    disk = make_disk()
    name = Chunk(1, 10, 0).name + ".part"
    disk.create(f"{FOLDER}/{name}", b"half", 4).close()

    _, found = take_all(disk)

    assert [os.path.basename(path) for path in found.obsolete] == [name]


# -- what no file has yet -------------------------------------------------------------------------


def test_what_could_not_be_written_stands_before_what_came_since() -> None:
    fresh = Fresh()
    fresh.add_id(id_entry(1))
    fresh.add_key(key_entry(1, 1))
    fresh.add_scoped(b"s", 1, id_entry(2))
    batch = fresh.take()
    fresh.add_id(id_entry(3))
    fresh.add_key(key_entry(1, 2))
    fresh.add_scoped(b"s", 1, id_entry(4))

    fresh.give_back(batch)
    again = fresh.take()

    assert bytes(again.ids) == id_entry(1) + id_entry(3)
    assert bytes(again.keys) == key_entry(1, 1) + key_entry(1, 2)
    assert again.scoped[b"s"] == (1, id_entry(2) + id_entry(4))
    assert fresh.take().is_empty


def test_a_queue_in_memory_keeps_nothing_to_be_written() -> None:
    fresh = Fresh()
    fresh.add_id(id_entry(1))
    fresh.store_nothing()
    fresh.add_id(id_entry(2))

    assert fresh.take().is_empty


def test_few_are_merged_only_when_there_are_enough() -> None:
    assert merging._MERGED_FEWEST > 2


def test_the_entries_of_a_chunk_are_of_three_kinds() -> None:
    assert Chunk(1, 9, 640, ids=3, scoped=20, keys=100).entries == 123
