"""A journal as lines: each record once, in order of lsn, then the newest snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from journal.files import Disk
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.out_of_order import DelayedEntry
from journal.format.subscription_state import DeadEntry
from journal.tools.dump import WantedRecords, dumped, snapshots, utc
from journal.tools.view import read_journal
from tests.golden.layout import TIME_MS, SegmentBuilder, draft
from tests.support.journals import FOLDER
from tests.support.memory_disk import MemoryDisk
from tests.support.snapshots import NEWEST, OLDER, laid, rewrite, snapshot_path


def lines(folder: Path, wanted: WantedRecords) -> list[str]:
    return list(dumped(read_journal(Disk(), str(folder)), wanted))


def journal(folder: Path) -> Path:
    one = SegmentBuilder(1, 4096, 1, Checkpoint(b"jobs", generation=1))
    one.batch(
        draft(Kind.PUT, 1, 1, 0, "k\u00fc".encode(), {Tag.KEY: b"\xff"}),
        draft(Kind.PUT, 2, 2, 0, b"\xff\x00"),
        draft(Kind.FLUSHED, 2, 9, 0, (2).to_bytes(8, "little")),
        draft(Kind.DONE, 2, TIME_MS, 1, time_ms=TIME_MS + 7),
    )
    one.batch(synced=4)
    one.write_to(folder)
    return folder


def facts(folder: Path, **wanted: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(folder, WantedRecords(as_json=True, **wanted))]


def test_a_line_has_position_number_time_and_a_sentence(tmp_path: Path) -> None:
    last = lines(journal(tmp_path), WantedRecords())[-1]

    assert last.startswith("0000000001:")
    assert last.endswith("  lsn 4  2026-01-02T03:04:05.007Z  done 2")


def test_records_before_the_first_wanted_one_are_left_out(tmp_path: Path) -> None:
    assert [each["lsn"] for each in facts(journal(tmp_path), lsn_from=3)] == [3, 4]


def test_facts_name_the_kind_the_tags_and_the_folder(tmp_path: Path) -> None:
    put, _, flushed, done = facts(journal(tmp_path / "jobs.1"))

    assert (put["folder"], put["kind"], put["item"]) == ("jobs.1", "put", 1)
    assert put["key"] == "\\xff", "what is no text is shown by its bytes"
    assert flushed["spared"] == [2]
    assert "body" not in flushed
    assert "body" not in done


def test_a_body_is_text_where_it_is_one_and_base64_otherwise(tmp_path: Path) -> None:
    text, binary, _, _ = facts(journal(tmp_path))

    assert text["body"] == "k\u00fc"
    assert binary["body_base64"] == "/wA="
    assert "body" not in binary


def test_a_record_of_a_newer_version_is_shown_with_what_is_known_of_it(tmp_path: Path) -> None:
    one = SegmentBuilder(1, 4096, 1, Checkpoint(b"jobs", generation=1))
    one.batch(draft(Kind.PUT, 1, 1)._replace(kind=77, meta=b"\x40\1\0?", body=b"new"))
    one.write_to(tmp_path)

    (found,) = facts(tmp_path)

    assert (found["kind"], found["body"]) == (77, "new")
    assert found["meta_unreadable"]


def test_the_newest_snapshot_stands_behind_all_records() -> None:
    disk = laid().disk

    *records, last = dumped(read_journal(disk, FOLDER), WantedRecords(as_json=True))

    lsns = [json.loads(each)["lsn"] for each in records]
    assert lsns == sorted(set(lsns))
    assert json.loads(last)["snapshot"] == NEWEST
    assert list(dumped(read_journal(disk, FOLDER), WantedRecords()))[-1].startswith(
        f"snapshot of lsn {NEWEST}: "
    )


def test_snapshots_that_can_be_read_are_given_oldest_first() -> None:
    disk = laid().disk
    assert [each.lsn for each in snapshots(disk, FOLDER)] == [OLDER, NEWEST]

    disk.damage(snapshot_path(OLDER), 100, b"???")

    assert [each.lsn for each in snapshots(disk, FOLDER)] == [NEWEST]
    empty = MemoryDisk()
    empty.make_folder(FOLDER)
    assert list(snapshots(empty, FOLDER)) == []


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (TIME_MS + 7, "2026-01-02T03:04:05.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1 << 62, str(1 << 62)),
    ],
)
def test_a_time_is_a_utc_date_or_a_bare_number_beyond_any_calendar(
    time_ms: int, text: str
) -> None:
    assert utc(time_ms) == text


def test_every_record_says_all_its_facts(tmp_path: Path) -> None:
    for each in facts(journal(tmp_path)):
        assert {
            "folder", "segment", "offset", "lsn", "time_ms", "kind", "item", "number", "small",
            "reader",
        } <= set(each)  # fmt: skip


def test_the_facts_of_a_snapshot_are_those_that_it_has() -> None:
    disk = laid().disk
    entry = DelayedEntry(8, TIME_MS + 5, 9)
    rewrite(disk, NEWEST, dead=[DeadEntry(6, 1, 2, b"", TIME_MS, 9)], delayed=[entry])
    snapshot = [*snapshots(disk, FOLDER)][-1]

    *_, last = dumped(read_journal(disk, FOLDER), WantedRecords(as_json=True))

    assert json.loads(last) == {
        "folder": "jobs.1", "snapshot": NEWEST, "live_items": snapshot.live.count,
        "live_bytes": snapshot.live_bytes, "dead_items": [6],
        "delayed_items": {"8": TIME_MS + 5}, "attempts": {"8": 3},
        "next_item": snapshot.checkpoint.next_item, "segment": snapshot.segment,
        "offset": snapshot.offset,
    }  # fmt: skip
