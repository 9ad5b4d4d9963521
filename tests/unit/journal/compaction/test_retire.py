"""A dead segment goes, lives on in the archive, or keeps its file; at any moment of that."""

from __future__ import annotations

import errno
from random import Random

import pytest

from journal.compaction.retire import archived_path, recycled_path, retire
from journal.files import Disk, Files
from journal.format.segment import SegmentHeader
from journal.write.segment_file import PreallocationJob
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut

PATH = "/q/jobs.1/0000000003.segment"
KEEP = recycled_path(PATH)
ARCHIVED = archived_path("/archive/deep", PATH)
DATA = SegmentHeader(5, bytes(16), 3, 4096, 1).encode() + b"frames"


def dead_segment(backup: bool = False) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("/q/jobs.1")
    disk.make_folder("/backup")
    disk.create(PATH, DATA, 4096).close()
    if backup:
        disk.link(PATH, "/backup/3")
    return disk


def content(disk: Files, path: str) -> bytes:
    return disk.read(path, 0, len(DATA))


def test_names_of_what_was_retired() -> None:
    assert KEEP == "/q/jobs.1/0000000003.segment.recycled"
    assert ARCHIVED == "/archive/deep/jobs.1.0000000003.segment"


def test_a_dead_segment_is_removed() -> None:
    disk = dead_segment()
    assert retire(disk, PATH, "", "") == ""
    assert disk.names("/q/jobs.1") == []


def test_a_dead_segment_is_recycled() -> None:
    disk = dead_segment()
    assert retire(disk, PATH, "", KEEP) == KEEP
    assert disk.names("/q/jobs.1") == ["0000000003.segment.recycled"]
    assert content(disk, KEEP) == DATA


def test_a_dead_segment_that_a_backup_shares_is_not_recycled() -> None:
    disk = dead_segment(backup=True)
    assert retire(disk, PATH, "", KEEP) == ""
    assert disk.names("/q/jobs.1") == []
    assert content(disk, "/backup/3") == DATA


def test_a_dead_segment_that_is_archived_is_not_recycled() -> None:
    for keep in ("", KEEP):
        disk = dead_segment()
        assert retire(disk, PATH, ARCHIVED, keep) == ""
        assert disk.names("/q/jobs.1") == []
        assert content(disk, ARCHIVED) == DATA


def test_on_the_real_disk_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("jobs.1"))
    disk = Disk()
    paths = [f"{folder}/000000000{n}.segment" for n in (1, 2, 3)]
    for path in paths:
        disk.create(path, DATA, 4096).close()
    archived = archived_path(f"{folder}/archive", paths[0])
    retire(disk, paths[0], archived, "")
    retire(disk, paths[1], "", recycled_path(paths[1]))
    retire(disk, paths[2], "", "")

    assert disk.names(folder) == ["0000000002.segment.recycled", "archive"]
    assert content(disk, archived) == DATA


@pytest.mark.parametrize(("archived", "recycled"), [("", ""), ("", KEEP), (ARCHIVED, "")])
def test_what_is_gone_already_is_no_trouble(archived: str, recycled: str) -> None:
    disk = dead_segment()
    kept = retire(disk, PATH, archived, recycled)
    before = disk.kill_clone()
    assert retire(disk, PATH, archived, recycled) == kept

    assert disk.names("/q/jobs.1") == before.names("/q/jobs.1")


def test_an_archive_that_has_another_file_of_that_name_keeps_it_and_the_segment_stays() -> None:
    disk = dead_segment()
    disk.make_folder("/archive/deep")
    disk.create(ARCHIVED, b"older", 5).close()
    with pytest.raises(FileExistsError):
        retire(disk, PATH, ARCHIVED, "")

    assert content(disk, PATH) == DATA
    assert disk.read(ARCHIVED) == b"older"


@pytest.mark.parametrize("backup", [False, True])
@pytest.mark.parametrize(("archived", "recycled"), [("", ""), ("", KEEP), (ARCHIVED, KEEP)])
@pytest.mark.parametrize(
    "verb",
    ["size", "make_folder", "make_folder:names", "link", "link:names", "rename", "rename:names",
     "links", "remove", "remove:names"],
)  # fmt: skip
def test_after_an_error_anywhere_it_may_be_called_again(
    verb: str, archived: str, recycled: str, backup: bool
) -> None:
    disk = dead_segment(backup)
    fault = Fault(verb, error=errno.EIO)
    disk.faults.append(fault)
    try:
        retire(disk, PATH, archived, recycled)
    except OSError:
        assert fault.fired
        there = "0000000003.segment" in disk.names("/q/jobs.1")
        assert there or not archived or content(disk, ARCHIVED) == DATA
    kept = retire(disk, PATH, archived, recycled)

    assert kept == (KEEP if recycled and not archived and not backup else "")
    assert disk.names("/q/jobs.1") == ([KEEP.rpartition("/")[2]] if kept else [])
    if archived:
        assert content(disk, ARCHIVED) == DATA


def reused(disk: MemoryDisk) -> None:
    """The next start takes whatever waits to be used again, and fills it."""
    order = PreallocationJob(
        "/q/jobs.1/0000000009.segment", SegmentHeader(5, bytes(16), 9, 4096, 1), recycle=KEEP
    )
    order.prepare(disk).write(0, b"overwritten" * 100)


@pytest.mark.parametrize("backup", [False, True])
@pytest.mark.parametrize(("archived", "recycled"), [("", ""), ("", KEEP), (ARCHIVED, KEEP)])
def test_after_a_power_cut_at_any_moment_the_segment_is_there_or_gone_and_shared_bytes_stay(
    archived: str, recycled: str, backup: bool
) -> None:
    step, seen = 0, set()
    cut = True
    while cut:
        step += 1
        disk = dead_segment(backup)
        disk.cut_power_at(step)
        try:
            retire(disk, PATH, archived, recycled)
            cut = False
        except PowerCut:
            pass
        for seed in range(40):
            found = disk.crash_clone(Random(seed))
            names = found.names("/q/jobs.1")
            there = "0000000003.segment" in names
            seen.add(there)
            assert len(names) <= 1, "never two names"
            assert not (there and content(found, PATH) != DATA)
            if not cut:
                assert not there
            if archived and not there:
                assert content(found, ARCHIVED) == DATA
            reused(found)
            if backup:
                assert content(found, "/backup/3") == DATA
            if archived and not there:
                assert content(found, ARCHIVED) == DATA
    assert seen == {True, False}
    assert step > 2
