"""Every record kept anywhere is planned once; what cannot be read is one sentence."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, cast

import pytest

from journal.errors import JournalError
from journal.files import Disk
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import VERSION, Kind
from journal.format.meta import ended
from journal.format.record import Draft
from journal.format.segment import segment_name
from journal.recovery.recovery import Recovery
from kestrelpy.spark.files import decode
from kestrelpy.spark.files.plan_events import look_again, plan_events
from kestrelpy.spark.files.plan_items import plan_items
from kestrelpy.spark.files.split import SplitGone
from kestrelpy.spark.schema import Selection, default, select
from tests.golden.layout import TIME_MS, SegmentBuilder, draft
from tests.support.bulk import in_bulk
from tests.support.journals import FOLDER, disk_with, fresh, path_of, segments, start
from tests.support.memory_disk import MemoryDisk
from tests.support.snapshots import LIVE, body, done, laid, lay, put

ARCHIVE = "/archive"
OPENING = Checkpoint(b"jobs", 1, 1, generation=1)
ITEMS = select("items", [("marker", "long"), ("state", "string"), ("attempts", "int"),
                         ("value", "binary"), ("queue", "string")])  # fmt: skip


def archive(disk: MemoryDisk, *segments: SegmentBuilder) -> None:
    """Put the segments into the archive, with the names that `archive_to` gives them."""
    disk.make_folder(ARCHIVE)
    for each in segments:
        path = f"{ARCHIVE}/jobs.1.{segment_name(each.number)}"
        disk.create(path, bytes(each.data), each.capacity)


def items(disk: MemoryDisk, *paths: str, chosen: Selection = ITEMS) -> list[dict[str, object]]:
    found = []
    for split in plan_items(paths, disk).splits:
        for batch in decode.read(split, chosen, print, files=disk):
            found += batch.to_pylist()
    return found


# -- events ---------------------------------------------------------------------------------------


def test_a_data_directory_a_folder_in_it_and_both_are_the_same_journal() -> None:
    disk = disk_with([b"one", b"two"], [b"three"])
    for paths in ((FOLDER,), ("/data",), ("/data", FOLDER), (FOLDER, FOLDER)):
        assert in_bulk(disk, *paths).lsns == [1, 2, 3]


def test_globs_and_a_segment_alone_are_paths(tmp_path: Path) -> None:
    for server in ("a", "b"):
        folder = tmp_path / server / "jobs.1"
        folder.mkdir(parents=True)
        one = SegmentBuilder(1, 4096, 1, OPENING, identity=server.encode() * 16)
        one.batch(put(1), put(2))
        (folder / segment_name(1)).write_bytes(one.data)
    disk = Disk()
    assert len(in_bulk(disk, str(tmp_path / "*")).rows) == 4
    assert len(in_bulk(disk, str(tmp_path / "?" / "jobs.*")).rows) == 4
    assert len(in_bulk(disk, str(tmp_path / "a" / "jobs.1" / segment_name(1))).rows) == 2


def test_archived_originals_complete_a_history_and_come_before_compacted_segments() -> None:
    one = laid()
    archive(one.disk, *one.removed.values())
    found = in_bulk(one.disk, "/data", ARCHIVE)
    assert found.lsns == list(range(1, 24))
    assert {row["segment"] for row in found.rows} == {1, 2, 3, 4, 5, 7}
    assert found.history.journals[0].lsn_gaps == []
    assert found.history.journals[0].whole_from == 1
    assert found.damages == []


def test_a_compacted_segment_gives_the_records_without_an_original() -> None:
    one = laid()
    archive(one.disk, one.removed[1])
    found = in_bulk(one.disk, ARCHIVE, "/data")
    assert found.lsns == [1, 2, 3, 4, 6, *range(9, 24)]
    assert [row["segment"] for row in found.rows if row["lsn"] in (4, 6)] == [1, 6]
    assert found.history.journals[0].whole_from == 9
    assert found.damages == []


def test_an_archive_alone_has_the_events_in_it_and_gaps_are_no_damage() -> None:
    one = laid()
    archive(one.disk, one.removed[1], one.segments[3])
    found = in_bulk(one.disk, ARCHIVE)
    assert found.lsns == [1, 2, 3, 4, 9, 10, 11, 12]
    assert found.history.journals[0].lsn_gaps == [(5, 8)]
    assert found.damages == []


def test_a_backup_beside_the_live_journal_doubles_nothing() -> None:
    one = laid(closed=False)
    copy = laid(closed=False)
    one.disk.make_folder("/backup/jobs.1")
    for name in copy.disk.names(FOLDER):
        data = copy.disk.read(f"{FOLDER}/{name}")
        one.disk.create(f"/backup/jobs.1/{name}", data, len(data))
    more = one.segments[7]
    more.batch(put(15), synced=23)
    lay(one.disk, more)
    for paths in (("/data", "/backup"), ("/backup", "/data")):
        found = in_bulk(one.disk, *paths)
        assert found.lsns == [4, 6, *range(9, 25)]
        assert found.damages == []


def test_a_tail_that_was_written_again_is_there_once() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"one", b"two")
    for text in (b"three", b"four"):
        writer.put(text)
    writer.write()
    killed = disk.kill_clone()
    again = start(killed)
    again.put_all(b"five")
    assert segments(killed)[-1] > segments(disk)[-1]
    found = in_bulk(killed, FOLDER)
    assert [row["value"] for row in found.rows] == [b"one", b"two", b"three", b"four", b"five"]
    assert found.lsns == [1, 2, 3, 4, 5]
    assert {p.lsn_limit for p in found.history.splits if p.segment == 1} == {3}


def test_a_segment_that_is_missing_in_the_middle_is_damage_and_says_which_records() -> None:
    disk = disk_with(*([b"item %d" % n * 20] for n in range(12)))
    assert len(segments(disk)) >= 3
    whole = in_bulk(disk, FOLDER)
    gone = [row["lsn"] for row in whole.rows if row["segment"] == 2]
    disk.remove(path_of(2))
    found = in_bulk(disk, FOLDER)
    assert found.lsns == [lsn for lsn in whole.lsns if lsn not in gone]
    (damage,) = found.damages
    assert damage.kind == "truncated"
    assert (damage.lsn_first, damage.lsn_last) == (gone[0], gone[-1])


def test_behind_a_torn_end_no_later_segment_counts() -> None:
    one = SegmentBuilder(1, 2048, 1, OPENING)
    one.batch(put(1))
    torn_at = one.at
    one.batch(put(2), synced=1)
    two = SegmentBuilder(2, 2048, 3, OPENING)
    two.batch(put(3), synced=1)
    disk = MemoryDisk()
    for each in (one, two):
        lay(disk, each)
    disk.damage(path_of(1), torn_at + 64 + 70, b"?")
    found = in_bulk(disk, FOLDER)
    assert found.lsns == [r.lsn for r in Recovery(disk, FOLDER, whole=True).records()] == [1]
    assert found.damages == []


def test_replaced_records_are_not_missing_where_the_snapshots_are_lost() -> None:
    one = laid()
    one.put_back(1)
    for name in [n for n in one.disk.names(FOLDER) if n.endswith(".snapshot")]:
        one.disk.remove(f"{FOLDER}/{name}")
    found = in_bulk(one.disk, FOLDER)
    assert found.lsns == [1, 2, 3, 4, 6, *range(9, 24)]
    assert found.damages == []


def test_where_the_history_begins_is_part_of_the_plan() -> None:
    journal = plan_events([FOLDER], laid().disk).journals[0]
    assert (journal.lsn_first, journal.lsn_next) == (1, 24)
    one = laid()
    one.remove(6)
    journal = plan_events([FOLDER], one.disk).journals[0]
    assert (journal.lsn_first, journal.lsn_next) == (9, 24)
    assert (journal.server, journal.queue, journal.generation) == (None, "jobs", 1)


def test_planning_reads_fronts_and_ends_and_no_sealed_segment_whole() -> None:
    one = laid()
    read: list[tuple[str, int]] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(one.disk, name)

        def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
            data = one.disk.read(path, offset, size)
            read.append((os.path.basename(path), len(data)))
            return data

    plan_events([FOLDER], cast("Any", Watched()))
    most = {name: sum(size for n, size in read if n == name) for name, _ in read}
    for number in (3, 4):
        # Fronts are up to 2048 bytes, which is all of such a small file, and are kept.
        assert most[segment_name(number)] <= 2048 + 3 * 512


# -- what is not read -----------------------------------------------------------------------------


def test_a_path_without_a_journal_is_a_sentence() -> None:
    disk = disk_with([b"one"])
    with pytest.raises(JournalError, match="/nowhere: no journal lies here"):
        plan_events(["/nowhere"], disk)


def test_a_foreign_segment_is_named_and_left_alone() -> None:
    disk = disk_with(*([b"item %d" % n * 20] for n in range(12)))
    other = SegmentBuilder(9, 2048, 50, OPENING, identity=b"another journal!")
    lay(disk, other)
    found = in_bulk(disk, FOLDER)
    assert found.lsns == list(range(1, 13))
    (problem,) = found.history.problems
    assert not problem.is_loss
    assert f"{path_of(9)}: foreign" in problem.sentence


def test_a_newer_format_is_named_and_the_other_queues_are_read() -> None:
    disk = disk_with([b"one"])
    disk.make_folder("/data/newer.1")
    newer = SegmentBuilder(1, 2048, 1, OPENING, identity=b"another journal!")
    header = bytes(newer.data[:8]) + (VERSION + 1).to_bytes(2, "little") + newer.data[10:60]
    data = header + zlib.crc32(header).to_bytes(4, "little") + newer.data[64:]
    disk.create("/data/newer.1/0000000001.segment", data, len(data))
    found = in_bulk(disk, "/data")
    assert found.lsns == [1]
    (problem,) = found.history.problems
    assert problem.is_loss
    assert f"journal format {VERSION + 1}, this kestrelpy reads up to {VERSION}" in problem.sentence


def test_a_restored_backup_beside_its_original_is_named_and_not_mixed_up() -> None:
    disk = MemoryDisk()
    for folder, text in (("/a/jobs.1", b"here"), ("/b/jobs.2", b"there")):
        one = SegmentBuilder(1, 2048, 1, OPENING)
        one.batch(put(1))
        two = SegmentBuilder(2, 2048, 2, OPENING, time_ms=TIME_MS + len(text))
        two.batch(draft(Kind.PUT, 2, 2, 0, text), synced=1)
        disk.make_folder(folder)
        for each in (one, two):
            disk.create(f"{folder}/{segment_name(each.number)}", bytes(each.data), each.capacity)
    found = in_bulk(disk, "/a", "/b")
    assert [row["value"] for row in found.rows] == [body(1), b"here"]
    assert "/b/jobs.2: goes on otherwise than /a/jobs.1" in found.history.problems[0].sentence


def test_a_preallocated_segment_in_a_backup_is_no_other_history() -> None:
    disk = MemoryDisk()
    for folder, is_live in (("/a/jobs.1", False), ("/b/jobs.1", True)):
        one = SegmentBuilder(1, 2048, 1, OPENING)
        one.batch(put(1))
        two = SegmentBuilder(2, 2048, 2, OPENING, time_ms=TIME_MS + is_live)
        two.batch(put(2), synced=1)
        data = bytes(two.data) if is_live else bytes(two.data[:64]).ljust(len(two.data), b"\0")
        disk.make_folder(folder)
        disk.create(f"{folder}/{segment_name(1)}", bytes(one.data), one.capacity)
        disk.create(f"{folder}/{segment_name(2)}", data, two.capacity)
    found = in_bulk(disk, "/a", "/b")
    assert found.lsns == [1, 2]
    assert not found.history.problems


# -- pieces that have gone ------------------------------------------------------------------------


def test_a_split_that_has_gone_is_found_again_in_the_archive() -> None:
    one = laid()
    split = next(p for p in plan_events(["/data", ARCHIVE], with_archive(one.disk)).splits
                 if p.segment == 3)  # fmt: skip
    archive(one.disk, one.segments[3])
    one.remove(3)
    with pytest.raises(SplitGone) as caught:
        list(decode.read(split, default("events"), print, files=one.disk))
    found, missing = look_again(caught.value, split, ["/data", ARCHIVE], one.disk)
    assert missing == []
    rows = [r for p in found for b in decode.read(p, default("events"), print, files=one.disk)
            for r in b.to_pylist()]  # fmt: skip
    assert [row["op"] for row in rows] == ["confirm", "confirm", "put", "put"]


def test_records_that_a_split_leaves_to_others_are_not_found_again_with_it() -> None:
    one = laid()
    whole = next(p for p in plan_events([FOLDER], one.disk).splits if p.segment == 3)
    split = whole.only(whole.lsn_first + 1, whole.lsn_last - 1)
    one.remove(3)
    gone = SplitGone(split.path, split.lsn_first, split.lsn_last, "it was removed")

    assert look_again(gone, split, [FOLDER], one.disk) == (
        [], [(whole.lsn_first + 1, whole.lsn_last - 1)]
    )  # fmt: skip
    archive(one.disk, one.segments[3])
    found, missing = look_again(gone, split, ["/data", ARCHIVE], one.disk)

    chosen = select("events", [("lsn", "long")])
    lsns = [r["lsn"] for p in found for b in decode.read(p, chosen, print, files=one.disk)
            for r in b.to_pylist()]  # fmt: skip
    assert missing == []
    assert lsns == list(range(whole.lsn_first + 1, whole.lsn_last))


def with_archive(disk: MemoryDisk) -> MemoryDisk:
    """An archive that exists and holds something else."""
    other = SegmentBuilder(1, 2048, 1, OPENING, identity=b"another journal!")
    other.batch(put(1))
    other.seal(live=0)
    archive(disk, other)
    return disk


def test_of_a_split_that_has_gone_a_compacted_segment_has_the_live_items() -> None:
    one = laid()
    one.put_back(1, 2)
    one.remove(6)
    split = next(p for p in plan_events([FOLDER], one.disk).splits if p.segment == 2)
    lay(one.disk, one.segments[6])
    one.remove(1, 2)
    gone = SplitGone(split.path, 5, 8, "it was removed")
    found, missing = look_again(gone, split, [FOLDER], one.disk)
    assert missing == [(5, 8)]
    chosen = select("events", [("lsn", "long")])
    rows = [r["lsn"] for p in found for b in decode.read(p, chosen, print, files=one.disk)
            for r in b.to_pylist()]  # fmt: skip
    assert rows == [6]


# -- items ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_the_items_of_a_path_are_those_of_its_state(closed: bool) -> None:
    found = items(laid(closed).disk, FOLDER)
    assert [row["marker"] for row in found] == LIVE
    assert [row["value"] for row in found] == [body(item) for item in LIVE]
    assert {row["marker"]: row["state"] for row in found if row["state"] != "ready"} == {10: "dead"}
    assert {r["marker"]: r["attempts"] for r in found if r["attempts"]} == {8: 3, 10: 2}
    assert {row["queue"] for row in found} == {"jobs"}


def test_without_a_snapshot_the_state_is_that_of_the_log() -> None:
    one = laid()
    one.put_back(1, 2)
    for name in [n for n in one.disk.names(FOLDER) if n.endswith(".snapshot")]:
        one.disk.remove(f"{FOLDER}/{name}")
    assert [row["marker"] for row in items(one.disk, FOLDER)] == LIVE


def test_of_a_backup_and_the_live_journal_the_one_that_goes_on_farther_counts() -> None:
    one, copy = laid(closed=False), laid(closed=False)
    one.disk.make_folder("/backup/jobs.1")
    for name in copy.disk.names(FOLDER):
        data = copy.disk.read(f"{FOLDER}/{name}")
        one.disk.create(f"/backup/jobs.1/{name}", data, len(data))
    one.segments[7].batch(put(15), done(4), synced=23)
    lay(one.disk, one.segments[7])
    for paths in (("/data", "/backup"), ("/backup", "/data")):
        assert [row["marker"] for row in items(one.disk, *paths)] == [*LIVE[1:], 15]


def test_a_flush_leaves_leased_items_and_dead_letters() -> None:
    one = SegmentBuilder(1, 8192, 1, OPENING)
    one.batch(*map(put, range(1, 7)))
    one.batch(
        draft(Kind.DEAD, 2, TIME_MS, 9), draft(Kind.RETURNED, 4, TIME_MS, 3),
        draft(Kind.RETURNED, 5, TIME_MS, 1), draft(Kind.TOKENS, 0, 50, 0),
        Draft(Kind.FLUSHED, 5, 0, 0, TIME_MS, b"", (4).to_bytes(8, "little"), 0, 0),
        draft(Kind.EXPIRED, 6, 0, ended(0, 1)[0]), put(7), synced=6,
    )  # fmt: skip
    disk = MemoryDisk()
    lay(disk, one)
    found = [(row["marker"], row["state"], row["attempts"]) for row in items(disk, FOLDER)]
    assert found == [(2, "dead", 9), (4, "ready", 3), (7, "ready", 0)]


def test_an_archive_alone_holds_no_items_and_says_so() -> None:
    one = laid()
    archive(one.disk, *one.removed.values())
    history = plan_items([ARCHIVE], one.disk)
    assert history.splits == []
    (problem,) = history.problems
    assert "holds what has left the queue" in problem.sentence
    assert "mode=events" in problem.sentence


def test_only_splits_with_live_items_are_planned_for_items() -> None:
    disk = disk_with(*([b"item %d" % n * 20] for n in range(12)))
    events = plan_events([FOLDER], disk).splits
    writer = start(disk)
    first = events[0]
    for item in range(1, first.item_last + 1):
        writer.done(item)
    writer.commit()
    found = plan_items([FOLDER], disk)
    assert first.segment not in {p.segment for p in found.splits}
    assert [row["marker"] for row in items(disk, FOLDER)] == list(range(first.item_last + 1, 13))
    assert found.journals[0].state is not None


# -- beside a daemon ------------------------------------------------------------------------------


def test_a_segment_that_vanishes_while_it_is_planned_is_looked_for_again() -> None:
    one = laid()
    vanished: list[str] = []

    class Daemon:
        """Removes segment 3 when its end is first read."""

        def __getattr__(self, name: str) -> object:
            return getattr(one.disk, name)

        def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
            if path == path_of(3) and offset and not vanished:
                vanished.append(path)
                one.remove(3)
            return one.disk.read(path, offset, size)

    history = plan_events([FOLDER], cast("Any", Daemon()))
    assert vanished
    assert [p.segment for p in history.splits] == [6, 4, 5, 7]
    assert history.journals[0].lsn_gaps == [(9, 12)]
    assert history.damages == []


def test_the_end_of_a_large_active_segment_is_found_in_bulk_as_it_is_one_by_one() -> None:
    one = SegmentBuilder(1, 9 << 20, 1, OPENING)
    for item in range(1, 400):
        one.batch(draft(Kind.PUT, item, item, 0, bytes(20_000)), synced=item - 1)
    disk = MemoryDisk()
    lay(disk, one)
    (split,) = plan_events([FOLDER], disk).splits
    assert (split.lsn_first, split.lsn_last, split.records) == (1, 399, 399)
    assert (split.item_first, split.item_last) == (1, 399)
    assert (split.stop, split.lsn_synced) == (one.at, 398)
