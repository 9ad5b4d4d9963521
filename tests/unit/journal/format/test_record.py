"""A record to bytes and back; only exactly that frame at exactly its position is one."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt import strings

from journal.format import record
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta, encode_meta
from journal.format.record import (
    ALIGN_BYTES,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    META_BYTES_MAX,
    Draft,
    Record,
    decode,
    encode,
    is_older_frame,
    padded,
)

JOURNAL = 0xCAFE0001
SEGMENT = 7
U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
DRAFTS = st.builds(
    Draft,
    kind=st.integers(0, 255), item=U64, number=U64, small=U32, time_ms=U64,
    meta=st.binary(max_size=40), body=st.binary(max_size=200), reader=st.integers(0, 65535),
    put_lsn=U64,
)  # fmt: skip
PLACES = st.integers(0, 64).map(lambda n: n * ALIGN_BYTES)


def draft(kind: int = Kind.PUT, item: int = 1, body: bytes = b"hello", meta: bytes = b"") -> Draft:
    return Draft(kind, item, 1, 0, 1000, meta, body, 0, 0)


def frame(
    one: Draft, offset: int = 0, lsn: int = 1, journal: int = JOURNAL, segment: int = SEGMENT
) -> bytes:
    """Encode it, also as the compiled code does: in the same bytes."""
    pieces: list[bytes] = []
    size = encode(one, lsn, journal, segment, offset, pieces)
    data = b"".join(pieces)
    assert len(data) == size
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BytesWriter", "write_i16_le", "write_i32_le", "write_i64_le"):
            patch.setattr(record, name, getattr(strings, name), raising=False)
        patch.setattr(record, "COMPILED", True)
        again: list[bytes] = []
        assert encode(one, lsn, journal, segment, offset, again) == size
    assert b"".join(again) == data
    return data


def read(data: bytes, offset: int = 0) -> Record | None:
    return decode(data, offset, JOURNAL, SEGMENT)


# -- round trips ---------------------------------------------------------------------------------


@given(DRAFTS, U64, PLACES)
def test_what_is_read_is_what_was_written(one: Draft, lsn: int, offset: int) -> None:
    data = bytes(offset) + frame(one, offset, lsn)
    record = read(data, offset)
    assert record is not None
    assert record[:8] == one[:8]
    assert (record.lsn, record.segment, record.offset) == (lsn, SEGMENT, offset)
    assert record.end == len(data) == offset + padded(HEADER_BYTES + len(one.meta + one.body))


def _around(bits: int) -> list[int]:
    """Return the edges of a number of `bits` bits: 0, the first with a sign, and the last."""
    half, most = 1 << bits - 1, (1 << bits) - 1
    return [0, 1, half - 1, half, half + 1, most - 1, most]


@pytest.mark.parametrize("body", [b"small", bytes(8192)])
def test_a_number_keeps_its_value_where_a_sign_would_begin(body: bytes) -> None:
    longs = [*_around(64), (1 << 60) - 1, 1 << 60, (1 << 61) - 1, 1 << 61, 1 << 62]
    for long in longs:
        one = Draft(Kind.PUT, long, long, 0, long, b"", body, 0, 0)
        data = frame(one, lsn=long)
        assert struct.unpack_from("<QQQQ", data, 24) == (long,) * 4
        assert read(data) is not None
    for word in _around(32):
        data = frame(Draft(Kind.PUT, 1, 1, word, 1, b"", body, 0, 0), 0, 1, word, word)
        _, _, journal, segment, _, small = struct.unpack_from("<IIIIII", data)
        assert (journal, segment, small) == (word,) * 3
        assert decode(data, 0, word, word) is not None
    for short in _around(16):
        data = frame(Draft(Kind.PUT, 1, 1, 0, 1, b"", body, short, 0))
        assert struct.unpack_from("<HHH", data, 58) == (0, short, 0)


@pytest.mark.parametrize("name", ["item", "number", "small", "time_ms", "reader", "kind"])
def test_a_number_without_room_is_refused(name: str) -> None:
    for value in (-1, 1 << 64):
        with pytest.raises(struct.error):
            frame(draft()._replace(**{name: value}))


@given(DRAFTS, U64)
def test_a_frame_reads_the_same_from_a_view(one: Draft, lsn: int) -> None:
    data = frame(one, 0, lsn)
    assert decode(memoryview(data), 0, JOURNAL, SEGMENT) == read(data)


def test_a_frame_holds_as_much_meta_as_it_says() -> None:
    key = b"k" * (META_BYTES_MAX - 3)
    record = read(frame(draft(meta=encode_meta({Tag.KEY: key}))))
    assert record is not None
    assert decode_meta(record.meta) == {Tag.KEY: key}
    with pytest.raises(struct.error):
        frame(draft(meta=bytes(META_BYTES_MAX + 1)))


def test_frames_start_at_multiples_of_8_and_rest_on_zeros() -> None:
    for size in range(20):
        data = frame(draft(body=b"x" * size))
        assert len(data) % ALIGN_BYTES == 0
        assert data[HEADER_BYTES + size :] == bytes(len(data) - HEADER_BYTES - size)


def test_offsets_and_lengths_of_the_largest_frame_fit_in_32_bits() -> None:
    assert 4 * FRAME_BYTES_MAX <= 1 << 32


# -- what is no frame ----------------------------------------------------------------------------


def test_every_flipped_bit_of_a_frame_is_noticed() -> None:
    one = draft(meta=encode_meta({Tag.EXPIRES_MS: 5}), body=b"hello there")
    whole = frame(one)
    used = HEADER_BYTES + len(one.meta) + len(one.body)
    for at in range(used):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            assert read(bytes(damaged)) is None, (at, bit)


@settings(max_examples=300)
@given(DRAFTS, st.data())
def test_any_other_byte_anywhere_is_noticed(one: Draft, data: st.DataObject) -> None:
    whole = frame(one)
    used = HEADER_BYTES + len(one.meta) + len(one.body)
    at = data.draw(st.integers(0, used - 1))
    other = data.draw(st.integers(1, 255))
    damaged = bytearray(whole)
    damaged[at] ^= other
    assert read(bytes(damaged)) is None


def test_a_frame_cut_anywhere_is_none() -> None:
    whole = frame(draft(body=b"seven b"))
    for cut in range(HEADER_BYTES + 7):
        assert read(whole[:cut]) is None
        assert read(whole[:cut] + bytes(len(whole) - cut)) is None


def test_a_frame_at_another_place_is_none() -> None:
    whole = frame(draft(), offset=0)
    for offset in range(8, 80, 8):
        assert read(bytes(offset) + whole, offset) is None


def test_a_frame_of_another_segment_is_none() -> None:
    assert read(frame(draft(), segment=SEGMENT - 1)) is None
    assert read(frame(draft(), segment=SEGMENT + 1)) is None


def test_a_frame_of_another_journal_is_none_unless_any_will_do() -> None:
    other = frame(draft(), journal=JOURNAL + 1)
    assert read(other) is None
    assert decode(other, 0, 0, SEGMENT) is not None


def test_bytes_reserved_for_later_are_zero_today() -> None:
    whole = bytearray(frame(draft()))
    for at in (57, 62, 63):
        changed = bytearray(whole)
        changed[at] = 1
        changed[:4] = struct.pack("<I", crc_of(changed))
        assert read(bytes(changed)) is None, at


def test_a_length_that_cannot_hold_its_header_and_meta_is_none() -> None:
    for length, meta_bytes in ((0, 0), (63, 0), (64, 1), (70, 7)):
        data = bytearray(frame(draft(body=b"0123456789")))
        data[4:8] = struct.pack("<I", length)
        data[58:60] = struct.pack("<H", meta_bytes)
        data[:4] = struct.pack("<I", crc_of(data))
        assert read(bytes(data)) is None, (length, meta_bytes)


def test_zeros_are_none() -> None:
    assert read(bytes(4096)) is None
    assert not is_older_frame(bytes(4096), 0, JOURNAL, SEGMENT)


def crc_of(data: bytearray) -> int:
    length = struct.unpack_from("<I", data, 4)[0]
    return crc32(bytes(data[4:length]))


# -- recycled files and damage -------------------------------------------------------------------


def test_a_frame_of_an_earlier_life_is_older() -> None:
    old = frame(draft(), offset=64, segment=SEGMENT - 3)
    data = bytes(64) + old
    assert is_older_frame(data, 64, JOURNAL, SEGMENT)
    assert not is_older_frame(data, 64, JOURNAL, SEGMENT - 3)
    assert not is_older_frame(data, 64, JOURNAL + 1, SEGMENT)
    assert not is_older_frame(data[:-8], 64, JOURNAL, SEGMENT)


def test_an_older_frame_at_a_place_that_is_not_its_own_is_only_bytes() -> None:
    old = frame(draft(), offset=64, segment=SEGMENT - 3)
    assert not is_older_frame(bytes(128) + old, 128, JOURNAL, SEGMENT)


def test_a_body_that_holds_a_frame_of_this_very_journal_is_only_a_body() -> None:
    """A backup of the journal that was put into the queue itself, say."""
    inner = frame(draft(item=666, body=b"planted"), offset=0)
    outer = frame(draft(item=1, body=inner), offset=0)
    following = frame(draft(item=2), offset=len(outer), lsn=2)
    data = outer + following

    first = read(data)
    assert first is not None
    assert first.body == inner
    second = read(data, first.end)
    assert second is not None
    assert second.item == 2
