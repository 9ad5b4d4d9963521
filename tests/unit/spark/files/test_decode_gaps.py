"""Bytes that are no record: the end of the log, damage, or nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from journal.errors import ITEM_MAX
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Record
from journal.format.segment import FILE_HEADER_BYTES
from journal.read.scan import FOOTER_LOST, Gap, Scan
from journal.recovery.recovery import MISSING_BEHIND, SHORTER
from kestrelpy.spark.files.decode import GapCheck
from kestrelpy.spark.files.split import Split

SPLIT = Split("a.segment", b"", 1, 1, 4096, 1, 0)


def put(lsn: int) -> Record:
    return Record(Kind.PUT, lsn, lsn, 0, 0, b"", b"", 0, lsn, 1, 0, 0)


def check(records: int = 6, **known: Any) -> GapCheck:
    made = GapCheck(replace(SPLIT, **known))
    made.see([put(lsn) for lsn in range(1, records + 1)])
    return made


def gap(lsn_next: int = 9, reason: str = "not a record", size: int = 4 * HEADER_BYTES) -> Gap:
    return Gap(1024, 1024 + size, reason, 7, lsn_next)


def test_records_that_were_synced_are_lost_and_named() -> None:
    found = check(lsn_synced=12)

    is_end, damage = found.verdict("a.segment", gap(), following=9)

    assert not is_end and damage is not None
    assert (damage.kind, damage.lsn_first, damage.lsn_last) == ("corrupt", 7, 8)
    assert (damage.id_first, damage.id_last) == (7, 8)
    assert found.expected == 9


def test_behind_the_last_known_sync_the_log_ends() -> None:
    assert check(lsn_synced=6).verdict("a.segment", gap(), 9) == (True, None)


def test_bytes_between_records_that_follow_each_other_cost_nothing() -> None:
    for synced, kind in (12, "corrupt"), (6, "torn"):
        is_end, damage = check(lsn_synced=synced).verdict("a.segment", gap(7), 7)
        assert not is_end and damage is not None
        assert damage.kind == kind
        assert damage.lsn_last < damage.lsn_first
        assert damage.id_last < damage.id_first


def test_a_lost_footer_is_damage_also_behind_the_last_sync() -> None:
    _, damage = check(lsn_synced=6).verdict("a.segment", gap(7, FOOTER_LOST), 0)
    assert damage is not None and damage.kind == "corrupt"


def test_records_that_a_newer_segment_has_again_are_not_lost() -> None:
    assert check(lsn_limit=7, lsn_synced=12).verdict("a.segment", gap(), 9) == (False, None)
    is_end, damage = check(lsn_limit=8, lsn_synced=12).verdict("a.segment", gap(), 9)
    assert not is_end and damage is not None
    assert (damage.lsn_first, damage.lsn_last) == (7, 7)


def test_without_a_record_behind_it_a_gap_may_have_held_as_many_as_it_has_room_for() -> None:
    _, damage = check(lsn_synced=50).verdict("a.segment", gap(0), 0)
    assert damage is not None
    assert (damage.lsn_first, damage.lsn_last) == (7, 10)
    assert (damage.id_first, damage.id_last) == (7, 10)


def test_a_segment_without_a_readable_header_may_have_held_anything() -> None:
    found = GapCheck(replace(SPLIT, lsn_synced=ITEM_MAX, lsn_before=5))

    _, damage = found.verdict("a.segment", Gap(0, FILE_HEADER_BYTES, "?", 0, 0), 0)

    assert damage is not None and damage.lsn_last >= ITEM_MAX - 1


def test_a_file_that_is_shorter_than_it_was_made_has_a_gap_at_its_end() -> None:
    found = Scan("a.segment", 1, lsn_next=7, end=2048, read_to=2048)

    (shorter,) = check(lsn_synced=12).gaps(found, 2048, [put(6)])

    assert shorter == Gap(2048, 4096, SHORTER, 7, 0)
    (known,) = check().gaps(replace(found, read_to=1024), 2048, [put(6)])
    assert known.lsn_next == 7, "zeros stood before it: the log had ended"


def test_records_that_the_plan_knows_and_that_are_not_there_are_missing_behind() -> None:
    found = Scan("a.segment", 1, lsn_next=7, end=2048, read_to=2048)

    (missing,) = check(lsn_last=9).gaps(found, 4096, [put(6)])

    assert (missing.offset, missing.reason) == (2048, MISSING_BEHIND)
    assert (missing.lsn_expected, missing.lsn_next) == (7, 10)
    assert check(lsn_last=6).gaps(found, 4096, [put(6)]) == []
    assert check(lsn_last=9, is_compacted=True).gaps(found, 4096, [put(6)]) == []


@pytest.mark.parametrize(("stop", "count"), [(0, 1), (1024, 0), (1025, 1)])
def test_gaps_behind_the_split_belong_to_another(stop: int, count: int) -> None:
    found = Scan("a.segment", 1, gaps=[gap()], lsn_next=9, end=4096, read_to=4096)
    assert len(check(stop=stop).gaps(found, 4096, [put(6)])) == count
