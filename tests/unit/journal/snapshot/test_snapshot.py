"""A snapshot comes back as it was, or not at all."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from journal.errors import NewerFormat
from journal.format.checkpoint import Checkpoint
from journal.format.declared import declared_draft
from journal.format.kinds import Kind
from journal.format.lease import LeaseEntry
from journal.format.record import Draft, Record, encode
from journal.format.segment import FILE_HEADER_BYTES, SegmentHeader, Tally
from journal.format.subscription_state import DeadEntry, reader_states
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import (
    STEP_FRAMES,
    SegmentState,
    Snapshot,
    SnapshotDamaged,
    snapshot_lsn,
    snapshot_name,
)

IDENTITY = bytes(range(0xA0, 0xB0))
SHORT = int.from_bytes(IDENTITY[:4], "little")
TIME_MS = 1_767_323_045_000
PATH = "/data/jobs.1/00000000000000000077.snapshot"


def ids(*numbers: int) -> IdSet:
    made = IdSet()
    for number in numbers:
        made.add(number)
    return made


def small_snapshot() -> Snapshot:
    """Every kind of record once; `live` and `attempts` have pages and what is beside them."""
    live = ids(3, 5)
    live.add_range(20, 40)
    attempts = IdCounts()
    attempts.set(5, 2)
    attempts.set(21, 300)
    tally = Tally()
    tally.counts[Kind.PUT], tally.counts[Kind.DONE] = 7, 2
    tally.see_items(30, 40)
    tally.see_released_ids(31, 44)
    tally.see_time(TIME_MS)
    tally.see_time(TIME_MS + 5)
    return Snapshot(
        lsn=77,
        segment=9,
        offset=1234 * 8,
        checkpoint=Checkpoint(b"jobs", 41, 45, 1 << 20, 40, 23, 2, b"server-1", as_of=77),
        live=live,
        live_bytes=987_654_321_012,
        attempts=attempts,
        dead=[
            DeadEntry(5, 1, 2, b"lease", TIME_MS - 9, 17),
            DeadEntry(3, 2, 255, b"", TIME_MS - 7, 1 << 33),
        ],
        segments=[SegmentState(4, 3, 19, 2, 34), SegmentState(8, 20, 29, 10, 1 << 40)],
        tally=tally,
        leased=[
            LeaseEntry(20, 7, 1, TIME_MS - 5, 3, TIME_MS - 5, TIME_MS + 60_000),
            LeaseEntry(21, 1 << 20, 301, TIME_MS - 4, 0, TIME_MS - 1, TIME_MS + 70_000),
        ],
        standing=[PAUSED, declared_draft(b'lease = "5m"\n', b"", TIME_MS)],
    )


def encoded(snapshot: Snapshot) -> bytes:
    return snapshot.encode(SHORT, IDENTITY, TIME_MS)


def same(one: Snapshot, other: Snapshot) -> bool:
    def plain(s: Snapshot) -> tuple[object, ...]:
        return (
            s.lsn, s.segment, s.offset, s.checkpoint, s.live.encode(), s.live.count,
            s.live_bytes, list(s.attempts.items()), s.dead, s.segments, s.tally,
            s.leased, s.standing,
        )  # fmt: skip

    return plain(one) == plain(other)


def test_a_snapshot_comes_back_with_every_field() -> None:
    snapshot = small_snapshot()
    again = Snapshot.decode(encoded(snapshot), PATH)

    assert same(again, snapshot)
    assert list(again.live) == [3, 5, *range(20, 41)]
    assert again.attempts.get(21) == 300


def test_it_is_made_in_pauses_which_change_nothing() -> None:
    lease = small_snapshot().leased[1]
    large = replace(small_snapshot(), leased=[lease] * 2500)
    frames = 5000 + 10  # two of each lease
    pauses: list[None] = []

    data = large.encode(SHORT, IDENTITY, TIME_MS, lambda: pauses.append(None))

    assert data == encoded(large)
    assert frames // STEP_FRAMES <= len(pauses) < frames // STEP_FRAMES + 10


def test_the_snapshot_of_an_empty_queue_comes_back() -> None:
    snapshot = Snapshot(0, 1, 64, Checkpoint(b""), IdSet(), 0, IdCounts(), [], [])
    again = Snapshot.decode(encoded(snapshot), "anything")

    assert same(again, snapshot)
    assert again.tally is None


def test_a_large_snapshot_comes_back_from_many_parts() -> None:
    random = Random(5)
    snapshot = small_snapshot()
    snapshot.live = IdSet()
    snapshot.live.add_range(1, 10_000_000)
    for id_ in range(7, 9_900_000, 4096):
        snapshot.live.discard(id_)
        snapshot.attempts.set(id_ + 1, random.randint(1, 400))
    snapshot.segments = [SegmentState(n, n, n, 1, n) for n in range(1, 40_000)]
    data = encoded(snapshot)

    assert same(Snapshot.decode(data, PATH), snapshot)


def test_a_set_of_ids_goes_on_behind_the_last_id_also_when_it_is_empty() -> None:
    snapshot = small_snapshot()
    snapshot.live = ids(1, 2, 3)
    for id_ in (1, 2, 3):
        snapshot.live.discard(id_)
    again = Snapshot.decode(encoded(snapshot), PATH)
    again.live.add(4)

    assert list(again.live) == [4]


def test_every_flipped_bit_makes_it_unreadable() -> None:
    whole = encoded(small_snapshot())
    for offset in range(len(whole)):
        # The pages of attempts and ids are thousands of bytes alike: a bit of each 7th will do.
        if offset > 400 and whole[offset - 8 : offset + 8] == bytes(16) and offset % 7:
            continue
        for bit in range(8) if whole[offset] or offset < 400 else (offset % 8,):
            data = bytearray(whole)
            data[offset] ^= 1 << bit
            with pytest.raises((SnapshotDamaged, NewerFormat)) as caught:
                Snapshot.decode(bytes(data), PATH)
            if isinstance(caught.value, SnapshotDamaged):
                assert caught.value.offset <= offset
                assert PATH in str(caught.value)


def test_every_truncation_makes_it_unreadable() -> None:
    whole = encoded(small_snapshot())
    for size in range(len(whole)):
        with pytest.raises(SnapshotDamaged):
            Snapshot.decode(whole[:size], PATH)
    with pytest.raises(SnapshotDamaged):
        Snapshot.decode(whole + bytes(8), PATH)


def test_blocks_of_an_older_snapshot_never_pass() -> None:
    older = small_snapshot()
    older.lsn = 76
    newer, old = bytearray(encoded(small_snapshot())), encoded(older)
    assert len(newer) == len(old)
    for at in range(FILE_HEADER_BYTES, len(old), 64):
        mixed = newer[:at] + old[at : at + 512] + newer[at + 512 :]
        if mixed != newer:
            with pytest.raises(SnapshotDamaged):
                Snapshot.decode(bytes(mixed), PATH)


def test_a_snapshot_under_the_name_of_another_is_not_read() -> None:
    with pytest.raises(SnapshotDamaged, match="it is of lsn 77"):
        Snapshot.decode(encoded(small_snapshot()), PATH.replace("77", "78"))


def test_a_segment_is_no_snapshot() -> None:
    data = SegmentHeader(SHORT, IDENTITY, 1, 64, TIME_MS).encode()
    with pytest.raises(SnapshotDamaged, match="no snapshot"):
        Snapshot.decode(data, PATH)


def laid_out(*drafts: Draft) -> bytes:
    """A snapshot of lsn 77 from these records, an opening before and a footer behind them."""
    frames: list[bytes] = []
    at = FILE_HEADER_BYTES
    footer = Draft(Kind.FOOTER, len(drafts) + 1, 0, 0, TIME_MS, b"", b"", 0, 0)
    for one in (Checkpoint(b"jobs").draft(TIME_MS, 77), *drafts, footer):
        at += encode(one, 78, SHORT, 0, at, frames)
    return SegmentHeader(SHORT, IDENTITY, 0, at, TIME_MS, role=2).encode() + b"".join(frames)


RUN = Draft(Kind.LIVE, 0, 1, 0, TIME_MS, b"", bytes(16), 0, 0)
GOES_ON = Draft(Kind.SEGMENTS, 1, 64, 0, TIME_MS, b"", b"", 0, 0)
LEASE = LeaseEntry(1, 7, 1, TIME_MS, 3, TIME_MS + 1, TIME_MS + 2)
LEASED, RENEWED = LEASE.leased(), LEASE.renewal()
PAUSED = Draft(Kind.PAUSED, 0, 0, 1, TIME_MS, b"", b"", 0, 0)
DECLARED = Draft(Kind.DECLARED, 0, 0, 0, TIME_MS, b"", b"x", 0, 0)


@pytest.mark.parametrize(
    ("drafts", "error"),
    [
        ([RUN, RUN._replace(kind=Kind.KEYS), GOES_ON], NewerFormat),
        ([RUN, RUN._replace(kind=99), GOES_ON], NewerFormat),
        ([RUN, RUN._replace(kind=Kind.PUT), GOES_ON], SnapshotDamaged),
        ([RUN, RUN._replace(kind=Kind.CHECKPOINT), GOES_ON], SnapshotDamaged),
        ([RUN, GOES_ON, RUN], SnapshotDamaged),
        ([RUN], SnapshotDamaged),
        ([GOES_ON], SnapshotDamaged),
        ([RUN._replace(number=2), GOES_ON], SnapshotDamaged),
        ([RUN._replace(small=9), GOES_ON], SnapshotDamaged),
        ([RUN, GOES_ON._replace(small=3, body=bytes(40))], SnapshotDamaged),
        ([RUN, LEASED._replace(meta=b""), GOES_ON], SnapshotDamaged),
        ([RUN, RENEWED, GOES_ON], SnapshotDamaged),
        ([RUN, LEASED, RENEWED._replace(number=8), GOES_ON], SnapshotDamaged),
        ([RUN, LEASED, RENEWED._replace(item=2), GOES_ON], SnapshotDamaged),
        ([RUN, PAUSED, LEASED, GOES_ON], SnapshotDamaged),
        ([RUN, PAUSED, PAUSED, GOES_ON], SnapshotDamaged),
        ([RUN, DECLARED, PAUSED, GOES_ON], SnapshotDamaged),
        ([RUN, DECLARED, DECLARED, GOES_ON], SnapshotDamaged),
        ([RUN, GOES_ON, DECLARED], SnapshotDamaged),
        ([RUN, RUN._replace(kind=Kind.DEAD, meta=b"\x01"), GOES_ON], SnapshotDamaged),
        ([RUN, RUN._replace(kind=Kind.DEAD, meta=b"\x7f\0\0"), GOES_ON], NewerFormat),
    ],
)
def test_whole_records_that_say_what_no_snapshot_says_are_refused(
    drafts: list[Draft], error: type[Exception]
) -> None:
    """Not the work of a bad disk: of another program, or of a later one."""
    assert Snapshot.decode(laid_out(RUN, GOES_ON), PATH).lsn == 77
    with pytest.raises(error):
        Snapshot.decode(laid_out(*drafts), PATH)


def test_what_stands_once_and_what_follows_another_is_read_in_sequence() -> None:
    again = Snapshot.decode(laid_out(RUN, LEASED, RENEWED, LEASED, PAUSED, DECLARED, GOES_ON), PATH)
    first = LEASE._replace(since_ms=TIME_MS)
    assert again.leased == [LEASE, first]
    assert again.standing == [PAUSED, DECLARED]


def test_a_snapshot_of_a_newer_version_says_so() -> None:
    data = bytearray(encoded(small_snapshot()))
    data[8] = 9
    data[60:64] = zlib.crc32(bytes(data[:60])).to_bytes(4, "little")
    with pytest.raises(NewerFormat):
        Snapshot.decode(bytes(data), PATH)


def test_noise_never_raises_anything_else() -> None:
    random = Random(11)
    whole = encoded(small_snapshot())
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(random.randint(1, 20)):
            at = random.randrange(len(data))
            data[at : at + 40] = random.randbytes(random.randint(0, 40))
        if data != whole:
            with suppress(SnapshotDamaged, NewerFormat):
                Snapshot.decode(bytes(data), PATH)
                pytest.fail("a wrong snapshot was read")


def test_names_are_sorted_as_their_lsns_are() -> None:
    assert snapshot_name(77) == "00000000000000000077.snapshot"
    assert snapshot_lsn(snapshot_name(77)) == 77
    assert sorted([snapshot_name(10**15), snapshot_name(9)])[0] == snapshot_name(9)
    for name in ("0000000001.segment", "77.snapshot", "x" * 20 + ".snapshot",
                 "00000000000000000077.snapshot.new", "²" * 20 + ".snapshot"):  # fmt: skip
        assert snapshot_lsn(name) is None


@pytest.mark.parametrize("readers", [(2,), (1, 2)])
def test_a_record_of_a_reader_that_nothing_names_makes_no_sense(readers: tuple[int, ...]) -> None:
    kinds = {1: Kind.READER, 2: Kind.PAUSED}
    frames = [
        Record(kinds[number], 0, 0, 1, TIME_MS, b"", b"", number, 1, 1, 0, 0)
        for number in readers
    ]
    with pytest.raises(ValueError, match="reader 2 that nothing names"):
        reader_states(frames)


@pytest.mark.parametrize("left", range(4))
def test_a_whole_file_without_its_end_is_no_snapshot(left: int) -> None:
    """Each record is whole, and the header says this length: the footer and more are missing."""
    frames: list[bytes] = []
    at, drafts = FILE_HEADER_BYTES, (Checkpoint(b"jobs").draft(TIME_MS, 77), RUN, GOES_ON)
    for one in drafts[:left]:
        at += encode(one, 78, SHORT, 0, at, frames)
    header = SegmentHeader(SHORT, IDENTITY, 0, at, TIME_MS, role=2).encode()
    with pytest.raises(SnapshotDamaged, match="it has no end"):
        Snapshot.decode(header + b"".join(frames), PATH)
