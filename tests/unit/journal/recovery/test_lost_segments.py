"""Items of a missing segment: lost only if no record ended them and no other segment has them.

Promise: damage-named.
"""

from __future__ import annotations

import struct

import pytest

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.record import Record
from journal.format.segment import segment_name
from journal.format.subscription_state import GONE, STOPS, DeadEntry, ReaderState
from journal.recovery.lost_segments import SEGMENT_MISSING, LostSegments
from journal.recovery.segment_order import SegmentFile
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import SegmentState, Snapshot

FOLDER = "data/jobs.1"


def ids(*numbers: int) -> IdSet:
    made = IdSet()
    for number in numbers:
        made.add(number)
    return made


def snapshot(live: IdSet, dead: tuple[int, ...] = (), readers: list[ReaderState] | None = None
             ) -> Snapshot:  # fmt: skip
    """Segment 7 put the items 11 to 16, segment 8 those from 17 to 20."""
    states = [SegmentState(7, 11, 16, len(live), 0), SegmentState(8, 17, 20, 1, 0)]
    deaths = [DeadEntry(item, n, 1, b"abort", 0, 1) for n, item in enumerate(dead)]
    return Snapshot(
        30, 9, 0, Checkpoint(b"jobs", 21), live, 0, IdCounts(), deaths, states,
        readers=readers or [],
    )  # fmt: skip


def child(live: IdSet) -> ReaderState:
    return ReaderState(1, b"audit", 0, live=live)


def segment(number: int, first: int = 0, last: int = 0) -> SegmentFile:
    return SegmentFile(number, "", None, 0, 0, item_first=first, item_last=last)


def record(
    kind: Kind, item: int = 0, number: int = 0, small: int = 0, reader: int = 0, body: bytes = b""
) -> Record:
    return Record(kind, item, number, small, 0, b"", body, reader, 31, 9, 0, 0)


def lost(found: LostSegments) -> list[str]:
    return [each.path for each in found.damages(FOLDER)]


def test_a_missing_segment_with_a_live_item_is_named_with_its_items() -> None:
    found = LostSegments(snapshot(ids(12, 15)), [segment(8)])

    assert found
    (damage,) = found.damages(FOLDER)
    assert damage.path == f"{FOLDER}/{segment_name(7)}"
    assert damage.reason == SEGMENT_MISSING
    assert (damage.kind, damage.id_first, damage.id_last) == ("truncated", 11, 16)


def test_nothing_is_missing_where_every_segment_is_there() -> None:
    assert not LostSegments(snapshot(ids(12)), [segment(7), segment(8)])


@pytest.mark.parametrize(
    "kind", [Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED]
)
def test_items_that_ended_since_the_snapshot_are_not_missing(kind: Kind) -> None:
    found = LostSegments(snapshot(ids(12, 15)), [segment(8)])

    found.see(record(kind, 12))
    assert lost(found)
    found.see(record(kind, 15))
    assert not lost(found)


def test_a_flush_ends_all_but_the_spared_and_the_dead() -> None:
    for spared, dead, missing in ((), (), False), ((15,), (), True), ((), (15,), True):
        found = LostSegments(snapshot(ids(12, 15), dead), [segment(8)])

        found.see(record(Kind.FLUSHED, 20, body=struct.pack(f"<{len(spared)}Q", *spared)))

        assert bool(lost(found)) == missing, (spared, dead)


def test_a_dead_letter_survives_a_flush_unless_it_was_redriven() -> None:
    for redriven in (False, True):
        found = LostSegments(snapshot(ids(12)), [segment(8)])
        found.see(record(Kind.DEAD, 12))
        if redriven:
            found.see(record(Kind.REDRIVEN, 12))

        found.see(record(Kind.FLUSHED, 20))

        assert bool(lost(found)) != redriven


def test_an_item_is_missing_while_one_reader_still_has_it() -> None:
    live = ids(12)
    found = LostSegments(snapshot(live, readers=[child(ids(12))]), [segment(8)])

    found.see(record(Kind.DONE, 12))
    assert lost(found)
    found.see(record(Kind.UPTO, 0, 11, reader=1))
    assert lost(found)
    found.see(record(Kind.UPTO, 0, 12, reader=1))
    assert not lost(found)


def test_a_confirm_of_one_reader_ends_the_item_for_that_one_alone() -> None:
    found = LostSegments(snapshot(ids(12), readers=[child(ids(12))]), [segment(8)])

    found.see(record(Kind.DONE, 12, reader=1))
    assert lost(found)
    found.see(record(Kind.DONE, 12))
    assert not lost(found)


def test_a_reader_that_ends_needs_nothing_any_more() -> None:
    found = LostSegments(snapshot(ids(12), (12,), [child(ids(15))]), [segment(8)])

    found.see(record(Kind.READER, small=STOPS, reader=1))
    assert lost(found)
    found.see(record(Kind.READER, small=GONE))
    assert not lost(found)


def test_records_of_a_reader_that_came_later_end_nothing() -> None:
    found = LostSegments(snapshot(ids(12)), [segment(8)])

    found.see(record(Kind.DONE, 12, reader=5))

    assert lost(found)


def test_a_segment_that_may_hold_the_items_stands_for_the_missing_one() -> None:
    for last, missing in ((14, True), (15, False)):
        compacted = segment(57, 9, last)

        assert bool(lost(LostSegments(snapshot(ids(12, 15)), [segment(8), compacted]))) == missing
