"""The headers of frames as columns: each says what the record says by itself."""

from __future__ import annotations

import numpy as np

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.meta import encode_meta
from journal.format.record import Record
from kestrelpy.spark.files.frame_headers import FrameHeaders, headers_of
from tests.golden.layout import TIME_MS, SegmentBuilder, draft

FIELDS = ("kind", "item", "number", "small", "time_ms", "reader", "lsn")


def frames() -> tuple[bytes, list[Record]]:
    one = SegmentBuilder(1, 8192, 1, Checkpoint(b"jobs", generation=1))
    records = one.batch(
        draft(Kind.PUT, 1, 4, 0xFFFFFFFF, b"x" * 5, {Tag.EXPIRES_MS: TIME_MS, Tag.KEY: b"k"}),
        draft(Kind.DONE, 1, TIME_MS - 5, 300, time_ms=TIME_MS + 1, reader=65535),
        draft(Kind.TOKENS, 0, 1 << 62),
        draft(Kind.PUT, 2, 0, 0, b"", {Tag.KEY: b"k", Tag.EXPIRES_MS: TIME_MS}),
        draft(Kind.RETURNED, 2)._replace(kind=77, meta=b"\x40\1\0?"),
    )
    return bytes(one.data), records


def test_every_field_is_that_of_the_record() -> None:
    data, records = frames()

    headers = headers_of(data, records)

    assert len(headers) == len(records)
    for field in FIELDS:
        assert getattr(headers, field).tolist() == [getattr(r, field) for r in records], field
    assert headers.offsets.tolist() == [r.offset for r in records]
    assert headers.meta_bytes.tolist() == [len(r.meta) for r in records]
    ends = headers.offsets + (headers.lengths + 7 & ~7)
    assert ends.tolist() == [r.end for r in records]


def test_frames_of_a_part_of_a_file_stand_where_they_stand_in_the_file() -> None:
    data, records = frames()
    base = records[0].offset
    at = np.array([r.offset - base for r in records], np.int64)

    headers = FrameHeaders(data[base : records[-1].end], base, at)

    assert headers.offsets.tolist() == [r.offset for r in records]
    assert headers.lsn.tolist() == [r.lsn for r in records]
    assert headers.metas == headers_of(data, records).metas


def test_some_of_the_frames_are_picked_by_what_they_are_and_by_their_place() -> None:
    data, records = frames()
    headers = headers_of(data, records)

    puts = headers.pick(headers.is_one_of((Kind.PUT,)))
    either = headers.is_one_of((Kind.DONE, Kind.TOKENS))

    assert puts.item.tolist() == [1, 2]
    assert puts.metas[0][Tag.KEY] == b"k"
    assert either.tolist() == [False, True, True, False, False]
    assert headers.pick(slice(1, 3)).lsn.tolist() == [2, 3]


def test_a_marker_is_the_place_of_a_put_and_the_item_of_any_other_record() -> None:
    data, records = frames()
    assert headers_of(data, records).marker.tolist() == [4, 1, 0, 0, 2]


def test_what_this_version_cannot_read_says_nothing() -> None:
    data, records = frames()

    metas = headers_of(data, records).metas

    assert metas[1:3] == [{}, {}]
    assert metas[4] == {}
    assert encode_meta(metas[0]) == records[0].meta
