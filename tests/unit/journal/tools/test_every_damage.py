"""Every truncation and every flipped bit of a small journal, one at a time.

The rule is exact: wherever the damage is, recovery does not raise, no record comes out wrong, twice
or out of order, every record outside the damage is kept, and the damage is named with its file and
offset. The one exception: from the first loss after the last known sync on, the log is cut, because
there a torn write and a synced one that was damaged later look alike.

In the ordinary run one bit of every byte is flipped; under `soak` each.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import combinations

import pytest

from journal.errors import Damage
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Record, decode
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES, segment_number
from journal.recovery.recovery import Recovery
from journal.recovery.reopen import recovered_journal
from tests.support.journals import (
    FOLDER,
    IDENTITY,
    TIME_MS,
    TINY,
    fresh,
    path_of,
    segments,
    start,
)
from tests.support.memory_disk import MemoryDisk
from tests.support.snapshots import LIVE, NEWEST, OLDER, State, laid, opening, snapshot_path
from tests.support.snapshots import recovered as recovered_state

JOURNAL = int.from_bytes(IDENTITY[:4], "little")


@functools.cache
def journal(closed: bool) -> tuple[MemoryDisk, list[Record]]:
    """Three segments: puts, confirms, batches of one and of many; and what it holds."""
    disk = MemoryDisk()
    writer = fresh(disk, TINY)
    for number in range(1, 13):
        writer.put(b"item %d " % number * (number % 5 * 3 + 4))
        if number % 4 == 0:
            writer.done(number - 2)
        if number % 3 != 1:
            writer.commit()
    writer.put(b"last but one")
    writer.commit()
    writer.put(b"the last")
    writer.done(1)
    writer.commit()
    if closed:
        writer.close()
    disk = disk.kill_clone()
    records = list(Recovery(disk, FOLDER).records())
    assert len(records) == 18
    assert len(segments(disk)) == 3
    return disk, records


def recovered(disk: MemoryDisk) -> tuple[list[Record], Recovery]:
    recovery = Recovery(disk, FOLDER)
    return list(recovery.records()), recovery


def overlaps(record: Record, damages: list[Damage]) -> bool:
    path = path_of(record.segment)
    return any(
        d.path == path and d.offset < record.end and record.offset < d.end for d in damages
    )


def check(disk: MemoryDisk, whole: list[Record], lost: set[int]) -> Recovery:
    """Check the rule; `lost` are the lsns whose bytes were hit. Return the recovery."""
    records, recovery = recovered(disk)
    by_lsn = {r.lsn: r for r in whole}
    lsns = [r.lsn for r in records]
    assert lsns == sorted(set(lsns)), "in order, each once"
    assert all(by_lsn.get(r.lsn) == r for r in records), "none is wrong"
    missing = set(by_lsn) - set(lsns)
    assert lost <= missing
    beyond = missing - lost
    if beyond:
        # The log was cut: only after the last known sync, only from the damage on, and named.
        assert recovery.torn
        assert min(beyond) > min(lost, default=recovery.lsn_synced)
        assert min(beyond) > recovery.lsn_synced
    for damage in recovery.damages:
        if damage.kind == "torn":
            assert damage.lsn_first > recovery.lsn_synced
    for lsn in missing:
        named = [d for d in recovery.damages if d.lsn_first <= lsn <= d.lsn_last]
        assert named, f"lsn {lsn} is missing and not named"
        assert overlaps(by_lsn[lsn], recovery.damages) or any(
            d.kind == "truncated" for d in named
        )
        if by_lsn[lsn].kind == Kind.PUT:
            item = by_lsn[lsn].item
            assert any(d.id_first <= item <= d.id_last for d in named), f"item {item} is not named"
    return recovery


def frames(data: bytes, number: int) -> list[Record]:
    """Every frame of a segment, batches and checkpoint too, in order; and the footer."""
    found, at = [], FILE_HEADER_BYTES
    while (record := decode(data, at, JOURNAL, number)) is not None:
        found.append(record)
        at = record.end
    footer = decode(data, len(data) - FOOTER_SPACE_BYTES, JOURNAL, number)
    return [*found, footer] if footer is not None else found


def hit_by(frame: Record, offset: int) -> bool:
    """Is this byte of the file covered by the frame's checksum, or the checksum itself?"""
    return frame.offset <= offset < frame.offset + HEADER_BYTES + len(frame.meta) + len(frame.body)


def flip(closed: bool, bits_each: int) -> None:
    disk, whole = journal(closed)
    disk = disk.kill_clone()
    for number in segments(disk):
        path = path_of(number)
        data = disk.read(path)
        parts = frames(data, number)
        for offset in range(len(data)):
            hit = next((f for f in parts if hit_by(f, offset)), None)
            lost = {hit.lsn} if hit is not None and hit.kind not in {1, 2, 11} else set()
            for bit in range(offset % 8, offset % 8 + bits_each):
                now = data[offset] ^ 1 << bit % 8
                disk.damage(path, offset, bytes([now]))
                recovery = check(disk, whole, lost)
                # Damage at the end of the written part ends with its last byte that is not 0.
                names_it = any(
                    d.path == path and d.offset <= offset < d.end + (not now)
                    for d in recovery.damages
                )
                is_end_mark = hit is not None and hit.kind == Kind.BATCH and not hit.small
                if (hit is not None and not is_end_mark) or offset < FILE_HEADER_BYTES:
                    assert names_it, f"{path} byte {offset} bit {bit}: {recovery.damages}"
            disk.damage(path, offset, data[offset : offset + 1])


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_flipped_bit_is_named_and_costs_only_what_it_hit(closed: bool) -> None:
    flip(closed, bits_each=1)


@pytest.mark.sweep
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_flipped_bit_without_exception(closed: bool) -> None:
    flip(closed, bits_each=8)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["first", "middle", "last"])
def test_every_truncation_of_a_segment_costs_only_what_was_behind_it(
    closed: bool, which: int
) -> None:
    disk, whole = journal(closed)
    number = segments(disk)[which]
    path = path_of(number)
    data = disk.read(path)
    mine = [r for r in frames(data, number) if r.kind not in {1, 2, 11}]
    for size in range(len(data) - 1, -1, -1):
        cut = disk.kill_clone()
        cut.truncate(path, size)
        ends = {r.lsn: r.offset + HEADER_BYTES + len(r.meta) + len(r.body) for r in mine}
        lost = {lsn for lsn, end in ends.items() if end > size}
        recovery = check(cut, whole, lost)
        assert any(d.path == path and d.kind == "truncated" for d in recovery.damages)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_after_any_damage_the_journal_goes_on_and_the_next_start_finds_the_same(
    closed: bool,
) -> None:
    disk, _ = journal(closed)
    for number in segments(disk):
        path = path_of(number)
        size = disk.size(path)
        for offset in range(0, size, 97):
            hurt = disk.kill_clone()
            hurt.damage(path, offset, bytes([hurt.read(path, offset, 1)[0] ^ 0x10]))
            goes_on(hurt)
            short = disk.kill_clone()
            short.truncate(path, offset)
            goes_on(short)


def goes_on(disk: MemoryDisk) -> None:
    """Start three times: the same records each time, new ones after them, no more set aside."""
    first = start(disk)
    kept = [(r.lsn, r.kind, r.item, r.body) for r in first.records]
    first.put(b"after the damage")
    first.commit()
    copies = disk.names(f"{FOLDER}/set-aside")
    for _ in range(2):
        disk = disk.kill_clone()
        again = start(disk)
        found = [(r.lsn, r.kind, r.item, r.body) for r in again.records]
        assert found[: len(kept)] == kept
        assert [body for _, _, _, body in found[len(kept) :]] == [b"after the damage"]
        assert disk.names(f"{FOLDER}/set-aside") == copies
        assert all(d.kind != "torn" for d in again.recovery.damages)


# -- with compacted, recycled segments and snapshots ---------------------------------------------


def plain(record: Record) -> tuple[object, ...]:
    """Return a record without its position: compaction moves it."""
    return record[:9]


@functools.cache
def snapshotted(closed: bool) -> tuple[MemoryDisk, dict[int, tuple[object, ...]], State]:
    """Return the journal of `tests.support.snapshots`, each record ever written by its lsn, and the
    state at its end."""
    one = laid(closed)
    _, state, recovery = recovered_state(one.disk)
    assert sorted(state.live) == LIVE
    assert recovery.damages == []
    return one.disk, {r.lsn: plain(r) for r in one.records}, state


def check_state(disk: MemoryDisk, closed: bool) -> tuple[list[Damage], list[Damage]]:
    """Check that recovery does not raise, that no record is wrong, and that each lost or returned
    item is named; return the damages of a start and of a read of the whole."""
    _, written, truth = snapshotted(closed)
    records, state, recovery = recovered_state(disk)
    everything, _, whole = recovered_state(disk, whole=True)
    for found in (records, everything):
        lsns = [r.lsn for r in found]
        assert lsns == sorted(set(lsns)), "in order, each once"
        assert all(plain(r) == written[r.lsn] for r in found), "none is wrong"
    damages, all_damages = recovery.damages, whole.damages
    for item in truth.live - state.live:
        assert any(d.id_first <= item <= d.id_last for d in damages), f"{item} is lost, not named"
    same = (state.attempts, state.dead) == (truth.attempts, truth.dead)
    if state.live - truth.live or not same:
        assert any(d.lsn_last >= d.lsn_first for d in damages), "what came back is not named"
    there = {r.item for r in everything if r.kind == Kind.PUT}
    for item in state.live - there:
        named = [*damages, *all_damages]
        assert any(d.id_first <= item <= d.id_last for d in named), f"{item} has no body"
    return damages, all_damages


def every_file(disk: MemoryDisk) -> Iterator[tuple[str, bytes, list[Record]]]:
    """Each file with its bytes and, of a segment, its frames."""
    for name in disk.names(FOLDER):
        path = f"{FOLDER}/{name}"
        data, number = disk.read(path), segment_number(name)
        yield path, data, frames_among(data, number) if number is not None else []


def frames_among(data: bytes, number: int) -> list[Record]:
    owner = int.from_bytes(data[12:16], "little")
    found, at = [], FILE_HEADER_BYTES
    while (record := decode(data, at, owner, number)) is not None:
        found.append(record)
        at = record.end
    footer = decode(data, len(data) - FOOTER_SPACE_BYTES, owner, number)
    return [*found, footer] if footer is not None else found


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_with_snapshots_every_flipped_bit_is_named_or_costs_nothing(closed: bool) -> None:
    """Flip one bit of every byte with a meaning (killed: of each third), and of few others."""
    disk, _, _ = snapshotted(closed)
    disk = disk.kill_clone()
    for path, data, parts in every_file(disk):
        is_older = path == snapshot_path(OLDER)  # not read while the newest is whole
        for offset in range(len(data)):
            hit = next((f for f in parts if hit_by(f, offset)), None)
            counts = hit is not None or offset < FILE_HEADER_BYTES
            if (parts and not counts and offset % 11) or (not closed and offset % 3):
                continue
            disk.damage(path, offset, bytes([data[offset] ^ 1 << offset % 8]))
            damages, all_damages = check_state(disk, closed)
            is_end_mark = hit is not None and hit.kind == Kind.BATCH and not hit.small
            if not is_older and not is_end_mark and (counts or not parts):
                assert any(d.path == path for d in [*damages, *all_damages]), (path, offset)
            disk.damage(path, offset, data[offset : offset + 1])


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_with_snapshots_every_truncation_is_named(closed: bool) -> None:
    """Every length where a frame ends or begins, every seventh elsewhere (killed: each 21st)."""
    disk, _, _ = snapshotted(closed)
    for path, data, parts in every_file(disk):
        edges = {at + d for f in parts for at in (f.offset, f.end) for d in (-1, 0, 1)}
        for size in range(len(data)):
            if size % 7 and size not in edges:
                continue
            cut = disk.kill_clone()
            cut.truncate(path, size)
            damages, _ = check_state(cut, closed)
            if path != snapshot_path(OLDER):
                assert any(d.path == path for d in damages), (path, size)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_without_a_snapshot_damage_after_a_compacted_segment_is_named(closed: bool) -> None:
    """Flip one bit of every seventh byte with a meaning."""
    disk, _, _ = snapshotted(closed)
    disk = disk.kill_clone()
    for lsn in (OLDER, NEWEST):
        disk.remove(snapshot_path(lsn))
    for path, data, parts in every_file(disk):
        for offset in range(len(data)):
            hit = next((f for f in parts if hit_by(f, offset)), None)
            counts = hit is not None or offset < FILE_HEADER_BYTES
            # A compacted segment without its header as well could not be told from another file.
            survivors_header = path == path_of(6) and offset < FILE_HEADER_BYTES
            if not counts or survivors_header or offset % 7:
                continue
            disk.damage(path, offset, bytes([data[offset] ^ 1 << offset % 8]))
            damages, _ = check_state(disk, closed)
            if hit is None or hit.kind != Kind.BATCH or hit.small:
                assert any(d.path == path for d in damages), (path, offset)
            disk.damage(path, offset, data[offset : offset + 1])


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_with_snapshots_every_file_may_be_gone(closed: bool) -> None:
    disk, _, _ = snapshotted(closed)
    names = disk.names(FOLDER)
    for count in (1, 2):
        for gone in combinations(names, count):
            hurt = disk.kill_clone()
            for name in gone:
                hurt.remove(f"{FOLDER}/{name}")
            # Nothing else says that the newest segment or a snapshot was ever there.
            if f"{7:010d}.segment" not in gone and not any(n.endswith(".snapshot") for n in gone):
                check_state(hurt, closed)
            else:
                recovered_state(hurt)
                recovered_state(hurt, whole=True)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_with_snapshots_after_any_damage_the_next_start_finds_the_same(closed: bool) -> None:
    disk, _, _ = snapshotted(closed)
    for path, data, _ in every_file(disk):
        for offset in range(0, len(data), 53):
            hurt = disk.kill_clone()
            hurt.damage(path, offset, bytes([data[offset] ^ 0x10]))
            stays_the_same(hurt)
            short = disk.kill_clone()
            short.truncate(path, offset)
            stays_the_same(short)


def stays_the_same(disk: MemoryDisk) -> None:
    """Start twice more: the same state each time, and no more copies set aside."""
    before: State | None = None
    copies: list[str] = []
    for _ in range(3):
        disk = disk.kill_clone()
        _, state, recovery = recovered_state(disk)
        recovered_journal(recovery, TINY, lambda: opening(15), TIME_MS).writer.abandon()
        there = disk.names(f"{FOLDER}/set-aside")
        if before is not None:
            assert state == before
            assert there == copies
        before, copies = state, there
