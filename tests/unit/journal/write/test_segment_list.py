"""The live items of each segment, and which segments may be removed."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Draft
from journal.sets.id_set import IdSet
from journal.write.segment_file import Segment
from journal.write.segment_list import SegmentList
from kestrelpy.core.policy import Policy
from tests.support.disk_harness import DiskHarness
from tests.support.memory_disk import Fault


def segment_list_of(*puts: tuple[int, int], lsns: int = 10) -> SegmentList:
    """Return segments with these items and `lsns` records each, and an active one without items."""
    segment_list = SegmentList()
    for number, (first, last) in enumerate([*puts, (0, 0)], 1):
        count = last - first + 1 if last else 0
        segment_list.segments.append(
            Segment(
                number, f"{number}", 2048, None, lsn_first=(number - 1) * lsns + 1,
                lsn_last=number * lsns, item_first=first, item_last=last, puts=count,
                live=count, live_bytes=count * (HEADER_BYTES + 10), rank=number,
            )
        )  # fmt: skip
    segment_list.segments[-1].lsn_last = 0
    return segment_list


def ids(*found: int) -> IdSet:
    made = IdSet()
    for id_ in found:
        made.add(id_)
    return made


def test_an_item_is_found_in_the_segment_in_which_it_was_put() -> None:
    segment_list = segment_list_of((1, 3), (4, 4), (0, 0), (5, 9))
    found = {item: segment_list.segment_of(item) for item in range(1, 11)}
    assert [s.number if s else 0 for s in found.values()] == [1, 1, 1, 2, 4, 4, 4, 4, 4, 0]
    assert segment_list.numbered(3) is segment_list.segments[2]
    assert segment_list.numbered(99) is None


def test_after_a_start_what_is_alive_is_counted() -> None:
    segment_list = segment_list_of((1, 3), (4, 4), (5, 9))
    segment_list.adopt(ids(2, 5, 6), 300)
    assert [s.live for s in segment_list.segments] == [1, 0, 2, 0]
    assert segment_list.segments[2].live_bytes == 2 * (HEADER_BYTES + 100)


def test_without_a_snapshot_segments_go_from_the_front_alone() -> None:
    segment_list = segment_list_of((1, 2), (3, 4), (5, 6))
    for item, lsn in ((3, 31), (4, 32), (5, 33), (6, 34)):
        segment_list.end(item, HEADER_BYTES + 10, lsn)
    assert segment_list.take_dead(99, []) == []
    segment_list.end(1, HEADER_BYTES + 10, 35)
    segment_list.end(2, HEADER_BYTES + 10, 36)
    assert segment_list.take_dead(35, []) == [], "what emptied it is not durable"
    assert segment_list.take_dead(36, []) == ["1", "2", "3"]
    assert [s.number for s in segment_list.segments] == [4]


def test_with_two_snapshots_whatever_the_older_one_includes_goes() -> None:
    segment_list = segment_list_of((1, 2), (3, 4), (5, 6))
    for item in (3, 4, 5, 6):
        segment_list.end(item, HEADER_BYTES + 10, 31)
    assert segment_list.take_dead(99, [20]) == []
    assert segment_list.take_dead(99, [20, 35]) == ["2"]
    assert segment_list.take_dead(99, [30, 35]) == ["3"]
    assert [s.number for s in segment_list.segments] == [1, 4]


def standing() -> Draft:
    return Draft(Kind.DECLARED, 0, 0, 0, 0, b"", b"lease = 1", 0, 0)


def emptied() -> SegmentList:
    """Three segments whose items are done, and an active one."""
    segment_list = segment_list_of((1, 2), (3, 4), (5, 6))
    for item in range(1, 7):
        segment_list.end(item, HEADER_BYTES + 10, 31)
    return segment_list


def test_what_stands_for_the_queue_holds_its_segment_until_it_was_said_again() -> None:
    segment_list = emptied()
    segment_list.stand(standing(), 15)
    assert segment_list.take_dead(99, []) == ["1"], "it stands in the second"
    assert segment_list.take_held() == [standing()]
    assert segment_list.take_held() == [], "once is enough"
    segment_list.stand(standing(), 35)
    assert segment_list.take_dead(34, []) == [], "it is not durable there yet"
    assert segment_list.take_held() == []
    assert segment_list.take_dead(35, []) == ["2", "3"]


def test_with_one_snapshot_what_stands_holds_its_segment_too_with_two_it_is_in_both() -> None:
    segment_list = emptied()
    segment_list.stand(standing(), 1)
    assert segment_list.take_dead(99, [20]) == []
    assert segment_list.take_held() == [standing()]
    assert segment_list.take_dead(99, [20, 30]) == ["1", "2"]


def test_what_is_being_rewritten_does_not_go() -> None:
    segment_list = segment_list_of((1, 2), (3, 4))
    for item in (1, 2, 3, 4):
        segment_list.end(item, HEADER_BYTES + 10, 21)
    segment_list.busy = [segment_list.segments[0]]
    assert segment_list.take_dead(99, [20, 25]) == ["2"]
    assert segment_list.take_dead(99, []) == []
    segment_list.busy = []
    assert segment_list.take_dead(99, [20, 25]) == ["1"]


def test_a_flush_ends_all_but_those_that_stay() -> None:
    segment_list = segment_list_of((1, 3), (4, 6))
    before = segment_list.segments[0].live_bytes
    segment_list.recount(IdSet.of([2, 99]), 21)
    assert [s.live for s in segment_list.segments] == [1, 0, 0]
    assert [s.live_bytes for s in segment_list.segments] == [before // 3, 0, 0]
    assert segment_list.segments[1].emptied_lsn == 21


def test_a_size_that_was_guessed_leaves_no_less_than_nothing() -> None:
    segment_list = segment_list_of((1, 2))
    segment_list.end(1, 100_000, 11)
    assert (segment_list.segments[0].live, segment_list.segments[0].live_bytes) == (1, 0)


def test_when_the_last_item_of_a_segment_ends_nothing_is_left_of_a_guess() -> None:
    segment_list = segment_list_of((1, 2))
    segment_list.adopt(ids(1, 2), 300)
    segment_list.end(1, HEADER_BYTES + 10, 11)
    segment_list.end(2, HEADER_BYTES + 10, 12)
    assert (segment_list.segments[0].live, segment_list.segments[0].live_bytes) == (0, 0)


def test_a_compacted_segment_has_the_place_of_those_it_replaces() -> None:
    segment_list = segment_list_of((1, 3), (4, 6), (7, 9))
    segment_list.end(5, HEADER_BYTES + 10, 31)
    chosen = segment_list.segments[:2]
    compacted = Segment(9, "9", 2048, None, lsn_first=1, lsn_last=20, item_first=1, item_last=6)
    assert segment_list.replace(chosen, compacted) == ["1", "2"]
    assert [s.number for s in segment_list.segments] == [9, 3, 4]
    assert segment_list.segment_of(2) is compacted


def test_an_item_ends_in_the_compacted_segment_whichever_was_at_hand() -> None:
    segment_list = segment_list_of((1, 3), (4, 6))
    segment_list.end(5, HEADER_BYTES + 10, 21)
    chosen = segment_list.segments[:2]
    compacted = Segment(9, "9", 2048, None, lsn_first=1, lsn_last=20, item_first=1, item_last=6)
    segment_list.replace(chosen, compacted)

    segment_list.end(4, HEADER_BYTES + 10, 22)

    assert (compacted.live, compacted.emptied_lsn) == (4, 22)


def test_an_item_of_a_segment_that_went_is_in_none() -> None:
    segment_list = segment_list_of((1, 2), (3, 4))
    for item in (1, 2):
        segment_list.end(item, HEADER_BYTES + 10, 21)
    assert segment_list.take_dead(21, []) == ["1"]
    assert segment_list.segment_of(2) is None


def with_compacted() -> SegmentList:
    """Return segments whose first two were replaced by a compacted one, with the highest number."""
    segment_list = emptied()
    compacted = Segment(9, "9", 2048, None, lsn_first=1, lsn_last=20, item_first=1, item_last=4)
    segment_list.replace(segment_list.segments[:2], compacted)
    return segment_list


def test_a_compacted_segment_stays_until_the_log_is_past_its_number() -> None:
    for snapshots, others in (([40, 50], ["3"]), ([40], [])):
        segment_list = with_compacted()
        dead = segment_list.take_dead(99, snapshots)
        assert dead == others, "a start would give their number again"
        segment_list.segments[-1].lsn_last = 40
        segment_list.segments.append(Segment(10, "10", 2048, None, lsn_first=41))
        assert segment_list.take_dead(99, snapshots)[0] == "9"


def test_on_a_full_disk_a_compacted_segment_goes_at_once_for_its_file() -> None:
    segment_list = with_compacted()
    assert segment_list.take_dead(99, [40, 50]) == ["3"]
    assert segment_list.take_dead(99, [40, 50], is_short=True) == ["9"]


def test_a_number_counts_as_passed_when_a_power_cut_cannot_take_it_back() -> None:
    for snapshots, others in (([60, 70], ["3", "4"]), ([60], [])):
        segment_list = with_compacted()
        segment_list.segments[-1].lsn_last = 40
        segment_list.segments.append(Segment(10, "10", 2048, None, lsn_first=41))
        dead = segment_list.take_dead(40, snapshots)
        assert dead == others, "the tenth may look unused after a power cut"
        assert "9" in segment_list.take_dead(41, snapshots)


def test_what_follows_a_segment_that_was_never_sealed_goes_only_behind_it() -> None:
    segment_list = emptied()
    segment_list.segments[0].is_open, segment_list.segments[0].live = True, 1
    assert segment_list.take_dead(99, [40, 50]) == ["3"]
    assert segment_list.take_dead(99, [40, 50]) == []
    segment_list.segments[0].live = 0
    assert segment_list.take_dead(99, [40, 50]) == ["1", "2"]


def test_on_a_full_disk_what_follows_a_segment_that_was_never_sealed_goes_too() -> None:
    segment_list = emptied()
    segment_list.segments[0].is_open, segment_list.segments[0].live = True, 1
    assert segment_list.take_dead(99, [40, 50], is_short=True) == ["2", "3"]


def test_a_log_that_lost_no_more_than_its_front_needs_no_snapshot() -> None:
    segment_list = segment_list_of((1, 2), (3, 4), (5, 6))
    assert segment_list.is_whole
    del segment_list.segments[0]
    assert segment_list.is_whole
    segment_list.stand(Draft(Kind.PAUSED, 0, 0, 1, 0, b"", b"", 0, 0), 11)
    segment_list.first_open = lambda: 11
    assert segment_list.is_whole


def test_a_log_needs_a_snapshot_for_what_is_gone_from_it() -> None:
    lost = segment_list_of((1, 2), (3, 4), (5, 6))
    del lost.segments[1]
    compacted = segment_list_of((1, 2), (3, 4), (5, 6))
    compacted.segments[1].number = 9
    unread = segment_list_of((1, 2), (3, 4))
    unread.segments[0].unread = True
    damaged = segment_list_of((1, 2), (3, 4))
    damaged.segments[0].damaged = True
    standing = segment_list_of((1, 2), (3, 4))
    standing.stand(Draft(Kind.PAUSED, 0, 0, 1, 0, b"", b"", 0, 0), 10)
    opened = segment_list_of((1, 2), (3, 4))
    opened.first_open = lambda: 10
    for front_matters in (standing, opened):
        assert front_matters.is_whole
        del front_matters.segments[0]
    for segment_list in (lost, compacted, unread, damaged, standing, opened):
        assert not segment_list.is_whole


def test_a_segment_that_the_disk_did_not_give_never_goes() -> None:
    segment_list = segment_list_of((1, 2), (3, 4), (5, 6))
    segment_list.adopt(ids(), 0)
    segment_list.segments[1].unread = True
    assert segment_list.take_dead(99, []) == ["1"]
    assert segment_list.take_dead(99, [40, 50]) == ["3"]


def test_what_a_start_could_not_read_is_found_when_the_disk_gives_it_again() -> None:
    life = DiskHarness(Policy())
    for number in range(12):
        life.put(b"%d" % number * 100)
        life.commit()
    first = min(life.log.journal.segments, key=lambda segment: segment.number).path
    disk = life.disk.kill_clone()
    disk.faults = [Fault("read", first, times=1000, error=errno.EIO)]
    without = DiskHarness(life.policy, life.sizes, disk)
    assert len(without.reader.live) < 12
    without.put(b"x")
    without.commit()
    disk.faults = []

    without.kill()

    assert len(without.reader.live) == 13


def needed(one: Segment, segment_list: SegmentList, is_so: bool) -> None:
    one.live = int(is_so)


def not_durable(one: Segment, segment_list: SegmentList, is_so: bool) -> None:
    one.emptied_lsn = 100 if is_so else 31


def rewritten(one: Segment, segment_list: SegmentList, is_so: bool) -> None:
    segment_list.busy = [one] if is_so else []


def not_given(one: Segment, segment_list: SegmentList, is_so: bool) -> None:
    one.unread = is_so


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("snapshots", [[], [40], [40, 50]])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("holds", [needed, not_durable, rewritten, not_given])
def test_a_segment_stays_as_long_as_anything_holds_it(
    holds: Callable[[Segment, SegmentList, bool], None], place: int, snapshots: list[int],
    is_short: bool,
) -> None:
    """However many snapshots there are, and on a full disk as well."""
    segment_list = emptied()
    one = segment_list.segments[place]
    holds(one, segment_list, True)

    gone = segment_list.take_dead(99, snapshots, is_short=is_short)
    assert one.path not in gone
    assert one in segment_list.segments

    holds(one, segment_list, False)
    gone += segment_list.take_dead(99, snapshots, is_short=is_short)
    assert sorted(gone) == ["1", "2", "3"]
