"""Where the bytes of a file are: packed parts, and recent writes over them."""

from __future__ import annotations

import random

import pytest

from journal.engine.object_store.slice_files import (
    FilesSnapshot,
    PackedPart,
    Recent,
    SliceFiles,
    StoredFile,
    flattened,
    laid_over,
    snapshot_of,
)


@pytest.mark.parametrize("seed", range(20))
def test_writes_in_any_order_are_flattened_as_a_file_has_them(seed: int) -> None:
    chance, wanted, recent = random.Random(seed), bytearray(60), []
    for position in range(12):
        begin = chance.randrange(50)
        data = bytes([position + 1]) * chance.randrange(10)
        wanted[begin : begin + len(data)] = data
        recent.append(Recent(position, begin, data))
    found = bytearray(60)
    ends = -1
    for begin, data in flattened(recent):
        assert begin > ends or not data
        ends = begin + len(data)
        found[begin:ends] = data

    assert found == wanted


def test_what_is_laid_over_hides_the_parts_below() -> None:
    below = [PackedPart(0, 10, "p", 100), PackedPart(20, 10, "q", 0)]

    assert laid_over(below, [(3, 5), (8, 22)]) == [
        PackedPart(0, 3, "p", 100), PackedPart(5, 3, "p", 105), PackedPart(22, 8, "q", 2),
    ]  # fmt: skip
    assert laid_over(below, []) == below
    assert laid_over(below, [(0, 30)]) == []


def test_a_snapshot_is_read_as_it_was_written() -> None:
    files = {7: StoredFile("d/a", 30, 20, [PackedPart(0, 10, "p", 5), PackedPart(12, 8, "q", 0)])}
    made = FilesSnapshot(12, [1, 9], SliceFiles(files, {"p": 15, "q": 8}))

    assert snapshot_of(made.pack()) == made
    with pytest.raises(ValueError, match="no snapshot"):
        snapshot_of(b"another object")
