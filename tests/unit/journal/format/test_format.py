"""FORMAT.md and the code say the same, and the golden journals of every version are still read."""

from __future__ import annotations

import re
import shutil
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import journal.errors
import journal.snapshot.snapshot
from journal.__main__ import main
from journal.files import Disk
from journal.format import record, segment
from journal.format.checkpoint import Checkpoint
from journal.format.describe import sentence
from journal.format.kinds import TABLE, VERSION, Effect, Kind, Says, Tag
from journal.format.meta import decode_meta, encode_meta, ended
from journal.format.out_of_order import DelayedEntry, PlacedEntry
from journal.format.record import Draft, Record, encode
from journal.format.segment import SegmentHeader
from journal.read.scan import scan
from journal.recovery.recovery import Recovery
from journal.recovery.reopen import recovered_journal
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import SegmentState, Snapshot
from journal.write.segment_file import Sizes
from tests.golden.build import (
    GOLDEN,
    JOURNALS,
    NEWEST,
    PLANNED,
    example,
    hex_rows,
    said,
    write,
)
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, TIME_MS

FORMAT = (Path(journal.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")
WRITTEN_NOW = "now"
# In a snapshot their `small` says how many entries they have.
SMALL_COUNTS = (Kind.SEGMENTS, Kind.DELAYED, Kind.PLACED)


def table(*columns: str) -> list[dict[str, str]]:
    """The rows of the one table in FORMAT.md with these columns first."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", FORMAT, flags=re.MULTILINE):
        lines = block.splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        if tuple(rows[0][: len(columns)]) == columns:
            found.append([dict(zip(rows[0], row, strict=True)) for row in rows[2:]])
    return [row for rows in found for row in rows]


def layout(heading: str) -> list[tuple[int, int, str]]:
    """Offset, width and name of each field in the table under `heading`."""
    text = FORMAT.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", text, flags=re.MULTILINE)
    return [(int(offset), int(width), name) for offset, width, name in rows]


def covers(fields: list[tuple[int, int, str]], size: int) -> bool:
    """Do the fields follow each other from 0 to `size`, each at a multiple of its width?"""
    ends = [offset + width for offset, width, _ in fields]
    return [offset for offset, _, _ in fields] == [0, *ends[:-1]] and ends[-1] == size


def read(data: bytes, fields: list[tuple[int, int, str]]) -> dict[str, int]:
    """Return the value of each field, by the table alone."""
    return {name: int.from_bytes(data[at : at + width], "little") for at, width, name in fields}


# -- the tables ---------------------------------------------------------------------------------


def test_the_frame_header_is_where_the_table_says() -> None:
    fields = layout("Frame header")
    meta = encode_meta({Tag.ATTEMPTS: 1})
    draft = Draft(0x11, 0x2222, 0x3333, 0x4444, 0x5555, meta, b"body", 0x66, 0)
    pieces: list[bytes] = []
    encode(draft, 0x7777, 0x8888, 0x9999, 0xAAA8, pieces)
    frame = b"".join(pieces)

    assert covers(fields, record.HEADER_BYTES)
    assert all(offset % min(width, 8) == 0 for offset, width, _ in fields)
    found = read(frame, fields)
    assert found.pop("crc32") == record.crc32(frame[record.CRC_BYTES : found["length"]])
    assert found == {
        "length": 64 + len(meta) + 4, "journal": 0x8888, "segment": 0x9999, "offset": 0xAAA8,
        "small": 0x4444, "lsn": 0x7777, "time_ms": 0x5555, "item": 0x2222, "number": 0x3333,
        "kind": 0x11, "zero": 0, "meta_bytes": len(meta), "reader": 0x66, "zero2": 0,
    }  # fmt: skip


def test_the_file_header_is_where_the_table_says() -> None:
    fields = layout("File header")
    identity = bytes(range(1, 17))
    data = SegmentHeader(
        0x11, identity, 0x22, 0x33, 0x44, segment.COMPACTED, 0x55, 0x66
    ).encode()

    assert covers(fields, segment.FILE_HEADER_BYTES)
    found = read(data, fields)
    assert found.pop("crc32") == record.crc32(data[:60])
    assert found == {
        "magic": int.from_bytes(segment.MAGIC, "little"), "version": VERSION,
        "header_bytes": 64, "journal": 0x11, "identity": int.from_bytes(identity, "little"),
        "segment": 0x22, "capacity": 0x33, "created_ms": 0x44,
        "role": 1, "first": 0x55, "last": 0x66,
    }  # fmt: skip
    assert segment.MAGIC.hex(" ") in FORMAT


def test_the_constants_are_those_of_the_table() -> None:
    rows = table("constant", "value", "meaning")
    assert len(rows) == 8
    for row in rows:
        home = record if hasattr(record, row["constant"]) else segment
        assert getattr(home, row["constant"]) == int(row["value"]), row["constant"]


def test_the_kinds_are_those_of_the_table() -> None:
    rows = table("kind", "name", "written")
    assert {int(row["kind"]): row["name"] for row in rows} == {k.value: k.name for k in Kind}
    assert {row["written"] for row in rows} == {WRITTEN_NOW, "later"}


def test_the_effects_are_those_of_the_table() -> None:
    for row in table("kind", "name", "written", "effect"):
        kind = TABLE[Kind(int(row["kind"]))]
        effect, *more = row["effect"].split(", ")
        assert effect == ("–" if kind.effect is Effect.NONE else kind.effect.value), row["name"]
        assert (kind.number is Says.PLACE) == ("gives a number" in more), row["name"]
        assert (kind.number is Says.BEGAN_MS) == ("ends a delivery" in more) == (
            row["number"].endswith("began") or "began;" in row["number"]
        ), row["name"]
        assert kind.is_written == (row["written"] == WRITTEN_NOW), row["name"]


def test_a_kind_s_meta_names_tags_that_there_are() -> None:
    for row in table("kind", "name", "written"):
        for word in re.findall(r"\b[A-Z][A-Z_]+\b", row["meta"]):
            assert word in Tag.__members__ or word == "PUT", (row["name"], word)


def test_the_tags_are_those_of_the_table_and_so_are_their_types() -> None:
    rows = table("tag", "name", "type")
    assert {int(row["tag"]): row["name"] for row in rows} == {t.value: t.name for t in Tag}
    for row in rows:
        tag = Tag[row["name"]]
        data = encode_meta({tag: b"\1\0\0\0\0\0\0\0"})
        assert type(decode_meta(data)[tag]) is (int if row["type"] == "u64" else bytes), tag


def test_the_roles_are_those_of_the_table() -> None:
    row = next(line for line in FORMAT.splitlines() if "| role |" in line)
    log, compacted = f"{segment.LOG} the log", f"{segment.COMPACTED} compacted segments"
    assert f"{log}, {compacted}, {segment.SNAPSHOT} a snap" in row


def test_the_entries_of_a_snapshot_are_those_of_the_table() -> None:
    ids, counts = IdSet(), IdCounts()
    ids.add_range(1, 5)
    ids.discard(3)
    counts.set(3, 300)
    one = Snapshot(
        0, 1, 64, Checkpoint(b""), ids, 0, counts, [], [SegmentState(1, 1, 1, 1, 1)],
        delayed=[DelayedEntry(1, 2, 3)], placed=[PlacedEntry(2, 6, 6, 1)], retained=ids,
        ageless=ids,
    )  # fmt: skip
    data = one.encode(SHORT_IDENTITY, IDENTITY, TIME_MS)
    found, at = {}, segment.FILE_HEADER_BYTES
    while (frame := record.decode(data, at, SHORT_IDENTITY, 0)) is not None:
        entries = frame.small if frame.kind in SMALL_COUNTS else frame.number
        if frame.body:
            small = "any" if frame.kind in SMALL_COUNTS else str(frame.small)
            found[Kind(frame.kind).name, small] = len(frame.body) // entries
        at = frame.end
    rows = table("kind", "small", "bytes")
    assert found == {(row["kind"], row["small"]): int(row["bytes"]) for row in rows}


def test_the_packing_of_what_ended_is_the_one_of_the_text() -> None:
    assert ended(7, 5) == (7 | 5 << 8, b"")
    assert ended(300, 1 << 24) == (255, encode_meta({Tag.BYTES: 1 << 24}))
    assert "the lower 8 bits of `small`" in FORMAT
    assert "(255: that or a later one)" in FORMAT


def test_every_tag_must_be_known() -> None:
    assert max(Tag) < 128
    with pytest.raises(journal.errors.NewerFormat):
        decode_meta(struct.pack("<BH", 127, 0))
    assert decode_meta(struct.pack("<BH", 128, 3) + b"abc") == {}


def test_the_drawing_of_the_frame_is_the_one_in_the_code() -> None:
    drawing = FORMAT.split("## 3 A frame\n\n```\n", 1)[1].split("```", 1)[0]
    in_code = (record.__doc__ or "").replace("\n     ", "\n")
    assert drawing.rstrip() in in_code


def test_the_drawing_of_the_snapshot_is_the_one_in_the_code() -> None:
    drawing = FORMAT.split("when that lsn is synced.\n\n```\n", 1)[1].split("```", 1)[0]
    assert drawing.rstrip() in (journal.snapshot.snapshot.__doc__ or "").replace("\n    ", "\n")


# -- the example --------------------------------------------------------------------------------


def example_in_the_document() -> bytes:
    data = bytearray(example().capacity)
    block = FORMAT.split("```hex\n", 1)[1].split("```", 1)[0]
    for line in block.splitlines():
        at = int(line[:4], 16)
        data[at : at + 16] = bytes.fromhex(line[6:54])
    return bytes(data)


def test_the_example_is_what_the_code_writes() -> None:
    written = bytes(example().data)
    assert example_in_the_document() == written
    assert hex_rows(written) in FORMAT


def test_the_example_is_read_as_what_the_document_says_of_it() -> None:
    data = example_in_the_document()
    header = SegmentHeader.decode(data[:64], "example")
    assert header is not None
    found = scan(data, "example", header.journal, header.segment)
    assert [sentence(r) for r in found.records] == [
        "put 1 hello expires_ms=1767323105000",
        "done 1",
    ]
    assert found.records[1].number - found.records[0].time_ms == 1
    assert found.checkpoint is not None
    assert sentence(found.checkpoint).startswith("checkpoint next item 1 next place 1 name=jobs")
    assert found.footer is not None
    assert sentence(found.footer) == (
        "footer 2 records last place 1 live 0 place=1 stored_ms=1767323045000 "
        "last_ms=1767323045002 item_first=1 item_last=1 counts=put:1,done:1"
    )
    assert not found.gaps


# -- the golden journals ------------------------------------------------------------------------


@pytest.mark.parametrize("name", JOURNALS)
def test_today_s_code_writes_the_golden_journal_byte_for_byte(name: str, tmp_path: Path) -> None:
    golden = sorted((GOLDEN / NEWEST / name).iterdir())
    built = sorted(write(one, tmp_path) for one in JOURNALS[name]())
    assert [p.name for p in golden] == [p.name for p in built]
    for expected, path in zip(golden, built, strict=True):
        assert path.read_bytes() == expected.read_bytes(), expected


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"])
@pytest.mark.parametrize("command", ["dump", "verify"])
def test_today_s_code_reads_the_golden_journal_as_it_was_meant(
    command: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN)
    expected = (GOLDEN / version / f"{command}.txt").read_text(encoding="utf-8")
    assert said(command, version) == expected


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"])
def test_a_golden_journal_goes_on_in_today_s_version(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "jobs.1"
    shutil.copytree(GOLDEN / version / "jobs.1", folder)
    disk = Disk()

    def start() -> tuple[list[tuple[int, int]], Recovery]:
        recovery = Recovery(disk, str(folder))
        return [(r.lsn, r.item) for r in recovery.records()], recovery

    before, recovery = start()
    assert [d.kind for d in recovery.damages] == ["torn"]
    opening = Checkpoint(b"jobs", 100, 100)
    writer = recovered_journal(recovery, Sizes(), lambda: opening, TIME_MS).writer
    writer.append(Draft(Kind.PUT, 100, 100, 0, TIME_MS, b"", b"new", 0, 0))
    writer.close(TIME_MS)

    after, again = start()
    assert again.damages == []
    assert after == [*before, (recovery.lsn_next, 100)]
    assert (again.snapshot is not None) == (version != "v1")


def test_the_golden_journals_have_every_kind_and_every_tag() -> None:
    kinds: dict[str, set[int]] = {name: set() for name in JOURNALS}
    tags: set[Tag] = set()
    for name, found in kinds.items():
        for path in sorted((GOLDEN / NEWEST / name).iterdir()):
            for frame in frames_of(path):
                found.add(frame.kind)
                tags |= decode_meta(frame.meta).keys()
    rows = table("kind", "name", "written")
    now = {int(row["kind"]) for row in rows if row["written"] == WRITTEN_NOW}
    assert set().union(*(found for name, found in kinds.items() if name != PLANNED)) == now
    assert set().union(*kinds.values()) == set(Kind)
    assert tags == set(Tag)


def frames_of(path: Path) -> list[Record]:
    """Every frame of a segment or a snapshot, the footer too."""
    data = path.read_bytes()
    header = SegmentHeader.decode(data[:64], path.name)
    assert header is not None
    assert header.journal == SHORT_IDENTITY
    found, at = [], segment.FILE_HEADER_BYTES
    while (one := record.decode(data, at, header.journal, header.segment)) is not None:
        found.append(one)
        at = one.end
    footer = scan(data, path.name, header.journal, header.segment).footer
    return [*found, footer] if footer is not None else found


def test_the_golden_journal_has_every_kind_of_file() -> None:
    files = [SegmentHeader.decode(p.read_bytes()[:64], p.name)
             for p in (GOLDEN / NEWEST / "jobs.1").iterdir()]  # fmt: skip
    assert {f.role for f in files if f is not None} == {
        segment.LOG, segment.COMPACTED, segment.SNAPSHOT,
    }  # fmt: skip


def test_the_golden_journals_are_small() -> None:
    files = (path for path in GOLDEN.rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert sum(path.stat().st_size for path in files) < 600 << 10


def test_a_journal_of_a_newer_version_is_refused_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = example()
    newer = bytearray(one.data)
    newer[8] = VERSION + 1
    newer[60:64] = struct.pack("<I", record.crc32(bytes(newer[:60])))
    path = one.write_to(tmp_path)
    path.write_bytes(newer)

    assert main(["verify", str(tmp_path)]) == 2

    captured = capsys.readouterr()
    newest = VERSION
    assert captured.err == (
        f"journal: {path}: journal format {newest + 1}, this kestrelpy reads up to {newest}\n"
    )
    assert captured.out == ""
