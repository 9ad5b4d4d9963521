"""A cursor meets every whole record of a file, whatever the pieces and whatever lies between."""

from __future__ import annotations

import re
import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Draft, Record, encode
from journal.read.cursor import ITEM_AT, KIND_AT, Cursor, header_with

JOURNAL, NUMBER = 0x1234ABCD, 9


def frame(item: int, offset: int, body: bytes = b"", kind: Kind = Kind.PUT) -> bytes:
    out: list[bytes] = []
    draft = Draft(kind, item, item, 0, 1, b"", body, 0, 0)
    encode(draft, item, JOURNAL, NUMBER, offset, out)
    return b"".join(out)


def file_of(*bodies: bytes) -> bytes:
    data = b""
    for item, body in enumerate(bodies, 1):
        data += frame(item, len(data), body)
    return data


class File:
    """Bytes that are read piece by piece."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sizes: list[int] = []

    def read(self, offset: int, size: int) -> bytes:
        self.sizes.append(size)
        return self.data[offset : offset + size]

    def cursor(self, piece: int, stop: int = 0) -> Cursor:
        return Cursor(self.read, JOURNAL, NUMBER, 0, stop or len(self.data), piece)


def items(cursor: Cursor) -> list[int]:
    found = []
    while (record := cursor.next()) is not None:
        found.append(record.item)
    return found


def bodies(seed: int) -> list[bytes]:
    random = Random(seed)
    return [random.randbytes(random.choice((0, 3, 100, 1000))) for _ in range(50)]


@pytest.mark.parametrize("piece", [64, 100, 500, 1 << 20])
def test_every_record_comes_however_the_bytes_are_cut(piece: int) -> None:
    data = file_of(*bodies(piece))
    cursor = File(data).cursor(piece)
    assert [cursor.take() for _ in range(50)] == [
        Cursor.over(data, JOURNAL, NUMBER, record.offset).take()
        for record in walked(data)
    ]
    assert cursor.take() is None
    assert (cursor.at, cursor.lacking) == (len(data), HEADER_BYTES)


def walked(data: bytes) -> list[Record]:
    cursor, found = Cursor.over(data, JOURNAL, NUMBER, 0), list[Record]()
    while (record := cursor.take()) is not None:
        found.append(record)
    return found


def test_no_more_is_read_than_a_piece_or_one_frame() -> None:
    file = File(file_of(b"a", b"b" * 5000, b"c", b"d"))
    cursor = file.cursor(200)
    assert items(cursor) == [1, 2, 3, 4]
    assert max(file.sizes) == HEADER_BYTES + 5000
    assert len(cursor.data) <= 200


@pytest.mark.parametrize("piece", [64, 100, 500, 1 << 20])
@pytest.mark.parametrize("at", [0, 8, 30, 70])
def test_a_damaged_record_is_passed_and_those_behind_it_come(piece: int, at: int) -> None:
    data = bytearray(file_of(*bodies(3)))
    for lost in (0, 7, 49):
        offset = walked(bytes(data))[lost].offset
        broken = bytearray(data)
        broken[offset + at] ^= 0xFF
        is_padding = walked(bytes(broken)) == walked(bytes(data))
        expected = [i for i in range(1, 51) if is_padding or i != item_at(data, offset + at)]
        assert items(File(bytes(broken)).cursor(piece)) == expected


def item_at(data: bytearray, at: int) -> int:
    return next(r.item for r in walked(bytes(data)) if r.offset <= at < r.end)


def test_a_take_in_vain_says_what_is_lacking_and_stays() -> None:
    data = file_of(b"one", b"x" * 100)
    cursor = Cursor(None, JOURNAL, NUMBER, 0, len(data))
    cursor.feed(data[:90])
    assert cursor.take() is not None
    assert cursor.take() is None
    at = cursor.at
    assert cursor.lacking == at + HEADER_BYTES - 90
    cursor.feed(data[90:180])
    assert cursor.take() is None
    assert (cursor.at, cursor.lacking) == (at, at + HEADER_BYTES + 100 - 180)
    cursor.feed(data[180:])
    record = cursor.take()
    assert record is not None
    assert record.item == 2


def test_bytes_that_are_no_record_lack_nothing() -> None:
    data = b"\xff" * 160 + frame(9, 160)
    cursor = Cursor.over(data, JOURNAL, NUMBER, 0)
    assert cursor.take() is None
    assert cursor.lacking == 0
    found = cursor.next()
    assert found is not None
    assert (found.item, found.offset) == (9, 160)
    assert Cursor.over(data, JOURNAL, NUMBER, 168).next() is None


def test_a_frame_beyond_the_stop_is_none() -> None:
    data = file_of(b"one", b"two")
    assert items(File(data).cursor(64, len(data) - 8)) == [1]


def test_a_body_with_a_frame_of_this_very_journal_is_only_a_body() -> None:
    """A backup of the journal that was put into the queue itself, say."""
    inner = frame(666, 0, b"planted")
    data = file_of(inner, b"")
    assert items(Cursor.over(data, JOURNAL, NUMBER, 0)) == [1, 2]
    # With its own header damaged the search finds the next frame, not the one in the body.
    assert items(Cursor.over(b"\xff" * 8 + data[8:], JOURNAL, NUMBER, 0)) == [2]


@given(st.binary(max_size=300), st.integers(0, 40))
def test_the_search_takes_nothing_for_a_frame_that_is_none(noise: bytes, at: int) -> None:
    needle = struct.pack("<II", JOURNAL, NUMBER)
    data = noise[:at] + needle + noise[at:] + needle
    assert Cursor.over(data, JOURNAL, NUMBER, 0).next() is None


@pytest.mark.parametrize("piece", [64, 100, 500, 1 << 20])
def test_a_search_decodes_the_records_with_that_header_alone(piece: int) -> None:
    data, ends, kinds = b"", [], (Kind.PUT, Kind.DONE, Kind.DEAD)
    for item in range(1, 40):
        data += frame(item, len(data), b"." * (item * 37 % 150), kinds[item % 3])
        ends.append(len(data))
    some = [bytes([Kind.DONE]), bytes([Kind.DEAD])]
    wanted = header_with(JOURNAL, NUMBER, (KIND_AT, some), (ITEM_AT, [struct.pack("<Q", 12)]))
    expected = [item for item in range(1, 40) if item % 3 or item == 12]
    assert searched(File(data).cursor(piece), wanted) == expected
    broken = data[: ends[3] + 20] + b"\xff" + data[ends[3] + 21 :]  # in the fifth
    assert searched(File(broken).cursor(piece), wanted) == [i for i in expected if i != 5]


def searched(cursor: Cursor, wanted: re.Pattern[bytes]) -> list[int]:
    return [record.item for record in cursor.search(wanted, cursor.stop, 1 << 20)]
