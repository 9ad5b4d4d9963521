"""A segment in bulk: what its columns say, within which limits, and what it never pretends."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from journal.errors import Damage
from journal.files import Disk
from journal.format.checkpoint import Checkpoint
from journal.format.key import text_of
from journal.format.kinds import Kind, Tag
from journal.format.meta import encode_meta, ended
from journal.format.record import Draft, Record, decode, encode
from journal.format.segment import SegmentHeader
from journal.recovery.recovery import Recovery
from kestrelpy.spark.files import decode as bulk
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.split import RowLimits, SplitGone
from kestrelpy.spark.schema import default, select
from tests.golden.build import GOLDEN
from tests.golden.layout import TIME_MS, SegmentBuilder, draft
from tests.support.bulk import EVERYTHING, expected, in_bulk, own
from tests.support.journals import FOLDER, disk_with, path_of
from tests.support.memory_disk import MemoryDisk
from tests.support.snapshots import laid, lay

OPENING = Checkpoint(b"jobs", 1, 1, generation=7, server=b"server-1")


def disk_of(*segments: SegmentBuilder) -> MemoryDisk:
    disk = MemoryDisk()
    for each in segments:
        lay(disk, each)
    return disk.kill_clone()


def put(item: int, body: bytes, meta: bytes = b"", flags: int = 0, at_ms: int = TIME_MS) -> Draft:
    return Draft(Kind.PUT, item, item, flags, at_ms, meta, body, 0, 0)


def every_kind() -> tuple[MemoryDisk, list[Record]]:
    """Return one segment with records of all kinds, and bodies of all sizes."""
    one = SegmentBuilder(1, 1 << 16, 1, OPENING)
    expiring = encode_meta({Tag.EXPIRES_MS: TIME_MS + 60_000})
    key = text_of("k\u00fc".encode())
    both = encode_meta({Tag.EXPIRES_MS: TIME_MS + 1, Tag.KEY: key, Tag.ID: b"1"})
    records = one.batch(
        put(1, b""), put(2, b"x", expiring, 0xFFFFFFFF), put(3, b"\0\xff" * 2000, both),
        draft(Kind.DONE, 1, TIME_MS - 5, ended(1, 0)[0]),
    )  # fmt: skip
    why = encode_meta({Tag.REASON: b"hangup"})
    grave = encode_meta({Tag.REASON: b"why \xff not", Tag.BYTES: 4000})
    large = ended(300, 1 << 25)
    records += one.batch(
        Draft(Kind.RETURNED, 2, TIME_MS, 2, TIME_MS + 1, why, b"", 0, 0),
        Draft(Kind.DEAD, 3, TIME_MS, 100, TIME_MS + 2, grave, b"", 0, 0),
        Draft(Kind.EXPIRED, 2, 0, ended(0, 1)[0], TIME_MS + 3, b"", b"", 0, 0),
        Draft(Kind.DONE, 4, TIME_MS, large[0], TIME_MS + 4, large[1], b"", 3, 0),
        Draft(Kind.TOKENS, 0, 1 << 20, 0, TIME_MS + 5, b"", b"", 0, 0),
        Draft(Kind.FLUSHED, 9, 17, 0, TIME_MS + 6, b"", (5).to_bytes(8, "little"), 0, 0),
        Draft(77, 8, 7, 6, TIME_MS + 7, b"\x40\1\0?", b"of a newer version", 0, 0),
        synced=4,
    )
    records += one.batch(*(put(10 + n, bytes([n]) * n) for n in range(40)), synced=11)
    one.seal(live=1)
    return disk_of(one), records


def test_every_kind_of_record_says_in_bulk_what_it_says_by_itself() -> None:
    disk, records = every_kind()
    found = in_bulk(disk, FOLDER)
    assert [own(row) for row in found.rows] == [expected(r) for r in records]
    assert found.damages == []
    first, seventh = found.rows[0], found.rows[10]
    assert (first["server"], first["queue"], first["generation"]) == ("server-1", "jobs", 7)
    assert first["value"] == b""
    assert seventh["op"] == "kind 77"
    assert found.rows[2]["key"] == "k\u00fc"


def golden_journals() -> list[str]:
    """Every journal of every format version, as `v3/jobs.1`."""
    found = (path for path in GOLDEN.glob("v*/*") if path.is_dir())
    return sorted(f"{path.parent.name}/{path.name}" for path in found)


@pytest.mark.parametrize("folder", golden_journals())
def test_the_golden_journals_of_every_version_read_the_same_in_bulk(folder: str) -> None:
    path = str(GOLDEN / folder)
    records = list(Recovery(Disk(), path, whole=True).records())
    found = in_bulk(Disk(), path)
    version = int(folder[1])
    versions = {p.segment: p.version for p in found.history.splits}
    assert version in versions.values()
    assert [own(row) for row in found.rows] == [expected(r, versions[r.segment]) for r in records]


def test_random_journals_read_the_same_in_bulk() -> None:
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    one = SegmentBuilder(1, 1 << 20, 1, OPENING)
    records: list[Record] = []
    while one.at < 900_000:
        drafts = [
            put(len(records) + n, rng.randbytes(rng.choice((0, 1, 7, 8, 90, 3000))),
                encode_meta({Tag.EXPIRES_MS: rng.getrandbits(40)}) if rng.random() < 0.3 else b"")
            if rng.random() < 0.6
            else draft(Kind.DONE, n + 1, TIME_MS, rng.getrandbits(32))
            for n in range(1, rng.randrange(2, 30))
        ]  # fmt: skip
        records += one.batch(*drafts, synced=one.lsn - 1)
    found = in_bulk(disk_of(one), FOLDER)
    same = [own(row) for row in found.rows] == [expected(r) for r in records]
    assert same, f"seed {seed}"


def test_a_narrower_schema_has_the_same_columns_and_gathers_no_body() -> None:
    disk, _ = every_kind()
    whole = in_bulk(disk, FOLDER).rows
    for name in EVERYTHING.names:
        column = next(c for c in EVERYTHING.columns if c.name == name)
        narrow = in_bulk(disk, FOLDER, chosen=replace(EVERYTHING, columns=(column,))).rows
        assert [row[name] for row in narrow] == [row[name] for row in whole]


def test_batches_are_of_one_to_four_mebibytes_and_a_larger_body_is_one_of_its_own() -> None:
    one = SegmentBuilder(1, 48 << 20, 1, OPENING)
    for n in range(1, 300):
        one.batch(put(n, bytes([n % 251]) * 60_000))
    one.batch(put(300, b"large" * 2_000_000))
    for n in range(301, 330):
        one.batch(put(n, b"behind it" * 1000))
    disk = disk_of(one)
    (split,) = plan_events([FOLDER], disk).splits
    damages: list[Damage] = []
    sizes = []
    items = []
    for batch in bulk.read(split, default("events"), damages.append, files=disk):
        sizes.append(batch.nbytes)
        items += batch.column("marker").to_pylist()
    assert items == list(range(1, 330))
    assert damages == []
    assert sum(size > 4 << 20 for size in sizes) == 1
    assert all(size >= 1 << 20 for size in sizes[:-1])


def test_rows_outside_the_limits_of_time_and_marker_are_left_out() -> None:
    disk, _ = every_kind()
    by_time = in_bulk(disk, FOLDER, limits=RowLimits(from_ms=TIME_MS + 2, before_ms=TIME_MS + 4))
    assert [row["op"] for row in by_time.rows] == ["dead", "expire"]
    by_marker = in_bulk(disk, FOLDER, limits=RowLimits(marker_after=2, marker_upto=9))
    assert [(r["op"], r["marker"]) for r in by_marker.rows] == [
        ("put", 3), ("dead", 3), ("confirm", 4), ("flush", 9), ("kind 77", 8),
    ]  # fmt: skip


def test_a_split_outside_the_limits_need_not_be_read() -> None:
    disk, _ = every_kind()
    (split,) = plan_events([FOLDER], disk).splits
    assert RowLimits(before_ms=TIME_MS).excludes(split)
    assert RowLimits(from_ms=TIME_MS + 100).excludes(split)
    assert not RowLimits(from_ms=TIME_MS + 3).excludes(split)
    assert not RowLimits(marker_after=1000).excludes(split), "a confirm may be of any item"


def test_bodies_that_hold_frames_of_this_very_journal_are_bodies() -> None:
    one = SegmentBuilder(1, 1 << 14, 1, OPENING)
    one.batch(put(1, b"a"), put(2, b"b"))
    inner = bytes(one.data[64:600])
    one.batch(put(3, inner), put(4, b"behind"))
    found = in_bulk(disk_of(one), FOLDER)
    assert [row["value"] for row in found.rows] == [b"a", b"b", inner, b"behind"]


def test_damage_in_the_middle_is_named_with_file_and_offset_and_the_rest_is_read() -> None:
    disk = disk_with([b"one", b"two"], [b"three"], [b"four"], [b"five"])
    at = disk.read(path_of(1)).index(b"two")
    disk.damage(path_of(1), at, b"T")
    found = in_bulk(disk, FOLDER)
    assert [row["value"] for row in found.rows] == [b"one", b"three", b"four", b"five"]
    (damage,) = found.damages
    assert (damage.kind, damage.path, damage.lsn_first, damage.lsn_last) == (
        "corrupt", path_of(1), 2, 2,
    )  # fmt: skip
    assert (damage.id_first, damage.id_last) == (2, 2)
    assert damage.offset <= at < damage.end


def test_the_torn_end_of_a_killed_journal_is_its_end_and_no_damage() -> None:
    disk = disk_with([b"one"], [b"two"])
    data = disk.read(path_of(1))
    disk.damage(path_of(1), data.index(b"two"), b"T")
    found = in_bulk(disk, FOLDER)
    assert [row["value"] for row in found.rows] == [b"one"]
    assert found.damages == []
    assert [t.kind for t in found.history.journals[0].torn] == ["torn"]


def test_what_a_caller_raises_on_damage_ends_the_reading() -> None:
    disk = disk_with([b"one", b"two"], [b"three"], [b"four"])
    (split,) = plan_events([FOLDER], disk).splits
    disk.damage(path_of(1), disk.read(path_of(1)).index(b"one"), b"O")

    def fail(damage: Damage) -> None:
        raise ValueError(damage.sentence())

    with pytest.raises(ValueError, match="corrupt at byte"):
        list(bulk.read(split, default("events"), fail, files=disk))


def test_a_frame_whose_checksum_is_right_must_also_belong_where_it_stands() -> None:
    """A frame that was copied from another place, journal or life is no record here."""
    frames: list[bytes] = []
    at = 0
    whose = [(7, 1, 0), (7, 1, 0), (8, 1, 0), (7, 2, 0), (7, 1, 8)]
    for number, (journal, segment, shift) in enumerate(whose):
        lsn = 1 if number == 0 else 2
        at += encode(put(lsn, b"12345678"), lsn, journal, segment, at + shift, frames)
    data = b"".join(frames)
    for zero in (57, 62):
        frame = bytearray(data[72:144])
        frame[8 + 8 : 20] = (len(data)).to_bytes(4, "little")
        frame[zero] = 1
        data += crc32(frame[4:]).to_bytes(4, "little") + frame[4:]
    offsets, end = bulk.whole_frames(data)
    assert (len(offsets), end) == (7, len(data)), "every checksum is right"
    headers = bulk.FrameHeaders(data, 0, np.array(offsets, np.int64))
    for index, is_right in enumerate((True, True, False, False, False, False, False)):
        alone = bulk.right_frames(headers.pick(slice(index, index + 1)), 7, 1, 0, False)
        assert alone.tolist() == [is_right], index
    assert bulk.right_frames(headers.pick(slice(0, 2)), 7, 1, 1, False).tolist() == [True, True]
    assert bulk.right_frames(headers.pick(slice(0, 2)), 7, 1, 2, False).tolist() == [False, True]


# -- files that change under the reader ----------------------------------------------------------


def test_a_file_that_is_gone_is_said_to_be_gone_with_its_records() -> None:
    one = laid()
    split = next(p for p in plan_events([FOLDER], one.disk).splits if p.segment == 3)
    one.remove(3)
    with pytest.raises(SplitGone) as caught:
        list(bulk.read(split, default("events"), print, files=one.disk))
    assert (caught.value.lsn_first, caught.value.lsn_last) == (9, 12)
    assert "it was removed; records 9 to 12" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.lsn_last) == (str(caught.value), 12)


def test_a_file_that_was_used_again_is_never_read_as_the_old_one() -> None:
    one = laid()
    split = next(p for p in plan_events([FOLDER], one.disk).splits if p.segment == 3)
    header = SegmentHeader.decode(one.disk.read(path_of(3), 0, 64), path_of(3))
    assert header is not None
    one.disk.damage(path_of(3), 0, replace(header, segment=9).encode() + bytes(64))
    with pytest.raises(SplitGone, match="used for another segment"):
        list(bulk.read(split, default("events"), print, files=one.disk))


def test_a_copy_is_read_on_where_the_original_has_gone() -> None:
    one = laid()
    one.disk.make_folder("/archive")
    one.disk.link(path_of(3), "/archive/jobs.1.0000000003.segment")
    splits = plan_events([FOLDER, "/archive"], one.disk).splits
    split = next(p for p in splits if p.segment == 3)
    assert split.copies == ("/archive/jobs.1.0000000003.segment",)
    one.remove(3)
    rows = [r for b in bulk.read(split, default("events"), print, files=one.disk)
            for r in b.to_pylist()]  # fmt: skip
    assert [row["op"] for row in rows] == ["confirm", "confirm", "put", "put"]


def test_records_written_after_the_plan_are_not_read() -> None:
    one = SegmentBuilder(1, 1 << 14, 1, OPENING)
    one.batch(put(1, b"planned"))
    disk = disk_of(one)
    (split,) = plan_events([FOLDER], disk).splits
    one.batch(put(2, b"later"), synced=1)
    disk.damage(path_of(1), 0, bytes(one.data))
    rows = [r for b in bulk.read(split, default("events"), print, files=disk)
            for r in b.to_pylist()]  # fmt: skip
    assert [row["value"] for row in rows] == [b"planned"]


# -- items ----------------------------------------------------------------------------------------


def test_a_narrow_read_of_items_has_the_columns_it_names() -> None:
    chosen = select("items", [("state", "string"), ("marker", "long")])
    disk = disk_with([b"one"])
    (split,) = plan_events([FOLDER], disk).splits
    batches = list(bulk.read(split, chosen, print, files=disk))
    assert [b.to_pylist() for b in batches] == [[{"state": "ready", "marker": 1}]]


def test_decode_of_a_frame_is_what_the_journal_makes_of_it(tmp_path: Path) -> None:
    disk, records = every_kind()
    data = disk.read(path_of(1))
    (tmp_path / "0000000001.segment").write_bytes(data)
    found = in_bulk(Disk(), str(tmp_path))
    owner = int.from_bytes(data[12:16], "little")
    again = [decode(data, row["position"], owner, 1) for row in found.rows]
    assert again == records
