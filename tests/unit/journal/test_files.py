"""The verbs of `journal.files` keep what they promise, on the real disk, on the memory disk and
on an engine.

What a power loss may do cannot be shown on a real disk; there the memory disk stands alone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from journal.errors import DirectoryLocked
from journal.files import Disk, Files, full_sync, is_shortage, read_around, sync_call_name
from tests.support.memory_disk import SECTOR_BYTES, Fault, MemoryDisk, PowerCut
from tests.support.memory_engine import MemoryEngine, engine_files

SEEDS = range(200)
# An engine has no links: its own tests show what it does instead.
with_links = pytest.mark.parametrize("files", ["disk", "memory"], indirect=True)


@pytest.fixture(params=["disk", "memory", "engine", "engine, on a thread"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Files]:
    if request.param == "disk":
        yield Disk()
    elif request.param == "memory":
        yield MemoryDisk()
    else:
        beat_s = 0.01 if "thread" in request.param else 0.0
        with engine_files(MemoryEngine(), str(tmp_path), beat_s=beat_s) as made:
            yield made


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> str:
    path = str(tmp_path / "queues" / "jobs")
    files.make_folder(path)
    return path


# -- the same on both disks ---------------------------------------------------------------------


def test_a_folder_that_does_not_exist_has_no_names(files: Files, folder: str) -> None:
    assert files.names(f"{folder}/nowhere") == []


def test_a_folder_is_made_with_all_above_it_and_may_be_made_again(
    files: Files, folder: str
) -> None:
    files.make_folder(f"{folder}/a/b")
    files.make_folder(f"{folder}/a/b")

    assert files.names(folder) == ["a"]
    assert files.names(f"{folder}/a") == ["b"]


def test_names_are_sorted(files: Files, folder: str) -> None:
    for name in ("b", "c", "a"):
        files.create(f"{folder}/{name}", b"", 0).close()

    assert files.names(folder) == ["a", "b", "c"]


def test_a_created_file_has_its_bytes_and_then_zeros(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"head", 3 << 20).close()

    assert files.size(f"{folder}/x") == 3 << 20
    assert files.read(f"{folder}/x", 0, 8) == b"head\0\0\0\0"
    assert not files.read(f"{folder}/x", 4).strip(b"\0")


def test_create_leaves_no_other_name(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"head", 100).close()

    assert files.names(folder) == ["x"]


def test_create_replaces_what_had_the_name(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"long and old", 12).close()
    files.create(f"{folder}/x", b"new", 3).close()

    assert files.read(f"{folder}/x") == b"new"


def test_create_in_no_folder_is_an_error(files: Files, folder: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.create(f"{folder}/nowhere/x", b"", 1)


def test_bytes_are_written_where_they_belong(files: Files, folder: str) -> None:
    handle = files.create(f"{folder}/x", b"0123456789", 10)
    handle.write(4, b"ab")
    handle.sync()
    handle.close()

    assert files.read(f"{folder}/x") == b"0123ab6789"


def test_what_is_written_can_be_read_before_it_is_synced(files: Files, folder: str) -> None:
    handle = files.create(f"{folder}/x", b"", 8)
    handle.write(0, b"cached")

    assert files.read(f"{folder}/x", 0, 6) == b"cached"
    handle.close()


def test_an_existing_file_is_opened_for_writing_and_keeps_its_bytes(
    files: Files, folder: str
) -> None:
    files.create(f"{folder}/x", b"0123", 4).close()
    handle = files.open(f"{folder}/x")
    handle.write(1, b"-")
    handle.close()

    assert files.read(f"{folder}/x") == b"0-23"
    assert handle.path == f"{folder}/x"


def test_a_write_behind_the_end_makes_the_file_longer(files: Files, folder: str) -> None:
    handle = files.create(f"{folder}/x", b"ab", 2)
    handle.write(4, b"c")
    handle.close()

    assert files.read(f"{folder}/x") == b"ab\0\0c"


def test_opening_reading_or_measuring_what_is_not_there_is_an_error(
    files: Files, folder: str
) -> None:
    for verb in (files.open, files.read, files.size):
        with pytest.raises(FileNotFoundError):
            verb(f"{folder}/nowhere")


def test_a_read_behind_the_end_gives_what_there_is(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"0123", 4).close()

    assert files.read(f"{folder}/x", 2, 100) == b"23"
    assert files.read(f"{folder}/x", 9, 1) == b""


def test_around_a_bad_block_everything_is_read_and_the_block_reads_as_zeros() -> None:
    disk = MemoryDisk()
    disk.make_folder("f")
    disk.create("f/one", bytes(range(1, 251)) * 80, 20_000)
    whole = disk.read("f/one")
    disk.faults = [Fault("read", "f/one", nth=1), Fault("read", "f/one", nth=3)]
    found = read_around(disk, "f/one", 5000, 12_000)
    assert found == whole[5000:8192] + bytes(4096) + whole[12_288:17_000]
    disk.faults = []
    assert read_around(disk, "f/one", 19_000, 9_000) == whole[19_000:]


@pytest.mark.parametrize(("error", "times"), [(errno.EIO, 99), (errno.EACCES, 1)])
def test_what_the_disk_does_not_give_at_all_is_an_error(error: int, times: int) -> None:
    disk = MemoryDisk()
    disk.make_folder("f")
    disk.create("f/one", b"data", 9000)
    disk.faults = [Fault("read", "f/one", times=times, error=error)]
    with pytest.raises(OSError, match="f/one"):
        read_around(disk, "f/one", 0, 9000)


def test_a_file_and_a_folder_can_be_renamed(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"1", 1).close()
    files.rename(f"{folder}/x", f"{folder}/y")
    files.make_folder(f"{folder}/old")
    files.create(f"{folder}/old/z", b"2", 1).close()
    files.rename(f"{folder}/old", f"{folder}/new")

    assert files.names(folder) == ["new", "y"]
    assert files.read(f"{folder}/new/z") == b"2"


def test_many_files_and_folders_can_be_renamed_and_each_has_its_own_error(
    files: Files, folder: str
) -> None:
    files.create(f"{folder}/x", b"1", 1).close()
    files.make_folder(f"{folder}/old")
    olds = [f"{folder}/{name}" for name in ("x", "none", "old")]

    errors = files.rename_all([(old, f"{old}~") for old in olds])

    assert [*errors] == [f"{folder}/none"]
    assert isinstance(errors[f"{folder}/none"], FileNotFoundError)
    assert not str(errors[f"{folder}/none"]).endswith("None")
    assert files.names(folder) == ["old~", "x~"]


@with_links
def test_a_linked_file_has_two_names_and_one_set_of_bytes(files: Files, folder: str) -> None:
    files.make_folder(f"{folder}/archive")
    files.create(f"{folder}/x", b"0123", 4).close()
    assert files.links(f"{folder}/x") == 1

    files.link(f"{folder}/x", f"{folder}/archive/y")
    handle = files.open(f"{folder}/x")
    handle.write(1, b"-")
    handle.close()

    assert files.read(f"{folder}/archive/y") == b"0-23"
    assert [files.links(p) for p in (f"{folder}/x", f"{folder}/archive/y")] == [2, 2]


@with_links
def test_a_file_exists_as_long_as_one_of_its_names(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"0123", 4).close()
    files.link(f"{folder}/x", f"{folder}/y")
    files.remove(f"{folder}/x")

    assert files.names(folder) == ["y"]
    assert files.read(f"{folder}/y") == b"0123"
    assert files.links(f"{folder}/y") == 1


@with_links
def test_a_file_created_under_one_of_its_names_leaves_the_other_its_bytes(
    files: Files, folder: str
) -> None:
    files.create(f"{folder}/x", b"old", 3).close()
    files.link(f"{folder}/x", f"{folder}/y")
    files.create(f"{folder}/x", b"new", 3).close()

    assert files.read(f"{folder}/y") == b"old"
    assert files.links(f"{folder}/x") == 1


@with_links
def test_a_link_may_be_made_again_but_takes_no_other_files_name(files: Files, folder: str) -> None:
    for name in ("x", "other"):
        files.create(f"{folder}/{name}", name.encode(), 5).close()
    files.link(f"{folder}/x", f"{folder}/y")
    files.link(f"{folder}/x", f"{folder}/y")

    with pytest.raises(FileExistsError):
        files.link(f"{folder}/x", f"{folder}/other")
    assert files.read(f"{folder}/other") == b"other"
    assert files.links(f"{folder}/y") == 2


@with_links
def test_a_rename_to_another_name_of_the_same_file_leaves_both(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"1", 1).close()
    files.link(f"{folder}/x", f"{folder}/y")
    files.rename(f"{folder}/x", f"{folder}/y")

    assert files.names(folder) == ["x", "y"]


@with_links
def test_linking_counting_or_asking_for_room_where_nothing_is_is_an_error(
    files: Files, folder: str
) -> None:
    files.create(f"{folder}/x", b"1", 1).close()
    for verb in (
        lambda: files.link(f"{folder}/nowhere", f"{folder}/y"),
        lambda: files.link(f"{folder}/x", f"{folder}/nowhere/y"),
        lambda: files.links(f"{folder}/nowhere"),
        lambda: files.free(f"{folder}/nowhere"),
    ):
        with pytest.raises(FileNotFoundError):
            verb()


def test_a_disk_has_room_wherever_one_asks(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"", 100).close()

    assert not files.why_no_file(folder)
    assert files.free(folder) > 0
    assert files.free(f"{folder}/x") > 0


def test_a_disk_whose_inodes_are_used_up_takes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, left = str(tmp_path), list(os.statvfs(tmp_path))
    for inodes, of, said in (
        (1, 9, f"the file system of {folder} has no inode left"), (2, 9, ""), (0, 0, ""),
    ):  # fmt: skip
        left[5], left[7] = of, inodes
        monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(left))
        assert Disk().why_no_file(folder) == said


def test_a_removed_file_is_gone_and_may_be_removed_again(files: Files, folder: str) -> None:
    files.create(f"{folder}/x", b"1", 1).close()
    files.remove(f"{folder}/x")
    files.remove(f"{folder}/x")

    assert files.names(folder) == []


def test_files_of_one_folder_are_removed_together(files: Files, folder: str) -> None:
    for name in ("x", "y", "z"):
        files.create(f"{folder}/{name}", b"1", 1).close()
    files.remove_all([f"{folder}/x", f"{folder}/nowhere", f"{folder}/z"])
    files.remove_all([f"{folder}/x"])
    files.remove_all([])

    assert files.names(folder) == ["y"]


def test_a_removed_folder_is_gone_with_what_was_in_it(files: Files, folder: str) -> None:
    files.make_folder(f"{folder}/old")
    files.create(f"{folder}/old/x", b"1", 1).close()
    files.remove_folder(f"{folder}/old")
    files.remove_folder(f"{folder}/old")

    assert files.names(folder) == []


def test_one_owner_at_a_time(files: Files, folder: str) -> None:
    lock = files.lock(f"{folder}/lock")
    with pytest.raises(DirectoryLocked, match="another kestrelpy is using this data directory"):
        files.lock(f"{folder}/lock")
    lock.close()

    files.lock(f"{folder}/lock").close()


def test_a_closed_handle_writes_no_more(files: Files, folder: str) -> None:
    handle = files.create(f"{folder}/x", b"", 1)
    handle.close()
    handle.close()

    for verb in (lambda: handle.write(0, b"x"), handle.sync):
        with pytest.raises(OSError, match=r"."):
            verb()


# -- the real disk alone ------------------------------------------------------------------------


def test_the_sync_call_has_a_name(tmp_path: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        full_sync(file.fileno())

    assert sync_call_name() in ("fdatasync", "F_FULLFSYNC")


def test_room_is_what_is_left_to_us_and_not_to_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Found:
        f_frsize, f_bsize, f_bavail, f_bfree = 512, 4096, 10, 99

    monkeypatch.setattr("os.statvfs", lambda _: Found)

    assert Disk().free(str(tmp_path)) == 5120


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    handle = disk.create(str(tmp_path / "x"), b"", 10)
    real: Callable[[int, bytes, int], int] = __import__("os").pwrite
    monkeypatch.setattr("os.pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    handle.write(1, b"12345678")

    assert disk.read(str(tmp_path / "x")) == b"\x0012345678\0"


def test_a_disk_that_takes_no_more_bytes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = Disk().create(str(tmp_path / "x"), b"", 10)
    monkeypatch.setattr("os.pwrite", lambda fd, data, at: 0)

    with pytest.raises(OSError, match="accepted no more bytes"):
        handle.write(0, b"x")


def test_a_create_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(OSError, match="No space"):
        Disk().create(str(tmp_path / "x"), b"head", 10)

    assert Disk().names(str(tmp_path)) == []


def test_create_remove_rename_and_link_sync_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, synced = Disk(), list[int]()
    monkeypatch.setattr("os.fsync", lambda number: synced.append(os.fstat(number).st_ino))

    def were_synced(*folders: Path) -> bool:
        found, synced[:] = synced[:], []
        return found == [folder.stat().st_ino for folder in folders]

    disk.create(str(tmp_path / "x"), b"", 1).close()
    disk.rename(str(tmp_path / "x"), str(tmp_path / "y"))
    disk.remove(str(tmp_path / "y"))
    disk.remove(str(tmp_path / "y"))
    assert were_synced(tmp_path, tmp_path, tmp_path)

    for name in ("x", "y"):
        disk.create(str(tmp_path / name), b"", 1).close()
    disk.remove_all([str(tmp_path / "x"), str(tmp_path / "y")])
    disk.remove_all([str(tmp_path / "x"), str(tmp_path / "y")])
    assert were_synced(tmp_path, tmp_path, tmp_path), "two that are made, and one for both"

    disk.make_folder(str(tmp_path / "a" / "b"))
    assert were_synced(tmp_path.parent, tmp_path, tmp_path / "a")
    disk.make_folder(str(tmp_path / "a" / "b"))
    assert were_synced(tmp_path / "a", tmp_path / "a" / "b")
    disk.make_folder(str(tmp_path / "c"))
    assert were_synced(tmp_path), "its own name is on disk since the first time"

    disk.create(str(tmp_path / "x"), b"", 1).close()
    for _ in range(2):
        disk.link(str(tmp_path / "x"), str(tmp_path / "a" / "y"))
    assert were_synced(tmp_path, tmp_path / "a", tmp_path / "a")


# -- shortages ----------------------------------------------------------------------------------


def test_without_a_descriptor_for_the_folder_no_name_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, opens = Disk(), os.open
    disk.create(str(tmp_path / "x"), b"there", 5).close()
    (tmp_path / "sub").mkdir()

    def none_left(
        path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if flags & os.O_DIRECTORY:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return opens(path, flags, mode, dir_fd=dir_fd)

    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("os.open", none_left)
    changes = (
        lambda: disk.rename(str(tmp_path / "x"), str(tmp_path / "y")),
        lambda: disk.rename_all([(str(tmp_path / "x"), str(tmp_path / "y"))]),
        lambda: disk.remove(str(tmp_path / "x")),
        lambda: disk.link(str(tmp_path / "x"), str(tmp_path / "sub" / "x")),
        lambda: disk.create(str(tmp_path / "z"), b"new", 3),
        lambda: disk.create(str(tmp_path / "x"), b"other", 5),
        lambda: disk.make_folder(str(tmp_path / "made")),
    )
    for change in changes:
        with pytest.raises(OSError, match="Too many open files") as caught:
            change()
        assert is_shortage(caught.value)
        assert sorted(tmp_path.rglob("*")) == before
    assert disk.read(str(tmp_path / "x")) == b"there"


def test_no_shortage_excuses_a_write_or_a_sync_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    handle = disk.create(str(tmp_path / "x"), b"there", 5)

    def short(*_: object) -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    for call in ("os.pwrite", "journal.files.full_sync", "os.fsync"):
        monkeypatch.setattr(call, short)
    for act in (
        lambda: handle.write(0, b"x"), handle.sync, lambda: disk.remove(str(tmp_path / "x"))
    ):
        with pytest.raises(OSError, match="Cannot allocate memory") as caught:
            act()
        assert not is_shortage(caught.value)


def test_a_link_to_another_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(OSError, match="cross-device"):
        Disk().link(str(tmp_path / "x"), str(tmp_path / "y"))


# -- power loss, on the memory disk -------------------------------------------------------------


def crashes(disk: MemoryDisk) -> list[MemoryDisk]:
    """Two hundred ways in which one power loss may go."""
    return [disk.crash_clone(Random(seed)) for seed in SEEDS]


def memory_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("/q")
    return disk


def test_what_was_created_survives_name_and_all() -> None:
    disk = memory_disk()
    disk.create("/q/x", b"head", 2000)

    for found in crashes(disk):
        assert found.read("/q/x") == b"head" + bytes(1996)


def test_what_was_synced_survives_and_what_was_not_may_be_lost_whole_or_torn() -> None:
    disk = memory_disk()
    handle = disk.create("/q/x", b"", 4 * SECTOR_BYTES)
    handle.write(0, b"a" * 100)
    handle.sync()
    handle.write(100, b"b" * 3 * SECTOR_BYTES)

    seen = {found.read("/q/x") for found in crashes(disk)}

    assert all(data[:100] == b"a" * 100 for data in seen)
    assert bytes(b"a" * 100).ljust(4 * SECTOR_BYTES, b"\0") in seen
    assert (b"a" * 100 + b"b" * 3 * SECTOR_BYTES).ljust(4 * SECTOR_BYTES, b"\0") in seen
    holes = {tuple(b"b" in data[s * 512 + 100 : (s + 1) * 512] for s in range(4)) for data in seen}
    assert len(holes) > 6, "sectors of one write survive independently"


def test_a_later_write_may_survive_an_earlier_one() -> None:
    disk = memory_disk()
    handle = disk.create("/q/x", b"", 2 * SECTOR_BYTES)
    handle.write(0, b"first")
    handle.write(SECTOR_BYTES, b"second")

    seen = {(f.read("/q/x", 0, 1), f.read("/q/x", SECTOR_BYTES, 1)) for f in crashes(disk)}

    assert seen == {(a, b) for a in (b"f", b"\0") for b in (b"s", b"\0")}


def test_a_sector_is_whole_and_never_goes_back_behind_a_later_version() -> None:
    disk = memory_disk()
    handle = disk.create("/q/x", b"", SECTOR_BYTES)
    handle.write(0, b"11")
    handle.write(2, b"22")

    assert {f.read("/q/x", 0, 4) for f in crashes(disk)} == {b"\0\0\0\0", b"11\0\0", b"1122"}


def test_after_kill_9_everything_that_was_written_is_there_and_a_power_loss_may_still_take_it() -> (
    None
):
    disk = memory_disk()
    disk.create("/q/x", b"", 8).write(0, b"cached")

    found = disk.kill_clone()

    assert found.read("/q/x", 0, 6) == b"cached"
    assert {f.read("/q/x", 0, 6) for f in crashes(found)} == {b"cached", bytes(6)}


def test_after_a_failed_sync_the_bytes_are_shown_but_no_later_sync_makes_them_sure() -> None:
    fault = Fault("sync", "*/x")
    disk = memory_disk()
    disk.faults.append(fault)
    handle = disk.create("/q/x", b"", 2 * SECTOR_BYTES)
    handle.write(0, b"limbo")
    with pytest.raises(OSError, match="Input/output error"):
        handle.sync()
    handle.write(SECTOR_BYTES, b"sure")
    handle.sync()
    next_process = disk.kill_clone().open("/q/x")
    next_process.sync()

    assert disk.read("/q/x", 0, 5) == b"limbo"
    seen = {(f.read("/q/x", 0, 5), f.read("/q/x", SECTOR_BYTES, 4)) for f in crashes(disk)}
    assert seen == {(b"limbo", b"sure"), (bytes(5), b"sure")}
    assert str(fault) == "sync */x #1: EIO (fired 1)"


def test_a_rename_and_a_removal_survive_once_they_have_returned() -> None:
    disk = memory_disk()
    disk.create("/q/x", b"1", 1)
    disk.create("/q/y", b"2", 1)
    disk.rename("/q/x", "/q/z")
    disk.remove("/q/y")

    assert {tuple(f.names("/q")) for f in crashes(disk)} == {("z",)}


def test_many_new_names_survive_once_they_have_returned_and_before_that_any_of_them() -> None:
    def renamed(cut_at: int) -> MemoryDisk:
        disk = memory_disk()
        for name in "xyz":
            disk.create(f"/q/{name}", b"1", 1)
        disk.cut_power_at(cut_at)
        with suppress(PowerCut):
            disk.rename_all([(f"/q/{name}", f"/q/{name}~") for name in "xyz"])
        return disk

    every = {(x, y, z) for x in ("x", "x~") for y in ("y", "y~") for z in ("z", "z~")}
    assert {tuple(f.names("/q")) for f in crashes(renamed(4))} == every
    assert {tuple(f.names("/q")) for f in crashes(renamed(-1))} == {("x~", "y~", "z~")}


def test_a_link_survives_once_it_has_returned_whatever_becomes_of_the_first_name() -> None:
    disk = memory_disk()
    disk.make_folder("/archive")
    disk.create("/q/x", b"1", 1)
    disk.link("/q/x", "/archive/x")
    disk.cut_power_at(2)
    with pytest.raises(PowerCut):
        disk.remove("/q/x")

    assert {tuple(f.names("/q")) for f in crashes(disk)} == {(), ("x",)}
    for found in crashes(disk):
        assert found.read("/archive/x") == b"1"
        assert found.links("/archive/x") == 1 + len(found.names("/q"))


def test_in_the_middle_of_a_link_the_second_name_may_be_there_or_not() -> None:
    disk = memory_disk()
    disk.create("/q/x", b"1", 1)
    disk.cut_power_at(2)
    with pytest.raises(PowerCut):
        disk.link("/q/x", "/q/y")

    assert {tuple(f.names("/q")) for f in crashes(disk)} == {("x",), ("x", "y")}


def test_names_of_one_file_share_its_bytes_after_a_power_loss_and_after_kill_9() -> None:
    disk = memory_disk()
    handle = disk.create("/q/x", b"", 4 * SECTOR_BYTES)
    disk.link("/q/x", "/q/y")
    handle.write(0, b"a" * 4 * SECTOR_BYTES)

    for found in [*crashes(disk), disk.kill_clone()]:
        assert found.read("/q/x") == found.read("/q/y")
        found.open("/q/y").write(0, b"later")
        assert found.read("/q/x", 0, 5) == b"later"


def test_in_the_middle_of_a_removal_the_file_may_be_there_or_not() -> None:
    disk = memory_disk()
    disk.create("/q/x", b"1", 1)
    disk.cut_power_at(2)
    with pytest.raises(PowerCut):
        disk.remove("/q/x")

    assert {tuple(f.names("/q")) for f in crashes(disk)} == {(), ("x",)}


def test_a_folder_removed_without_a_sync_may_come_back() -> None:
    disk = memory_disk()
    disk.create("/q/x", b"1", 1)
    disk.remove_folder("/q")

    assert {tuple(f.names("/q")) for f in crashes(disk)} == {(), ("x",)}


def test_in_the_middle_of_create_the_name_is_never_there_with_less_than_its_bytes() -> None:
    for step in (1, 2, 3):
        disk = memory_disk()
        disk.cut_power_at(step)
        with pytest.raises(PowerCut):
            disk.create("/q/x", b"head", 600)

        seen = {tuple(f.names("/q")) for f in crashes(disk)}
        assert seen <= {(), ("x",), ("x.new",)}
        assert (("x",) in seen) == (step == 3)
        for found in crashes(disk):
            if "x" in found.names("/q"):
                assert found.read("/q/x") == b"head" + bytes(596)


def test_names_that_a_killed_process_left_unsynced_are_sure_once_the_folder_is_made_again() -> None:
    disk = memory_disk()
    disk.cut_power_at(3)
    with pytest.raises(PowerCut):
        disk.create("/q/x", b"head", 4)
    next_process = disk.kill_clone()
    assert {tuple(f.names("/q")) for f in crashes(next_process)} == {(), ("x",), ("x.new",)}

    next_process.make_folder("/q")

    assert {tuple(f.names("/q")) for f in crashes(next_process)} == {("x",)}


def test_nothing_works_after_a_power_cut_and_locks_are_gone_after_the_next_start() -> None:
    disk = memory_disk()
    disk.lock("/q/lock")
    disk.cut_power_at(1)
    for _ in range(2):
        with pytest.raises(PowerCut):
            disk.names("/q")

    disk.kill_clone().lock("/q/lock").close()


def test_a_file_takes_its_length_of_the_memory_disk_once_for_all_its_names() -> None:
    disk = memory_disk()
    disk.disk_bytes = 1000
    disk.create("/q/x", b"", 600)
    disk.link("/q/x", "/q/y")
    assert disk.free("/q") == 400

    disk.remove("/q/x")
    assert disk.free("/q") == 400
    disk.remove("/q/y")
    assert disk.free("/q") == 1000
    disk.create("/q/z", b"", 2000)
    assert disk.free("/q") == 0


# -- faults -------------------------------------------------------------------------------------


def test_a_fault_strikes_the_verb_path_and_count_it_names_and_counts_how_often() -> None:
    fault = Fault("write", "*.segment", nth=2, times=2, error=errno.ENOSPC)
    disk = memory_disk()
    disk.faults.append(fault)
    other, handle = disk.create("/q/x", b"", 8), disk.create("/q/1.segment", b"", 8)
    other.write(0, b"x")
    handle.write(0, b"1")
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            handle.write(1, b"2")
    handle.write(1, b"3")

    assert disk.read("/q/1.segment", 0, 2) == b"13"
    assert (fault.seen, fault.fired) == (4, 2)


def test_a_failed_write_may_leave_its_first_sectors() -> None:
    disk = memory_disk()
    disk.faults.append(Fault("write", keep_sectors=1))
    handle = disk.create("/q/x", b"", 600)
    with pytest.raises(OSError, match="Input/output"):
        handle.write(510, b"1234")

    assert disk.read("/q/x", 510, 4) == b"12\0\0"


@pytest.mark.parametrize(
    ("verb", "names"),
    [("create", []), ("create:rename", []), ("create:names", ["x"]), ("make_folder", [])],
)
def test_every_step_can_fail(verb: str, names: list[str]) -> None:
    disk = memory_disk()
    disk.faults.append(Fault(verb, error=errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        disk.make_folder("/q")
        disk.create("/q/x", b"1", 1)

    assert disk.names("/q") == names


@pytest.mark.parametrize(("verb", "names"), [("link", ["x"]), ("link:names", ["x", "y"])])
def test_every_step_of_a_link_can_fail(verb: str, names: list[str]) -> None:
    disk = memory_disk()
    disk.create("/q/x", b"1", 1)
    disk.faults.append(Fault(verb, error=errno.EXDEV))
    with pytest.raises(OSError, match="cross-device"):
        disk.link("/q/x", "/q/y")

    assert disk.names("/q") == names
