"""What is alive in each segment, and which may go."""

from __future__ import annotations

import errno

from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Draft
from journal.sets.id_set import IdSet
from journal.write.segment_file import Segment
from journal.write.segment_list import Ledger
from kestrelpy.core.policy import Policy
from tests.support.life import Life
from tests.support.memory_disk import Fault


def ledger_of(*puts: tuple[int, int], lsns: int = 10) -> Ledger:
    """Segments with these items, each with so many lsns, and an active one without any."""
    ledger = Ledger()
    for number, (first, last) in enumerate([*puts, (0, 0)], 1):
        count = last - first + 1 if last else 0
        ledger.segments.append(
            Segment(
                number, f"{number}", 2048, None, lsn_first=(number - 1) * lsns + 1,
                lsn_last=number * lsns, item_first=first, item_last=last, puts=count,
                live=count, live_bytes=count * (HEADER_BYTES + 10), rank=number,
            )
        )  # fmt: skip
    ledger.segments[-1].lsn_last = 0
    return ledger


def ids(*found: int) -> IdSet:
    made = IdSet()
    for id_ in found:
        made.add(id_)
    return made


def test_an_item_is_found_in_the_segment_in_which_it_was_put() -> None:
    ledger = ledger_of((1, 3), (4, 4), (0, 0), (5, 9))
    found = {item: ledger.holding(item) for item in range(1, 11)}
    assert [s.number if s else 0 for s in found.values()] == [1, 1, 1, 2, 4, 4, 4, 4, 4, 0]
    assert ledger.numbered(3) is ledger.segments[2]
    assert ledger.numbered(99) is None


def test_after_a_start_what_is_alive_is_counted() -> None:
    ledger = ledger_of((1, 3), (4, 4), (5, 9))
    ledger.adopt(ids(2, 5, 6), 300)
    assert [s.live for s in ledger.segments] == [1, 0, 2, 0]
    assert ledger.segments[2].live_bytes == 2 * (HEADER_BYTES + 100)


def test_without_a_snapshot_segments_go_from_the_front_alone() -> None:
    ledger = ledger_of((1, 2), (3, 4), (5, 6))
    for item, lsn in ((3, 31), (4, 32), (5, 33), (6, 34)):
        ledger.end(item, HEADER_BYTES + 10, lsn)
    assert ledger.take_dead(99, []) == []
    ledger.end(1, HEADER_BYTES + 10, 35)
    ledger.end(2, HEADER_BYTES + 10, 36)
    assert ledger.take_dead(35, []) == [], "what emptied it is not durable"
    assert ledger.take_dead(36, []) == ["1", "2", "3"]
    assert [s.number for s in ledger.segments] == [4]


def test_with_two_snapshots_whatever_the_older_one_includes_goes() -> None:
    ledger = ledger_of((1, 2), (3, 4), (5, 6))
    for item in (3, 4, 5, 6):
        ledger.end(item, HEADER_BYTES + 10, 31)
    assert ledger.take_dead(99, [20]) == []
    assert ledger.take_dead(99, [20, 35]) == ["2"]
    assert ledger.take_dead(99, [30, 35]) == ["3"]
    assert [s.number for s in ledger.segments] == [1, 4]


def standing() -> Draft:
    return Draft(Kind.DECLARED, 0, 0, 0, 0, b"", b"lease = 1", 0, 0)


def emptied() -> Ledger:
    """Three segments whose items are done, and an active one."""
    ledger = ledger_of((1, 2), (3, 4), (5, 6))
    for item in range(1, 7):
        ledger.end(item, HEADER_BYTES + 10, 31)
    return ledger


def test_what_stands_for_the_queue_holds_its_segment_until_it_was_said_again() -> None:
    ledger = emptied()
    ledger.stand(standing(), 15)
    assert ledger.take_dead(99, []) == ["1"], "it stands in the second"
    assert ledger.take_held() == [standing()]
    assert ledger.take_held() == [], "once is enough"
    ledger.stand(standing(), 35)
    assert ledger.take_dead(34, []) == [], "it is not durable there yet"
    assert ledger.take_held() == []
    assert ledger.take_dead(35, []) == ["2", "3"]


def test_with_one_snapshot_what_stands_holds_its_segment_too_with_two_it_is_in_both() -> None:
    ledger = emptied()
    ledger.stand(standing(), 1)
    assert ledger.take_dead(99, [20]) == []
    assert ledger.take_held() == [standing()]
    assert ledger.take_dead(99, [20, 30]) == ["1", "2"]


def test_what_is_being_rewritten_does_not_go() -> None:
    ledger = ledger_of((1, 2), (3, 4))
    for item in (1, 2, 3, 4):
        ledger.end(item, HEADER_BYTES + 10, 21)
    ledger.busy = [ledger.segments[0]]
    assert ledger.take_dead(99, [20, 25]) == ["2"]
    assert ledger.take_dead(99, []) == []
    ledger.busy = []
    assert ledger.take_dead(99, [20, 25]) == ["1"]


def test_a_flush_ends_all_but_those_that_stay() -> None:
    ledger = ledger_of((1, 3), (4, 6))
    before = ledger.segments[0].live_bytes
    ledger.recount(IdSet.of([2, 99]), 21)
    assert [s.live for s in ledger.segments] == [1, 0, 0]
    assert [s.live_bytes for s in ledger.segments] == [before // 3, 0, 0]
    assert ledger.segments[1].emptied_lsn == 21


def test_a_size_that_was_guessed_leaves_no_less_than_nothing() -> None:
    ledger = ledger_of((1, 2))
    ledger.end(1, 100_000, 11)
    assert (ledger.segments[0].live, ledger.segments[0].live_bytes) == (1, 0)


def test_when_the_last_item_of_a_segment_ends_nothing_is_left_of_a_guess() -> None:
    ledger = ledger_of((1, 2))
    ledger.adopt(ids(1, 2), 300)
    ledger.end(1, HEADER_BYTES + 10, 11)
    ledger.end(2, HEADER_BYTES + 10, 12)
    assert (ledger.segments[0].live, ledger.segments[0].live_bytes) == (0, 0)


def test_survivors_stand_where_those_stood_that_they_replace() -> None:
    ledger = ledger_of((1, 3), (4, 6), (7, 9))
    ledger.end(5, HEADER_BYTES + 10, 31)
    chosen = ledger.segments[:2]
    survivors = Segment(9, "9", 2048, None, lsn_first=1, lsn_last=20, item_first=1, item_last=6)
    assert ledger.replace(chosen, survivors) == ["1", "2"]
    assert [s.number for s in ledger.segments] == [9, 3, 4]
    assert ledger.holding(2) is survivors


def with_survivors() -> Ledger:
    """Of two of these segments; they are done as well, and have a higher number than the log."""
    ledger = emptied()
    survivors = Segment(9, "9", 2048, None, lsn_first=1, lsn_last=20, item_first=1, item_last=4)
    ledger.replace(ledger.segments[:2], survivors)
    return ledger


def test_survivors_stay_until_the_log_is_past_their_number() -> None:
    for snapshots, others in (([40, 50], ["3"]), ([40], [])):
        ledger = with_survivors()
        assert ledger.take_dead(99, snapshots) == others, "a start would give their number again"
        ledger.segments[-1].lsn_last = 40
        ledger.segments.append(Segment(10, "10", 2048, None, lsn_first=41))
        assert ledger.take_dead(99, snapshots)[0] == "9"


def test_on_a_full_disk_survivors_go_at_once_for_the_next_segment_is_to_have_their_file() -> None:
    ledger = with_survivors()
    assert ledger.take_dead(99, [40, 50]) == ["3"]
    assert ledger.take_dead(99, [40, 50], is_short=True) == ["9"]


def test_a_number_counts_as_passed_when_a_power_cut_cannot_take_it_back() -> None:
    for snapshots, others in (([60, 70], ["3", "4"]), ([60], [])):
        ledger = with_survivors()
        ledger.segments[-1].lsn_last = 40
        ledger.segments.append(Segment(10, "10", 2048, None, lsn_first=41))
        dead = ledger.take_dead(40, snapshots)
        assert dead == others, "the tenth may be a spare after a power cut"
        assert "9" in ledger.take_dead(41, snapshots)


def test_what_follows_a_segment_that_was_never_sealed_goes_only_behind_it() -> None:
    ledger = emptied()
    ledger.segments[0].is_open, ledger.segments[0].live = True, 1
    assert ledger.take_dead(99, [40, 50]) == ["3"]
    assert ledger.take_dead(99, [40, 50]) == []
    ledger.segments[0].live = 0
    assert ledger.take_dead(99, [40, 50]) == ["1", "2"]


def test_on_a_full_disk_what_follows_a_segment_that_was_never_sealed_goes_too() -> None:
    ledger = emptied()
    ledger.segments[0].is_open, ledger.segments[0].live = True, 1
    assert ledger.take_dead(99, [40, 50], is_short=True) == ["2", "3"]


def test_a_segment_that_the_disk_did_not_give_never_goes() -> None:
    ledger = ledger_of((1, 2), (3, 4), (5, 6))
    ledger.adopt(ids(), 0)
    ledger.segments[1].unread = True
    assert ledger.take_dead(99, []) == ["1"]
    assert ledger.take_dead(99, [40, 50]) == ["3"]


def test_what_a_start_could_not_read_is_found_when_the_disk_gives_it_again() -> None:
    life = Life(Policy())
    for number in range(12):
        life.put(b"%d" % number * 100)
        life.commit()
    first = min(life.log.journal.segments, key=lambda segment: segment.number).path
    disk = life.disk.kill_clone()
    disk.faults = [Fault("read", first, times=1000, error=errno.EIO)]
    without = Life(life.policy, life.sizes, disk)
    assert len(without.reader.live) < 12
    without.put(b"x")
    without.commit()
    disk.faults = []

    again = without.killed()

    assert len(again.reader.live) == 13
    life.background.forget()
