"""Segments grow with use, and have room for the record they were ordered for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.record import Draft, Kind
from journal.rotation import OVERHEAD_BYTES, SECTOR_BYTES, Sizes, least_capacity, whole_sectors
from journal.segment import FOOTER_SPACE_BYTES


def put(body_bytes: int) -> Draft:
    return Draft(Kind.PUT, 1, 1, 0, 1, b"", bytes(body_bytes), 0, 0)


def test_segments_start_small_and_grow_up_to_the_largest() -> None:
    sizes = Sizes(segment_min=64 << 10, segment_max=4 << 20)
    seen = []
    last = 0
    for _ in range(6):
        last = sizes.next_capacity(last, None)
        seen.append(last >> 10)
    assert seen == [64, 256, 1024, 4096, 4096, 4096]


@pytest.mark.parametrize("body_bytes", [0, 1, 100_000, 8 << 20])
def test_a_segment_holds_the_record_it_was_ordered_for(body_bytes: int) -> None:
    capacity = Sizes(segment_min=16 << 10, segment_max=16 << 10).next_capacity(0, put(body_bytes))
    assert capacity >= OVERHEAD_BYTES + body_bytes
    assert capacity >= least_capacity(put(body_bytes))


@given(st.integers(0, 1 << 30))
def test_capacities_are_whole_sectors_so_a_footer_is_written_whole(size: int) -> None:
    capacity = whole_sectors(size)
    assert capacity % SECTOR_BYTES == 0
    assert size <= capacity < size + SECTOR_BYTES
    assert (capacity - FOOTER_SPACE_BYTES) % SECTOR_BYTES == 0
