"""Entries of a log: what is written is read again, and what is damaged is refused."""

from __future__ import annotations

import pytest

from journal.engine import Create, DeleteFile, Member, Rename, Write
from journal.engine.batch import batch_of
from journal.engine.object_store.entry import (
    FRONT_BYTES,
    Damaged,
    SliceRow,
    pack,
    unpack,
    unpack_row,
)

ROW = SliceRow(41, 7, 39, Member("a", "10.0.0.1:22133"), "5f" * 16, has_released=True)
OPS = [
    Create(1, "a.new", 10), Write(1, 0, b"head"), Rename(1, "a"), Write(2, 9, b"far" * 3000),
    Rename(3, "c"), DeleteFile(4),
]  # fmt: skip


@pytest.mark.parametrize("ops", [[], OPS], ids=["a beat", "changes"])
def test_an_entry_is_read_as_it_was_written(ops: list[Create]) -> None:
    entry = unpack(pack(ROW, ops))

    assert entry.row == ROW
    assert entry.batch == batch_of(ops)


def test_the_front_of_an_entry_has_its_row() -> None:
    longest = ROW._replace(member=Member("m" * 128, "a" * 128))

    assert unpack_row(pack(longest, OPS)[:FRONT_BYTES]) == longest


def test_every_damage_is_found() -> None:
    data = pack(ROW, OPS[:3])
    for at in range(len(data)):
        with pytest.raises(Damaged):
            unpack(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for text in (b"", b"KPS1", b"another object"):
        with pytest.raises(Damaged):
            unpack_row(text)
