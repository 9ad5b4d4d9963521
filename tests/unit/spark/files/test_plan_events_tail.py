"""A survey of a segment in bulk finds what reading it record by record finds."""

from __future__ import annotations

import random

import pytest

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Record
from journal.format.segment import FILE_HEADER_BYTES
from journal.read.scan import scan
from kestrelpy.spark.files.decode import CHUNK_BYTES
from kestrelpy.spark.files.plan_events import survey
from tests.golden.layout import TIME_MS, SegmentBuilder, draft

PATH = "a.segment"


def segment(capacity: int = 1 << 16) -> tuple[SegmentBuilder, list[Record]]:
    one = SegmentBuilder(1, capacity, 5, Checkpoint(b"jobs", 5, generation=1))
    records: list[Record] = []
    for first in range(5, 41, 3):
        puts = [
            draft(Kind.PUT, n, n, 0, b"b" * n, time_ms=TIME_MS + 50 - n)
            for n in range(first, first + 2)
        ]
        records += one.batch(*puts, draft(Kind.DONE, first), synced=first - 1)
    return one, records


def test_the_front_of_a_whole_log_is_all_of_it() -> None:
    one, records = segment()
    data = bytes(one.data)

    found = survey(data, PATH, one.journal, 1, len(data))

    by_one = scan(data, PATH, one.journal, 1)
    assert (found.lsn_first, found.lsn_last, found.count) == (5, 40, len(records))
    assert found.lsn_next == by_one.lsn_next == 41
    assert found.end == by_one.end == one.at
    assert found.last_end == records[-1].end
    assert (found.rest.batches, found.rest.lsn_synced) == (by_one.batches, by_one.lsn_synced)
    assert found.rest.records == [] and found.rest.gaps == []
    assert found.rest.lsn_first == 5
    times = [r.time_ms for r in records]
    assert (found.tally.time_min, found.tally.time_max) == (min(times), max(times))
    assert (found.tally.item_first, found.tally.item_last) == (5, 39)


@pytest.mark.parametrize("lost", [0, 1, 7, 20, 35])
def test_from_the_first_byte_that_continues_no_frame_each_record_is_read(lost: int) -> None:
    one, records = segment()
    data = bytearray(one.data)
    data[records[lost].offset + HEADER_BYTES - 1] ^= 1

    found = survey(bytes(data), PATH, one.journal, 1, len(data))

    by_one = scan(bytes(data), PATH, one.journal, 1)
    assert found.count == lost
    assert found.rest.records == by_one.records[lost:]
    assert found.rest.gaps == by_one.gaps
    assert found.rest.lsn_next == by_one.lsn_next
    assert found.rest.lsn_synced == by_one.lsn_synced


def test_a_segment_without_a_record_has_none() -> None:
    one = SegmentBuilder(1, 4096, 5)
    data = bytes(one.data)

    found = survey(data, PATH, one.journal, 1, len(data))

    assert (found.lsn_first, found.lsn_last, found.count) == (0, 0, 0)
    assert found.end == FILE_HEADER_BYTES
    assert found.rest.records == []


def test_a_record_that_is_larger_than_a_chunk_is_surveyed_as_well() -> None:
    one = SegmentBuilder(1, 4 * CHUNK_BYTES, 1, Checkpoint(b"jobs", generation=1))
    large = random.Random(1).randbytes(CHUNK_BYTES + 1000)
    bodies = (b"small", large, b"last")
    one.batch(*(draft(Kind.PUT, n, n, 0, body) for n, body in enumerate(bodies, 1)), synced=0)
    data = bytes(one.data)

    found = survey(data, PATH, one.journal, 1, len(data))

    assert (found.count, found.lsn_last, found.end) == (3, 3, one.at)
    assert found.rest.records == []
