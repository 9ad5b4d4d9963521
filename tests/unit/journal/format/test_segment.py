"""A segment's bytes: its header, the scan to the first bad byte and past it, the footer."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from journal.errors import NewerFormat
from journal.format.checkpoint import Checkpoint
from journal.format.describe import sentence
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta
from journal.format.record import HEADER_BYTES
from journal.format.segment import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    SegmentHeader,
    Tally,
    decode_counts,
    segment_name,
    segment_number,
)
from journal.read.scan import Scan, find_identity, scan
from tests.golden.layout import SHORT_IDENTITY, TIME_MS, SegmentBuilder, draft

OPENING = Checkpoint(name=b"jobs")



def segment(capacity: int = 4096, number: int = 1, lsn: int = 1) -> SegmentBuilder:
    """Three batches: puts 1 and 2, put 3, done 1."""
    one = SegmentBuilder(number, capacity, lsn, OPENING)
    one.batch(draft(Kind.PUT, 1, 1, 0, b"one"), draft(Kind.PUT, 2, 2, 0, b"two"))
    one.batch(draft(Kind.PUT, 3, 3, 0, b"three"), synced=lsn + 1)
    one.batch(draft(Kind.DONE, 1, TIME_MS, 1), synced=lsn + 2)
    return one


def scanned(data: bytes | bytearray, number: int = 1) -> Scan:
    return scan(bytes(data), "test", SHORT_IDENTITY, number)


def sentences(found: Scan) -> list[str]:
    return [sentence(r) for r in found.records]


ALL = ["put 1 one", "put 2 two", "put 3 three", "done 1"]


# -- names and header ----------------------------------------------------------------------------


def test_names_sort_as_numbers_do() -> None:
    numbers = [1, 9, 10, 4_000_000_000]
    names = [segment_name(n) for n in numbers]
    assert names == sorted(names)
    assert [segment_number(name) for name in names] == numbers


@pytest.mark.parametrize(
    "name",
    ["1.segment", "0000000001.segment.new", "0000000001", "000000000x.segment", "set-aside", ""],
)
def test_other_files_are_no_segments(name: str) -> None:
    assert segment_number(name) is None


def test_a_header_is_read_as_it_was_written() -> None:
    header = SegmentHeader(7, bytes(range(16)), 3, 65536, TIME_MS)
    assert SegmentHeader.decode(header.encode(), "x") == header


def test_every_flipped_bit_of_a_header_is_noticed() -> None:
    whole = SegmentHeader(7, bytes(range(16)), 3, 65536, TIME_MS).encode()
    for at in range(FILE_HEADER_BYTES):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            assert SegmentHeader.decode(bytes(damaged), "x") is None, (at, bit)
    for cut in range(FILE_HEADER_BYTES):
        assert SegmentHeader.decode(whole[:cut], "x") is None


def resealed(header: bytes) -> bytes:
    return header[:60] + struct.pack("<I", crc32(header[:60]))


def test_a_header_of_a_later_version_is_newer_and_not_damaged() -> None:
    whole = SegmentHeader(7, bytes(16), 3, 65536, TIME_MS).encode()
    with pytest.raises(NewerFormat, match="x: journal format 9, this kestrelpy reads up to 8"):
        SegmentHeader.decode(resealed(whole[:8] + b"\x09\x00" + whole[10:]), "x")


@pytest.mark.parametrize("at", range(48, 52))
def test_a_file_of_a_kind_that_came_later_is_newer_and_not_damaged(at: int) -> None:
    whole = bytearray(SegmentHeader(7, bytes(16), 3, 65536, TIME_MS).encode())
    whole[at] = 9
    with pytest.raises(NewerFormat, match="x: a kind of journal file"):
        SegmentHeader.decode(resealed(bytes(whole)), "x")


# -- scanning ------------------------------------------------------------------------------------


def test_a_scan_tells_every_record_and_up_to_where_it_was_synced() -> None:
    one = segment()
    found = scanned(one.data)
    assert sentences(found) == ALL
    assert (found.lsn_first, found.lsn_next, found.lsn_synced, found.batches) == (1, 5, 3, 3)
    assert found.checkpoint is not None
    assert found.end == one.at
    assert not found.gaps
    assert found.footer is None


def test_zeros_behind_the_last_record_are_the_end() -> None:
    assert scanned(SegmentBuilder(checkpoint=None).data).lsn_first == 0
    assert scanned(SegmentBuilder(checkpoint=OPENING).data).gaps == []


def test_the_batch_that_closes_a_journal_is_written_over() -> None:
    one = segment()
    end = one.at
    one.batch(synced=4)
    found = scanned(one.data)
    assert (found.end, found.lsn_synced, found.lsn_next) == (end, 4, 5)
    assert not found.gaps


def test_a_batch_says_how_long_it_is() -> None:
    one = SegmentBuilder(checkpoint=OPENING)
    start = one.at
    records = one.batch(draft(Kind.PUT, 1, 1, 0, b"x" * 13), draft(Kind.PUT, 2, 2))
    assert one.at == records[-1].end
    stated = struct.unpack_from("<Q", one.data, start + 40)[0]
    assert stated == one.at - start


@pytest.mark.parametrize("at", range(4))
def test_a_damaged_record_is_a_gap_and_the_rest_is_read(at: int) -> None:
    one = segment()
    offset = scanned(one.data).records[at].offset
    one.data[offset + 6] ^= 0xFF
    found = scanned(one.data)
    assert sentences(found) == [s for s in ALL if s != ALL[at]]
    (gap,) = found.gaps
    assert (gap.offset, gap.lsn_expected) == (offset, at + 1)
    assert gap.reason == "not a whole record"
    if at < 3:
        assert gap.lsn_next == at + 2
        assert gap.end > offset
    else:
        assert gap.lsn_next == 0


def test_zeros_among_records_are_a_gap_too() -> None:
    one = segment()
    second = scanned(one.data).records[1]
    one.data[second.offset : second.end] = bytes(second.end - second.offset)
    (gap,) = scanned(one.data).gaps
    assert gap.reason == "zeros among records"
    assert (gap.offset, gap.end, gap.lsn_expected, gap.lsn_next) == (
        second.offset, second.end, 2, 3,
    )  # fmt: skip


def test_a_damaged_checkpoint_costs_no_record() -> None:
    one = segment()
    one.data[FILE_HEADER_BYTES + 5] ^= 1
    found = scanned(one.data)
    assert sentences(found) == ALL
    assert found.checkpoint is None
    assert len(found.gaps) == 1


def test_a_record_that_is_whole_but_not_the_next_is_not_taken() -> None:
    """A block that a disk wrote twice would have to carry another place; this one does."""
    one = SegmentBuilder(checkpoint=OPENING)
    one.batch(draft(Kind.PUT, 1, 1))
    one.lsn = 7
    one.batch(draft(Kind.PUT, 7, 7))
    found = scanned(one.data)
    (gap,) = found.gaps
    assert (gap.lsn_expected, gap.lsn_next) == (2, 7)


def test_garbage_behind_the_last_record_is_a_gap_without_a_next() -> None:
    one = segment()
    one.data[one.at : one.at + 9] = b"gibberish"
    found = scanned(one.data)
    assert sentences(found) == ALL
    (gap,) = found.gaps
    assert (gap.offset, gap.end, gap.lsn_expected, gap.lsn_next) == (one.at, one.at + 9, 5, 0)


@given(st.data())
@settings(max_examples=300)
def test_no_damage_makes_a_scan_fail_or_tell_what_was_never_written(data: st.DataObject) -> None:
    one = segment(2048)
    if data.draw(st.booleans(), "sealed"):
        one.seal(live=2)
    used = bytes(one.data)
    start = data.draw(st.integers(FILE_HEADER_BYTES, len(used) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=300))
    damaged = used[:start] + noise + used[start + len(noise) :]
    found = scanned(damaged[: data.draw(st.integers(0, len(damaged)))])
    assert [s for s in ALL if s in sentences(found)] == sentences(found)
    lsns = [r.lsn for r in found.records]
    assert lsns == sorted(set(lsns))


def test_every_cut_of_a_segment_tells_a_beginning_of_it() -> None:
    one = segment(1024)
    for cut in range(len(one.data)):
        found = scanned(one.data[:cut])
        assert sentences(found) == ALL[: len(found.records)], cut


# -- recycled files ------------------------------------------------------------------------------


def recycled(old: SegmentBuilder, new: SegmentBuilder) -> bytes:
    """The file of `old`, used again: `new` is written over its beginning."""
    return bytes(new.data[: new.at]) + bytes(old.data[new.at :])


def test_older_frames_end_the_log_of_a_recycled_segment() -> None:
    old = SegmentBuilder(1, 4096, 1, OPENING)
    old.batch(*(draft(Kind.PUT, n, n, 0, b"old") for n in range(1, 9)))
    old.seal(live=8)
    new = SegmentBuilder(5, 4096, 50, OPENING)
    new.batch(*(draft(Kind.PUT, n, n, 0, b"new") for n in range(50, 53)))
    # Both are laid out alike, so that the new end is the start of an old frame.
    found = scanned(recycled(old, new), 5)
    assert sentences(found) == ["put 50 new", "put 51 new", "put 52 new"]
    assert not found.gaps
    assert found.footer is None
    assert found.end == new.at


def test_an_older_frame_cut_by_the_new_end_is_never_a_record() -> None:
    old = SegmentBuilder(1, 4096, 1, OPENING)
    old.batch(*(draft(Kind.PUT, n, n, 0, b"old and longer than that") for n in range(1, 20)))
    new = SegmentBuilder(5, 4096, 50, OPENING)
    new.batch(draft(Kind.PUT, 50, 50, 0, b"new"))
    assert sentences(scanned(recycled(old, new), 5)) == ["put 50 new"]


# -- footer --------------------------------------------------------------------------------------


def test_a_footer_counts_and_spans_its_records() -> None:
    one = segment()
    one.batch(draft(Kind.EXPIRED, 3, time_ms=TIME_MS + 5))
    one.batch(draft(Kind.RELEASED, 9, 4, time_ms=TIME_MS - 5))
    one.seal(live=1)
    footer = scanned(one.data).footer
    assert footer is not None
    assert footer.offset == len(one.data) - FOOTER_SPACE_BYTES
    assert (footer.item, footer.number, footer.small, footer.lsn) == (6, 4, 1, 7)
    meta = decode_meta(footer.meta)
    counts = meta.pop(Tag.COUNTS)
    assert isinstance(counts, bytes)
    assert decode_counts(counts) == {
        Kind.PUT: 3, Kind.DONE: 1, Kind.RELEASED: 1, Kind.EXPIRED: 1,
    }  # fmt: skip
    assert meta == {
        Tag.PLACE: 1, Tag.STORED_MS: TIME_MS - 5, Tag.LAST_MS: TIME_MS + 5,
        Tag.ITEM_FIRST: 1, Tag.ITEM_LAST: 3,
    }  # fmt: skip


def test_a_footer_has_room_for_every_kind_there_can_be_in_version_1() -> None:
    one = SegmentBuilder(capacity=16384, checkpoint=OPENING)
    one.batch(*(draft(kind, 1, 1) for kind in Kind))
    one.seal(live=0)
    footer = scanned(one.data).footer
    assert footer is not None
    assert footer.end <= len(one.data)


def test_a_footer_that_counts_more_than_there_is_names_what_is_missing() -> None:
    one = segment()
    one.seal(live=2)
    last = scanned(one.data).records[-1]
    # The last record and its batch are gone without a trace, as if never written.
    one.data[last.offset - HEADER_BYTES : last.end] = bytes(last.end - last.offset + HEADER_BYTES)
    found = scanned(one.data)
    assert sentences(found) == ALL[:3]
    (gap,) = found.gaps
    assert gap.reason == "the segment's footer counts more records"
    assert (gap.lsn_expected, gap.lsn_next, found.lsn_next) == (4, 5, 5)


def test_a_damaged_footer_is_none_and_named() -> None:
    one = segment()
    one.seal(live=2)
    one.data[len(one.data) - FOOTER_SPACE_BYTES + 20] ^= 1
    found = scanned(one.data)
    assert sentences(found) == ALL
    assert found.footer is None
    assert len(found.gaps) == 1


# -- a lost header -------------------------------------------------------------------------------


def test_a_segment_without_its_header_says_by_its_frames_whose_it_is() -> None:
    one = segment(number=4)
    one.data[:FILE_HEADER_BYTES] = bytes(FILE_HEADER_BYTES)
    assert find_identity(bytes(one.data), 4) == SHORT_IDENTITY
    one.data[FILE_HEADER_BYTES + 3] ^= 1  # the checkpoint too
    assert find_identity(bytes(one.data), 4) == SHORT_IDENTITY


def test_a_file_that_is_no_segment_has_no_journal() -> None:
    assert find_identity(bytes(4096), 1) == 0
    assert find_identity(b"", 1) == 0
    assert find_identity(b"some text\n" * 400, 1) == 0
    assert find_identity(bytes(segment(number=4).data), 5) == 0


def test_a_copy_of_a_tally_has_all_of_it_and_counts_on_its_own() -> None:
    tally = Tally(item_first=3, item_last=9, place_first=3, place_last=11, time_min=5, time_max=7)
    tally.counts[Kind.PUT] = 2
    copied = tally.copy()
    assert copied == tally
    copied.counts[Kind.PUT] += 1
    assert tally.counts[Kind.PUT] == 2
