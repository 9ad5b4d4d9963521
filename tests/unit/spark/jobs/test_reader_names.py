"""Children by their names: which there are, since when, and whose an event is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from journal.files import Disk
from journal.format.record import Draft
from journal.recovery.live_set import LiveSet
from journal.tools.verify import StartView
from kestrelpy.core import policy
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.plan_items import state_of
from kestrelpy.spark.files.readers import (
    ReaderName,
    ReaderNumbers,
    RecordedChild,
    children,
    in_order,
    names,
    passed_on,
)
from kestrelpy.spark.jobs.audit import dedupe
from tests.support.bulk import in_bulk
from tests.unit.spark.jobs.audit.test_audit_readers import all_sides, one_removed
from tests.unit.spark.jobs.audit.test_audit_readers import passed_on as passing
from tests.unit.spark.jobs.stories import journal_of, retold

OFF, ON = (ReaderName(0, "", lsn, 0, stops) for lsn, stops in ((30, False), (20, True)))


def test_the_reader_of_an_event_is_the_child_by_its_name(tmp_path: Path) -> None:
    rows = in_bulk(Disk(), str(all_sides(tmp_path))).rows
    assert {row["reader"] for row in rows} == {None, "audit", "cursor"}
    assert {(r["reader"], r["reader_number"]) for r in rows if r["op"] == "upto"} == {("cursor", 2)}
    assert {r["reader"] for r in rows if r["op"] == "put"} == {None, "audit"}


def test_a_child_that_is_made_again_is_another_one(tmp_path: Path) -> None:
    (journal,) = plan_events([str(one_removed(tmp_path))]).journals
    first, cursor, second = children(journal.reader_names)
    assert (first.name, cursor.name, second.name) == ("audit", "cursor", "audit")
    assert first.stopped_lsn and not cursor.stopped_lsn and not second.stopped_lsn
    assert children(journal.reader_names, first.stopped_lsn - 1)[0].stopped_lsn == 0


def test_what_the_queues_own_line_passes_on_is_known(tmp_path: Path) -> None:
    (journal,) = plan_events([str(passing(tmp_path))]).journals
    ((first, behind, floor),) = passed_on(journal.reader_names)
    assert behind is not None and first < behind and floor == 10
    assert passed_on([ON, OFF]) == [(20, 30, 0)]
    assert passed_on([ON]) == [(20, None, 0)]


def test_a_record_replaces_the_name_in_a_snapshot() -> None:
    record, snapshot = ReaderName(1, "audit", 5, 2, False), ReaderName(1, "audit", 0, 2, False)
    assert children(in_order([snapshot, record])) == [RecordedChild(1, "audit", 5, 2, 0, 1)]
    assert children(in_order([snapshot])) == [RecordedChild(1, "audit", 0, 2, 0, 1)]


def test_of_two_children_of_one_number_each_has_its_own_records() -> None:
    reader_names = in_order([
        ReaderName(1, "a", 5, 0, False), ReaderName(1, "a", 8, 0, True),
        ReaderName(1, "b", 20, 9, False), ReaderName(2, "c", 6, 0, False),
    ])  # fmt: skip
    first, second, other = children(reader_names)
    assert [first.name, second.name, other.name] == ["a", "b", "c"]
    assert (first.stopped_lsn, second.stopped_lsn, other.stopped_lsn) == (8, 0, 0)
    assert len({first.reader, second.reader, other.reader}) == 3
    assert (second.reader, other.reader) == (1, 2)
    reader_numbers = ReaderNumbers(reader_names)
    assert [reader_numbers.reader(1, lsn) for lsn in (5, 7, 19)] == [first.reader] * 3
    assert [reader_numbers.reader(1, lsn) for lsn in (20, 25)] == [1, 1]
    assert children(reader_names, 19)[0].reader == ReaderNumbers(reader_names, 19).reader(1, 7) == 1
    assert names(reader_names) == {first.reader: "a", 1: "b", 2: "c"}


def test_a_child_without_a_record_of_its_end_ended_before_the_next_of_its_number() -> None:
    first, second = children([ReaderName(1, "a", 5, 0, False), ReaderName(1, "b", 20, 9, False)])
    assert (first.stopped_lsn, second.stopped_lsn) == (20, 0)


def test_events_of_a_number_that_was_given_again_have_their_own_childs_name(
    tmp_path: Path,
) -> None:
    def edit(drafts: list[Draft]) -> None:
        for n, draft in enumerate(drafts):
            if draft.reader == 3:  # the second audit
                meta = draft.meta.replace(b"audit", b"other")
                drafts[n] = draft._replace(reader=1, meta=meta)

    data = retold(journal_of(one_removed(tmp_path / "old")), tmp_path / "new", edit)
    rows = in_bulk(Disk(), str(data)).rows
    confirms = [row["reader"] for row in rows if row["op"] == "confirm" and row["reader"]]
    assert confirms == ["audit"] * 5 + ["other"]


def test_the_audit_knows_the_defaults_of_windows() -> None:
    assert dedupe.DEDUPE_WINDOW_MS == policy.DEDUPE_WINDOW_MS
    assert dedupe.SCOPE_WINDOW_MS == policy.SCOPE_WINDOW_MS


@pytest.mark.parametrize("build", [all_sides, passing])
def test_the_items_of_a_journal_are_those_of_the_queues_own_line(
    tmp_path: Path, build: Callable[[Path], Path]
) -> None:
    data = build(tmp_path)
    (folder,) = data.glob("jobs.*")
    account, view = LiveSet(), StartView(Disk(), str(folder))
    for _ in account.follow(view):
        pass
    assert [*state_of(Disk(), str(folder)).own.items] == [*account.items]
