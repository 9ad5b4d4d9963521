"""Several places with one journal: each segment once, from its best copy."""

from __future__ import annotations

from contextlib import suppress

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.segment import segment_name
from kestrelpy.spark.files.discovery import Contents, Problem, best_copies, by_journal, discover
from tests.golden.layout import IDENTITY, TIME_MS, SegmentBuilder, draft
from tests.support.memory_disk import MemoryDisk

OTHER = bytes(reversed(IDENTITY))


def journal_segments(
    count: int = 3, identity: bytes = IDENTITY, time_ms: int = TIME_MS, sealed: bool = True
) -> list[SegmentBuilder]:
    """Return `count` segments with two puts each; the last one is sealed only if `sealed`."""
    made = []
    for number in range(1, count + 1):
        lsn = 2 * number - 1
        opening = Checkpoint(b"jobs", lsn, lsn, generation=1)
        one = SegmentBuilder(number, 4096, lsn, opening, identity, time_ms)
        one.batch(*(draft(Kind.PUT, n, n, 0, b"x") for n in (lsn, lsn + 1)), synced=lsn - 1)
        if number < count or sealed:
            one.seal(live=2)
        made.append(one)
    return made


def lay(disk: MemoryDisk, folder: str, *segments: SegmentBuilder) -> None:
    disk.make_folder(folder)
    for one in segments:
        data = bytes(one.data)
        disk.create(f"{folder}/{segment_name(one.number)}", data, len(data)).close()


def grouped(disk: MemoryDisk, *folders: str) -> tuple[list[list[Contents]], list[Problem]]:
    contents, problems = discover(disk, folders)
    return by_journal(contents, problems), problems


def paths(disk: MemoryDisk, *folders: str) -> list[str]:
    ((group), *_), _ = grouped(disk, *folders)
    return [found.path for found in best_copies(group)]


def test_segments_that_go_between_their_listing_and_a_look_are_no_damage() -> None:
    class Removing(MemoryDisk):
        def size(self, path: str) -> int:
            for number in (1, 2, 3):  # the daemon reclaims them
                with suppress(FileNotFoundError):
                    self.remove(f"a/jobs.1/{segment_name(number)}")
            return super().size(path)

    disk = Removing()
    lay(disk, "a/jobs.1", *journal_segments(5))

    (found,), problems = discover(disk, ["a/jobs.1"])

    assert [each.file.number for each in found.segments] == [4, 5]
    assert (found.damages, problems) == ([], [])


def test_copies_of_one_journal_are_one_group_and_another_journal_another() -> None:
    disk = MemoryDisk()
    lay(disk, "a/jobs.1", *journal_segments())
    lay(disk, "b/jobs.1", *journal_segments(2))
    lay(disk, "c/jobs.1", *journal_segments(identity=OTHER))

    groups, problems = grouped(disk, "a/jobs.1", "b/jobs.1", "c/jobs.1")

    assert [[each.location.folder for each in group] for group in groups] == [
        ["a/jobs.1", "b/jobs.1"], ["c/jobs.1"],
    ]  # fmt: skip
    assert problems == []


def test_a_place_that_went_on_otherwise_is_not_mixed_in() -> None:
    disk = MemoryDisk()
    lay(disk, "a/jobs.1", *journal_segments())
    lay(disk, "b/jobs.1", *journal_segments(2), journal_segments(3, time_ms=TIME_MS + 1)[2])

    groups, problems = grouped(disk, "a/jobs.1", "b/jobs.1")

    assert [[each.location.folder for each in group] for group in groups] == [["a/jobs.1"]]
    (problem,) = problems
    assert problem.sentence.startswith("b/jobs.1: goes on otherwise than a/jobs.1")


def test_each_segment_is_read_once_and_its_copies_are_known() -> None:
    disk = MemoryDisk()
    lay(disk, "a/jobs.1", *journal_segments())
    lay(disk, "b/jobs.1", *journal_segments())

    ((group), *_), _ = grouped(disk, "a/jobs.1", "b/jobs.1")
    best = best_copies(group)

    assert [found.file.number for found in best] == [1, 2, 3]
    assert [[copy.path for copy in found.copies] for found in best] == [
        [f"b/jobs.1/{segment_name(n)}"] for n in (1, 2, 3)
    ]


def test_a_segment_with_a_footer_is_better_than_one_that_was_still_written_to() -> None:
    disk = MemoryDisk()
    lay(disk, "a/jobs.1", *journal_segments(sealed=False))
    lay(disk, "b/jobs.1", *journal_segments())

    assert paths(disk, "a/jobs.1", "b/jobs.1")[2] == f"b/jobs.1/{segment_name(3)}"


def test_a_whole_file_is_better_than_one_that_is_cut() -> None:
    disk = MemoryDisk()
    one, two, three = journal_segments()
    lay(disk, "a/jobs.1", one, three)
    cut = bytes(two.data)[:2048]
    disk.create(f"a/jobs.1/{segment_name(2)}", cut, len(cut)).close()
    lay(disk, "b/jobs.1", one, two, three)

    assert paths(disk, "a/jobs.1", "b/jobs.1")[1] == f"b/jobs.1/{segment_name(2)}"


def test_of_two_that_were_still_written_to_the_longer_one_is_read() -> None:
    disk = MemoryDisk()
    short, long = journal_segments(1, sealed=False), journal_segments(1, sealed=False)
    long[0].batch(draft(Kind.PUT, 3, 3, 0, b"x"), synced=2)
    lay(disk, "a/jobs.1", *short)
    lay(disk, "b/jobs.1", *long)

    assert paths(disk, "a/jobs.1", "b/jobs.1") == [f"b/jobs.1/{segment_name(1)}"]
