"""A patched segment: lost stretches hold records that say nothing, all else is where it was."""

from __future__ import annotations

import pytest

from journal.errors import JournalError
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Record, decode
from journal.format.segment import SegmentHeader
from journal.read.frames import Frames
from journal.read.scan import Scan, scan
from journal.tools.patch import Nothing, Patch, stand_in
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, TIME_MS, SegmentBuilder, draft
from tests.support.memory_disk import MemoryDisk

FOLDER = "data/jobs.1"
PATH = f"{FOLDER}/0000000001.segment"
TOKENS = 1 << 30
NOTHING = Nothing(TOKENS, TIME_MS)


def segment(closed: bool = True) -> tuple[SegmentBuilder, list[Record]]:
    """Six puts in three batches."""
    one = SegmentBuilder(1, 4096, 1, Checkpoint(b"jobs", generation=1))
    records: list[Record] = []
    for item in (1, 3, 5):
        puts = [draft(Kind.PUT, n, n, 0, b"item %d" % n) for n in (item, item + 1)]
        records += one.batch(*puts, synced=item - 1)
    if closed:
        one.seal(live=6)
    return one, records


def patched(data: bytes, header: SegmentHeader, **known: int) -> Scan:
    """Patch these bytes, as they are on a disk; return what is read from them then."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    disk.create(PATH, data, len(data)).close()
    whole = Patch(Frames(disk, PATH), header, NOTHING, **known).patched(data)
    assert SegmentHeader.decode(whole, PATH) == header
    return scan(whole, PATH, header.journal, header.segment)


def header_of(one: SegmentBuilder) -> SegmentHeader:
    header = SegmentHeader.decode(bytes(one.data), PATH)
    assert header is not None
    return header


def facts(records: list[Record]) -> list[tuple[int, int, int, bytes]]:
    return [(r.lsn, r.kind, r.offset, r.body) for r in records if r.kind != Kind.TOKENS]


def test_a_whole_segment_stays_as_it_is() -> None:
    one, records = segment()

    found = patched(bytes(one.data), header_of(one))

    assert found.records == records
    assert found.gaps == []


@pytest.mark.parametrize("lost", range(6))
def test_a_damaged_record_is_replaced_by_one_of_its_number_that_says_nothing(lost: int) -> None:
    one, records = segment()
    data = bytearray(one.data)
    data[records[lost].offset + HEADER_BYTES] ^= 1

    found = patched(bytes(data), header_of(one), lsn_first=1, lsn_end=7)

    assert found.gaps == []
    assert [r.lsn for r in found.records] == [1, 2, 3, 4, 5, 6]
    assert facts(found.records) == facts([r for r in records if r is not records[lost]])
    (new,) = [r for r in found.records if r.kind == Kind.TOKENS]
    assert (new.lsn, new.number, new.item) == (lost + 1, TOKENS, 0)


def test_a_file_header_that_cannot_be_read_is_written_again() -> None:
    one, records = segment()
    data = bytearray(one.data)
    data[0] ^= 1

    found = patched(bytes(data), header_of(one), lsn_first=1)

    assert found.records == records
    assert found.gaps == []


def test_records_up_to_a_known_end_are_made_up_and_the_footer_says_where_the_log_goes_on() -> None:
    one, records = segment(closed=False)

    found = patched(bytes(one.data), header_of(one), lsn_end=9, lsn_behind=9)

    assert [r.lsn for r in found.records] == list(range(1, 9))
    assert facts(found.records) == facts(records)
    assert found.footer is not None and found.footer.lsn == 9


def test_bytes_behind_the_last_record_that_are_none_are_cut() -> None:
    one, records = segment(closed=False)
    data = bytearray(one.data)
    data[one.at : one.at + 100] = b"?" * 100

    found = patched(bytes(data), header_of(one))

    assert found.records == records
    assert not found.dirty and found.gaps == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_nothing_is_so_many_records_in_exactly_these_bytes(count: int) -> None:
    header = header_of(segment()[0])
    offset, end = 1024, 1024 + 5 * HEADER_BYTES + 24

    data = bytes(offset) + NOTHING.frames(header, offset, end, 40, count)

    assert len(data) == end
    at = offset
    for lsn in range(40, 40 + count):
        record = decode(data, at, header.journal, header.segment)
        assert record is not None and (record.lsn, record.kind) == (lsn, Kind.TOKENS)
        at = record.end
    assert at == end


def test_more_records_than_there_is_room_for_are_refused() -> None:
    header = header_of(segment()[0])

    with pytest.raises(JournalError, match=r"^3 records are missing where 191 bytes are$"):
        NOTHING.frames(header, 1024, 1024 + 3 * HEADER_BYTES - 1, 1, 3)


def test_a_stretch_too_small_for_a_record_is_zeros() -> None:
    assert NOTHING.frames(header_of(segment()[0]), 1024, 1024 + 40, 1, 0) == bytes(40)


@pytest.mark.parametrize("count", [0, 1, 100])
def test_a_segment_that_is_missing_is_stood_in_for_by_one_of_as_many_records(count: int) -> None:
    header = SegmentHeader(SHORT_IDENTITY, IDENTITY, 7, 0, TIME_MS)

    data = stand_in(header, 20, count, NOTHING)

    found = scan(data, PATH, SHORT_IDENTITY, 7)
    assert [r.lsn for r in found.records] == list(range(20, 20 + count))
    assert all((r.kind, r.number) == (Kind.TOKENS, TOKENS) for r in found.records)
    assert found.gaps == []
    made = SegmentHeader.decode(data, PATH)
    assert made is not None and made.capacity == len(data)
    assert count == 0 or (found.footer is not None and found.footer.lsn == 20 + count)


def test_a_segment_of_more_records_than_any_had_is_refused() -> None:
    header = SegmentHeader(SHORT_IDENTITY, IDENTITY, 7, 0, TIME_MS)

    with pytest.raises(JournalError, match=r"^4194305 records are missing$"):
        stand_in(header, 1, (1 << 22) + 1, NOTHING)
