"""A compaction writes the live records of some segments again as one segment, unchanged."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.compaction.compaction import PIECE_BYTES, STEP_FRAMES, DamagedInput
from journal.files import Disk
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta, encode_meta
from journal.format.record import Draft, Record, encode
from journal.format.segment import (
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    SegmentHeader,
    decode_counts,
)
from journal.write.segment_file import Segment, Sizes
from tests.support.inputs import (
    JOURNAL,
    compaction_of,
    footer,
    frames,
    records,
    sealed,
    segment_names,
    written,
)
from tests.support.journals import FOLDER, IDENTITY, TIME_MS
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut

BODIES = [b"%d" % n * (n % 40) for n in range(1, 121)]
LIVE = (4, 7, 31, 32, 40, 58)
NEW = f"{FOLDER}/0000000090.segment"


def stage(live: tuple[int, ...] = LIVE) -> tuple[MemoryDisk, list[Segment]]:
    """Some sealed segments; most of what is in them has gone."""
    disk = MemoryDisk()
    return disk, sealed(written(disk, BODIES), live)


def without_place(record: Record) -> tuple[object, ...]:
    return (*record[:9],)


def puts_of(disk: MemoryDisk, segments: list[Segment], live: tuple[int, ...]) -> list[Record]:
    return [
        r for s in segments for r in records(disk, s.path) if r.kind == Kind.PUT and r.item in live
    ]


def everything(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: disk.read(f"{FOLDER}/{name}") for name in disk.names(FOLDER)}


# -- what is written ------------------------------------------------------------------------------


def test_the_live_puts_stand_in_the_new_segment_in_sequence_as_they_were() -> None:
    disk, segments = stage()
    before = everything(disk)
    new = compaction_of(segments, LIVE).run(disk)

    assert new is not None
    found = records(disk, new.path)
    assert [r.item for r in found] == list(LIVE)
    assert [without_place(r) for r in found] == [
        without_place(r) for r in puts_of(disk, segments, LIVE)
    ]
    after = everything(disk)
    del after["0000000090.segment"]
    assert after == before, "the old segments stay as they are"


def test_meta_flags_and_readers_stay_as_they_were() -> None:
    disk = MemoryDisk()
    writer = written(disk, [b"x" * 50] * 20)
    meta = encode_meta({Tag.EXPIRES_MS: TIME_MS + 5, Tag.KEY: b"\x01k"})
    draft = Draft(Kind.PUT, 21, 77, 9, TIME_MS - 1, meta, b"body", 5, 0)
    writer.journal.append(draft)
    writer.queue.next_item = 22
    writer.put_all(*[b"y" * 50] * 80)
    segments = sealed(writer, [21])
    new = compaction_of(segments, [21]).run(disk)
    assert new is not None

    (found,) = records(disk, NEW)
    assert (*found[:8], 0) == draft
    assert new.live_bytes == 64 + len(b"body")
    assert new.extra_bytes == found.end - found.offset - new.live_bytes
    end = footer(disk, NEW)
    assert end is not None
    said = decode_meta(end.meta)
    assert said[Tag.STORED_MS] == said[Tag.LAST_MS] == TIME_MS - 1
    assert said[Tag.PLACE] == end.number == 77


def test_the_new_segment_says_what_it_is_and_for_whom_it_stands() -> None:
    disk, segments = stage()
    new = compaction_of(segments, LIVE).run(disk)
    assert new is not None

    header = SegmentHeader.decode(disk.read(NEW, 0, 64), NEW)
    assert header == SegmentHeader(
        JOURNAL, IDENTITY, 90, disk.size(NEW), TIME_MS, COMPACTED,
        segments[0].number, segments[-1].number,
    )  # fmt: skip
    checkpoint, batch, first = frames(disk, NEW)[:3]
    assert Checkpoint.from_record(checkpoint) == Checkpoint(b"jobs", server=b"s1", generation=3)
    assert checkpoint.lsn == segments[0].lsn_first
    assert (batch.kind, batch.small, batch.lsn) == (Kind.BATCH, len(LIVE), first.lsn)
    assert batch.item == new.at - batch.offset
    assert batch.number == segments[-1].lsn_last, "all it holds is synced"
    end = footer(disk, NEW)
    assert end is not None
    assert (end.kind, end.lsn) == (Kind.FOOTER, segments[-1].lsn_last + 1)
    assert (end.item, end.number, end.small) == (len(LIVE), LIVE[-1], len(LIVE))
    meta = decode_meta(end.meta)
    assert (meta[Tag.ITEM_FIRST], meta[Tag.ITEM_LAST]) == (LIVE[0], LIVE[-1])
    counts = meta[Tag.COUNTS]
    assert isinstance(counts, bytes)
    assert decode_counts(counts) == {Kind.PUT: len(LIVE)}
    assert not any(disk.read(NEW, new.at, new.capacity - FOOTER_SPACE_BYTES - new.at))


def test_the_job_reports_the_new_segment_as_a_sealed_one() -> None:
    disk, segments = stage()
    new = compaction_of(segments, LIVE).run(disk)
    assert new is not None

    puts = puts_of(disk, segments, LIVE)
    live_bytes = sum(64 + len(r.body) for r in puts)
    assert (new.number, new.path, new.capacity, new.handle) == (90, NEW, disk.size(NEW), None)
    assert (new.lsn_first, new.lsn_last) == (segments[0].lsn_first, segments[-1].lsn_last)
    assert (new.item_first, new.item_last, new.puts, new.live) == (4, 58, len(LIVE), len(LIVE))
    assert (new.live_bytes, new.rank) == (live_bytes, segments[0].number)
    assert new.measured == len(LIVE)
    assert new.live_bytes + new.extra_bytes == sum(r.end - r.offset for r in puts)


def test_the_job_reports_its_measures() -> None:
    disk, segments = stage()
    job = compaction_of(segments, LIVE)
    job.run(disk)
    job.measure(segments)

    for segment in segments:
        puts = puts_of(disk, [segment], LIVE)
        assert segment.measured == len(puts)
        assert segment.live_bytes + segment.extra_bytes == sum(r.end - r.offset for r in puts)


def test_only_puts_of_items_in_the_set_are_rewritten() -> None:
    disk, segments = stage()
    compaction_of(segments, [7]).run(disk)

    assert [(r.kind, r.item) for r in records(disk, NEW)] == [(Kind.PUT, 7)]


def test_a_segment_in_which_nothing_is_alive_is_not_read_but_stood_for() -> None:
    disk, segments = stage(live=(1, 58))
    assert [s.live > 0 for s in segments[:3]] == [True, False, False]
    disk.damage(segments[1].path, 100, b"anything")
    new = compaction_of(segments, (1, 58)).run(disk)

    assert new is not None
    assert [r.item for r in records(disk, NEW)] == [1, 58]


def test_a_record_that_a_newer_segment_repeats_is_not_rewritten() -> None:
    disk, segments = stage()
    at = next(n for n, s in enumerate(segments) if puts_of(disk, [s], LIVE[-1:]))
    (last,) = puts_of(disk, segments, LIVE[-1:])
    new = compaction_of(segments[: at + 1], LIVE, lsn_limit=last.lsn).run(disk)

    assert new is not None
    assert [r.item for r in records(disk, NEW)] == list(LIVE[:-1])
    assert new.lsn_last == last.lsn - 1
    end = footer(disk, NEW)
    assert end is not None
    assert end.lsn == last.lsn


def test_the_segments_of_a_job_limit_each_other() -> None:
    disk, segments = stage()
    chosen = segments[:2]
    at = [r.item for r in puts_of(disk, chosen[:1], tuple(range(121)))]
    chosen[1].lsn_first = records(disk, chosen[0].path)[-3].lsn
    job = compaction_of(chosen, at)

    assert job.inputs[0].lsn_last == chosen[1].lsn_first - 1
    assert job.inputs[1].lsn_last == chosen[1].lsn_last


def test_a_compacted_segment_is_rewritten_with_all_it_stands_for() -> None:
    disk = MemoryDisk()
    segments = sealed(written(disk, [b"x" * 99] * 120), LIVE)
    middle = 4
    items = range(1, 121)
    for segment in segments:
        segment.live = 1
    few = [1, 4, 7, 10, 13, 16, *items[60:66]]
    one = compaction_of(segments[:middle], few, number=90).run(disk)
    two = compaction_of(segments[middle:], few, number=91).run(disk)
    assert one is not None
    assert two is not None
    three = compaction_of([one, two], [7, 62], number=92).run(disk)

    assert three is not None
    header = SegmentHeader.decode(disk.read(three.path, 0, 64), three.path)
    assert header is not None
    assert (header.first, header.last) == (segments[0].number, segments[-1].number)
    assert [r.item for r in records(disk, three.path)] == [7, 62]
    assert [without_place(r) for r in records(disk, three.path)] == [
        without_place(r) for r in puts_of(disk, segments, (7, 62))
    ]
    assert (three.lsn_first, three.lsn_last) == (segments[0].lsn_first, segments[-1].lsn_last)


@pytest.mark.parametrize("nothing", [(), (999,)])
def test_a_compaction_without_live_items_is_a_file_without_puts(nothing: tuple[int, ...]) -> None:
    """All has ended while the job was on its way: the file goes like any dead one."""
    disk, segments = stage()
    one = compaction_of(segments, nothing, number=90).run(disk)

    assert one is not None
    assert (one.puts, one.live, one.item_first, one.item_last) == (0, 0, 0, 0)
    assert records(disk, one.path) == []
    end = footer(disk, one.path)
    assert end is not None
    assert (end.item, end.lsn) == (0, segments[-1].lsn_last + 1)


def test_the_real_disk_has_the_same_bytes(tmp_path: Path) -> None:
    disk, segments = stage()
    compaction_of(segments, LIVE).run(disk)
    real = Disk()
    for segment in segments:
        data = disk.read(segment.path)
        segment.path = str(tmp_path / segment.path.rpartition("/")[2])
        real.create(segment.path, data, len(data)).close()
    new = compaction_of(segments, LIVE).run(real)

    assert new is not None
    assert real.read(new.path) == disk.read(NEW)
    assert segment_names(real, str(tmp_path)) == real.names(str(tmp_path))


def test_a_log_segment_without_a_footer_is_walked_to_its_last_record() -> None:
    disk, segments = stage()
    for segment in segments:
        disk.damage(segment.path, segment.capacity - FOOTER_SPACE_BYTES, bytes(512))
    new = compaction_of(segments, LIVE).run(disk)

    assert new is not None
    assert [r.item for r in records(disk, NEW)] == list(LIVE)


def test_what_an_earlier_life_left_behind_the_last_record_does_not_matter() -> None:
    disk, segments = stage()
    for segment in segments:
        out: list[bytes] = []
        stale = Draft(Kind.PUT, LIVE[0], 1, 0, 1, b"", b"stale", 0, 0)
        encode(stale, segment.lsn_last + 1, JOURNAL, segment.number - 1, segment.at + 64, out)
        disk.damage(segment.path, segment.at + 64, b"".join(out))
    new = compaction_of(segments, LIVE).run(disk)

    assert new is not None
    assert len(records(disk, NEW)) == len(LIVE)


# -- how it is read and written -------------------------------------------------------------------


class Watched(MemoryDisk):
    """Notes how much is read at once."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        data = super().read(path, offset, size)
        self.reads.append(len(data))
        return data


def test_a_segment_is_read_in_parts_with_a_pause_after_each_and_after_many_frames() -> None:
    disk = Watched()
    sizes = Sizes(segment_min=4 << 20, segment_max=4 << 20, batch_max=1 << 20)
    writer = written(disk, [b"x" * 3000] * 1500, sizes)
    (segment,) = sealed(writer, [1000])
    pauses: list[None] = []
    job = compaction_of([segment], [1000])
    job.pause = lambda: pauses.append(None)
    disk.reads.clear()
    job.run(disk)

    assert max(disk.reads) == PIECE_BYTES
    assert sum(disk.reads) < segment.capacity + 8 * 4000, "nothing is read much more than once"
    assert len(pauses) >= 4

    frame_count = len(frames(disk, segment.path))
    assert frame_count > STEP_FRAMES
    assert len(pauses) >= frame_count // STEP_FRAMES


def test_frames_larger_than_a_piece_are_rewritten() -> None:
    disk = MemoryDisk()
    sizes = Sizes(segment_min=16 << 20, segment_max=16 << 20, batch_max=1 << 20)
    body = bytes(range(256)) * 12_000
    bodies = [b"s", body, b"t" * 700_000, b"u" * 700_000, body, b"v", body, body, body, body]
    writer = written(disk, bodies, sizes)
    segment = sealed(writer, [2, 4, 5])[0]
    new = compaction_of([segment], [2, 4], number=90).run(disk)

    assert new is not None
    assert [r.body for r in records(disk, NEW)] == [body, b"u" * 700_000]
    batches = [r for r in frames(disk, NEW) if r.kind == Kind.BATCH]
    assert [b.small for b in batches] == [1, 1], "a group is a piece at most, or one frame"


def test_many_puts_stand_in_several_batches_and_each_says_how_many_and_how_long() -> None:
    disk = MemoryDisk()
    sizes = Sizes(segment_min=8 << 20, segment_max=8 << 20, batch_max=1 << 20)
    writer = written(disk, [b"x" * 3000] * 2800, sizes)
    (segment,) = sealed(writer, range(1, 1001))
    new = compaction_of([segment], range(1, 1001)).run(disk)
    assert new is not None

    found = frames(disk, NEW)
    at = 1
    while at < len(found):
        batch = found[at]
        group = found[at + 1 : at + 1 + batch.small]
        assert batch.kind == Kind.BATCH
        assert {r.kind for r in group} == {Kind.PUT}
        assert batch.lsn == group[0].lsn
        assert batch.item == group[-1].end - batch.offset
        assert batch.item <= PIECE_BYTES + 64
        at += 1 + batch.small
    assert sum(r.kind == Kind.BATCH for r in found) == 3


# -- what is not written --------------------------------------------------------------------------


def test_a_compaction_that_would_save_too_little_is_measured_and_not_written() -> None:
    disk = MemoryDisk()
    live = tuple(range(1, 121))
    segments = sealed(written(disk, [b"x" * 200] * 120), live)
    before = everything(disk)
    job = compaction_of(segments, live)

    assert job.run(disk) is None
    assert everything(disk) == before
    assert job.run(disk) is None
    job.measure(segments)
    for segment in segments:
        puts = puts_of(disk, [segment], live)
        assert segment.measured == len(puts) == segment.live
        assert segment.live_bytes + segment.extra_bytes == sum(r.end - r.offset for r in puts)


def test_a_job_in_vain_stops_writing_at_half_and_reads_on_to_measure() -> None:
    disk = MemoryDisk()
    sizes = Sizes(segment_min=8 << 20, segment_max=8 << 20, batch_max=1 << 20)
    (segment,) = sealed(written(disk, [b"x" * 3000] * 2900, sizes), range(1, 2901))
    job = compaction_of([segment], range(1, 2901))
    disk.trace.clear()

    assert job.run(disk) is None
    gone = disk.trace.index("remove 0000000090.segment.new")
    assert sum(verb.startswith("read ") for verb in disk.trace[gone:]) >= 1
    assert sum(verb.startswith("write ") for verb in disk.trace) <= 5, "the opening and 4 MiB"
    assert job.measures[0][0] == segment.live


def test_half_of_what_they_take_is_not_too_much_and_more_is() -> None:
    disk, segments = stage()
    items = range(1, 30)

    def rewritten(capacity: int) -> Segment | None:
        job = compaction_of(segments[:1], items)
        job.inputs = [replace(job.inputs[0], capacity=capacity, has_live=True)]
        return job.run(disk)

    new = rewritten(1 << 20)
    assert new is not None
    assert rewritten(2 * new.capacity) is not None
    disk.remove(NEW)
    assert rewritten(2 * new.capacity - 1) is None
    assert "0000000090.segment" not in disk.names(FOLDER)


def test_dead_ones_in_between_give_nothing_back() -> None:
    disk, segments = stage(live=(1,))
    dead = [s for s in segments if not s.live]
    assert len(dead) > 3
    alive = tuple(range(1, 20))
    assert compaction_of(segments[:1], alive).run(disk) is None
    assert compaction_of([segments[0], *dead], alive).run(disk) is None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 4095), st.integers(1, 255), st.booleans())
def test_a_flipped_byte_is_met_or_does_not_matter(at: int, flip: int, second: bool) -> None:
    """In a log segment and in a compacted one: no put is ever lost or changed silently."""
    live = (*LIVE, 90)
    disk, segments = compacted_and_others(live) if second else stage(live)
    expected = [without_place(r) for r in puts_of(disk, segments, live)]
    source = segments[0]
    at %= source.capacity
    byte = disk.read(source.path, at, 1)[0]
    disk.damage(source.path, at, bytes([byte ^ flip]))
    before = everything(disk)
    job = compaction_of(segments, live)
    try:
        job.run(disk)
    except DamagedInput as damaged:
        assert damaged.path == source.path
        assert damaged.offset <= at
        assert everything(disk) == before
    else:
        assert [without_place(r) for r in records(disk, NEW)] == expected
        assert at >= FILE_HEADER_BYTES
        assert not any(f.offset <= at < f.end - 7 for f in frames(disk, source.path))


@pytest.mark.parametrize("size", [0, 63, 64, 100, 128, 1000, 2000])
def test_an_input_that_was_cut_off_is_damaged(size: int) -> None:
    disk, segments = stage()
    disk.truncate(segments[0].path, size)
    before = everything(disk)
    with pytest.raises(DamagedInput, match="not rewritten") as met:
        compaction_of(segments, LIVE).run(disk)

    assert met.value.path == segments[0].path
    assert met.value.offset <= size
    assert everything(disk) == before


def test_a_large_frame_that_was_cut_off_is_met_too() -> None:
    disk = MemoryDisk()
    sizes = Sizes(segment_min=8 << 20, segment_max=8 << 20, batch_max=1 << 20)
    segment = sealed(written(disk, [b"x" * (3 << 20)] * 4, sizes), [1])[0]
    disk.truncate(segment.path, 2 << 20)
    with pytest.raises(DamagedInput):
        compaction_of([segment], [1]).run(disk)


def test_a_record_that_is_missing_is_met() -> None:
    """Its frame is whole, but its lsn is not the next: what stood between is lost."""
    disk, segments = stage()
    segment = segments[0]
    third = frames(disk, segment.path)[2]
    out: list[bytes] = []
    encode((*third[:8], 0), third.lsn + 1, JOURNAL, segment.number, third.offset, out)
    disk.damage(segment.path, third.offset, b"".join(out))
    with pytest.raises(DamagedInput) as met:
        compaction_of(segments, LIVE).run(disk)

    assert met.value.offset == third.offset


def misplaced(record: Record, **other: int) -> bytes:
    """A whole frame in the place of this one, that belongs elsewhere."""
    out: list[bytes] = []
    encode(
        (*record[:8], 0),
        other.get("lsn", record.lsn),
        other.get("journal", JOURNAL),
        other.get("segment", record.segment),
        other.get("offset", record.offset),
        out,
    )
    return b"".join(out)


def too_short(record: Record) -> bytes:
    """A frame whose checksum is right for the part of a header that it says it is."""
    data = bytearray(misplaced(record))
    data[4:8] = (60).to_bytes(4, "little")
    data[:4] = crc32(data[4:60]).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    "other",
    [
        lambda r: misplaced(r, journal=JOURNAL + 1),
        lambda r: misplaced(r, segment=r.segment + 1),
        lambda r: misplaced(r, segment=r.segment - 1),
        lambda r: misplaced(r, offset=r.offset + 8),
        lambda r: misplaced(r, lsn=r.lsn - 1),
        too_short,
    ],
)
def test_a_whole_frame_that_does_not_belong_there_is_met(
    other: Callable[[Record], bytes],
) -> None:
    disk, segments = stage()
    third = frames(disk, segments[0].path)[3]
    disk.damage(segments[0].path, third.offset, other(third))
    with pytest.raises(DamagedInput) as met:
        compaction_of(segments, LIVE).run(disk)

    assert met.value.offset == third.offset


def compacted_and_others(live: tuple[int, ...]) -> tuple[MemoryDisk, list[Segment]]:
    disk, segments = stage(live)
    new = compaction_of(segments[:4], live, number=89).run(disk)
    assert new is not None
    return disk, [new, *segments[4:]]


def test_the_lsns_of_a_compacted_segment_have_gaps_and_never_fall() -> None:
    disk, segments = compacted_and_others((*LIVE, 90))
    first, second = records(disk, segments[0].path)[:2]
    assert second.lsn > first.lsn + 1
    disk.damage(segments[0].path, second.offset, misplaced(second, lsn=first.lsn))
    with pytest.raises(DamagedInput) as met:
        compaction_of(segments, (*LIVE, 90)).run(disk)

    assert met.value.offset == second.offset


def test_of_a_compacted_segment_only_puts_that_no_newer_one_repeats_are_rewritten() -> None:
    live = (*LIVE, 90)
    disk, segments = compacted_and_others(live)
    job = compaction_of(segments, live)
    last = records(disk, segments[0].path)[-1]
    job.inputs[0] = replace(job.inputs[0], lsn_last=last.lsn - 1)
    job.run(disk)

    assert [r.item for r in records(disk, NEW)] == [*LIVE[:-1], 90]


def test_a_compacted_segment_with_a_damaged_footer_is_no_input() -> None:
    live = (*LIVE, 90)
    for at in (0, 4, 12, 40, 56, 70):
        disk, segments = compacted_and_others(live)
        zone = segments[0].capacity - FOOTER_SPACE_BYTES
        byte = disk.read(segments[0].path, zone + at, 1)[0]
        disk.damage(segments[0].path, zone + at, bytes([byte ^ 1]))
        with pytest.raises(DamagedInput) as met:
            compaction_of(segments, live).run(disk)
        assert met.value.offset == zone


def test_a_snapshot_or_a_foreign_segment_is_no_input() -> None:
    for header in (
        SegmentHeader(JOURNAL, IDENTITY, 1, 4096, 1, 2),
        SegmentHeader(JOURNAL + 1, IDENTITY, 1, 4096, 1),
        SegmentHeader(JOURNAL, IDENTITY, 2, 4096, 1),
    ):
        disk, segments = stage()
        disk.damage(segments[0].path, 0, header.encode())
        with pytest.raises(DamagedInput, match="byte 0 "):
            compaction_of(segments, LIVE).run(disk)


# -- trouble --------------------------------------------------------------------------------------


def verbs_of_a_job() -> int:
    disk, segments = stage()
    before = disk.steps
    compaction_of(segments, LIVE).run(disk)
    return disk.steps - before


@pytest.mark.parametrize(
    "verb", ["read", "create", "create:names", "write", "sync", "rename", "rename:names"]
)
def test_when_the_disk_fails_or_is_full_nothing_is_left_and_it_may_be_tried_again(
    verb: str,
) -> None:
    nth = 0
    while True:
        nth += 1
        disk, segments = stage()
        before = everything(disk)
        fault = Fault(verb, nth=nth, error=errno.ENOSPC)
        disk.faults.append(fault)
        try:
            compaction_of(segments, LIVE).run(disk)
        except OSError as error:
            assert error.errno == errno.ENOSPC
        if not fault.fired:
            break
        # The next start removes a file that `create` itself could not finish.
        left = {n: data for n, data in everything(disk).items() if n in before}
        assert left == before
        assert segment_names(disk) == sorted(before)
        assert not disk.retried_syncs
        assert compaction_of(segments, LIVE, number=91).run(disk) is not None
    assert nth > 1


def test_after_a_power_cut_at_any_moment_the_old_ones_are_there_and_the_new_one_whole_or_not() -> (
    None
):
    steps = verbs_of_a_job()
    assert steps > 15
    seen = set()
    for step in range(1, steps + 2):
        disk, segments = stage()
        # The active one's last sync ended without an empty batch; all that counts here is sealed.
        before = {s.path: disk.read(s.path) for s in segments}
        whole, _ = stage()
        compaction_of(segments, LIVE).run(whole)
        disk.cut_power_at(step)
        try:
            compaction_of(segments, LIVE).run(disk)
        except PowerCut:
            assert step <= steps
        for seed in range(20):
            found = disk.crash_clone(Random(seed))
            assert {path: found.read(path) for path in before} == before
            there = "0000000090.segment" in found.names(FOLDER)
            seen.add((step == steps, there))
            if there:
                assert found.read(NEW) == whole.read(NEW)
                assert step >= steps, "the name comes last"
            else:
                assert step <= steps
    assert seen >= {(False, False), (True, False), (True, True)}
