"""The bytes of segments by their use."""

from __future__ import annotations

from journal.write.disk_use import NOTHING, DiskUse, disk_use
from journal.write.segment_file import Segment


def segment(capacity: int, at: int, live: int, live_bytes: int) -> Segment:
    return Segment(1, "1", capacity, None, at=at, live=live, live_bytes=live_bytes)


def test_the_parts_add_up_to_the_files() -> None:
    sealed, active = segment(1000, 900, 2, 300), segment(5000, 2000, 1, 100)
    use = disk_use([sealed, active], active, [700, 30])
    assert use == DiskUse(live=400, done=700 + 1900, reserve=3000 + 730)
    assert use.total == 1000 + 5000 + 730


def test_nothing_is_live_in_a_segment_whose_items_are_done() -> None:
    sealed = segment(1000, 900, 0, 64)
    assert disk_use([sealed], None, []) == DiskUse(0, 1000, 0)


def test_a_guess_after_a_start_is_never_more_than_there_is() -> None:
    active = segment(1000, 500, 3, 9000)
    assert disk_use([active], active, []) == DiskUse(500, 0, 500)


def test_without_segments_there_is_nothing() -> None:
    assert disk_use([], None, []) == NOTHING
    assert NOTHING.total == 0
