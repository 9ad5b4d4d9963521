"""`journal verify`: for each reason that it may name, a journal in which it names that reason, and
the nearest journal in which it does not.

    plain    nine items in three segments: 1 to 4, 5 to 8, 9
    laid     the journal of `tests.support.snapshots`: a compacted segment, two snapshots
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

import journal
from journal.errors import OF_QUEUE, Damage
from journal.format.record import Record
from journal.format.segment import FILE_HEADER_BYTES, FOOTER_SPACE_BYTES
from journal.read.scan import FEWER_THAN_COUNTED, FOOTER_LOST, NOT_WHOLE, ZEROS
from journal.recovery.bodies import NO_RECORDS, NO_SEGMENT
from journal.recovery.lost_segments import SEGMENT_MISSING
from journal.recovery.recovery import (
    BEHIND_THE_END,
    MISSING_BEFORE,
    MISSING_BEHIND,
    SHORTER,
    Recovery,
)
from journal.recovery.segment_order import HEADER_LOST, NOTHING_READABLE
from journal.sets.hash_table import ID
from journal.sets.id_set import IdSet
from journal.snapshot.dedupe_file import write_chunk
from journal.snapshot.dedupe_pending import Fresh
from journal.snapshot.snapshot import SegmentState
from journal.tools.verify import check_journal
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, TIME_MS, SegmentBuilder
from tests.support.journals import FOLDER, fresh, path_of
from tests.support.memory_disk import MemoryDisk
from tests.support.snapshots import (
    NEWEST,
    OLDER,
    laid,
    lay,
    opening,
    put,
    rewrite,
    snapshot,
    snapshot_path,
)

STRANGE: Final = "belongs to another journal or place"
NOT_USED: Final = "a compacted segment that is not whole; not used"
IN_BODY: Final = 70  # bytes behind a record's beginning

Make = Callable[[], MemoryDisk]
Change = Callable[[MemoryDisk], None]


@dataclass(frozen=True)
class Case:
    """`made` with the `change` has this damage, or torn end; with `harmless` it has neither."""

    kind: str
    reason: str
    made: Make
    change: Change
    harmless: Make
    torn: bool = False


def plain(closed: bool = True, synced: bool = True) -> MemoryDisk:
    disk = MemoryDisk()
    writer = fresh(disk)
    for number in range(1, 10):
        writer.put(b"%d" % number * 200)
        if synced:
            writer.commit()
    writer.write()
    if closed:
        writer.close()
    return disk.kill_clone()


def killed() -> MemoryDisk:
    return plain(closed=False)


def never_synced() -> MemoryDisk:
    return plain(closed=False, synced=False)


def with_snapshots() -> MemoryDisk:
    return laid().disk


def with_originals() -> MemoryDisk:
    """Return it with the segments that the compacted one stands for."""
    one = laid()
    one.put_back(1, 2)
    return one.disk


# -- changes --------------------------------------------------------------------------------------


def record(disk: MemoryDisk, lsn: int) -> Record:
    return next(r for r in Recovery(disk, FOLDER, whole=True).records() if r.lsn == lsn)


def flipped(path: str, at: int) -> Change:
    return lambda disk: disk.damage(path, at, bytes([disk.read(path)[at] ^ 1]))


def in_record(lsn: int) -> Change:
    def change(disk: MemoryDisk) -> None:
        found = record(disk, lsn)
        flipped(path_of(found.segment), found.offset + IN_BODY)(disk)

    return change


def zeros(lsn: int, to_end: bool = False) -> Change:
    """In place of the record, or of all from there on."""

    def change(disk: MemoryDisk) -> None:
        found = record(disk, lsn)
        path = path_of(found.segment)
        end = len(disk.read(path)) if to_end else found.end
        disk.damage(path, found.offset, bytes(end - found.offset))

    return change


def all_zeros(path: str) -> Change:
    return lambda disk: disk.damage(path, 0, bytes(disk.size(path)))


def live(*items: int) -> Change:
    """Return a change: the items that the newest snapshot knows."""
    return lambda disk: rewrite(disk, NEWEST, live=IdSet.of(items))


def footer_of(number: int) -> Change:
    return lambda disk: flipped(
        path_of(number), len(disk.read(path_of(number))) - FOOTER_SPACE_BYTES + 20
    )(disk)


def no_footer(number: int) -> Change:
    """Remove the footer of a segment, as if it had never been sealed."""

    def change(disk: MemoryDisk) -> None:
        at = disk.size(path_of(number)) - FOOTER_SPACE_BYTES
        disk.damage(path_of(number), at, bytes(FOOTER_SPACE_BYTES))

    return change


def gone(*paths: str) -> Change:
    def change(disk: MemoryDisk) -> None:
        for path in paths:
            disk.remove(path)

    return change


def cut(path: str, size: int) -> Change:
    def change(disk: MemoryDisk) -> None:
        data = disk.read(path)[:size]
        disk.remove(path)
        disk.create(path, data, size)

    return change


def copied(source: str, target: str) -> Change:
    """Return a change: this file comes from another journal."""

    def change(disk: MemoryDisk) -> None:
        data = with_snapshots().read(source)
        disk.create(target, data, len(data))

    return change


def both(*changes: Change) -> Change:
    def change(disk: MemoryDisk) -> None:
        for each in changes:
            each(disk)

    return change


def after(made: Make, change: Change) -> Make:
    def make() -> MemoryDisk:
        disk = made()
        change(disk)
        return disk

    return make


# -- the table ------------------------------------------------------------------------------------

LAST: Final = 9  # lsn of the last record in a plain journal
NEWEST_SNAPSHOT, OLDER_SNAPSHOT = snapshot_path(NEWEST), snapshot_path(OLDER)
# Both lose the records after the newest snapshot; END_LOST loses one that the snapshot covers, as
# well.
END_LOST: Final = both(zeros(NEWEST, to_end=True), gone(path_of(7)))
BEHIND_LOST: Final = both(zeros(NEWEST + 1, to_end=True), gone(path_of(7)))
CASES: Final = (
    Case("corrupt", NOT_WHOLE, plain, in_record(5), plain),
    Case("corrupt", NOT_WHOLE, plain, in_record(LAST), never_synced),
    # after the last put of a segment that a start does not read
    Case("corrupt", NOT_WHOLE, with_snapshots, in_record(17), with_snapshots),
    Case("torn", NOT_WHOLE, killed, in_record(LAST), killed, torn=True),
    Case("corrupt", ZEROS, plain, zeros(5), after(killed, zeros(LAST, to_end=True))),
    Case("corrupt", FEWER_THAN_COUNTED, plain, zeros(8), killed),
    Case("corrupt", FOOTER_LOST, plain, footer_of(2), killed),
    Case("corrupt", HEADER_LOST, plain, flipped(path_of(2), 20), plain),
    Case("corrupt", FOOTER_LOST, plain, no_footer(2), killed),
    Case("corrupt", NOTHING_READABLE, plain, all_zeros(path_of(2)), plain),
    Case("corrupt", NO_RECORDS, with_snapshots,
         both(zeros(12, to_end=True), flipped(path_of(3), 20)), with_snapshots),
    Case("truncated", NO_SEGMENT, with_snapshots, live(3, 4, 6, 8, 9, 10, 11),
         after(with_snapshots, live(4, 6, 8, 9, 10, 11))),
    Case("truncated", MISSING_BEFORE, plain, gone(path_of(2)), after(plain, gone(path_of(1)))),
    Case("truncated", MISSING_BEHIND, with_snapshots, END_LOST, after(with_snapshots, BEHIND_LOST)),
    Case("truncated", SHORTER, plain, cut(path_of(2), 900),
         after(killed, zeros(LAST, to_end=True))),
    Case("torn", BEHIND_THE_END, never_synced, in_record(2), never_synced, torn=True),
    Case("truncated", SEGMENT_MISSING, with_snapshots, gone(path_of(4)),
         after(with_originals, gone(path_of(1)))),
    Case("corrupt", NOT_USED, with_originals, flipped(path_of(6), 300), with_originals),
    Case("corrupt", NOT_WHOLE, with_snapshots, flipped(NEWEST_SNAPSHOT, 300),
         after(with_snapshots, gone(OLDER_SNAPSHOT))),
    Case("corrupt", NOT_WHOLE, with_snapshots, flipped(OLDER_SNAPSHOT, 300), with_snapshots),
    Case("foreign", STRANGE, plain, copied(path_of(7), path_of(7)),
         after(plain, copied(path_of(7), f"{FOLDER}/7.txt"))),
    Case("foreign", STRANGE, plain, copied(NEWEST_SNAPSHOT, NEWEST_SNAPSHOT),
         after(plain, copied(NEWEST_SNAPSHOT, f"{FOLDER}/17.txt"))),
)  # fmt: skip


def named(disk: MemoryDisk) -> tuple[list[Damage], list[Damage]]:
    """Return the damages, and the torn end."""
    report = check_journal(disk, FOLDER)
    return report.damages, report.torn


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}, {case.reason}")
def test_what_is_wrong_is_named_with_its_reason(case: Case) -> None:
    damages, torn = named(after(case.made, case.change)())
    said = torn if case.torn else damages
    assert (case.kind, case.reason) in [(each.kind, each.reason) for each in said]
    if case.torn:
        assert not damages, "a torn end is no damage"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}, {case.reason}")
def test_what_is_near_to_it_is_not(case: Case) -> None:
    assert named(case.harmless()) == ([], [])


def test_of_the_first_item_of_all_a_loss_before_the_snapshot_is_named() -> None:
    disk = MemoryDisk()
    first, second = SegmentBuilder(1, 2048, 1, opening(1)), SegmentBuilder(2, 2048, 3, opening(3))
    lost = first.batch(put(1), put(2))[0]
    first.seal(live=2)
    at = second.at
    second.batch(put(3), synced=2)
    lay(disk, first)
    lay(disk, second)
    state = snapshot(2, 2, at, [1, 2], 3, [SegmentState(1, 1, 2, 2, 64)], None)
    data = state.encode(SHORT_IDENTITY, IDENTITY, TIME_MS)
    disk.create(snapshot_path(2), data, len(data))
    flipped(path_of(1), lost.offset + IN_BODY)(disk)

    (damage,), torn = named(disk)

    assert (damage.path, damage.offset, damage.end) == (path_of(1), lost.offset, lost.end)
    assert (damage.id_first, damage.id_last) == (1, 1)
    assert torn == []


@pytest.mark.parametrize(
    ("broken", "is_lost"), [(2, True), (4, False), (5, False)],
    ids=["before it", "in it", "at its end"],
)
def test_of_a_tail_that_was_written_anew_the_old_one_may_be_damaged(
    broken: int, is_lost: bool
) -> None:
    """The second segment repeats the records from 3 on. A start reads neither: a snapshot has both.
    """
    disk = MemoryDisk()
    first, second = SegmentBuilder(1, 2048, 1, opening(1)), SegmentBuilder(2, 2048, 3, opening(3))
    old = first.batch(put(1), put(2)) + first.batch(put(3), put(4), put(5), put(6), synced=2)
    second.batch(put(3), put(4), put(5), put(6), synced=2)
    second.seal(live=4)
    third = SegmentBuilder(3, 2048, 7, opening(7))
    at = third.at
    third.batch(put(7), synced=6)
    third.batch(synced=7)
    for each in (first, second, third):
        lay(disk, each)
    states = [SegmentState(1, 1, 2, 2, 64), SegmentState(2, 3, 6, 4, 64)]
    state = snapshot(6, 3, at, [*range(1, 7)], 7, states, None)
    data = state.encode(SHORT_IDENTITY, IDENTITY, TIME_MS)
    disk.create(snapshot_path(6), data, len(data))
    assert named(disk) == ([], [])

    flipped(path_of(1), old[broken - 1].offset + IN_BODY)(disk)

    damages, torn = named(disk)
    assert [(each.path, each.id_first, each.id_last) for each in damages] == (
        [(path_of(1), 2, 2)] if is_lost else []
    )
    assert torn == []


NO_REASONS = {OF_QUEUE}  # named, and said of something else


def reasons() -> set[str]:
    """Return the reasons that are constants of the journal's modules, without those of engines."""
    found = set()
    for module in pkgutil.walk_packages(journal.__path__, "journal."):
        if module.name == "journal.__main__" or module.name.startswith("journal.engine"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.isupper() and isinstance(value, str) and " " in value:
                found.add(value)
    return found - NO_REASONS


def test_every_reason_that_has_a_name_is_in_the_table() -> None:
    assert NOT_WHOLE in reasons()
    assert reasons() <= {case.reason for case in CASES}


class Forgetting(MemoryDisk):
    """A disk on which a daemon forgets a file of ids, and notes that in a snapshot, when the check
    knows what the snapshot before lists and has not looked for it yet."""

    forget: Change | None = None

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        data = super().read(path, offset, size)
        if self.forget is not None and path == NEWEST_SNAPSHOT and size == FILE_HEADER_BYTES:
            forget, self.forget = self.forget, None
            forget(self)
        return data


def test_a_file_of_ids_that_a_daemon_forgets_meanwhile_is_not_lost() -> None:
    disk, made = Forgetting(), with_snapshots()
    disk.make_folder(FOLDER)
    for name in made.names(FOLDER):
        data = made.read(f"{FOLDER}/{name}")
        disk.create(f"{FOLDER}/{name}", data, len(data)).close()
    ids = Fresh()
    ids.add_id(ID.pack(b"." * 16, TIME_MS, 1, 0))
    chunk = write_chunk(disk, FOLDER, ids.take(), 1, 10, IDENTITY, TIME_MS)
    rewrite(disk, NEWEST, chunks=[chunk])

    def forget(disk: MemoryDisk) -> None:
        disk.remove(f"{FOLDER}/{chunk.name}")
        rewrite(disk, NEWEST, lsn=NEWEST + 1, chunks=[])

    disk.forget = forget
    assert named(disk) == ([], [])
    assert disk.forget is None, "the check met the change"


def test_signs_of_life_come_at_each_so_many_records_also_of_those_that_a_snapshot_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = with_snapshots()

    def signs(every: int) -> int:
        monkeypatch.setattr("journal.tools.verify._PROGRESS_RECORDS", every)
        seen = list[int]()
        check_journal(disk, FOLDER, lambda done, total: seen.append(done))
        return len(seen)

    assert signs(1) > 17, "the journal has more than 17 records"
    assert signs(1000) <= 3, "before the first record, and at the end"
